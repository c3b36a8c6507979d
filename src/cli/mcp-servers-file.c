/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a file with MCP servers; see the header.
 */
#include "cli/mcp-servers-file.h"

#include "apigen/apigen.h"
#include "base/error.h"
#include "base/file.h"
#include "mcp/server-params.h"

#define MAX_SIZE (1024 * 1024)

static bool
check_servers(const IpbJson *servers, GError **error)
{
    IPB_JSON_FOREACH (server, servers) {
        const char *name = ipb_json_name(server, NULL);
        g_autoptr(IpbServerParams) params = ipb_server_params_parse(server, error);
        if (params == NULL || !ipb_apigen_check_server_name(name, error)) {
            g_prefix_error(error, "mcpServers.%s: ", name);
            return false;
        }
    }
    return true;
}

IpbJsonDoc *
ipb_mcp_servers_file_load(const char *path, const IpbJson **ret_servers, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    if (!ipb_file_read_to_end(path, MAX_SIZE, &text, &size, error))
        return NULL;
    g_autoptr(GError) cause = NULL;
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, &cause);
    if (doc == NULL) { /* the parser reports a protocol error of a peer */
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s: %s", path, cause->message);
        return NULL;
    }
    *ret_servers = ipb_json_get(ipb_json_root(doc), "mcpServers");
    if (!ipb_json_is(*ret_servers, IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s has no object \"mcpServers\"",
                    path);
        return NULL;
    }
    if (check_servers(*ret_servers, error))
        return g_steal_pointer(&doc);
    g_prefix_error(error, "%s: ", path);
    return NULL;
}
