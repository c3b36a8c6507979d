/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpServer: ipybox as an MCP server for one client, handshake revisions 2024-11-05 to
 * 2025-11-25, over a message channel. Each server has a session of its own. Requests are handled
 * while others run; notifications/cancelled ends the one it names. What several servers share is in
 * serve/mcp/service.h.
 *
 * Ownership: it owns the channel and the session.
 */
#pragma once

#include "serve/mcp/tool-options.h"
#include "serve/message-channel.h"
#include "session/session.h"

typedef struct IpbMcpServer IpbMcpServer;

typedef struct {
    IpbRuntime *runtime;
    /* Of the session. The server sets the functions and their data: approvals are asked of the
     * client's user. */
    IpbSessionOptions session;
    /* The client may register MCP servers. */
    bool offers_register;
    IpbMcpToolOptions tools;
    /* Object with the names of servers that are registered before the first cell runs, or NULL;
     * lives as long as the server. */
    const IpbJson *servers;
    /* The client can lose a connection and continue on another one: answers of cells are kept. */
    bool keeps_results;
    /* The client closed the channel (@why NULL), or the channel failed. Once, from the loop. */
    void (*on_end)(const GError *why, void *data);
    /* May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbMcpServerOptions;

/* Takes @channel, even on failure. Errors: those of ipb_session_new. */
IpbMcpServer *ipb_mcp_server_new(IpbMessageChannel *channel, const IpbMcpServerOptions *options,
                                 GError **error);
/* Borrowed. */
IpbSession *ipb_mcp_server_session(IpbMcpServer *server);
/* The revision that was negotiated; NULL: the client has not initialized. Static. */
const char *ipb_mcp_server_revision(const IpbMcpServer *server);
/* Ends the session in order; @done from the loop when nothing of it is left. Once. */
void ipb_mcp_server_close(IpbMcpServer *server, void (*done)(void *data), void *data);
/* Drops requests in flight, and writes responses that wait, for at most @flush_ms. @flush_ms must
 * be 0 within the loop. Not in a callback of the session. */
void ipb_mcp_server_free(IpbMcpServer *server, unsigned flush_ms);
