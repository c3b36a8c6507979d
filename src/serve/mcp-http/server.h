/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpHttpServer: MCP over HTTP, for clients with a token each. It serves the Streamable HTTP of
 * revisions 2025-03-26 to 2026-07-28 at /mcp, the transport of 2024-11-05 at /sse, and answers
 * /healthz and /readyz to everyone. Each `initialize` begins a session, which belongs to the
 * principal whose token came with it.
 *
 * Ownership: the owner frees the server, after ipb_mcp_http_server_close() if it wants an orderly
 * end.
 */
#pragma once

#include "http/tls.h"
#include "serve/mcp-http/principals.h"
#include "serve/mcp/service.h"

typedef struct IpbMcpHttpServer IpbMcpHttpServer;

typedef struct {
    IpbRuntime *runtime;
    /* Of each principal, in the order of `principals`. Its workspace and its sandbox are the
     * principal's own. Borrowed for the call, but all texts in it live as long as the server. */
    const IpbMcpServiceOptions *services;
    /* Taken, even on failure */
    IpbPrincipals *principals;
    /* Of connections; NULL: plain HTTP. The server takes a reference. */
    IpbTlsKeys *tls;
    /* Which addresses may connect by TCP; NULL: all. Taken, even on failure */
    IpbPeerList *peers;
    /* Web pages of these origins and these names of the host are accepted; NULL: none */
    char **origins;
    char **hosts;
    /* Sessions in total, and of one principal */
    unsigned max_sessions;
    unsigned max_sessions_each;
    unsigned max_connections;
    /* Sessions that are made ready before a client needs them: session/session-pool.h */
    unsigned pool_size;
    /* A session ends if its client sends nothing for so long and waits for nothing. */
    unsigned idle_ms;
    /* The maximum age of a Python session; 0: none */
    int64_t max_lifetime_ms;
    int64_t lifetime_grace_ms;
    /* The first kernel runs (@why NULL), or could not be started. Once. */
    void (*on_ready)(const GError *why, void *data);
    /* May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbMcpHttpServerOptions;

IpbMcpHttpServer *ipb_mcp_http_server_new(const IpbMcpHttpServerOptions *options);
/* Listens, and starts a kernel as a test. Until that is ready, sessions are refused with 503. */
bool ipb_mcp_http_server_listen(IpbMcpHttpServer *server, const char *host, unsigned port,
                                GError **error);
/* The same, on sockets that listen already; see ipb_http_server_adopt(). */
bool ipb_mcp_http_server_adopt(IpbMcpHttpServer *server, const int *fds, size_t n_fds,
                               GError **error);
/* Replaces the principals by others, as in the options. Those with a name that was there before
 * keep their sessions and options; the sessions of the others end. Takes @principals. Not while the
 * server closes. */
void ipb_mcp_http_server_set_principals(IpbMcpHttpServer *server, IpbPrincipals *principals,
                                        const IpbMcpServiceOptions *services);
/* Of new connections; if the options had none, it has no effect. */
void ipb_mcp_http_server_set_tls(IpbMcpHttpServer *server, IpbTlsKeys *keys);
/* 0: it listens on a Unix socket only. */
unsigned ipb_mcp_http_server_port(const IpbMcpHttpServer *server);
/* Refuses further requests, waits up to 8 s for those that are being handled, and ends all
 * sessions. @done from the loop. Once. */
void ipb_mcp_http_server_close(IpbMcpHttpServer *server, void (*done)(void *data), void *data);
/* Not within the loop. */
void ipb_mcp_http_server_free(IpbMcpHttpServer *server);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpHttpServer, ipb_mcp_http_server_free)
