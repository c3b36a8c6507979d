/* SPDX-License-Identifier: Apache-2.0
 *
 * What models read about the tools of registered MCP servers: the answers of register_mcp_server
 * and describe_tools, and the packages in the instructions. All of them are bounded, and say so if
 * something was left out.
 */
#pragma once

#include "serve/mcp/served-call.h"

/* Answers a registration. @modules: IPB_APIGEN_NAMED_SIGNATURES. @offers_describe: the client has
 * the tool describe_tools. */
void ipb_tool_listing_finish_register(IpbServedCall *call, const char *const *modules,
                                      bool offers_describe);
/* The tool describe_tools, which also describes saved code actions. */
void ipb_tool_listing_describe(IpbServedCall *call, const IpbJson *arguments);
/* A sentence about the packages of the session's workspace, and of @servers (an object with their
 * names, or NULL), which will be registered before the first cell, and one about saved code
 * actions. NULL: there are none. Caller frees. */
char *ipb_tool_listing_instructions(IpbSession *session, const IpbJson *servers);
