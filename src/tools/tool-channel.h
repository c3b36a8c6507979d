/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolChannel: the HTTP/1.1 server through which a kernel calls tools. It is small and strict
 * and accepts POST /run {server_id, server_name, tool_name, tool_args} only
 * (docs/internals/tool-channel.md). All input is hostile. The channel has the role of a kernel: it
 * can neither approve nor register.
 *
 * Each session has a channel. It is a TCP port on loopback, where each request needs the session's
 * token or must come from a process of the session's kernel. Or its calls come through the door of
 * a sandbox (tools/tool-door.h).
 */
#pragma once

#include "http/server.h"
#include "tools/tool-host.h"
#include "tools/tool-relay.h"

typedef struct IpbToolChannel IpbToolChannel;

/* @host is borrowed; free it after the channel. */
IpbToolChannel *ipb_tool_channel_new(IpbLoop *loop, IpbToolHost *host);
/* Forwards calls to a tool server instead of @host. @relay is borrowed; free it after the
 * channel. */
void ipb_tool_channel_set_relay(IpbToolChannel *channel, IpbToolRelay *relay);
/* Whether a process of the session's kernel has the socket with this inode. See
 * base/descendants.h. */
typedef bool (*IpbToolChannelKnowsFunc)(uint64_t inode, void *data);
/* Listens on 127.0.0.1, on any port. A request must have the token, or come through a socket that
 * @knows confirms. */
bool ipb_tool_channel_listen(IpbToolChannel *channel, IpbToolChannelKnowsFunc knows, void *data,
                             GError **error);
/* Makes a token, unless there is one, for a channel behind a door that others share. */
bool ipb_tool_channel_make_token(IpbToolChannel *channel, GError **error);
/* For doors. Calls come through @door. A channel that is freed calls @leave. */
void ipb_tool_channel_enter_door(IpbToolChannel *channel, void *door,
                                 void (*leave)(IpbToolChannel *channel, void *door));
/* For doors: calls come through none any more, and those that run end. */
void ipb_tool_channel_leave_door(IpbToolChannel *channel);
/* For doors: handles a call of a tool. */
void ipb_tool_channel_run(IpbToolChannel *channel, IpbHttpRequest *request);
/* For doors: a server with the limits of a channel. Takes @gate. */
IpbHttpServer *ipb_tool_channel_make_server(IpbLoop *loop, const IpbHttpRoute *routes,
                                            size_t n_routes, void *data, IpbHttpGate *gate);
unsigned ipb_tool_channel_port(const IpbToolChannel *channel);
const char *
ipb_tool_channel_token(const IpbToolChannel *channel); /* 64 hex digits; "": no token is needed */
/* For tests that need shorter timeouts. */
void ipb_tool_channel_set_timeouts(IpbToolChannel *channel, const IpbHttpTimeouts *timeouts);
/* Closes all connections and cancels their calls. */
void ipb_tool_channel_free(IpbToolChannel *channel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolChannel, ipb_tool_channel_free)
