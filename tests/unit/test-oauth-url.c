/* SPDX-License-Identifier: Apache-2.0 */
#include "oauth/url.h"

#include <string.h>

#include "base/error.h"
#include "oauth/pkce.h"

static void
check_canonical(const char *text, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbOAuthUrl) url = ipb_oauth_url_parse(text, "it", &error);
    g_assert_no_error(error);
    g_autofree char *canonical = ipb_oauth_url_canonical(url);
    g_assert_cmpstr(canonical, ==, expected);
}

static void
test_canonical(void)
{
    check_canonical("HTTPS://MCP.Example.com:443/", "https://mcp.example.com");
    check_canonical("https://mcp.example.com/MCP/", "https://mcp.example.com/MCP/");
    check_canonical("http://127.0.0.1:8080/a?b=C", "http://127.0.0.1:8080/a?b=C");
    check_canonical("http://[0:0::1]:80", "http://[::1]");
    check_canonical("https://x/?q", "https://x/?q");
}

static void
test_bad(void)
{
    static const char *const BAD[] = {
        "",
        "ftp://x",
        "https://",
        "https:///x",
        "https://a b",
        "https://user@x/",
        "https://good.example\\@evil.example/",
        "https://x#f",
        "https://x:0/",
        "https://x:99999/",
        "https://x:1a/",
        "https://[::1/",
        "https://[x]/",
        "https://x\n/",
        "https://-x/",
        "https://\xc3\xa4.example/",
        "javascript:alert(1)",
        "//x",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        g_autoptr(GError) error = NULL;
        g_test_message("%s", BAD[i]);
        g_assert_null(ipb_oauth_url_parse(BAD[i], "it", &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL);
    }
}

static void
test_safe(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_true(ipb_oauth_url_check("https://a.example/", "it", false, NULL));
    g_assert_true(ipb_oauth_url_check("http://localhost:1/", "it", true, NULL));
    g_assert_true(ipb_oauth_url_check("http://127.9.9.9/", "it", true, NULL));
    g_assert_true(ipb_oauth_url_check("http://[::1]/", "it", true, NULL));
    g_assert_false(ipb_oauth_url_check("http://localhost/", "it", false, NULL));
    g_assert_false(ipb_oauth_url_check("http://localhost.example/", "it", true, NULL));
    g_assert_false(ipb_oauth_url_check("http://128.0.0.1/", "it", true, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED);
}

static void
check_well_known(const char *text, const char *expected)
{
    g_autoptr(IpbOAuthUrl) url = ipb_oauth_url_parse(text, "it", NULL);
    g_autofree char *place = ipb_oauth_url_well_known(url, "n");
    g_assert_cmpstr(place, ==, expected);
}

static void
test_well_known(void)
{
    check_well_known("https://x", "https://x/.well-known/n");
    check_well_known("https://x/", "https://x/.well-known/n");
    check_well_known("https://x/a/b/", "https://x/.well-known/n/a/b");
    check_well_known("https://x/a?q=1", "https://x/.well-known/n/a");
}

static void
test_forms(void)
{
    g_autoptr(GString) form = g_string_new(NULL);
    ipb_oauth_form_add(form, "a", "x y&=+%\xc3\xa4");
    ipb_oauth_form_add(form, "none", NULL);
    ipb_oauth_form_add(form, "b", "");
    g_assert_cmpstr(form->str, ==, "a=x%20y%26%3D%2B%25%C3%A4&b=");
    g_autoptr(GHashTable) back = ipb_oauth_form_parse(form->str);
    g_assert_cmpuint(g_hash_table_size(back), ==, 2);
    g_assert_cmpstr(g_hash_table_lookup(back, "a"), ==, "x y&=+%\xc3\xa4");
    g_autoptr(GHashTable) plus = ipb_oauth_form_parse("a=b+c");
    g_assert_cmpstr(g_hash_table_lookup(plus, "a"), ==, "b c");
    g_assert_null(ipb_oauth_form_parse("a=1&a=2"));
    g_assert_null(ipb_oauth_form_parse("a=%zz"));
    g_assert_null(ipb_oauth_form_parse("a=%00"));
    g_assert_null(ipb_oauth_form_parse("a=%ff"));
}

/* RFC 7636, appendix B */
static void
test_pkce(void)
{
    g_autofree char *challenge =
        ipb_oauth_pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    g_autofree char *a = ipb_oauth_random_word(NULL), *b = ipb_oauth_random_word(NULL);
    g_assert_cmpstr(challenge, ==, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    g_assert_cmpuint(strlen(a), ==, 43);
    g_assert_cmpuint(strspn(a, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                     ==, 43);
    g_assert_cmpstr(a, !=, b);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/oauth/url/canonical", test_canonical);
    g_test_add_func("/oauth/url/bad", test_bad);
    g_test_add_func("/oauth/url/safe", test_safe);
    g_test_add_func("/oauth/url/well-known", test_well_known);
    g_test_add_func("/oauth/url/forms", test_forms);
    g_test_add_func("/oauth/url/pkce", test_pkce);
    return g_test_run();
}
