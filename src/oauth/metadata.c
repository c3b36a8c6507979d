/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and checks the documents of discovery; see the header.
 */
#include "oauth/metadata.h"

#include <string.h>

#include "base/error.h"
#include "oauth/challenge.h"
#include "oauth/json-document.h"
#include "oauth/url.h"

#define RESOURCE "the protected resource metadata of the MCP server"
#define SERVER "the metadata of the authorization server"

static char *
read_scopes(const IpbJson *object, const char *name)
{
    g_auto(GStrv) list = ipb_oauth_json_document_list(object, name);
    g_autofree char *joined = list != NULL ? g_strjoinv(" ", list) : NULL;
    return ipb_oauth_scope_union(joined, NULL);
}

bool
ipb_oauth_resource_covers(const char *resource, const char *server_url)
{
    g_autoptr(IpbOAuthUrl) wide = ipb_oauth_url_parse(resource, "the resource", NULL);
    g_autoptr(IpbOAuthUrl) narrow = ipb_oauth_url_parse(server_url, "the URL", NULL);
    if (wide == NULL || narrow == NULL || !g_str_equal(wide->origin, narrow->origin))
        return false;
    if (wide->query != NULL)
        return g_strcmp0(wide->query, narrow->query) == 0 && g_str_equal(wide->path, narrow->path);
    size_t size = strlen(wide->path);
    if (size > 0 && wide->path[size - 1] == '/')
        size--;
    return strncmp(wide->path, narrow->path, size) == 0 &&
           (narrow->path[size] == '\0' || narrow->path[size] == '/');
}

IpbOAuthResource *
ipb_oauth_resource_parse(const char *text, size_t size, const char *server_url, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_oauth_json_document_parse(text, size, RESOURCE, error);
    if (document == NULL)
        return NULL;
    const IpbJson *root = ipb_json_root(document);
    g_autoptr(IpbOAuthResource) resource = g_new0(IpbOAuthResource, 1);
    resource->resource = ipb_oauth_json_document_text(root, "resource");
    resource->authorization_servers = ipb_oauth_json_document_list(root, "authorization_servers");
    resource->scopes_supported = read_scopes(root, "scopes_supported");
    if (resource->resource == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, RESOURCE " names no \"resource\"");
        return NULL;
    }
    if (!ipb_oauth_resource_covers(resource->resource, server_url)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    RESOURCE " is for %s, not for %s: no token is requested for it",
                    resource->resource, server_url);
        return NULL;
    }
    if (resource->authorization_servers == NULL || resource->authorization_servers[0] == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    RESOURCE " names no authorization server");
        return NULL;
    }
    return g_steal_pointer(&resource);
}

void
ipb_oauth_resource_free(IpbOAuthResource *resource)
{
    if (resource == NULL)
        return;
    g_free(resource->resource);
    g_strfreev(resource->authorization_servers);
    g_free(resource->scopes_supported);
    g_free(resource);
}

/* Reads an endpoint. It may be missing; if present, it must be a safe URL. */
static bool
read_endpoint(const IpbJson *root, const char *name, bool may_be_loopback, char **ret_url,
              GError **error)
{
    if (ipb_json_get(root, name) == NULL || ipb_json_is(ipb_json_get(root, name), IPB_JSON_NULL))
        return true;
    g_autofree char *what = g_strdup_printf("%s in " SERVER, name);
    *ret_url = ipb_oauth_json_document_text(root, name);
    if (*ret_url != NULL)
        return ipb_oauth_url_check(*ret_url, what, may_be_loopback, error);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, "%s is not a URL", what);
    return false;
}

static bool
read_endpoints(const IpbJson *root, bool may_be_loopback, IpbOAuthServer *server, GError **error)
{
    if (!read_endpoint(root, "authorization_endpoint", may_be_loopback,
                       &server->authorization_endpoint, error) ||
        !read_endpoint(root, "token_endpoint", may_be_loopback, &server->token_endpoint, error) ||
        !read_endpoint(root, "registration_endpoint", may_be_loopback,
                       &server->registration_endpoint, error) ||
        !read_endpoint(root, "revocation_endpoint", may_be_loopback, &server->revocation_endpoint,
                       error))
        return false;
    if (server->token_endpoint != NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, SERVER " names no token_endpoint");
    return false;
}

IpbOAuthServer *
ipb_oauth_server_parse(const char *text, size_t size, const char *issuer, bool may_be_loopback,
                       GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_oauth_json_document_parse(text, size, SERVER, error);
    if (document == NULL)
        return NULL;
    const IpbJson *root = ipb_json_root(document);
    g_autoptr(IpbOAuthServer) server = g_new0(IpbOAuthServer, 1);
    server->issuer = ipb_oauth_json_document_text(root, "issuer");
    if (g_strcmp0(server->issuer, issuer) != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    SERVER " is of another issuer: %s was asked and %s answered", issuer,
                    server->issuer != NULL ? server->issuer : "none");
        return NULL;
    }
    if (!read_endpoints(root, may_be_loopback, server, error))
        return NULL;
    g_auto(GStrv) methods = ipb_oauth_json_document_list(root, "code_challenge_methods_supported");
    server->has_s256 = methods != NULL && g_strv_contains((const char *const *) methods, "S256");
    server->scopes_supported = read_scopes(root, "scopes_supported");
    server->auth_methods = read_scopes(root, "token_endpoint_auth_methods_supported");
    server->promises_iss =
        ipb_json_get_bool(root, "authorization_response_iss_parameter_supported", false);
    server->takes_client_urls =
        ipb_json_get_bool(root, "client_id_metadata_document_supported", false);
    return g_steal_pointer(&server);
}

IpbOAuthServer *
ipb_oauth_server_new_legacy(const char *origin)
{
    IpbOAuthServer *server = g_new0(IpbOAuthServer, 1);
    server->issuer = g_strdup(origin);
    server->authorization_endpoint = g_strconcat(origin, "/authorize", NULL);
    server->token_endpoint = g_strconcat(origin, "/token", NULL);
    server->registration_endpoint = g_strconcat(origin, "/register", NULL);
    server->has_s256 = true; /* PKCE is required there, but no metadata could say so */
    return server;
}

void
ipb_oauth_server_free(IpbOAuthServer *server)
{
    if (server == NULL)
        return;
    g_free(server->issuer);
    g_free(server->authorization_endpoint);
    g_free(server->token_endpoint);
    g_free(server->registration_endpoint);
    g_free(server->revocation_endpoint);
    g_free(server->scopes_supported);
    g_free(server->auth_methods);
    g_free(server);
}
