/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcQuestions: asks the client whether tool calls of a session may run ("approval.request").
 * Everything that is not a clear yes is a no.
 *
 * Ownership: the session owns its questions. A question that was sent lives until its call of the
 * client ends, which may be after the session.
 */
#pragma once

#include "serve/rpc/client.h"
#include "session/session.h"

typedef struct IpbRpcQuestions IpbRpcQuestions;

/* @session: gets the answers. @session_id: its id for the client; borrowed. */
IpbRpcQuestions *ipb_rpc_questions_new(IpbRpcClient *client, IpbSession *session,
                                       const char *session_id);
/* @cell_request: the id (JSON text) of the session.execute whose cell runs. */
void ipb_rpc_questions_ask(IpbRpcQuestions *questions, const IpbApprovalRequest *request,
                           const char *cell_request);
/* The answer to the approval request with this id does not matter any more: tells the client. */
void ipb_rpc_questions_withdraw(IpbRpcQuestions *questions, uint64_t request);
/* Holds questions, or sends those that were held. */
void ipb_rpc_questions_hold(IpbRpcQuestions *questions, bool holds);
/* Answers that come later are ignored. */
void ipb_rpc_questions_free(IpbRpcQuestions *questions);
