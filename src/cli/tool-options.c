/* SPDX-License-Identifier: Apache-2.0
 *
 * Options about the tools of the MCP server; see the header.
 */
#include "cli/tool-options.h"

#include "base/error.h"
#include "cli/options.h"
#include "serve/mcp/tools.h"

static bool
read_images(const char *text, IpbMcpImages *ret_images, GError **error)
{
    static const struct {
        const char *name;
        IpbMcpImages images;
    } CHOICES[] = {
        {"path", IPB_MCP_IMAGES_PATH},
        {"content", IPB_MCP_IMAGES_CONTENT},
        {"both", IPB_MCP_IMAGES_BOTH},
    };
    *ret_images = IPB_MCP_IMAGES_AUTO;
    if (text == NULL)
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(CHOICES); i++)
        if (g_str_equal(text, CHOICES[i].name)) {
            *ret_images = CHOICES[i].images;
            return true;
        }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "--images %s: it must be content, path or both", text);
    return false;
}

bool
ipb_tool_arguments_read(IpbToolArguments *arguments, bool is_staged, IpbMcpToolOptions *ret_options,
                        GError **error)
{
    g_strfreev(arguments->names);
    arguments->names = ipb_options_split(arguments->tools);
    *ret_options = (IpbMcpToolOptions){
        .is_structured = arguments->is_structured,
        .is_staged = is_staged,
        .names = (const char *const *) arguments->names,
    };
    if (!read_images(arguments->images, &ret_options->images, error))
        return false;
    if (ipb_mcp_tools_check(ret_options, error))
        return true;
    g_prefix_error(error, "--tools: ");
    return false;
}

void
ipb_tool_arguments_clear(IpbToolArguments *arguments)
{
    g_free(arguments->images);
    g_free(arguments->tools);
    g_strfreev(arguments->names);
}
