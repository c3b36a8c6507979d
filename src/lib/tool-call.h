/* SPDX-License-Identifier: Apache-2.0
 *
 * Public tool calls as their session sees them; see <ipybox/tool-call.h>.
 *
 * Ownership: a session has a list of the calls that wait, and no reference to them. A call knows
 * the session's core until it is detached.
 */
#pragma once

#include <ipybox/tool-call.h>

#include "session/session.h"

/* Adds itself to @waiting, a list of borrowed calls. */
IpyboxToolCall *ipb_lib_tool_call_new(const IpbApplicationCall *call, IpbSession *core,
                                      GPtrArray *waiting);
/* The waiting call with this id, which does not wait any more; NULL: there is none. */
IpyboxToolCall *ipb_lib_tool_call_detach(GPtrArray *waiting, uint64_t id);
/* None waits any more: the core ends. */
void ipb_lib_tool_call_detach_all(GPtrArray *waiting);
