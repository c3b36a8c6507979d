/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbElicitation: asks users of MCP clients what a session wants to know: whether a tool call may
 * run, and the input of cells. It asks only clients that offer forms, and only questions that the
 * client can show completely: 4000 characters in 64 lines. Other calls are refused with an error
 * that says what to do.
 *
 * Ownership: the owner frees it before the session.
 */
#pragma once

#include "serve/mcp/server.h"
#include "session/session.h"

typedef struct IpbElicitation IpbElicitation;

IpbElicitation *ipb_elicitation_new(IpbSession *session);
/* Asks a user; the session gets the answer, at once or later. @request: the request that the call
 * belongs to. NULL: it belongs to none, and @server's client is asked; NULL: no client is there. */
void ipb_elicitation_ask(IpbElicitation *elicitation, IpbMcpRequest *request, IpbMcpServer *server,
                         const IpbApprovalRequest *approval);
/* The answer is not needed any more: notifies the client. */
void ipb_elicitation_withdraw(IpbElicitation *elicitation, uint64_t approval);
/* Asks for a line of text that a cell waits for. @event: INPUT_REQUEST. Passwords are refused,
 * because forms must not ask for them. */
void ipb_elicitation_ask_input(IpbElicitation *elicitation, IpbMcpRequest *request,
                               const IpbEvent *event);
/* The input is not needed any more. */
void ipb_elicitation_withdraw_input(IpbElicitation *elicitation, uint64_t input);
/* Withdraws all questions. */
void ipb_elicitation_free(IpbElicitation *elicitation);
