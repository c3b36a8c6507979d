/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/domain-pattern.h"

#include <string.h>

#include <glib.h>

static void
test_parse(void)
{
    static const struct {
        const char *text;
        bool is_fine, is_fine_denial;
    } CASES[] = {
        {"example.com", true, true},
        {"*.example.com", true, true},
        {"example.com:443", true, true},
        {"localhost", true, true},
        {"localhost:3000", true, true},
        {"127.0.0.1:8080", true, true},
        {"[::1]", true, true},
        {"[2001:db8::1]:443", true, true},
        {"*.a.b.c:1", true, true},
        {"*", false, true},
        {"*:22", false, true},
        {"*:0", false, false},
        {"*.com", false, false},
        {"*.", false, false},
        {"*.com:443", false, false},
        {"**.example.com", false, false},
        {"a.*.com", false, false},
        {"*example.com", false, false},
        {"*.*.com", false, false},
        {"*.1.2.3.4", false, false},
        {"intranet", false, false},
        {"example.com.", false, false},
        {"example.com.:80", false, false},
        {".example.com", false, false},
        {"*.example.com.", false, false},
        {"https://example.com", false, false},
        {"example.com/path", false, false},
        {"example.com:99999", false, false},
        {"example.com:x", false, false},
        {"::1", false, false},
        {"2001:db8::1:443", false, false},
        {"", false, false},
        {"ex ample.com", false, false},
        {"user@example.com", false, false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        for (int is_denial = 0; is_denial < 2; is_denial++) {
            const char *reason = NULL;
            IpbDomainPattern *pattern =
                ipb_domain_pattern_parse(CASES[i].text, strlen(CASES[i].text), is_denial, &reason);
            bool is_fine = is_denial ? CASES[i].is_fine_denial : CASES[i].is_fine;
            if ((pattern != NULL) != is_fine)
                g_error("%s, %d: %s", CASES[i].text, is_denial, reason);
            g_assert_true(pattern != NULL || reason != NULL);
            g_clear_pointer(&pattern, ipb_domain_pattern_free);
        }
    }
}

static bool
matches(const char *text, const char *name)
{
    const char *reason;
    IpbHost host;
    IpbDomainPattern *pattern = ipb_domain_pattern_parse(text, strlen(text), true, &reason);
    g_assert_nonnull(pattern);
    g_assert_true(ipb_hostname_parse(name, strlen(name), &host, NULL));
    bool result = ipb_domain_pattern_matches(pattern, &host);
    ipb_domain_pattern_free(pattern);
    return result;
}

static void
test_matches(void)
{
    g_assert_true(matches("Example.com:443", "EXAMPLE.com."));
    g_assert_false(matches("example.com", "sub.example.com"));
    g_assert_true(matches("*.example.com", "a.b.example.com"));
    g_assert_false(matches("*.example.com", "example.com"));
    g_assert_false(matches("*.example.com", "notexample.com"));
    g_assert_true(matches("127.0.0.1", "0x7f.1"));
    g_assert_true(matches("*", "192.0.2.1"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/domain-pattern/parse", test_parse);
    g_test_add_func("/sandbox/domain-pattern/matches", test_matches);
    return g_test_run();
}
