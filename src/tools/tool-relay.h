/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolRelay: forwards a kernel's tool calls to a tool server elsewhere (`ipybox tool-server`),
 * in the role of a kernel. The kernel itself cannot reach that server. If it could, it could send
 * requests there that only an application may send.
 *
 * Ownership: the owner frees it, after the HTTP server that its requests come from.
 */
#pragma once

#include "http/server.h"

typedef struct IpbToolRelay IpbToolRelay;

/* @token: that of the tool server, or NULL. */
IpbToolRelay *ipb_tool_relay_new(IpbLoop *loop, const char *host, unsigned port, const char *token);
/* Sends the body of @request as POST /run and forwards the answer. */
void ipb_tool_relay_run(IpbToolRelay *relay, IpbHttpRequest *request);
void ipb_tool_relay_free(IpbToolRelay *relay);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolRelay, ipb_tool_relay_free)
