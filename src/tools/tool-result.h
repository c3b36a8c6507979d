/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python gets of a tool's result (docs/internals/tool-channel.md): structuredContent if there
 * is any, else the texts of the content joined by newlines, else, if there is anything but text,
 * the whole list of contents; null if there is nothing.
 */
#pragma once

#include "json/json.h"

/* @result: the result object of tools/call. Returns text of one JSON value; it mostly lies in the
 * document itself, which is taken then (*document becomes NULL): nothing is copied, and every digit
 * and escape stays. SERVER if the result is an error: "server.tool: " and the tool's text. */
GBytes *ipb_tool_result_map(const IpbJson *result, IpbJsonDoc **document, const char *server_name,
                            const char *tool_name, GError **error);
