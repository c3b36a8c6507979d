/* SPDX-License-Identifier: Apache-2.0
 *
 * WWW-Authenticate (RFC 9110, RFC 6750, RFC 9728): what a server says when it answers with 401 or 403. From a hostile peer; one header
 * may hold several challenges, and there may be several headers. The first Bearer challenge counts.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Of one header; what is longer is not read. */
#define IPB_OAUTH_MAX_CHALLENGE (16 * 1024)

typedef struct {
    bool is_bearer; /* there is such a challenge; otherwise all is NULL */
    /* Decoded, printable ASCII only (others are dropped whole); NULL: not there. */
    char *scope; /* one space between the words */
    char *error;
    char *error_description;
    char *resource_metadata;
} IpbOAuthChallenge;

/* @headers: the values, NULL-terminated; NULL: none. Never fails: what cannot be read is as good as absent. */
void ipb_oauth_challenge_parse(const char *const *headers, IpbOAuthChallenge *ret_challenge);
void ipb_oauth_challenge_clear(IpbOAuthChallenge *challenge);

/* A list of scopes as the protocol has it (RFC 6749 §3.3), each once, in order: the words of @a, then those of @b that are new. NULL:
 * neither has a word; words with other characters are dropped. */
char *ipb_oauth_scope_union(const char *a, const char *b);
bool ipb_oauth_scope_has(const char *scope, const char *word);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbOAuthChallenge, ipb_oauth_challenge_clear)
