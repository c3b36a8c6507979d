/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the tools that the client offers to a session ("tool.call"). A call that needs no answer
 * any more is cancelled by the notification "tool.cancelled".
 */
#pragma once

#include "serve/rpc/client-requests.h"
#include "session/session.h"

/* @session: gets the answers; borrowed. */
IpbRpcClientRequests *ipb_rpc_tool_calls_new(IpbRpcClient *client, IpbSession *session);
/* @session_id: the session's id for the client. @cell_request: the id (JSON text) of the
 * session.execute whose cell runs; NULL: none runs. */
void ipb_rpc_tool_calls_run(IpbRpcClientRequests *calls, const IpbApplicationCall *call,
                            const char *session_id, const char *cell_request);
