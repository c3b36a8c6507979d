/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApprovalSocket: the approval channel of the tool server (docs/internals/tool-server.md): one WebSocket on which an application is
 * asked about tool calls, in JSON-RPC: {"method": "approve", "params": {"server_name", "tool_name", "tool_args"}, "id"}, answered by
 * {"result": bool, "id"}. A second client waits a while for the first to leave, then is closed with 1008.
 *
 * Ownership: the owner frees it; then the clients are cut off.
 */
#pragma once

#include "http/websocket.h"
#include "tools/approvals.h"

typedef struct IpbApprovalSocket IpbApprovalSocket;

typedef struct {
    /* The answer to a question; whether anybody waits for it still is not known here. */
    void (*on_decision)(uint64_t request, bool is_accepted, void *data);
    /* The client has gone, with this question unanswered. */
    void (*on_left)(uint64_t request, void *data);
    void *data;
} IpbApprovalSocketFuncs;

IpbApprovalSocket *ipb_approval_socket_new(IpbLoop *loop, const IpbApprovalSocketFuncs *funcs);
/* Answers a handshake: another client. */
void ipb_approval_socket_take(IpbApprovalSocket *channel, IpbHttpRequest *request);
/* NULL: it is asked; else why it is not: nobody is there, or it is too large. */
const char *ipb_approval_socket_ask(IpbApprovalSocket *channel, const IpbApprovalRequest *request);
/* Nobody waits for the answer any more. */
void ipb_approval_socket_withdraw(IpbApprovalSocket *channel, uint64_t request);
void ipb_approval_socket_free(IpbApprovalSocket *channel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbApprovalSocket, ipb_approval_socket_free)
