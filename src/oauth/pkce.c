/* SPDX-License-Identifier: Apache-2.0
 *
 * Random words and S256; see the header.
 */
#include "oauth/pkce.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/error.h"

#define WORD_BYTES 32

static char *
to_base64url(const guint8 *bytes, size_t size)
{
    char *text = g_base64_encode(bytes, size);
    text[strcspn(text, "=")] = '\0';
    g_strdelimit(text, "+", '-');
    return g_strdelimit(text, "/", '_');
}

char *
ipb_oauth_random_word(GError **error)
{
    guint8 bytes[WORD_BYTES];
    /* getrandom returns so few bytes all at once, or none. */
    ssize_t size;
    do
        size = getrandom(bytes, sizeof bytes, 0);
    while (size < 0 && errno == EINTR);
    if (size == sizeof bytes)
        return to_base64url(bytes, sizeof bytes);
    ipb_error_set_errno(error, size < 0 ? errno : EIO, "cannot get random bytes");
    return NULL;
}

char *
ipb_oauth_pkce_challenge(const char *verifier)
{
    guint8 digest[32];
    gsize size = sizeof digest;
    GChecksum *sum = g_checksum_new(G_CHECKSUM_SHA256);
    g_checksum_update(sum, (const guchar *) verifier, -1);
    g_checksum_get_digest(sum, digest, &size);
    g_checksum_free(sum);
    return to_base64url(digest, size);
}
