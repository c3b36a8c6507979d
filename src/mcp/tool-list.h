/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolList: joins the pages of tools/list into one list. Each tool stays as the server sent it.
 */
#pragma once

#include "json/json.h"
#include "mcp/server-log.h"

typedef struct IpbToolList IpbToolList;

/* @log (borrowed): if it is set, the list also reads which arguments go into headers. A tool whose
 * annotations are invalid is left out, with a warning in the log. */
IpbToolList *ipb_tool_list_new(size_t max_pages, size_t max_tools, IpbServerLog *log);
void ipb_tool_list_free(IpbToolList *list);
/* Checks and adds a page. *ret_next: the cursor of the next page as JSON text (caller frees); NULL:
 * this was the last page. Errors: PROTOCOL (names the tool by its index), LIMIT. */
bool ipb_tool_list_add(IpbToolList *list, const IpbJson *result, char **ret_next, GError **error);
/* The IpbParamHeaders of each tool by its name; NULL for a tool that was left out. NULL without a
 * log. Caller owns. */
GHashTable *ipb_tool_list_steal_headers(IpbToolList *list);
/* {"tools":[…]} of all pages. Call it once. */
IpbJsonDoc *ipb_tool_list_finish(IpbToolList *list, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolList, ipb_tool_list_free)
