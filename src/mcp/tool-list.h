/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbToolList: puts the pages of tools/list together, each tool as the server sent it.
 */
#pragma once

#include "json/json.h"
#include "mcp/server-log.h"

typedef struct IpbToolList IpbToolList;

/* @log (borrowed): what arguments go into headers is read too, and tools where that is invalid are left out with
 * a warning there. NULL: it is of no interest. */
IpbToolList *ipb_tool_list_new(size_t max_pages, size_t max_tools, IpbServerLog *log);
void ipb_tool_list_free(IpbToolList *list);
/* Checks and adds a page. *ret_next: the cursor of the next page, as JSON text (caller frees), NULL
 * after the last one. Errors: PROTOCOL (names the tool by its index), LIMIT. */
bool ipb_tool_list_add(IpbToolList *list, const IpbJson *result, char **ret_next, GError **error);
/* Of each tool by its name: its IpbParamHeaders, or NULL if it was left out. NULL without a log. Caller owns. */
GHashTable *ipb_tool_list_steal_headers(IpbToolList *list);
/* {"tools":[…]} of all pages. Once only. */
IpbJsonDoc *ipb_tool_list_finish(IpbToolList *list, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbToolList, ipb_tool_list_free)
