/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools list_changes, commit_changes and discard_changes, for what a session with a staged
 * workspace has written. The latter two wait for an approval: session/approved-changes.h.
 */
#pragma once

#include "serve/mcp/named-sessions.h"

void ipb_mcp_changes_tools_list(IpbServedCall *call, const IpbJson *arguments);
void ipb_mcp_changes_tools_commit(IpbServedCall *call, const IpbJson *arguments);
void ipb_mcp_changes_tools_discard(IpbServedCall *call, const IpbJson *arguments);
