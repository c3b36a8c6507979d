/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests need of the tool channel.
 */
#pragma once

#include "http/server.h"
#include "tools/tool-channel.h"

void ipb_tool_channel_set_timeouts(IpbToolChannel *channel, const IpbHttpTimeouts *timeouts);
