/* SPDX-License-Identifier: Apache-2.0 */
#include "oauth/metadata.h"

#include <string.h>

#include "base/error.h"
#include "oauth/settings.h"

#define SERVER "https://mcp.example.com/a/mcp"
#define ISSUER "https://as.example.com/tenant"

static void
test_covers(void)
{
    g_assert_true(ipb_oauth_resource_covers(SERVER, SERVER));
    g_assert_true(ipb_oauth_resource_covers("https://mcp.example.com", SERVER));
    g_assert_true(ipb_oauth_resource_covers("https://MCP.example.com:443/", SERVER));
    g_assert_true(ipb_oauth_resource_covers("https://mcp.example.com/a/", SERVER));
    g_assert_false(ipb_oauth_resource_covers("https://mcp.example.com/a/mc", SERVER));
    g_assert_false(ipb_oauth_resource_covers("https://mcp.example.com/a/mcp/x", SERVER));
    g_assert_false(ipb_oauth_resource_covers("https://mcp.example.com:8443/a", SERVER));
    g_assert_false(ipb_oauth_resource_covers("http://mcp.example.com/a/mcp", SERVER));
    g_assert_false(ipb_oauth_resource_covers("https://evil.example/a/mcp", SERVER));
    g_assert_false(ipb_oauth_resource_covers("https://mcp.example.com/a/mcp?x", SERVER));
    g_assert_false(ipb_oauth_resource_covers("mcp", SERVER));
}

static void
check_resource(const char *text, int code)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbOAuthResource) resource =
        ipb_oauth_resource_parse(text, strlen(text), SERVER, &error);
    if (code < 0) {
        g_assert_no_error(error);
        g_assert_cmpstr(resource->authorization_servers[0], ==, ISSUER);
        g_assert_cmpstr(resource->scopes_supported, ==, "a b");
    } else {
        g_assert_error(error, IPYBOX_ERROR, code);
        g_assert_null(resource);
    }
}

static void
test_resources(void)
{
    check_resource("{\"resource\":\"" SERVER "\",\"authorization_servers\":[\"" ISSUER
                   "\",7],\"scopes_supported\":[\"a\",\"b\",\"a\",1]}",
                   -1);
    check_resource("{\"resource\":\"https://evil.example/\",\"authorization_servers\":[\"" ISSUER
                   "\"]}",
                   IPYBOX_ERROR_REFUSED);
    check_resource("{\"resource\":\"" SERVER "\"}", IPYBOX_ERROR_PROTOCOL);
    check_resource("{\"resource\":\"" SERVER "\",\"authorization_servers\":[]}",
                   IPYBOX_ERROR_PROTOCOL);
    check_resource("{\"authorization_servers\":[\"" ISSUER "\"]}", IPYBOX_ERROR_PROTOCOL);
    check_resource("[", IPYBOX_ERROR_PROTOCOL);
}

static void
check_server(const char *text, bool may_be_loopback, int code)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbOAuthServer) server =
        ipb_oauth_server_parse(text, strlen(text), ISSUER, may_be_loopback, &error);
    if (code < 0)
        g_assert_no_error(error);
    else
        g_assert_error(error, IPYBOX_ERROR, code);
}

#define BEGIN "{\"issuer\":\"" ISSUER "\",\"authorization_endpoint\":\"https://as.example.com/a\","

static void
test_servers(void)
{
    check_server(BEGIN "\"token_endpoint\":\"https://as.example.com/t\"}", false, -1);
    check_server(BEGIN "\"token_endpoint\":\"http://localhost:9/t\"}", true, -1);
    /* A remote server must not make us connect to this machine. */
    check_server(BEGIN "\"token_endpoint\":\"http://localhost:9/t\"}", false, IPYBOX_ERROR_REFUSED);
    check_server(BEGIN "\"token_endpoint\":\"http://as.example.com/t\"}", true,
                 IPYBOX_ERROR_REFUSED);
    check_server(BEGIN "\"token_endpoint\":\"javascript:x\"}", true, IPYBOX_ERROR_PROTOCOL);
    check_server(BEGIN "\"token_endpoint\":7}", true, IPYBOX_ERROR_PROTOCOL);
    check_server(BEGIN "\"x\":1}", true, IPYBOX_ERROR_PROTOCOL);
    check_server("{\"issuer\":\"" ISSUER "/\",\"token_endpoint\":\"https://as.example.com/t\"}",
                 true, IPYBOX_ERROR_REFUSED);
    check_server("{\"token_endpoint\":\"https://as.example.com/t\"}", true, IPYBOX_ERROR_REFUSED);
}

static IpbOAuthSettings *
parse_settings(const char *text, GError **error)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, NULL);
    return ipb_oauth_settings_parse(ipb_json_root(document), "server_params.oauth", error);
}

static void
check_bad_settings(const char *text, const char *message)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(parse_settings(text, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_true(g_str_has_prefix(error->message, message));
}

static void
test_settings(void)
{
    g_autoptr(IpbOAuthSettings) all = parse_settings(
        "{\"clientId\":\"i\",\"clientSecret\":\"s\",\"scopes\":[\"a\",\"b\"],\"callbackPort\":80,"
        "\"grantType\":\"client_credentials\",\"tokenEndpointAuthMethod\":\"client_secret_post\","
        "\"theirs\":1}",
        NULL);
    g_assert_cmpstr(all->scope, ==, "a b");
    g_assert_cmpuint(all->callback_port, ==, 80);
    g_assert_cmpint(all->auth_method, ==, IPB_OAUTH_AUTH_SECRET_POST);
    g_autoptr(IpbOAuthSettings) off = parse_settings("false", NULL);
    g_assert_true(off->is_off);
    check_bad_settings("7", "server_params.oauth must be");
    check_bad_settings("{\"clientId\":\"\"}", "server_params.oauth.clientId");
    check_bad_settings("{\"clientSecret\":\"s\"}", "server_params.oauth.clientSecret");
    check_bad_settings("{\"callbackPort\":0}", "server_params.oauth.callbackPort");
    check_bad_settings("{\"scopes\":[1]}", "server_params.oauth.scopes[]");
    check_bad_settings("{\"grantType\":\"password\"}", "server_params.oauth.grantType");
    check_bad_settings("{\"grantType\":\"client_credentials\"}", "server_params.oauth.grantType");
    check_bad_settings("{\"tokenEndpointAuthMethod\":\"x\"}",
                       "server_params.oauth.tokenEndpointAuthMethod");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/oauth/metadata/covers", test_covers);
    g_test_add_func("/oauth/metadata/resources", test_resources);
    g_test_add_func("/oauth/metadata/servers", test_servers);
    g_test_add_func("/oauth/metadata/settings", test_settings);
    return g_test_run();
}
