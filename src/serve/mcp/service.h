/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpService: serves MCP to any number of clients, each over a message channel of its own and
 * with a session of its own. It holds what they share: the runtime with its warm kernels and its
 * registrations, the options of sessions, the servers that the user named at the start, and the
 * maximum number of connections. stdio has one connection; HTTP will have many.
 *
 * Ownership: the owner frees the service, after ipb_mcp_service_close if it wants an orderly end.
 * Connections belong to the service.
 */
#pragma once

#include "serve/mcp/server.h"

typedef struct IpbMcpService IpbMcpService;
typedef struct IpbMcpConnection IpbMcpConnection;

typedef struct {
    /* Of each session, as in IpbMcpServerOptions. All texts must live as long as the service. */
    IpbSessionOptions session;
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
    /* May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbMcpServiceOptions;

IpbMcpService *ipb_mcp_service_new(IpbRuntime *runtime, const IpbMcpServiceOptions *options);
/* Serves a client, and takes @channel, even on failure. @on_end: the client closed the channel
 * (@why NULL) or the channel failed; once, from the loop. The owner then closes the connection.
 * Errors: LIMIT (too many connections), and those of ipb_session_new and ipb_session_register. */
IpbMcpConnection *ipb_mcp_service_connect(IpbMcpService *service, IpbMessageChannel *channel,
                                          void (*on_end)(const GError *why, void *data), void *data,
                                          GError **error);
/* Borrowed. */
IpbSession *ipb_mcp_connection_session(IpbMcpConnection *connection);
/* The revision that was negotiated; NULL: the client has not initialized. Static. */
const char *ipb_mcp_connection_revision(const IpbMcpConnection *connection);
/* Ends the session in order, then frees the connection; other connections continue. @done (may be
 * NULL) from the loop, when it is freed. No on_end comes any more. Once. */
void ipb_mcp_connection_close(IpbMcpConnection *connection, void (*done)(void *data), void *data);
/* Ends all sessions in order; @done from the loop when nothing of them is left. Once. */
void ipb_mcp_service_close(IpbMcpService *service, void (*done)(void *data), void *data);
/* Writes responses that still wait, for at most a second for each client. Not within the loop. */
void ipb_mcp_service_free(IpbMcpService *service);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpService, ipb_mcp_service_free)
