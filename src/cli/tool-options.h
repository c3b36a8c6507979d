/* SPDX-License-Identifier: Apache-2.0
 *
 * Options about the tools of the MCP server, of `ipybox mcp` and `ipybox serve`. A plain struct,
 * like those of cli/options.h.
 */
#pragma once

#include <glib.h>

#include "serve/mcp/tool-options.h"

typedef struct {
    char *images;
    char *tools;
    int is_structured;
    /* What was read; IpbMcpToolOptions borrow it */
    char **names;
} IpbToolArguments;

/* clang-format off */
#define IPB_OPTION_IMAGES(tool)                                                                    \
    {"images", 0, 0, G_OPTION_ARG_STRING, &(tool)->images,                                         \
     "images of cells in answers: content, path or both", "WHERE"}
#define IPB_OPTION_STRUCTURED(tool)                                                                \
    {"structured", 0, 0, G_OPTION_ARG_NONE, &(tool)->is_structured,                                \
     "structured results for all tools, also those of ipybox 0.9", NULL}
#define IPB_OPTION_TOOLS(tool)                                                                     \
    {"tools", 0, 0, G_OPTION_ARG_STRING, &(tool)->tools,                                           \
     "tools to offer, separated by commas (default: see the manual)", "NAMES"}
/* clang-format on */

/* Checks the values and reads them. @is_staged: as in IpbMcpToolOptions. @ret_options is valid
 * until the arguments are cleared. */
bool ipb_tool_arguments_read(IpbToolArguments *arguments, bool is_staged,
                             IpbMcpToolOptions *ret_options, GError **error);
void ipb_tool_arguments_clear(IpbToolArguments *arguments);
