/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcMcpConnections: the client's own connections to MCP servers, without a kernel, with the
 * methods "mcp.*". No approval is needed, because the client itself calls the tools.
 *
 * Ownership: the server owns this object, which owns the connections. A connection is freed when
 * its MCP server has ended.
 */
#pragma once

#include "mcp/client.h"
#include "serve/rpc/client.h"

typedef struct IpbRpcMcpConnections IpbRpcMcpConnections;

extern const IpbRpcMethod IPB_RPC_MCP_METHODS[];
extern const size_t IPB_RPC_N_MCP_METHODS;

/* @client and @legacy_servers (see mcp/client.h) are borrowed. */
IpbRpcMcpConnections *ipb_rpc_mcp_connections_new(IpbLoop *loop, IpbRpcClient *client,
                                                  IpbLegacyServers *legacy_servers);
/* Closes all in order; @done when none is left, at once if none is open. */
void ipb_rpc_mcp_connections_close(IpbRpcMcpConnections *connections, void (*done)(void *data),
                                   void *data);
/* Kills what is left. */
void ipb_rpc_mcp_connections_free(IpbRpcMcpConnections *connections);
