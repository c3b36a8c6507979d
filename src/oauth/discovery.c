/* SPDX-License-Identifier: Apache-2.0
 *
 * Discovery; see the header. It sends one request at a time to a list of URLs. If a URL has no
 * document (4xx, 5xx, or a body that is not JSON), the next one is tried. A document that exists
 * but is invalid ends the discovery.
 */
#include "oauth/discovery.h"

#include <string.h>

#include "base/error.h"
#include "oauth/fetch.h"
#include "oauth/url.h"

struct IpbOAuthDiscovery {
    IpbHttpClient *http;
    char *server_url, *wanted_issuer;
    /* plain http on this machine is allowed, because the MCP server uses it, too */
    bool may_be_loopback;
    IpbOAuthDiscoveryFunc func;
    void *data;
    IpbOAuthResource *resource;
    char *issuer; /* of the authorization server that is asked */
    GPtrArray *urls;
    guint next; /* index of the next URL */
    void (*on_document)(IpbOAuthDiscovery *discovery, const IpbOAuthReply *reply);
    void (*on_none)(IpbOAuthDiscovery *discovery);
    IpbOAuthFetch *fetch;
    IpbTimer *timer;
    GError *error; /* to be reported */
};

void
ipb_oauth_discovery_cancel(IpbOAuthDiscovery *discovery)
{
    if (discovery == NULL)
        return;
    ipb_oauth_fetch_cancel(discovery->fetch);
    ipb_timer_free(discovery->timer);
    ipb_oauth_resource_free(discovery->resource);
    g_clear_error(&discovery->error);
    g_ptr_array_unref(discovery->urls);
    g_free(discovery->server_url);
    g_free(discovery->wanted_issuer);
    g_free(discovery->issuer);
    g_free(discovery);
}

static void
finish(IpbOAuthDiscovery *discovery, IpbOAuthServer *server)
{
    IpbOAuthDiscoveryFunc func = discovery->func;
    void *data = discovery->data;
    IpbOAuthResource *resource = g_steal_pointer(&discovery->resource);
    g_autoptr(GError) error = g_steal_pointer(&discovery->error);
    if (server == NULL)
        g_clear_pointer(&resource, ipb_oauth_resource_free);
    ipb_oauth_discovery_cancel(discovery);
    func(resource, server, error, data);
}

static void ask_next(IpbOAuthDiscovery *discovery);

static void
on_reply(const IpbOAuthReply *reply, const GError *error, void *data)
{
    IpbOAuthDiscovery *discovery = data;
    discovery->fetch = NULL;
    if (error != NULL) {
        discovery->error = g_error_copy(error);
        finish(discovery, NULL);
    } else if (reply->status == 200 && reply->size > 0 &&
               reply->body[strspn(reply->body, " \t\r\n\f")] == '{') {
        discovery->on_document(discovery, reply);
    } else {
        ask_next(discovery);
    }
}

static void
ask_next(IpbOAuthDiscovery *discovery)
{
    if (discovery->next == discovery->urls->len) {
        discovery->on_none(discovery);
        return;
    }
    IpbOAuthFetchRequest request = {
        .url = g_ptr_array_index(discovery->urls, discovery->next++),
    };
    discovery->fetch = ipb_oauth_fetch(discovery->http, &request, on_reply, discovery);
}

static void
clear_urls(IpbOAuthDiscovery *discovery)
{
    g_ptr_array_set_size(discovery->urls, 0);
    discovery->next = 0;
}

static void
add_url(IpbOAuthDiscovery *discovery, char *url)
{
    g_ptr_array_add(discovery->urls, url);
}

/* --- the authorization server --- */

static void
on_server_document(IpbOAuthDiscovery *discovery, const IpbOAuthReply *reply)
{
    IpbOAuthServer *server = ipb_oauth_server_parse(reply->body, reply->size, discovery->issuer,
                                                    discovery->may_be_loopback, &discovery->error);
    finish(discovery, server);
}

static void
on_no_server(IpbOAuthDiscovery *discovery)
{
    if (discovery->resource == NULL) {
        finish(discovery, ipb_oauth_server_new_legacy(discovery->issuer));
        return;
    }
    g_set_error(&discovery->error, IPYBOX_ERROR, IPYBOX_ERROR_SERVER,
                "the authorization server %s has no metadata", discovery->issuer);
    finish(discovery, NULL);
}

