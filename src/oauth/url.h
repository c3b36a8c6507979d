/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthUrl: URLs for authorization, and forms. URLs are parsed strictly (http and https, no
 * user, no fragment, visible ASCII), because an attacker can use two parsers that disagree about
 * the host. Forms are application/x-www-form-urlencoded, written and read.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* The length of any URL. */
#define IPB_OAUTH_MAX_URL 8192

typedef struct {
    bool is_https;
    bool is_loopback; /* localhost, 127.0.0.0/8 or ::1 */
    char *origin;     /* "https://host:port" in lower case, without the default port */
    char *path;       /* "" or "/…" */
    char *query;      /* without the question mark; NULL: none */
} IpbOAuthUrl;

/* PROTOCOL: the URL is malformed. @what names it in the error ("the token endpoint"). */
IpbOAuthUrl *ipb_oauth_url_parse(const char *text, const char *what, GError **error);
void ipb_oauth_url_free(IpbOAuthUrl *url);
/* Whether secrets may be sent to it: https, or this machine if @may_be_loopback. */
bool ipb_oauth_url_is_safe(const IpbOAuthUrl *url, bool may_be_loopback);
/* Parses and checks the URL. REFUSED: it is not safe. */
bool ipb_oauth_url_check(const char *text, const char *what, bool may_be_loopback, GError **error);
/* The resource identifier of a server: its URL with scheme and host in lower case, without a lone
 * slash at the end. */
char *ipb_oauth_url_canonical(const IpbOAuthUrl *url);
/* "https://host/.well-known/NAME", followed by the path of @url without a slash at its end. */
char *ipb_oauth_url_well_known(const IpbOAuthUrl *url, const char *name);

/* Appends "name=value", after a separator if needed. A NULL @value adds nothing. */
void ipb_oauth_form_add(GString *form, const char *name, const char *value);
/* The members of a form or query. NULL: it is malformed, has a name twice, or has more than 64
 * members. */
GHashTable *ipb_oauth_form_parse(const char *text);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthUrl, ipb_oauth_url_free)
