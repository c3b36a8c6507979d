/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpTools: the tools of the MCP server, as one client sees them. Names, parameters and defaults
 * of register_mcp_server, install_package, execute_ipython_cell and reset are those of ipybox 0.9
 * (docs/migration.md). The descriptions of all tools are in tools.json.
 *
 * Calls belong to the session that they use, so they end with it, not with the client.
 */
#pragma once

#include "serve/mcp/named-sessions.h"
#include "serve/mcp/tool-options.h"

typedef struct IpbMcpTools IpbMcpTools;

typedef struct {
    IpbLoop *loop;
    IpbMcpToolOptions tools;
    IpbNamedSessions *sessions;
    /* A session without a kernel, for calls that need none; borrowed. */
    IpbSession *common;
    /* There is a tool that registers MCP servers. */
    bool offers_register;
    /* The client can lose a connection and continue on another one. There is a tool that gives the
     * answer of a cell again, and answers have the ids of sessions. */
    bool keeps_results;
    /* The default session of a client that has none yet. NULL with @error: there is none. */
    IpbNamedSession *(*get_default)(void *data, GError **error);
    void *data;
} IpbMcpToolsOptions;

IpbMcpTools *ipb_mcp_tools_new(const IpbMcpToolsOptions *options);
/* The client says who it is (clientInfo.name; NULL: it does not). */
void ipb_mcp_tools_set_client(IpbMcpTools *tools, const char *name);
/* The session of calls that name none; borrowed. NULL: there is none. */
void ipb_mcp_tools_set_default(IpbMcpTools *tools, IpbNamedSession *session);
/* Whether the client has the tool @name. */
bool ipb_mcp_tools_offers(const IpbMcpTools *tools, const char *name);
/* INVALID: one of the names is no tool, or cannot be offered; the message says what can. */
bool ipb_mcp_tools_check(const IpbMcpToolOptions *options, GError **error);
/* How many cells sessions must be able to undo for the tools that the user chose. */
unsigned ipb_mcp_tools_undo(const IpbMcpToolOptions *options);
/* The value of "tools" in the answer to tools/list. */
void ipb_mcp_tools_describe(const IpbMcpTools *tools, IpbJsonWriter *writer);
/* Handles a tools/call request, which is answered now or later. */
void ipb_mcp_tools_call(IpbMcpTools *tools, IpbMcpRequest *request);
void ipb_mcp_tools_free(IpbMcpTools *tools);
