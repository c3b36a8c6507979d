/* SPDX-License-Identifier: Apache-2.0
 *
 * The registered MCP servers; see <ipybox/server.h>.
 */
#include <ipybox/server.h>

#include "lib/server.h"

#include <string.h>

#include "apigen/apigen.h"
#include "base/error.h"
#include "lib/runtime.h"

struct IpyboxServer {
    IpbRegistration *registration;
};

/* Takes @registration. */
static IpyboxServer *
make_server(IpbRegistration *registration)
{
    IpyboxServer *server = g_new(IpyboxServer, 1);
    server->registration = registration;
    return server;
}

void
ipybox_server_free(IpyboxServer *server)
{
    if (server == NULL)
        return;
    ipb_registration_free(server->registration);
    g_free(server);
}

IpbJsonDoc *
ipb_lib_parse_server_params(const char *params_json, GError **error)
{
    g_autoptr(GError) parse_error = NULL;
    IpbJsonDoc *params =
        ipb_json_parse(params_json, strlen(params_json), &IPB_JSON_LIMITS_SMALL, &parse_error);
    if (params == NULL) /* the parser's own error would be PROTOCOL */
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the server's parameters: %s",
                    parse_error->message);
    return params;
}

GPtrArray *
ipybox_runtime_list_servers(IpyboxRuntime *runtime, GError **error)
{
    g_return_val_if_fail(runtime != NULL, NULL);
    g_autoptr(GPtrArray) all = ipb_registry_list(ipb_runtime_registry(runtime->core), error);
    if (all == NULL)
        return NULL;
    GPtrArray *servers = g_ptr_array_new_with_free_func((GDestroyNotify) ipybox_server_free);
    for (guint i = 0; i < all->len; i++)
        g_ptr_array_add(servers, make_server(ipb_registration_copy(g_ptr_array_index(all, i))));
    return servers;
}

IpyboxServer *
ipybox_runtime_add_server(IpyboxRuntime *runtime, const char *name, const char *params_json,
                          GError **error)
{
    g_return_val_if_fail(runtime != NULL && name != NULL && params_json != NULL, NULL);
    g_autoptr(IpbJsonDoc) params = ipb_lib_parse_server_params(params_json, error);
    if (params == NULL)
        return NULL;
    if (!ipb_apigen_check_server_name(name, error))
        return NULL;
    IpbRegistration *registration = ipb_registry_add(
        ipb_runtime_registry(runtime->core), name, ipb_json_root(params), /* root= */ NULL, error);
    return registration != NULL ? make_server(registration) : NULL;
}

gboolean
ipybox_runtime_remove_server(IpyboxRuntime *runtime, const char *id_or_name, GError **error)
{
    g_return_val_if_fail(runtime != NULL && id_or_name != NULL, FALSE);
    return ipb_registry_remove(ipb_runtime_registry(runtime->core), id_or_name, error);
}

const char *
ipybox_server_get_id(const IpyboxServer *server)
{
    g_return_val_if_fail(server != NULL, NULL);
    return server->registration->id;
}

const char *
ipybox_server_get_name(const IpyboxServer *server)
{
    g_return_val_if_fail(server != NULL, NULL);
    return server->registration->name;
}

const char *
ipybox_server_get_params(const IpyboxServer *server)
{
    g_return_val_if_fail(server != NULL, NULL);
    return server->registration->params_json;
}

const char *const *
ipybox_server_get_roots(const IpyboxServer *server)
{
    g_return_val_if_fail(server != NULL, NULL);
    return (const char *const *) server->registration->roots;
}
