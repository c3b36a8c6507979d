/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpServer: ipybox as an MCP server on a pair of fds, handshake revisions 2024-11-05 to 2025-11-25. One server has
 * one session. Requests are handled while others run; notifications/cancelled ends the one it names.
 */
#pragma once

#include "session/session.h"

typedef struct IpbMcpServer IpbMcpServer;

typedef struct {
    IpbSession *
        session; /* borrowed: closed by the owner when the server has ended; it may be freed before the server */
    bool without_register; /* the client cannot register MCP servers */
    int in, out;           /* become the server's */
    /* The client has gone (@why NULL) or the conversation cannot go on. Once, from the loop. */
    void (*on_end)(const GError *why, void *data);
    void (*on_log)(const char *level, const char *text, void *data); /* may be NULL */
    void *data;
} IpbMcpServerOptions;

IpbMcpServer *ipb_mcp_server_new(IpbLoop *loop, const IpbMcpServerOptions *options, GError **error);
/* Asks the client's user about a tool call of the session, and takes the question back. For the session's on_approval and
 * on_approval_withdrawn. */
void ipb_mcp_server_ask(IpbMcpServer *server, const IpbApprovalRequest *request);
void ipb_mcp_server_withdraw(IpbMcpServer *server, uint64_t request);
/* Requests in flight are dropped; what was answered is written out, for at most a second. */
void ipb_mcp_server_free(IpbMcpServer *server);
