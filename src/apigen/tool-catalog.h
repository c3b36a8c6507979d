/* SPDX-License-Identifier: Apache-2.0
 *
 * The catalog of a generated package: the file `.tools.jsonl` in it has a line of JSON for each
 * tool, with its signature, its stub and its full documentation (apigen/stub.h). Models read it
 * instead of the modules: describe_tools of the MCP server, and in cells mcptools.describe() and
 * mcptools.search() (ipybox/tool_exec/catalog.py). What is read is untrusted: cells without a
 * sandbox can write it.
 */
#pragma once

#include "apigen/model.h"
#include "base/beneath.h"

#define IPB_TOOL_CATALOG_FILE ".tools.jsonl"

typedef enum {
    IPB_TOOL_SIGNATURE,
    IPB_TOOL_STUB,
    IPB_TOOL_FULL,
} IpbToolDetail;

/* A tool that was read, or a code action (apigen/saved-code.h). */
typedef struct {
    char *server;
    char *module;
    char *tool; /* its name at the server */
    char *signature;
    char *stub; /* NULL: as the signature */
    char *full; /* NULL: as the stub */
} IpbCatalogTool;

/* Appends the line of a tool to a catalog. If the catalog has no room for its stub and its
 * documentation, they are left out; if it has none for the signature, the tool is left out. */
void ipb_tool_catalog_append(GString *catalog, const IpbModule *module, bool async_api);
/* The tools (IpbCatalogTool) of the packages in @root with these names. Packages without a readable
 * catalog are in *ret_unreadable (texts for people, with the reason). Free both with
 * g_ptr_array_unref(). */
GPtrArray *ipb_tool_catalog_read(const IpbBeneath *root, const char *const *servers,
                                 GPtrArray **ret_unreadable);
/* The tools among @tools that have at least one word of @query, those with most words first. The
 * name of a tool counts more than its text. An empty query has all. Borrowed tools. */
GPtrArray *ipb_tool_catalog_search(const GPtrArray *tools, const char *query);
/* The tools with this name: "server.tool", "tool" or "server". Borrowed tools. */
GPtrArray *ipb_tool_catalog_find(const GPtrArray *tools, const char *name);
/* A name that is similar to @name; NULL: none. Borrowed. */
const char *ipb_tool_catalog_nearest(const GPtrArray *tools, const char *name);
/* A GDestroyNotify. */
void ipb_catalog_tool_free(void *tool);
/* What the catalog says about the tool; borrowed. */
const char *ipb_catalog_tool_text(const IpbCatalogTool *tool, IpbToolDetail detail);
