/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolRelay: hands what a kernel asks of its tool channel on to a tool server elsewhere (`ipybox tool-server`), in the kernel's role: the
 * kernel itself cannot reach that server, or could say there what only an application may.
 *
 * Ownership: the owner frees it, after the HTTP server that its requests come from.
 */
#pragma once

#include "http/server.h"

typedef struct IpbToolRelay IpbToolRelay;

/* @token: of the tool server, or NULL. */
IpbToolRelay *ipb_tool_relay_new(IpbLoop *loop, const char *host, unsigned port, const char *token);
/* Sends the body of @request as POST /run, and answers with what comes back. */
void ipb_tool_relay_run(IpbToolRelay *relay, IpbHttpRequest *request);
void ipb_tool_relay_free(IpbToolRelay *relay);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolRelay, ipb_tool_relay_free)
