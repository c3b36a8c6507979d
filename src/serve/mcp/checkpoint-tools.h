/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools checkpoint, restore, undo and branch. Checkpoints are known by their names.
 */
#pragma once

#include "serve/mcp/named-sessions.h"

void ipb_mcp_checkpoint_tools_make(IpbServedCall *call, const IpbJson *arguments);
void ipb_mcp_checkpoint_tools_restore(IpbServedCall *call, const IpbJson *arguments);
void ipb_mcp_checkpoint_tools_undo(IpbServedCall *call, const IpbJson *arguments);
void ipb_mcp_checkpoint_tools_branch(IpbServedCall *call, const IpbJson *arguments);
