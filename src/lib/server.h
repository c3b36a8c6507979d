/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of MCP servers, as programs give them; see <ipybox/server.h>.
 */
#pragma once

#include "json/json.h"

/* INVALID: it is not JSON. */
IpbJsonDoc *ipb_lib_parse_server_params(const char *params_json, GError **error);
