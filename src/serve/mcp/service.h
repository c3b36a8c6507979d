/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpService: ipybox as an MCP server for the clients of one principal, each over a message
 * channel of its own. It has what they share: the sessions, the requests that they may continue,
 * the servers that the user named at the start, and the maximum number of connections. On stdio
 * there is one connection.
 *
 * Ownership: the owner frees the service, after ipb_mcp_service_close if it wants an orderly end.
 * Connections belong to the service.
 */
#pragma once

#include "serve/mcp/connection.h"

typedef struct IpbMcpService IpbMcpService;

typedef struct {
    /* Of each session. All texts must live as long as the service. */
    IpbSessionOptions session;
    /* As in IpbNamedSessionsOptions */
    IpbSessionPool *pool;
    size_t pool_owner;
    bool offers_register;
    IpbMcpToolOptions tools;
    bool keeps_results;
    /* Object {name: server_params} of MCP servers that are registered before the first cell runs;
     * lives as long as the service. NULL: none */
    const IpbJson *servers;
    /* The file that they were read from, for errors. */
    const char *servers_path;
    /* 0: 1000 */
    unsigned max_connections;
    /* Sessions of this service; 0: 20. A session that is recorded is the only one. */
    unsigned max_sessions;
    /* Of several services; NULL: this service has its own */
    IpbSessionBudget *budget;
    /* Sessions that no connected client has end after this time; 0: never. */
    unsigned idle_ms;
    /* The maximum age of a session; 0: none */
    int64_t max_lifetime_ms;
    int64_t lifetime_grace_ms;
    /* Lives as long as the service. NULL: none */
    const IpbMcpExtension *extension;
    /* May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbMcpServiceOptions;

IpbMcpService *ipb_mcp_service_new(IpbRuntime *runtime, const IpbMcpServiceOptions *options);
/* Serves a client; see ipb_mcp_connection_new. When the client is gone, the owner closes the
 * connection. Errors: LIMIT (too many connections, or sessions), and those of ipb_session_new and
 * ipb_session_register. */
IpbMcpConnection *ipb_mcp_service_connect(IpbMcpService *service, IpbMessageChannel *channel,
                                          bool is_stateless,
                                          void (*on_end)(const GError *why, void *data), void *data,
                                          GError **error);
/* Frees the connection from the loop, then calls @done (may be NULL). No on_end comes any more.
 * Once. */
void ipb_mcp_service_disconnect(IpbMcpService *service, IpbMcpConnection *connection,
                                void (*done)(void *data), void *data);
/* A session without a kernel, with the options of the others, but not staged. Borrowed; NULL with
 * @error. */
IpbSession *ipb_mcp_service_common_session(IpbMcpService *service, GError **error);
/* Sessions that the clients have. */
unsigned ipb_mcp_service_count_sessions(const IpbMcpService *service);
/* Ends all sessions in order; @done from the loop when nothing of them is left. Once. */
void ipb_mcp_service_close(IpbMcpService *service, void (*done)(void *data), void *data);
/* Writes responses that still wait, for at most a second for each client. Not within the loop. */
void ipb_mcp_service_free(IpbMcpService *service);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpService, ipb_mcp_service_free)
