/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpStateless: requests of revision 2026-07-28 over HTTP. Each POST stands for itself: its
 * headers must agree with its body, and it has a connection of its own, until it is answered or its
 * client closes the stream, which cancels the request.
 *
 * Ownership: the owner frees it before the services.
 */
#pragma once

#include "serve/mcp-http/channel.h"
#include "serve/mcp/service.h"

#define IPB_MCP_REVISION_HEADER "MCP-Protocol-Version"

typedef struct IpbMcpStateless IpbMcpStateless;

/* @on_over: a request is over; from the loop. The budget outlives it. */
IpbMcpStateless *ipb_mcp_stateless_new(IpbLoop *loop, IpbMcpHttpBudget *budget,
                                       void (*on_over)(void *data), void *data);
/* Handles a POST with the body @text, whose value is @message, and answers @request, which is
 * taken, now or later. */
void ipb_mcp_stateless_post(IpbMcpStateless *stateless, IpbMcpService *service,
                            IpbHttpRequest *request, IpbSpan text, const IpbJson *message);
/* Is a request not answered yet? */
bool ipb_mcp_stateless_is_busy(const IpbMcpStateless *stateless);
/* Ends the streams of subscriptions/listen, which do not end by themselves. */
void ipb_mcp_stateless_end_subscriptions(IpbMcpStateless *stateless);
/* Is a request of this service not over yet? */
bool ipb_mcp_stateless_serves(const IpbMcpStateless *stateless, const IpbMcpService *service);
/* Cancels the requests of this service. */
void ipb_mcp_stateless_end_of(IpbMcpStateless *stateless, const IpbMcpService *service);
/* Cancels all requests. */
void ipb_mcp_stateless_end(IpbMcpStateless *stateless);
void ipb_mcp_stateless_free(IpbMcpStateless *stateless);
