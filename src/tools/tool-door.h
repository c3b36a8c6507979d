/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolDoor: the port in a sandbox at which kernels call tools, and the tool channels behind it.
 * With one channel, no token is needed, because only processes of the sandbox can connect. Kernels
 * that are branches of each other share a sandbox: then each call needs a token, which says to
 * which channel it goes.
 *
 * Ownership: the owner frees it. Channels may be freed before and leave it then.
 */
#pragma once

#include "tools/tool-channel.h"

typedef struct IpbToolDoor IpbToolDoor;

/* Takes the listener @fd, which was opened on @port inside a sandbox, also on failure. @channel:
 * the first one. */
IpbToolDoor *ipb_tool_door_new(IpbLoop *loop, IpbToolChannel *channel, int fd, unsigned port,
                               GError **error);
/* Adds a channel that has a token. From now on each call needs one. */
void ipb_tool_door_share(IpbToolDoor *door, IpbToolChannel *channel);
/* Calls do not go to @channel any more; its running ones end. */
void ipb_tool_door_remove(IpbToolDoor *door, IpbToolChannel *channel);
/* Closes all connections and cancels their calls. */
void ipb_tool_door_free(IpbToolDoor *door);
