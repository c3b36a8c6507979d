/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the server of a login; see the header.
 */
#include "cli/login-server.h"

#include <string.h>

#include "base/error.h"
#include "json/writer.h"
#include "session/environment.h"
#include "tools/registry.h"

static bool
is_url(const char *text)
{
    return strstr(text, "://") != NULL;
}

/* Whether @server is the name, id or URL of the registration. */
static bool
is_meant(const IpbRegistration *registration, const IpbJson *params, const char *server)
{
    if (is_url(server))
        return g_strcmp0(ipb_json_get_string(params, "url"), server) == 0;
    return g_str_equal(registration->name, server) || g_str_equal(registration->id, server);
}

static char **
make_env(void)
{
    g_autofree char *directory = g_get_current_dir();
    return ipb_environment_application(NULL, directory, /* is_sandboxed= */ false, NULL, NULL);
}

static IpbServerParams *
expand(const IpbJson *object, GError **error)
{
    g_autoptr(IpbServerParams) params = ipb_server_params_parse(object, error);
    g_auto(GStrv) env = make_env();
    return params != NULL ? ipb_server_params_expand(params, (const char *const *) env, error)
                          : NULL;
}

static IpbServerParams *
make_from_url(const char *url, GError **error)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "url", url);
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, error);
    g_autoptr(IpbServerParams) params =
        doc != NULL ? ipb_server_params_parse(ipb_json_root(doc), error) : NULL;
    return g_steal_pointer(&params);
}

/* *ret_is_found is false, without an error, if none is registered. */
static IpbServerParams *
find_registered(const char *server, bool *ret_is_found, GError **error)
{
    g_autoptr(IpbRegistry) registry = ipb_registry_new(NULL);
    g_autoptr(GPtrArray) all = ipb_registry_list(registry, error);
    *ret_is_found = all == NULL;
    for (guint i = 0; all != NULL && i < all->len; i++) {
        const IpbRegistration *registration = g_ptr_array_index(all, i);
        const char *text = registration->params_json;
        g_autoptr(IpbJsonDoc) doc =
            ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
        if (doc == NULL || !is_meant(registration, ipb_json_root(doc), server))
            continue;
        *ret_is_found = true;
        return expand(ipb_json_root(doc), error);
    }
    return NULL;
}

IpbServerParams *
ipb_login_server_find(const char *server, GError **error)
{
    bool is_found;
    g_autoptr(IpbServerParams) params = find_registered(server, &is_found, error);
    if (!is_found && is_url(server))
        return make_from_url(server, error);
    if (!is_found)
        g_set_error(
            error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
            "no server %s is registered: use its URL, or register it with \"ipybox servers add\"",
            server);
    if (params == NULL)
        return NULL;
    if (params->url != NULL)
        return g_steal_pointer(&params);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "%s is a program on this machine and needs no login: put its credentials into "
                "\"env\" of its parameters",
                server);
    return NULL;
}

IpbHttpClient *
ipb_login_server_http(IpbLoop *loop, const IpbServerParams *params, GError **error)
{
    g_auto(GStrv) env = make_env();
    const IpbHttpClientOptions options = {
        .ca_file = params != NULL ? params->ca_file : NULL,
        .env = (const char *const *) env,
    };
    return ipb_http_client_new(loop, &options, error);
}
