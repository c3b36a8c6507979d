/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbElicitation: asks the user of the MCP client whether a tool call may run, and for the input of
 * cells, with elicitation/create, one question after the other. It asks only clients that offer
 * forms (revisions 2025-06-18 and 2025-11-25), and only questions that the client can show
 * completely: 4000 characters in 64 lines. Other calls are refused with an error that says what to
 * do.
 *
 * Ownership: the server owns it. Peer and session are borrowed, and may be freed before it.
 */
#pragma once

#include "json/rpc-peer.h"
#include "session/session.h"

typedef struct IpbElicitation IpbElicitation;

IpbElicitation *ipb_elicitation_new(IpbRpcPeer *peer, IpbSession *session);
/* What the client declared in initialize. */
void ipb_elicitation_set_client(IpbElicitation *elicitation, const char *revision,
                                const IpbJson *capabilities);
/* Asks the client's user; the session gets the answer, at once or later. @request_id: the client's
 * request that the call belongs to (its id, JSON text); NULL: none. */
void ipb_elicitation_ask(IpbElicitation *elicitation, const char *request_id,
                         const IpbApprovalRequest *approval);
/* The answer is not needed any more: notifies the client. */
void ipb_elicitation_withdraw(IpbElicitation *elicitation, uint64_t approval);
/* Can the client's user be asked at all? */
bool ipb_elicitation_is_offered(const IpbElicitation *elicitation);
/* Asks the client's user for a line of text that a cell waits for. @event: INPUT_REQUEST. Passwords
 * are refused, because forms must not ask for them. */
void ipb_elicitation_ask_input(IpbElicitation *elicitation, const char *request_id,
                               const IpbEvent *event);
/* The input is not needed any more. */
void ipb_elicitation_withdraw_input(IpbElicitation *elicitation, uint64_t input);
/* After this no answer reaches the session. */
void ipb_elicitation_free(IpbElicitation *elicitation);
