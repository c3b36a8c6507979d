/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApplicationTools: tools that the program which opens a session offers to its cells. They are
 * described as an MCP server would describe them, and each group of tools has a name, like a
 * server:
 *
 *     {"app": [{"name": "search", "description": "…", "inputSchema": {…}, "outputSchema": {…}}]}
 *
 * From them the packages `mcptools.NAME` are generated, which kernels get when they start. There
 * are no files: the packages are in the memory of the kernel. The id in such a package is
 * "application:NAME".
 *
 * It never changes, so sessions that are forked share it. References are counted.
 */
#pragma once

#include "json/json.h"

typedef struct IpbApplicationTools IpbApplicationTools;

/* @text: as above. Errors: INVALID: what is wrong, with the name of the group and the tool; LIMIT:
 * over 4 MiB, over 64 groups, over 1000 tools, or their packages are over 8 MiB. */
IpbApplicationTools *ipb_application_tools_new(const char *text, size_t size, GError **error);
IpbApplicationTools *ipb_application_tools_ref(IpbApplicationTools *tools);
void ipb_application_tools_unref(IpbApplicationTools *tools);
/* Whether a package of an application has this id. */
bool ipb_application_tools_is_id(const char *server_id);
/* The name of the group with this id; borrowed. NULL with NOT_FOUND: there is no such group, or no
 * such tool in it. Both texts are untrusted. @tools may be NULL. */
const char *ipb_application_tools_find(const IpbApplicationTools *tools, const char *server_id,
                                       const char *tool_name, GError **error);
/* The names of the groups, sorted; borrowed. The caller frees the array. */
GPtrArray *ipb_application_tools_names(const IpbApplicationTools *tools);
/* The text of a JSON object {name: {file: source}}; borrowed. */
GBytes *ipb_application_tools_packages(const IpbApplicationTools *tools);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbApplicationTools, ipb_application_tools_unref)
