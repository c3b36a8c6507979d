/* SPDX-License-Identifier: Apache-2.0
 *
 * The MCP servers that an application lists when it opens a session, without registering them:
 * {name: server_params}.
 */
#pragma once

#include "tools/tool-host.h"

/* Allows @host to call the servers that @json (a JSON object) lists. The error INVALID names the
 * wrong member. */
bool ipb_allowed_servers_apply(const char *json, IpbToolHost *host, GError **error);
