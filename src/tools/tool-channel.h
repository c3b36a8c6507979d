/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolChannel: the HTTP/1.1 server through which a kernel calls tools. It is small and strict
 * and accepts POST /run {server_id, server_name, tool_name, tool_args} only
 * (docs/internals/tool-channel.md). All input is hostile. The channel has the role of a kernel: it
 * can neither approve nor register.
 *
 * Each session has a channel. It is a TCP port on loopback, where each request needs the session's
 * token or must come from a process of the session's kernel. Or it is a listener that was opened
 * inside a sandbox, where no other process can connect and no token is needed.
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
/* Listens on @fd, which was opened on @port inside the session's sandbox, instead of the previous
 * listener, whose connections are closed. Takes @fd, even on failure. */
bool ipb_tool_channel_take_listener(IpbToolChannel *channel, int fd, unsigned port, GError **error);
unsigned ipb_tool_channel_port(const IpbToolChannel *channel);
const char *
ipb_tool_channel_token(const IpbToolChannel *channel); /* 64 hex digits; "": no token is needed */
/* For tests that need shorter timeouts. */
void ipb_tool_channel_set_timeouts(IpbToolChannel *channel, const IpbHttpTimeouts *timeouts);
/* Closes all connections and cancels their calls. */
void ipb_tool_channel_free(IpbToolChannel *channel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolChannel, ipb_tool_channel_free)
