/* SPDX-License-Identifier: Apache-2.0 */
#include "oauth/store.h"

#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"

#define URL "https://mcp.example.com/mcp"
#define TOKEN                                                                                      \
    "{\"access_token\":\"at\",\"token_type\":\"bearer\",\"expires_in\":\"60\","                    \
    "\"refresh_token\":\"rt\",\"scope\":\"a b\"}"

typedef struct {
    char *directory;
    IpbOAuthStore store;
} Place;

static void
set_up(Place *place)
{
    place->directory = ipb_file_make_temp_directory(NULL, "oauth-", NULL);
    ipb_oauth_store_init(&place->store, place->directory, URL);
}

static void
tear_down(Place *place)
{
    g_assert_true(ipb_file_remove_tree(place->directory, NULL));
    ipb_oauth_store_clear(&place->store);
    g_free(place->directory);
}

static IpbOAuthToken *
make_token(void)
{
    IpbOAuthToken *token = ipb_oauth_token_parse(TOKEN, strlen(TOKEN), 1000, NULL);
    token->issuer = g_strdup("https://as.example.com");
    token->resource = g_strdup(URL);
    token->token_endpoint = g_strdup("https://as.example.com/token");
    token->client_id = g_strdup("client");
    token->auth_method = IPB_OAUTH_AUTH_SECRET_POST;
    return token;
}

static IpbOAuthClient *
make_client(const char *issuer, const char *id)
{
    IpbOAuthClient *client = g_new0(IpbOAuthClient, 1);
    client->issuer = g_strdup(issuer);
    client->client_id = g_strdup(id);
    client->redirect_uri = g_strdup("http://127.0.0.1:1/callback");
    return client;
}

static void
test_round_trip(void)
{
    Place place;
    g_autoptr(GError) error = NULL;
    struct stat info;
    set_up(&place);
    g_autoptr(IpbOAuthRecord) empty = ipb_oauth_store_load(&place.store, &error);
    g_assert_no_error(error);
    g_assert_null(empty->token);
    empty->token = make_token();
    empty->wanted_scope = g_strdup("c");
    empty->is_step_up = true;
    ipb_oauth_record_set_client(empty, make_client("https://as.example.com", "one"));
    ipb_oauth_record_set_client(empty, make_client("https://other.example.com", "two"));
    ipb_oauth_record_set_client(empty, make_client("https://as.example.com", "three"));
    g_assert_true(ipb_oauth_store_save(&place.store, empty, &error));
    g_assert_cmpint(stat(place.store.path, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 07777, ==, 0600);
    g_assert_cmpint(stat(place.store.directory, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 07777, ==, 0700);
    g_autoptr(IpbOAuthRecord) back = ipb_oauth_store_load(&place.store, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(back->token->access_token, ==, "at");
    g_assert_cmpstr(back->token->refresh_token, ==, "rt");
    g_assert_cmpint(back->token->expires, ==, 1060);
    g_assert_cmpint(back->token->auth_method, ==, IPB_OAUTH_AUTH_SECRET_POST);
    g_assert_cmpstr(back->wanted_scope, ==, "c");
    g_assert_true(back->is_step_up);
    g_assert_cmpuint(back->clients->len, ==, 2);
    g_assert_cmpstr(ipb_oauth_record_client(back, "https://as.example.com")->client_id, ==,
                    "three");
    g_auto(GStrv) servers = ipb_oauth_store_list(place.directory);
    g_assert_cmpuint(g_strv_length(servers), ==, 1);
    g_assert_cmpstr(servers[0], ==, URL);
    g_assert_true(ipb_oauth_store_remove(&place.store, NULL));
    g_assert_false(g_file_test(place.store.path, G_FILE_TEST_EXISTS));
    tear_down(&place);
}

static void
check_refused(Place *place, const char *text, int mode, IpyboxError code)
{
    g_autoptr(GError) error = NULL;
    g_assert_true(ipb_oauth_store_make_directory(&place->store, NULL));
    g_assert_true(ipb_file_write_atomic(place->store.path, text, strlen(text), mode, NULL));
    g_assert_null(ipb_oauth_store_load(&place->store, &error));
    g_assert_error(error, IPYBOX_ERROR, (int) code);
}

static void
test_refused(void)
{
    Place place;
    set_up(&place);
    check_refused(&place, "{\"version\":1,\"server\":\"" URL "\"}", 0640, IPYBOX_ERROR_REFUSED);
    check_refused(&place, "{\"version\":1,\"server\":\"https://evil.example\"}", 0600,
                  IPYBOX_ERROR_REFUSED);
    check_refused(&place, "{\"version\":2,\"server\":\"" URL "\"}", 0600, IPYBOX_ERROR_REFUSED);
    check_refused(&place, "{", 0600, IPYBOX_ERROR_REFUSED);
    check_refused(&place,
                  "{\"version\":1,\"server\":\"" URL "\",\"token\":{\"access_token\":\"a\\nb\"}}",
                  0600, IPYBOX_ERROR_REFUSED);
    tear_down(&place);
}

static void
check_bad_token(const char *text)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_oauth_token_parse(text, strlen(text), 0, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
}

static void
test_tokens(void)
{
    check_bad_token("[]");
    check_bad_token("{\"access_token\":\"a\"}");
    check_bad_token("{\"access_token\":\"a\",\"token_type\":\"DPoP\"}");
    check_bad_token("{\"access_token\":\"a\\r\\nX: y\",\"token_type\":\"Bearer\"}");
    check_bad_token("{\"access_token\":\"a b\",\"token_type\":\"Bearer\"}");
    check_bad_token("{\"access_token\":5,\"token_type\":\"Bearer\"}");
    const char *eternal =
        "{\"access_token\":\"a\",\"token_type\":\"Bearer\",\"expires_in\":9000000000000000000}";
    g_autoptr(IpbOAuthToken) token = ipb_oauth_token_parse(eternal, strlen(eternal), 1000, NULL);
    g_assert_false(ipb_oauth_token_is_expired(token, 2000));
    const char *plain = "{\"access_token\":\"a\",\"token_type\":\"Bearer\"}";
    g_autoptr(IpbOAuthToken) endless = ipb_oauth_token_parse(plain, strlen(plain), 1000, NULL);
    g_assert_false(ipb_oauth_token_is_expired(endless, G_MAXINT64 - 100));
    g_autoptr(IpbOAuthToken) short_lived = make_token();
    g_assert_false(ipb_oauth_token_is_expired(short_lived, 1029));
    g_assert_true(ipb_oauth_token_is_expired(short_lived, 1030));
}

static void
test_refusals(void)
{
    g_autofree char *code = NULL, *none = NULL;
    const char *text = "{\"error\":\"invalid_grant\",\"error_description\":\"gone\"}";
    g_autofree char *refusal = ipb_oauth_error_parse(text, strlen(text), &code);
    g_autofree char *html = ipb_oauth_error_parse("<html>", 6, &none);
    g_assert_cmpstr(refusal, ==, "invalid_grant: gone");
    g_assert_cmpstr(code, ==, "invalid_grant");
    g_assert_null(none);
    g_assert_nonnull(html);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/oauth/store/round-trip", test_round_trip);
    g_test_add_func("/oauth/store/refused", test_refused);
    g_test_add_func("/oauth/store/tokens", test_tokens);
    g_test_add_func("/oauth/store/refusals", test_refusals);
    return g_test_run();
}
