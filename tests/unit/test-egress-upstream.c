/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/upstream.h"

#include <string.h>

static const IpbUpstreamProxy *
find(const IpbUpstream *upstream, const char *authority, bool is_http)
{
    IpbDestination destination;
    g_assert_true(ipb_hostname_parse_authority(authority, strlen(authority), &destination.host,
                                               &destination.port, NULL));
    return ipb_upstream_find(upstream, &destination, is_http);
}

static void
assert_proxy(const char *value, const char *address, const char *authorization)
{
    g_autofree char *variable = g_strconcat("https_proxy=", value, NULL);
    const char *const env[] = {variable, NULL};
    g_autoptr(IpbUpstream) upstream = ipb_upstream_new(env, NULL, NULL);
    const IpbUpstreamProxy *proxy = find(upstream, "index.test:443", false);
    g_assert_nonnull(proxy);
    g_assert_null(proxy->problem);
    g_autofree char *text = ipb_destination_to_text(&proxy->address);
    g_assert_cmpstr(text, ==, address);
    g_assert_cmpstr(proxy->authorization, ==, authorization);
    g_assert_cmpstr(proxy->variable, ==, "https_proxy");
}

static void
test_values(void)
{
    assert_proxy("http://proxy.test:3128", "proxy.test:3128", NULL);
    assert_proxy("HTTP://Proxy.Test:3128/", "proxy.test:3128", NULL);
    assert_proxy("proxy.test:3128", "proxy.test:3128", NULL);
    assert_proxy("http://proxy.test", "proxy.test:80", NULL);
    assert_proxy("http://[2001:db8::1]:8080", "[2001:db8::1]:8080", NULL);
    assert_proxy("http://user:secret@proxy.test:1", "proxy.test:1", "Basic dXNlcjpzZWNyZXQ=");
    assert_proxy("http://user:p%40ss@proxy.test:1", "proxy.test:1", "Basic dXNlcjpwQHNz");
    assert_proxy("http://user:p@ss@proxy.test:1", "proxy.test:1", "Basic dXNlcjpwQHNz");
    assert_proxy("http://user@proxy.test:1", "proxy.test:1", "Basic dXNlcjo=");
}

/* The problem is reported when the proxy is used, and never with the value. */
static void
test_bad_values(void)
{
    static const char *const VALUES[] = {
        "socks5://user:secret@proxy.test:1080",
        "https://user:secret@proxy.test:443",
        "http://",
        "http://user:secret@",
        "http://user:secret@proxy.test:0",
        "http://user:secret@a b:1",
        "secret proxy",
        "http://proxy.test:secret",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(VALUES); i++) {
        g_autofree char *variable = g_strconcat("all_proxy=", VALUES[i], NULL);
        const char *const env[] = {variable, NULL};
        g_autoptr(IpbUpstream) upstream = ipb_upstream_new(env, NULL, NULL);
        const IpbUpstreamProxy *proxy = find(upstream, "index.test:443", false);
        g_assert_nonnull(proxy->problem);
        g_assert_null(strstr(proxy->problem, "secret"));
    }
}

static void
test_which_variable(void)
{
    const char *const none[] = {"https_proxy=", "no_proxy=*", NULL};
    g_autoptr(IpbUpstream) nothing = ipb_upstream_new(none, NULL, NULL);
    g_assert_null(find(nothing, "index.test:443", false));

    const char *const env[] = {"HTTPS_PROXY=http://upper.test:1", "https_proxy=http://lower.test:1",
                               "ALL_PROXY=http://all.test:1", NULL};
    g_autoptr(IpbUpstream) upstream = ipb_upstream_new(env, NULL, NULL);
    g_assert_cmpstr(find(upstream, "index.test:443", false)->address.host.text, ==, "lower.test");
    g_assert_cmpstr(find(upstream, "index.test:80", true)->address.host.text, ==, "all.test");

    /* The installer's own setting takes precedence, and is for every host. */
    const char *const excepted[] = {"https_proxy=http://lower.test:1", "no_proxy=*", NULL};
    g_autoptr(IpbUpstream) own = ipb_upstream_new(excepted, "http://own.test:1", "PIP_PROXY");
    g_assert_cmpstr(find(own, "index.test:443", false)->variable, ==, "PIP_PROXY");
    g_assert_cmpstr(find(own, "index.test:80", true)->address.host.text, ==, "own.test");
}

static void
test_exceptions(void)
{
    static const struct {
        const char *exceptions, *authority;
        bool is_direct;
    } CASES[] = {
        {"*", "index.test:443", true},
        {"index.test", "index.test:443", true},
        {"index.test", "a.index.test:443", true},
        {"index.test", "notindex.test:443", false},
        {".index.test", "a.index.test:443", true},
        {"*.index.test", "a.index.test:443", true},
        {"other.test, INDEX.test", "index.test:443", true},
        {"other.test,", "index.test:443", false},
        {"index.test:8443", "index.test:443", false},
        {"index.test:8443", "index.test:8443", true},
        {"10.0.0.0/8", "10.1.2.3:443", true},
        {"10.0.0.0/8", "11.1.2.3:443", false},
        {"10.1.2.3", "10.1.2.3:443", true},
        {"test", "index.test:443", true},
        {"", "index.test:443", false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *variable = g_strconcat("NO_PROXY=", CASES[i].exceptions, NULL);
        const char *const env[] = {variable, "https_proxy=http://proxy.test:1", NULL};
        g_autoptr(IpbUpstream) upstream = ipb_upstream_new(env, NULL, NULL);
        if ((find(upstream, CASES[i].authority, false) == NULL) != CASES[i].is_direct)
            g_error("no_proxy \"%s\" and %s", CASES[i].exceptions, CASES[i].authority);
    }
}

/* A proxy on this machine would connect there as one of the user's programs, and ipybox's own
 * servers trust these. */
static void
test_this_machine(void)
{
    static const char *const HERE[] = {
        "localhost:8900",         "index.localhost:80", "127.0.0.1:8900",
        "127.1.2.3:443",          "[::1]:8900",         "0.0.0.0:8900",
        "[::ffff:127.0.0.1]:443", "[::]:8900",          "169.254.169.254:80",
    };
    const char *const env[] = {"all_proxy=http://127.0.0.1:3128", NULL};
    g_autoptr(IpbUpstream) upstream = ipb_upstream_new(env, NULL, NULL);
    g_autoptr(IpbUpstream) own = ipb_upstream_new(env, "http://127.0.0.1:3128", "PIP_PROXY");
    for (size_t i = 0; i < G_N_ELEMENTS(HERE); i++)
        for (int is_http = 0; is_http <= 1; is_http++)
            if (find(upstream, HERE[i], is_http) != NULL || find(own, HERE[i], is_http) != NULL)
                g_error("%s is reached by a proxy", HERE[i]);
    g_assert_nonnull(find(upstream, "10.1.2.3:443", false));
    g_assert_nonnull(find(own, "localhost.test:80", true));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/upstream/values", test_values);
    g_test_add_func("/egress/upstream/bad-values", test_bad_values);
    g_test_add_func("/egress/upstream/which-variable", test_which_variable);
    g_test_add_func("/egress/upstream/exceptions", test_exceptions);
    g_test_add_func("/egress/upstream/this-machine", test_this_machine);
    return g_test_run();
}
