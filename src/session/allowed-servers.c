/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers that an application lists; see the header.
 */
#include "session/allowed-servers.h"

#include <string.h>

#include "base/error.h"
#include "mcp/server-params.h"

#define MAX_SERVERS 1000

static bool
allow(const char *name, const IpbJson *params, IpbToolHost *host, GError **error)
{
    if (name == NULL || !ipb_registry_check(name, params, error)) {
        if (name == NULL)
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "a server's name contains a NUL");
        g_prefix_error(error, "allowed_servers: %s: ", name != NULL ? name : "?");
        return false;
    }
    g_autofree char *id = ipb_registry_make_id(name, params);
    IpbSpan text = ipb_json_raw(params);
    g_autofree char *json = g_strndup(text.start, text.size);
    IpbRegistration registration = {
        .id = id,
        .name = (char *) name,
        .params_json = json,
        .roots = (char *[]){NULL},
    };
    ipb_tool_host_allow(host, &registration);
    return true;
}

bool
ipb_allowed_servers_apply(const char *json, IpbToolHost *host, GError **error)
{
    g_autoptr(GError) cause = NULL;
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(json, strlen(json), &IPB_JSON_LIMITS_SMALL, &cause);
    const char *problem = NULL;
    if (document == NULL)
        problem = cause->message;
    else if (!ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT))
        problem = "it must be an object: {name: server_params}";
    else if (ipb_json_has_duplicates(document))
        problem = "an object in it has the same name twice";
    else if (ipb_json_length(ipb_json_root(document)) > MAX_SERVERS)
        problem = "it may have at most 1000 members";
    if (problem != NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "allowed_servers: %s", problem);
        return false;
    }
    IPB_JSON_FOREACH (params, ipb_json_root(document)) {
        size_t size;
        const char *name = ipb_json_name(params, &size);
        if (!allow(strlen(name) == size ? name : NULL, params, host, error))
            return false;
    }
    return true;
}
