/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthFetch: one request to an authorization server, or for metadata: no redirects, at most IPB_OAUTH_MAX_DOCUMENT bytes,
 * at most 30 s. What goes where is the caller's to decide (oauth/url.h).
 *
 * It goes by the HTTP client of whoever wants the token, so that proxies and certificates are those of the MCP server's own
 * requests. All of oauth/ borrows that client.
 */
#pragma once

#include "http/client.h"

typedef struct IpbOAuthFetch IpbOAuthFetch;

typedef struct {
    const char *url;
    const char *form;          /* a body, application/x-www-form-urlencoded; NULL: none */
    const char *json;          /* a body, application/json; NULL: none; with neither it is a GET */
    const char *authorization; /* header value; NULL: none */
    const char *accept;        /* NULL: application/json */
} IpbOAuthFetchRequest;

typedef struct {
    unsigned status;
    const char *body; /* borrowed, NUL-terminated after @size */
    size_t size;
    const char *const *www_authenticate; /* never NULL */
} IpbOAuthReply;

/* Once, from the loop, never before the call has returned. Any status is a reply; @error: there was none that can be used
 * (TIMEOUT, LIMIT, SERVER, …). */
typedef void (*IpbOAuthFetchFunc)(const IpbOAuthReply *reply, const GError *error, void *data);

IpbOAuthFetch *ipb_oauth_fetch(IpbHttpClient *http, const IpbOAuthFetchRequest *request,
                               IpbOAuthFetchFunc func, void *data);
/* No answer comes any more. Not from within its own. NULL is fine. */
void ipb_oauth_fetch_cancel(IpbOAuthFetch *fetch);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthFetch, ipb_oauth_fetch_cancel)
