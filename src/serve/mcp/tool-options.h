/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user chose about the tools of the MCP server.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where answers have the images of a cell. */
typedef enum {
    IPB_MCP_IMAGES_AUTO, /* both if the client is known to show images to its model, else paths */
    IPB_MCP_IMAGES_PATH, /* a list of paths */
    IPB_MCP_IMAGES_CONTENT, /* image content after the text */
    IPB_MCP_IMAGES_BOTH,
} IpbMcpImages;

typedef struct {
    IpbMcpImages images;
    /* The tools of ipybox 0.9 have structured results, too. */
    bool is_structured;
    /* Characters of a cell's text; 0: what the client asks for */
    size_t max_output_chars;
    /* Sessions have staged workspaces: there are tools for their changes. */
    bool is_staged;
    /* Names of the tools that are offered, NULL-terminated; NULL: all but checkpoint, restore, undo
     * and branch. It lives as long as the tools. */
    const char *const *names;
} IpbMcpToolOptions;
