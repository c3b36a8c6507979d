/* SPDX-License-Identifier: Apache-2.0
 *
 * A file with MCP servers, as MCP hosts have it: {"mcpServers": {NAME: {"command": …}}}.
 */
#pragma once

#include "json/json.h"

/* NULL with @error, which names the file and the server: it cannot be read, or one of the servers in it is wrong. Caller frees the
 * document; *ret_servers is the object of the servers in it. */
IpbJsonDoc *ipb_mcp_servers_file_load(const char *path, const IpbJson **ret_servers,
                                      GError **error);
