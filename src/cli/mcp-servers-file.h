/* SPDX-License-Identifier: Apache-2.0
 *
 * A file with MCP servers, as MCP hosts have it: {"mcpServers": {NAME: {"command": …}}}.
 */
#pragma once

#include "json/json.h"

/* Reads and checks the file. Returns the document, which the caller frees; *ret_servers is the
 * object of the servers in it. Returns NULL with @error, which names the file and the server, if
 * the file cannot be read or one of its servers is invalid. */
IpbJsonDoc *ipb_mcp_servers_file_load(const char *path, const IpbJson **ret_servers,
                                      GError **error);
