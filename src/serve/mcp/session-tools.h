/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools list_sessions and close_session.
 */
#pragma once

#include "serve/mcp/named-sessions.h"

void ipb_mcp_session_tools_list(IpbServedCall *call, const IpbJson *arguments);
void ipb_mcp_session_tools_close(IpbServedCall *call, const IpbJson *arguments);
