/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport to an MCP server over HTTP+SSE, as in revision 2024-11-05. The server sends one
 * event stream. Its first event says to which URL messages are POSTed. When the stream ends, so
 * does the connection.
 */
#pragma once

#include "mcp/endpoint.h"
#include "mcp/transport.h"

/* Opens the stream. Messages wait until the URL is known. Errors: those of ipb_endpoint_new(). */
IpbTransport *ipb_transport_new_sse(IpbLoop *loop, const IpbEndpointOptions *options,
                                    const IpbTransportFuncs *funcs, void *data, GError **error);
