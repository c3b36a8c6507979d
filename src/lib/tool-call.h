/* SPDX-License-Identifier: Apache-2.0
 *
 * Public tool calls as their session sees them; see <ipybox/tool-call.h>.
 */
#pragma once

#include <ipybox/tool-call.h>

#include "lib/waiting.h"

/* Adds itself to @waiting, a list of borrowed calls. */
IpyboxToolCall *ipb_lib_tool_call_new(const IpbApplicationCall *call, IpbSession *core,
                                      GPtrArray *waiting);
