/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApprovalSocket: the approval channel of the tool server (docs/internals/tool-server.md), a
 * WebSocket on which an application decides on tool calls. The messages are JSON-RPC: the request
 * {"method": "approve", "params": {"server_name", "tool_name", "tool_args"}, "id"}, and the answer
 * {"result": bool, "id"}. One client is served at a time. A second client waits until the first has
 * disconnected. If this takes more than five seconds, the second client is closed with code 1008.
 *
 * Ownership: the owner frees it, which disconnects the clients.
 */
#pragma once

#include "http/websocket.h"
#include "tools/approvals.h"

typedef struct IpbApprovalSocket IpbApprovalSocket;

typedef struct {
    /* The answer to a question. The owner knows whether the answer still matters. */
    void (*on_decision)(uint64_t request, bool is_accepted, void *data);
    /* The client has disconnected without answering this question. */
    void (*on_left)(uint64_t request, void *data);
    void *data;
} IpbApprovalSocketFuncs;

IpbApprovalSocket *ipb_approval_socket_new(IpbLoop *loop, const IpbApprovalSocketFuncs *funcs);
/* Accepts a handshake of another client. */
void ipb_approval_socket_take(IpbApprovalSocket *channel, IpbHttpRequest *request);
/* NULL: the question was sent; else why not: no client is connected, or it is too large. */
const char *ipb_approval_socket_ask(IpbApprovalSocket *channel, const IpbApprovalRequest *request);
/* The answer does not matter any more. */
void ipb_approval_socket_withdraw(IpbApprovalSocket *channel, uint64_t request);
void ipb_approval_socket_free(IpbApprovalSocket *channel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbApprovalSocket, ipb_approval_socket_free)
