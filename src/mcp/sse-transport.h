/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport to an MCP server over HTTP+SSE, as revision 2024-11-05 has it: one stream of events from the server, whose
 * first event says where messages are to be POSTed. When it ends, the connection does.
 */
#pragma once

#include "mcp/endpoint.h"
#include "mcp/transport.h"

/* Opens the stream; messages wait until it has told its endpoint. Errors: as ipb_endpoint_new(). */
IpbTransport *ipb_transport_new_sse(IpbLoop *loop, const IpbEndpointOptions *options,
                                    const IpbTransportFuncs *funcs, void *data, GError **error);
