/* SPDX-License-Identifier: Apache-2.0
 *
 * Random words, and PKCE (RFC 7636, S256 only): the proof that a code is redeemed by the program
 * that requested it.
 */
#pragma once

#include <glib.h>

/* 43 characters of base64url, from 32 random bytes. NULL with SYSTEM: no random bytes are
 * available. */
char *ipb_oauth_random_word(GError **error);
/* BASE64URL(SHA256(@verifier)). Caller frees. */
char *ipb_oauth_pkce_challenge(const char *verifier);
