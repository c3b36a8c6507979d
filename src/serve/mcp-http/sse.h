/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpSse: the HTTP transport of revision 2024-11-05, for old clients. A GET begins a session and
 * stays open: all messages of the server come on it as events, and the first event names the
 * address to which the client posts its messages. When the client closes the GET, the session is
 * over.
 *
 * Ownership: the owner frees it after the services. "Owner" of a session here: the principal that
 * began it.
 */
#pragma once

#include "http/server.h"
#include "serve/mcp/service.h"

typedef struct IpbMcpSse IpbMcpSse;

/* @on_closed: a session of @owner is over; from the loop. */
IpbMcpSse *ipb_mcp_sse_new(IpbLoop *loop, void (*on_closed)(void *owner, void *data), void *data);
/* Begins a session, and answers @request, which is taken. @path: where GETs arrive; the client
 * posts to PATH/ID. False with @error: the request is not answered, and there is no session. */
bool ipb_mcp_sse_open(IpbMcpSse *sse, IpbMcpService *service, void *owner, const char *path,
                      IpbHttpRequest *request, GError **error);
/* Delivers the body of a POST to the session @id, and answers @request, which is taken. */
void ipb_mcp_sse_post(IpbMcpSse *sse, const void *owner, const char *id, IpbHttpRequest *request);
size_t ipb_mcp_sse_count(const IpbMcpSse *sse);
/* Is a request not answered yet? */
bool ipb_mcp_sse_is_busy(const IpbMcpSse *sse);
/* Ends the sessions of @owner. */
void ipb_mcp_sse_end_of(IpbMcpSse *sse, const void *owner);
/* Ends all sessions. */
void ipb_mcp_sse_end(IpbMcpSse *sse);
void ipb_mcp_sse_free(IpbMcpSse *sse);
