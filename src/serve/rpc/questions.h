/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to the client whether tool calls of a session may run ("approval.request"). Everything
 * that is not a clear yes is a no. A question whose answer does not matter any more is cancelled by
 * the notification "approval.withdrawn".
 */
#pragma once

#include "serve/rpc/client-requests.h"
#include "session/session.h"

/* @session: gets the answers; borrowed. */
IpbRpcClientRequests *ipb_rpc_questions_new(IpbRpcClient *client, IpbSession *session);
/* @session_id: the session's id for the client. @cell_request: the id (JSON text) of the
 * session.execute whose cell runs. */
void ipb_rpc_questions_ask(IpbRpcClientRequests *questions, const IpbApprovalRequest *request,
                           const char *session_id, const char *cell_request);
