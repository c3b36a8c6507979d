/* SPDX-License-Identifier: Apache-2.0
 *
 * Random words, and the proof that who redeems a code is who asked for it (PKCE, RFC 7636; S256 only).
 */
#pragma once

#include <glib.h>

/* 43 characters of base64url: 32 random bytes. NULL with SYSTEM: there is no randomness. */
char *ipb_oauth_random_word(GError **error);
/* BASE64URL(SHA256(@verifier)). Caller frees. */
char *ipb_oauth_pkce_challenge(const char *verifier);
