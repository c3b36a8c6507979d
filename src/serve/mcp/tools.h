/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpTools: the tools of the MCP server. Names, parameters and defaults of register_mcp_server,
 * install_package, execute_ipython_cell and reset are those of ipybox 0.9 (docs/migration.md). The
 * descriptions of all tools are in tools.json.
 */
#pragma once

#include "json/rpc-peer.h"
#include "serve/mcp/elicitation.h"
#include "serve/mcp/tool-options.h"
#include "session/session.h"

typedef struct IpbMcpTools IpbMcpTools;

/* Progress of @request. @token_json: the client's progress token. @progress rises with every call
 * for a token. */
typedef void (*IpbMcpToolsProgressFunc)(const IpbRpcRequest *request, const char *token_json,
                                        int64_t progress, const char *message, void *data);

/* @elicitation: asks for the input of cells; borrowed. @offers_register: there is a tool that
 * registers MCP servers. */
IpbMcpTools *ipb_mcp_tools_new(IpbLoop *loop, IpbSession *session, IpbElicitation *elicitation,
                               bool offers_register, const IpbMcpToolOptions *options,
                               IpbMcpToolsProgressFunc on_progress, void *data);
/* The client says who it is (clientInfo.name; NULL: it does not). */
void ipb_mcp_tools_set_client(IpbMcpTools *tools, const char *name);
/* Whether the client has the tool @name. */
bool ipb_mcp_tools_offers(const IpbMcpTools *tools, const char *name);
/* INVALID: one of @names (NULL-terminated) is no tool; the message lists them. */
bool ipb_mcp_tools_check_names(const char *const *names, GError **error);
/* There is a tool that gives the answer of a cell again, for clients that can lose a connection and
 * continue on another one. */
void ipb_mcp_tools_keep_results(IpbMcpTools *tools);
/* The value of "tools" in the answer to tools/list. */
void ipb_mcp_tools_describe(const IpbMcpTools *tools, IpbJsonWriter *writer);
/* Handles a tools/call request, which is answered now or later. */
void ipb_mcp_tools_call(IpbMcpTools *tools, IpbRpcRequest *request);
/* The id (JSON text) of the request whose cell runs now; NULL: none. Borrowed. */
const char *ipb_mcp_tools_running_request(const IpbMcpTools *tools);
/* Ends the call with that request id (JSON text). It is not answered, as MCP requires. */
void ipb_mcp_tools_cancel(IpbMcpTools *tools, const char *id_json);
/* Drops calls in flight. */
void ipb_mcp_tools_free(IpbMcpTools *tools);
