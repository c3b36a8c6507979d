/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthChallenge: WWW-Authenticate (RFC 9110, RFC 6750, RFC 9728), which a server sends with 401
 * or 403. It comes from a hostile peer. One header may have several challenges, and there may be
 * several headers. The first Bearer challenge counts. The functions of scopes (RFC 6749) are here,
 * too.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* The size of a header that is read; the rest is ignored. */
#define IPB_OAUTH_MAX_CHALLENGE (16 * 1024)

typedef struct {
    bool is_bearer; /* there is a Bearer challenge; else all members are NULL */
    /* Decoded. A value with other characters than printable ASCII is dropped. NULL: missing. */
    char *scope; /* words, separated by one space */
    char *error;
    char *error_description;
    char *resource_metadata;
} IpbOAuthChallenge;

/* @headers: the values, NULL-terminated; NULL: there are none. It never fails: a challenge that
 * cannot be read is treated as missing. */
void ipb_oauth_challenge_parse(const char *const *headers, IpbOAuthChallenge *ret_challenge);
void ipb_oauth_challenge_clear(IpbOAuthChallenge *challenge);

/* Joins two lists of scopes as the protocol writes them (RFC 6749 §3.3): the words of @a, then the
 * new words of @b, each once. Words with other characters are dropped. NULL: no words. */
char *ipb_oauth_scope_union(const char *a, const char *b);
bool ipb_oauth_scope_has(const char *scope, const char *word);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(IpbOAuthChallenge, ipb_oauth_challenge_clear)
