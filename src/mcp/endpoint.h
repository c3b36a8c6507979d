/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbEndpoint: an MCP server at a URL, with what each request to it needs: the headers of
 * server_params, which go to its own origin only, and its authorization. IpbEndpointRequest: one
 * request to it and the answer. It follows redirects within the origin (307 and 308, at most
 * limits.redirects) and handles 401 and 403.
 *
 * Ownership: a transport owns its endpoint and its requests, and frees the requests first. A
 * request may be freed at any time, in its functions too; then no function is called any more.
 * Thread: that of the loop. Functions are called from the loop only.
 */
#pragma once

#include "http/client.h"
#include "mcp/limits.h"
#include "mcp/server-params.h"
#include "mcp/server-log.h"

typedef struct IpbEndpoint IpbEndpoint;
typedef struct IpbEndpointRequest IpbEndpointRequest;

/* The HTTP transports take these options too. */
typedef struct {
    const char *name;              /* of the server, for messages */
    const IpbServerParams *params; /* expanded; it has a URL */
    const char *const *base_env;   /* proxies and the paths of certificates are taken from it */
    const char *state_dir;         /* where tokens are; NULL: the user's */
    const IpbMcpLimits *limits;    /* without zeros; copied */
    IpbServerLog *log;             /* referenced */
} IpbEndpointOptions;

/* Errors: UNAVAILABLE (no libcurl), INVALID (the URL). The message begins with the server's
 * name. */
IpbEndpoint *ipb_endpoint_new(IpbLoop *loop, const IpbEndpointOptions *options, GError **error);
void ipb_endpoint_free(IpbEndpoint *endpoint);
/* Members that a transport needs; borrowed. */
IpbLoop *ipb_endpoint_loop(const IpbEndpoint *endpoint);
const char *ipb_endpoint_name(const IpbEndpoint *endpoint);
IpbServerLog *ipb_endpoint_log(const IpbEndpoint *endpoint);
const IpbMcpLimits *ipb_endpoint_limits(const IpbEndpoint *endpoint);
/* The absolute URL of @reference, which is relative to the server's URL. REFUSED: it has another
 * origin. Caller frees. */
char *ipb_endpoint_resolve(IpbEndpoint *endpoint, const char *reference, GError **error);

typedef struct {
    /* Not called for what is handled here: redirects, 401, 403, 407. */
    void (*on_head)(IpbEndpointRequest *exchange, unsigned status, void *data);
    void (*on_body)(IpbEndpointRequest *exchange, const char *bytes, size_t size, void *data);
    /* Called once. Errors: those of http/client.h, and REFUSED for 401, 403, 407 and redirects to
     * another origin. */
    void (*on_end)(IpbEndpointRequest *exchange, const GError *error, void *data);
} IpbEndpointRequestFuncs;

typedef struct {
    const char *method;
    const char *url; /* NULL: the server's */
    /* "Name: value"; they take precedence over those of server_params */
    const char *const *headers;
    const char *body; /* copied; NULL: none */
    size_t body_size;
    unsigned total_ms; /* includes redirects and the time to get a token; 0: no limit */
} IpbEndpointRequestOptions;

IpbEndpointRequest *ipb_endpoint_request_new(IpbEndpoint *endpoint,
                                             const IpbEndpointRequestOptions *options,
                                             const IpbEndpointRequestFuncs *funcs, void *data);
void ipb_endpoint_request_free(IpbEndpointRequest *exchange);
/* A header of the answer; NULL if it has none. */
const char *ipb_endpoint_request_header(const IpbEndpointRequest *exchange, const char *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbEndpoint, ipb_endpoint_free)
