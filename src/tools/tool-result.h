/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python gets of a tool's result (docs/internals/tool-channel.md): all of it, or its value: structuredContent if there
 * is any, else the texts of the content joined by newlines, else, if there is anything but text,
 * the whole list of contents; null if there is nothing.
 */
#pragma once

#include "json/json.h"

typedef enum {
    IPB_TOOL_RESULT_VALUE, /* one value, as above */
    IPB_TOOL_RESULT_WHOLE, /* the result object itself, as the server sent it */
} IpbToolResultForm;

/* @result: the result object of tools/call. Returns text of one JSON value; it mostly lies in the
 * document itself, which is taken then (*document becomes NULL): nothing is copied, and every digit
 * and escape stays. SERVER if the result is an error: "server.tool: " and the tool's text. */
GBytes *ipb_tool_result_map(const IpbJson *result, IpbJsonDoc **document, IpbToolResultForm form,
                            const char *server_name, const char *tool_name, GError **error);
/* The whole result whose one content is the text @value, a JSON string. */
GBytes *ipb_tool_result_make_whole(GBytes *value);
