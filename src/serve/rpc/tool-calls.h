/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcToolCalls: has the client run calls of the tools that it offers to a session ("tool.call").
 * A call that needs no answer any more is cancelled by the notification "tool.cancelled".
 *
 * While the client reads slowly, calls are held, so that a cell cannot fill the memory of the core
 * with calls that it cancels.
 *
 * Ownership: the session owns its calls. A call that was sent lives until its request of the client
 * ends, which may be after the session.
 */
#pragma once

#include "serve/rpc/client.h"
#include "session/session.h"

typedef struct IpbRpcToolCalls IpbRpcToolCalls;

/* @session: gets the answers. @session_id: its id for the client; borrowed. */
IpbRpcToolCalls *ipb_rpc_tool_calls_new(IpbRpcClient *client, IpbSession *session,
                                        const char *session_id);
/* @cell_request: the id (JSON text) of the session.execute whose cell runs; NULL: none runs. */
void ipb_rpc_tool_calls_run(IpbRpcToolCalls *calls, const IpbApplicationCall *call,
                            const char *cell_request);
/* Does nothing if there is no such call. */
void ipb_rpc_tool_calls_cancel(IpbRpcToolCalls *calls, uint64_t call);
/* Holds calls, or sends those that were held. */
void ipb_rpc_tool_calls_hold(IpbRpcToolCalls *calls, bool holds);
/* Cancels all. @calls may be NULL. */
void ipb_rpc_tool_calls_free(IpbRpcToolCalls *calls);
