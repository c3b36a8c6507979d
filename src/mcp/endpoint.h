/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbEndpoint: an MCP server at a URL, and what goes with each request to it: its headers from server_params (to
 * its own origin only), its authorization. IpbEndpointRequest: one request to it and the answer, after redirects within
 * the origin (307 and 308, at most limits.redirects) and what a 401 or 403 leads to.
 *
 * Ownership: a transport owns its endpoint and its exchanges, and frees these before. An exchange may be freed at any
 * time, in its functions too; then nothing more is told. Thread: the loop's; the functions are called from the loop only.
 */
#pragma once

#include "http/client.h"
#include "mcp/limits.h"
#include "mcp/server-params.h"
#include "mcp/server-log.h"

typedef struct IpbEndpoint IpbEndpoint;
typedef struct IpbEndpointRequest IpbEndpointRequest;

/* Also what the HTTP transports are made of. */
typedef struct {
    const char *name;              /* the server's, for messages */
    const IpbServerParams *params; /* expanded; it has a URL */
    const char *const *base_env;   /* proxies and certificates' places are taken from it */
    const char *state_dir;         /* where tokens are; NULL: the user's */
    const IpbMcpLimits *limits;    /* filled; copied */
    IpbServerLog *log;             /* referenced */
} IpbEndpointOptions;

/* UNAVAILABLE: no libcurl. INVALID: the URL. The message begins with the server's name. */
IpbEndpoint *ipb_endpoint_new(IpbLoop *loop, const IpbEndpointOptions *options, GError **error);
void ipb_endpoint_free(IpbEndpoint *endpoint);
/* What a transport needs of it: borrowed. */
IpbLoop *ipb_endpoint_loop(const IpbEndpoint *endpoint);
const char *ipb_endpoint_name(const IpbEndpoint *endpoint);
IpbServerLog *ipb_endpoint_log(const IpbEndpoint *endpoint);
const IpbMcpLimits *ipb_endpoint_limits(const IpbEndpoint *endpoint);
/* The absolute URL of @reference, seen from the server's; REFUSED if it is of another origin. Caller frees. */
char *ipb_endpoint_resolve(IpbEndpoint *endpoint, const char *reference, GError **error);

typedef struct {
    /* Not told of what is handled here: redirects, 401, 403, 407. */
    void (*on_head)(IpbEndpointRequest *exchange, unsigned status, void *data);
    void (*on_body)(IpbEndpointRequest *exchange, const char *bytes, size_t size, void *data);
    /* Once. Errors as in http/client.h, and REFUSED for 401, 403, 407 and redirects elsewhere. */
    void (*on_end)(IpbEndpointRequest *exchange, const GError *error, void *data);
} IpbEndpointRequestFuncs;

typedef struct {
    const char *method;
    const char *url;            /* NULL: the server's */
    const char *const *headers; /* "Name: value"; they win over those of server_params */
    const char *body;           /* copied; NULL: none */
    size_t body_size;
    unsigned total_ms; /* redirects, and what a token takes, included; 0: no limit */
} IpbEndpointRequestOptions;

IpbEndpointRequest *ipb_endpoint_request_new(IpbEndpoint *endpoint,
                                             const IpbEndpointRequestOptions *options,
                                             const IpbEndpointRequestFuncs *funcs, void *data);
void ipb_endpoint_request_free(IpbEndpointRequest *exchange);
/* A header of the answer; NULL if there is none. */
const char *ipb_endpoint_request_header(const IpbEndpointRequest *exchange, const char *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbEndpoint, ipb_endpoint_free)
