/* SPDX-License-Identifier: Apache-2.0
 *
 * Globs: a pattern and a text, with a newline between them. Matching ends soon for every
 * pattern. A pattern without wildcards matches itself and nothing else, and "**" matches
 * everything.
 */
#include <stdint.h>
#include <string.h>

#include <glib.h>

#include "sandbox/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The deepest match is what the whole matcher says about each directory on the way. */
static void
check_match_size(const IpbGlob *glob, const char *text)
{
    size_t size = ipb_glob_match_size(glob, text);
    g_assert(size <= strlen(text));
    g_assert(size == 0 || text[size] == '/' || text[size] == '\0');
    g_autofree char *copy = g_strdup(text);
    for (size_t i = strlen(text); i > 0; i--) {
        if (text[i] != '/' && text[i] != '\0')
            continue;
        copy[i] = '\0';
        if (i <= 64)
            g_assert(i == size ? ipb_glob_matches(glob, copy)
                               : i < size || !ipb_glob_matches(glob, copy));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *input = g_strndup((const char *) data, size);
    char *newline = strchr(input, '\n');
    if (newline == NULL)
        return 0;
    *newline = '\0';
    const char *pattern = input, *text = newline + 1;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbGlob) glob = ipb_glob_new(pattern, &error);
    g_assert((glob == NULL) == (error != NULL));
    if (glob == NULL)
        return 0;
    bool is_match = ipb_glob_matches(glob, text);
    check_match_size(glob, text);
    if (!ipb_glob_is_pattern(pattern)) {
        g_assert(is_match == g_str_equal(pattern, text));
        g_assert(ipb_glob_matches(glob, pattern));
    }
    g_autoptr(IpbGlob) all = ipb_glob_new("**", NULL);
    g_assert(all != NULL && ipb_glob_matches(all, text));
    return 0;
}