static void
ask_server(IpbOAuthDiscovery *discovery, const char *issuer)
{
    g_autoptr(IpbOAuthUrl) url =
        ipb_oauth_url_parse(issuer, "the authorization server", &discovery->error);
    if (url == NULL || !ipb_oauth_url_check(issuer, "the authorization server",
                                            discovery->may_be_loopback, &discovery->error)) {
        finish(discovery, NULL);
        return;
    }
    discovery->issuer = g_strdup(issuer);
    discovery->on_document = on_server_document;
    discovery->on_none = on_no_server;
    clear_urls(discovery);
    add_url(discovery, ipb_oauth_url_well_known(url, "oauth-authorization-server"));
    add_url(discovery, ipb_oauth_url_well_known(url, "openid-configuration"));
    if (strlen(url->path) > 1) {
        size_t size = strlen(url->path);
        size -= url->path[size - 1] == '/';
        add_url(discovery, g_strdup_printf("%s%.*s/.well-known/openid-configuration", url->origin,
                                           (int) size, url->path));
    }
    ask_next(discovery);
}

/* --- the protected resource --- */

static void
on_resource_document(IpbOAuthDiscovery *discovery, const IpbOAuthReply *reply)
{
    discovery->resource = ipb_oauth_resource_parse(reply->body, reply->size, discovery->server_url,
                                                   &discovery->error);
    if (discovery->resource == NULL) {
        finish(discovery, NULL);
        return;
    }
    char **servers = discovery->resource->authorization_servers;
    const char *wanted = discovery->wanted_issuer;
    if (wanted == NULL) {
        ask_server(discovery, servers[0]);
    } else if (g_strv_contains((const char *const *) servers, wanted)) {
        ask_server(discovery, wanted);
    } else {
        g_set_error(&discovery->error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "the client id is for the authorization server %s, but the MCP server uses %s: "
                    "correct \"oauth\" in its parameters",
                    wanted, servers[0]);
        finish(discovery, NULL);
    }
}

static void
on_no_resource(IpbOAuthDiscovery *discovery)
{
    g_autoptr(IpbOAuthUrl) url = ipb_oauth_url_parse(discovery->server_url, "the URL", NULL);
    ask_server(discovery, url->origin);
}

static void
on_no_named_resource(IpbOAuthDiscovery *discovery)
{
    g_set_error(&discovery->error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                "the MCP server names a URL for its protected resource metadata, but there "
                "is no metadata at %s",
                (char *) g_ptr_array_index(discovery->urls, 0));
    finish(discovery, NULL);
}

static void
on_failed_start(void *data)
{
    finish(data, NULL);
}

static bool
choose_urls(IpbOAuthDiscovery *discovery, const char *resource_metadata)
{
    g_autoptr(IpbOAuthUrl) url =
        ipb_oauth_url_parse(discovery->server_url, "the URL of the MCP server", &discovery->error);
    if (url == NULL ||
        !ipb_oauth_url_check(discovery->server_url, "the MCP server", true, &discovery->error))
        return false;
    discovery->may_be_loopback = url->is_loopback;
    discovery->on_document = on_resource_document;
    if (resource_metadata != NULL) {
        discovery->on_none = on_no_named_resource;
        add_url(discovery, g_strdup(resource_metadata));
        return ipb_oauth_url_check(resource_metadata, "resource_metadata of the challenge",
                                   discovery->may_be_loopback, &discovery->error);
    }
    discovery->on_none = on_no_resource;
    add_url(discovery, ipb_oauth_url_well_known(url, "oauth-protected-resource"));
    if (strlen(url->path) > 1)
        add_url(discovery, g_strconcat(url->origin, "/.well-known/oauth-protected-resource", NULL));
    return true;
}

IpbOAuthDiscovery *
ipb_oauth_discover(IpbLoop *loop, IpbHttpClient *http, const IpbOAuthDiscoveryOptions *options,
                   IpbOAuthDiscoveryFunc func, void *data)
{
    IpbOAuthDiscovery *discovery = g_new0(IpbOAuthDiscovery, 1);
    discovery->http = http;
    discovery->server_url = g_strdup(options->server_url);
    discovery->wanted_issuer = g_strdup(options->issuer);
    discovery->func = func;
    discovery->data = data;
    discovery->urls = g_ptr_array_new_with_free_func(g_free);
    if (choose_urls(discovery, options->resource_metadata))
        ask_next(discovery);
    else
        discovery->timer = ipb_timer_new(loop, 0, on_failed_start, discovery);
    return discovery;
}
