/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport to an MCP server over Streamable HTTP (revisions 2025-03-26 and later). Each
 * message is a POST; the answer is JSON or an event stream. The transport handles sessions, their
 * renewal, and the resumption of broken streams; see docs/internals/mcp-client.md.
 */
#pragma once

#include "mcp/endpoint.h"
#include "mcp/transport.h"

/* Sends nothing yet. Errors: those of ipb_endpoint_new(). */
IpbTransport *ipb_transport_new_streamable_http(IpbLoop *loop, const IpbEndpointOptions *options,
                                                const IpbTransportFuncs *funcs, void *data,
                                                GError **error);
