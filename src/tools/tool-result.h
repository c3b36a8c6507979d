/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps a tool's result to what Python gets (docs/internals/tool-channel.md): all of it, or its
 * value. The value is structuredContent if there is any. Else it is the texts of the content,
 * joined by newlines. If there is other content than text, it is the list of all contents. Without
 * any content it is null.
 */
#pragma once

#include "json/json.h"

typedef enum {
    IPB_TOOL_RESULT_VALUE, /* the value, as described above */
    IPB_TOOL_RESULT_WHOLE, /* the result object as the server sent it */
} IpbToolResultForm;

/* @result: the result object of tools/call. Returns the text of one JSON value. Usually it is a
 * part of the document, which is then taken (*document becomes NULL): nothing is copied, and every
 * digit and escape stays. SERVER: the result is an error; the message is "server.tool: " and the
 * tool's text. */
GBytes *ipb_tool_result_map(const IpbJson *result, IpbJsonDoc **document, IpbToolResultForm form,
                            const char *server_name, const char *tool_name, GError **error);
/* Makes a whole result with one text content. @value is a JSON string. */
GBytes *ipb_tool_result_make_whole(GBytes *value);
