/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolChannel: what a kernel reaches of us: an HTTP/1.1 server of a few hundred lines, strict
 * and small, that takes POST /run {server_id, server_name, tool_name, tool_args}
 * (docs/internals/tool-channel.md). Everything that comes in is hostile. One channel a session: a
 * TCP port on loopback, each request with the session's token or out of a process of the session's kernel; or a
 * listener that was opened inside a sandbox, where nobody else can connect and no token is needed. Has the
 * kernel's role only: no approvals, no registration.
 */
#pragma once

#include "http/server.h"
#include "tools/tool-host.h"
#include "tools/tool-relay.h"

typedef struct IpbToolChannel IpbToolChannel;

/* @host is borrowed, and freed after the channel. */
IpbToolChannel *ipb_tool_channel_new(IpbLoop *loop, IpbToolHost *host);
/* What is called runs at another tool server, instead of @host's. @relay is borrowed, and freed after the channel. */
void ipb_tool_channel_set_relay(IpbToolChannel *channel, IpbToolRelay *relay);
/* Does a process of the session's kernel hold the socket with this inode? See base/descendants.h. */
typedef bool (*IpbToolChannelKnowsFunc)(uint64_t inode, void *data);
/* Listens on 127.0.0.1, any port; requests must carry the token, or come by a socket that @knows. */
bool ipb_tool_channel_listen(IpbToolChannel *channel, IpbToolChannelKnowsFunc knows, void *data,
                             GError **error);
/* Listens on @fd (taken, also on failure), opened on port @port inside the session's sandbox, instead of what it listened on
 * before; connections from there are closed. */
bool ipb_tool_channel_take_listener(IpbToolChannel *channel, int fd, unsigned port, GError **error);
unsigned ipb_tool_channel_port(const IpbToolChannel *channel);
const char *
ipb_tool_channel_token(const IpbToolChannel *channel); /* 64 hex digits; "": none is needed */
/* For tests: shorter ones. */
void ipb_tool_channel_set_timeouts(IpbToolChannel *channel, const IpbHttpTimeouts *timeouts);
/* Closes all connections; running calls of them are cancelled. */
void ipb_tool_channel_free(IpbToolChannel *channel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolChannel, ipb_tool_channel_free)
