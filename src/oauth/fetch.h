/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbOAuthFetch: one request to an authorization server, or for metadata. It follows no redirects,
 * and reads at most IPB_OAUTH_MAX_DOCUMENT bytes within 30 s. The caller decides what is sent where
 * (oauth/url.h).
 *
 * It uses the HTTP client of the MCP server's own requests, so that proxies and certificates are
 * the same. All of oauth/ borrows that client.
 */
#pragma once

#include "http/client.h"

typedef struct IpbOAuthFetch IpbOAuthFetch;

typedef struct {
    const char *url;
    const char *form; /* body as application/x-www-form-urlencoded; NULL: none */
    const char *json; /* body as application/json; NULL: none. Without a body it is a GET */
    const char *authorization; /* value of the header; NULL: none */
    const char *accept;        /* NULL: application/json */
} IpbOAuthFetchRequest;

typedef struct {
    unsigned status;
    const char *body; /* borrowed, NUL-terminated after @size */
    size_t size;
    const char *const *www_authenticate; /* never NULL */
} IpbOAuthReply;

/* Called once, from the loop. Any status is a reply. @error: there was no usable reply (TIMEOUT,
 * LIMIT, SERVER, …). */
typedef void (*IpbOAuthFetchFunc)(const IpbOAuthReply *reply, const GError *error, void *data);

IpbOAuthFetch *ipb_oauth_fetch(IpbHttpClient *http, const IpbOAuthFetchRequest *request,
                               IpbOAuthFetchFunc func, void *data);
/* Cancels the request: its function is not called any more. Do not call it from within that
 * function. NULL is allowed. */
void ipb_oauth_fetch_cancel(IpbOAuthFetch *fetch);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbOAuthFetch, ipb_oauth_fetch_cancel)
