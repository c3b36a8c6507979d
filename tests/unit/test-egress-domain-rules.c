/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/domain-rules.h"

#include <string.h>

static IpbDomainRules *
make_rules(const char *network)
{
    bool has_denied = strstr(network, "\"deniedDomains\"") != NULL;
    g_autofree char *text =
        g_strdup_printf("{\"network\": {%s%s}, \"filesystem\": {\"denyRead\": [], "
                        "\"allowWrite\": [], \"denyWrite\": []}}",
                        has_denied ? "" : "\"deniedDomains\": [],", network);
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbSandboxPolicy) policy =
        ipb_sandbox_policy_parse(text, strlen(text), "test", &error);
    g_assert_no_error(error);
    IpbDomainRules *rules = ipb_domain_rules_new(policy, &error);
    g_assert_no_error(error);
    return rules;
}

/* "host:port" as a client writes it; the default is 443. */
static IpbDestination
parse(const char *text)
{
    IpbDestination destination;
    const char *reason;
    if (!ipb_hostname_parse_authority(text, strlen(text), &destination.host, &destination.port,
                                      &reason))
        g_error("%s: %s", text, reason);
    if (destination.port == 0)
        destination.port = 443;
    return destination;
}

static bool
allows(const IpbDomainRules *rules, const char *text)
{
    IpbDestination destination = parse(text);
    g_autofree char *reason = NULL;
    bool is_allowed = ipb_domain_rules_check(rules, &destination, &reason);
    g_assert_true(is_allowed == (reason == NULL));
    return is_allowed;
}

static bool
answers(const IpbDomainRules *rules, const char *name)
{
    IpbDestination destination = parse(name);
    g_autofree char *reason = NULL;
    bool is_answered = ipb_domain_rules_check_name(rules, &destination.host, &reason);
    g_assert_true(is_answered == (reason == NULL));
    return is_answered;
}

static bool
reaches(const IpbDomainRules *rules, const char *text, const char *address)
{
    IpbDestination destination = parse(text), target = parse(address);
    g_autofree char *reason = NULL;
    g_assert_true(allows(rules, text));
    bool is_fine = ipb_domain_rules_check_address(rules, &destination, &target.host, &reason);
    g_assert_true(is_fine == (reason == NULL));
    return is_fine;
}

static void
test_names(void)
{
    g_autoptr(IpbDomainRules) rules =
        make_rules("\"allowedDomains\": [\"Good.Test\", \"*.wild.test\", \"port.test:8080\"]");
    static const char *const ALLOWED[] = {
        "good.test",   "GOOD.TEST",     "good.test.",         "good.test:1",
        "a.wild.test", "b.a.wild.test", "A.WILD.test.:65535", "port.test:8080",
    };
    static const char *const DENIED[] = {
        "evil.test",     "good.test.evil.test",
        "notgood.test",  "xgood.test",
        "www.good.test", "test",
        "wild.test",     "awild.test",
        "port.test",     "port.test:80",
        "1.2.3.4",       "[::1]",
        "127.0.0.1",     "localhost",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ALLOWED); i++)
        if (!allows(rules, ALLOWED[i]))
            g_error("%s is denied", ALLOWED[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(DENIED); i++)
        if (allows(rules, DENIED[i]))
            g_error("%s is allowed", DENIED[i]);
    g_assert_true(answers(rules, "port.test"));
    g_assert_true(answers(rules, "x.wild.test"));
    g_assert_false(answers(rules, "wild.test"));
    g_assert_false(answers(rules, "evil.test"));
}

static void
test_denied_first(void)
{
    g_autoptr(IpbDomainRules) rules =
        make_rules("\"allowedDomains\": [\"*.wild.test\", \"good.test\", \"10.1.2.3\", "
                   "\"[64:ff9b::a01:205]\"],"
                   "\"deniedDomains\": [\"bad.wild.test\", \"*.sub.wild.test\", \"good.test:22\", "
                   "\"10.1.2.3:25\","
                   "  \"10.1.2.5\"]");
    g_assert_true(allows(rules, "a.wild.test"));
    g_assert_false(allows(rules, "bad.wild.test"));
    g_assert_true(allows(rules, "sub.wild.test"));
    g_assert_false(allows(rules, "x.sub.wild.test"));
    g_assert_true(allows(rules, "good.test:443"));
    g_assert_false(allows(rules, "good.test:22"));
    g_assert_true(allows(rules, "10.1.2.3:80"));
    g_assert_false(allows(rules, "10.1.2.3:25"));
    /* A denied address stays denied inside IPv6. */
    g_assert_false(allows(rules, "[64:ff9b::a01:205]:80"));
    g_assert_false(answers(rules, "bad.wild.test"));
    g_assert_true(answers(rules, "good.test"));
}

static void
test_deny_all(void)
{
    g_autoptr(IpbDomainRules) rules =
        make_rules("\"allowedDomains\": [\"good.test\"], \"deniedDomains\": [\"*\"]");
    g_assert_false(allows(rules, "good.test"));
    g_assert_false(answers(rules, "good.test"));
    g_autoptr(IpbDomainRules) port = make_rules(
        "\"allowedDomains\": [\"good.test\", \"10.1.2.3\"], \"deniedDomains\": [\"*:22\"]");
    g_assert_true(allows(port, "good.test:443"));
    g_assert_false(allows(port, "good.test:22"));
    g_assert_false(allows(port, "10.1.2.3:22"));
    g_assert_true(answers(port, "good.test"));
}

/* An address is allowed only by an entry with this address, in any spelling. */
static void
test_addresses(void)
{
    g_autoptr(IpbDomainRules) rules = make_rules(
        "\"allowedDomains\": [\"127.0.0.1:3000\", \"[2001:db8::1]:443\", \"*.wild.test\"]");
    g_assert_true(allows(rules, "127.0.0.1:3000"));
    g_assert_true(allows(rules, "127.1:3000"));
    g_assert_true(allows(rules, "0x7f.1:3000"));
    g_assert_true(allows(rules, "[::ffff:127.0.0.1]:3000"));
    g_assert_true(allows(rules, "[2001:DB8:0::1]:443"));
    g_assert_false(allows(rules, "127.0.0.1:3001"));
    g_assert_false(allows(rules, "127.0.0.2:3000"));
    g_assert_false(allows(rules, "[::1]:3000"));
    g_assert_false(allows(rules, "[64:ff9b::127.0.0.1]:3000"));
    g_assert_false(allows(rules, "localhost:3000"));
}

static void
test_nothing_allowed(void)
{
    g_autoptr(IpbDomainRules) rules = make_rules("\"allowedDomains\": []");
    g_assert_false(allows(rules, "good.test"));
    g_assert_false(allows(rules, "localhost"));
    g_assert_false(answers(rules, "good.test"));
}

/* Resolved addresses: rules 4 to 9. */

static void
test_resolved_places(void)
{
    g_autoptr(IpbDomainRules) rules =
        make_rules("\"allowedDomains\": [\"good.test\", \"*.wild.test\", \"both.wild.test:443\"]");
    static const char *const NEVER[] = {
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "0.0.0.0",
        "[::]",
        "169.254.1.1",
        "[fe80::1]",
        "224.0.0.1",
        "255.255.255.255",
        "169.254.169.254",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::127.0.0.1]",
    };
    static const char *const PRIVATE[] = {
        "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "[fc00::1]", "[64:ff9b::a00:1]",
    };
    static const char *const PUBLIC[] = {"203.0.113.9", "[2606:4700::1111]", "198.18.0.1"};
    for (size_t i = 0; i < G_N_ELEMENTS(NEVER); i++) {
        g_assert_false(reaches(rules, "good.test", NEVER[i]));
        g_assert_false(reaches(rules, "a.wild.test", NEVER[i]));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(PRIVATE); i++) {
        g_assert_true(reaches(rules, "good.test", PRIVATE[i]));
        g_assert_false(reaches(rules, "a.wild.test", PRIVATE[i]));
        g_assert_true(reaches(rules, "both.wild.test:443", PRIVATE[i]));
        g_assert_false(reaches(rules, "both.wild.test:80", PRIVATE[i]));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(PUBLIC); i++) {
        g_assert_true(reaches(rules, "good.test", PUBLIC[i]));
        g_assert_true(reaches(rules, "a.wild.test", PUBLIC[i]));
    }
}

static void
test_resolved_to_listed(void)
{
    g_autoptr(IpbDomainRules) rules = make_rules(
        "\"allowedDomains\": [\"good.test\", \"127.0.0.1:3000\", \"10.0.0.7\", \"10.0.0.9\"],"
        "\"deniedDomains\": [\"203.0.113.9\", \"203.0.113.8:25\", \"10.0.0.9\"],"
        "\"deniedResolvedAddresses\": [\"10.0.0.0/8\", \"2001:db8::/32\", \"198.51.100.7\"]");
    g_assert_true(reaches(rules, "good.test:3000", "127.0.0.1"));
    g_assert_false(reaches(rules, "good.test:3001", "127.0.0.1"));
    g_assert_false(reaches(rules, "good.test", "203.0.113.9"));
    g_assert_false(reaches(rules, "good.test", "[64:ff9b::cb00:7109]"));
    g_assert_true(reaches(rules, "good.test:443", "203.0.113.8"));
    g_assert_false(reaches(rules, "good.test:25", "203.0.113.8"));
    g_assert_false(reaches(rules, "good.test", "10.1.1.1"));
    g_assert_false(reaches(rules, "good.test", "[2002:a01:101::]"));
    g_assert_true(reaches(rules, "good.test", "10.0.0.7"));
    g_assert_false(reaches(rules, "good.test", "10.0.0.9"));
    g_assert_false(reaches(rules, "good.test", "[2001:db8::5]"));
    g_assert_false(reaches(rules, "good.test", "198.51.100.7"));
    g_assert_true(reaches(rules, "good.test", "198.51.100.8"));
}

static void
test_localhost(void)
{
    g_autoptr(IpbDomainRules) rules =
        make_rules("\"allowedDomains\": [\"localhost:3000\", \"app.localhost\", \"10.0.0.7:3000\"],"
                   "\"deniedDomains\": [\"127.0.0.9\"]");
    g_assert_true(reaches(rules, "localhost:3000", "127.0.0.1"));
    g_assert_true(reaches(rules, "localhost:3000", "[::1]"));
    g_assert_true(reaches(rules, "app.localhost", "127.0.0.1"));
    g_assert_true(reaches(rules, "localhost:3000", "10.0.0.7"));
    g_assert_false(reaches(rules, "localhost:3000", "127.0.0.9"));
    g_assert_false(reaches(rules, "localhost:3000", "10.0.0.8"));
    g_assert_false(reaches(rules, "localhost:3000", "203.0.113.1"));
    g_assert_false(reaches(rules, "localhost:3000", "169.254.169.254"));
}

static void
test_reasons(void)
{
    g_autoptr(IpbDomainRules) rules =
        make_rules("\"allowedDomains\": [\"good.test\", \"*.wild.test\"],"
                   "\"deniedDomains\": [\"github.test:22\", \"other.test\"],"
                   "\"deniedDomainReasons\": {\"github.test:22\": \"use an https:// remote\\n\"}");
    static const struct {
        const char *target, *part;
    } rows[] = {
        {"evil.test:8443", "add \"evil.test:8443\" there"},
        {"[2001:db8::1]:443", "add \"[2001:db8::1]:443\" there"},
        {"github.test:22", "\"github.test:22\": use an https:// remote "},
        {"other.test", "network.deniedDomains denies it: \"other.test\""},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        IpbDestination destination = parse(rows[i].target);
        g_autofree char *reason = NULL;
        g_assert_false(ipb_domain_rules_check(rules, &destination, &reason));
        if (strstr(reason, rows[i].part) == NULL)
            g_error("%s: %s", rows[i].target, reason);
        g_assert_null(strchr(reason, '\n'));
    }
    IpbDestination ssh = parse("github.test:22"), other = parse("other.test");
    g_assert_cmpstr(ipb_domain_rules_denial_reason(rules, &ssh), ==, "use an https:// remote\n");
    g_assert_null(ipb_domain_rules_denial_reason(rules, &other));
    IpbDestination wild = parse("a.wild.test");
    IpbDestination address = parse("10.0.0.1");
    g_autofree char *reason = NULL;
    g_assert_false(ipb_domain_rules_check_address(rules, &wild, &address.host, &reason));
    g_assert_nonnull(strstr(reason, "it resolved to a private address"));
    g_assert_null(strstr(reason, "10.0.0.1")); /* where an intranet's names lead is not told */
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/domain-rules/names", test_names);
    g_test_add_func("/egress/domain-rules/denied-first", test_denied_first);
    g_test_add_func("/egress/domain-rules/deny-all", test_deny_all);
    g_test_add_func("/egress/domain-rules/addresses", test_addresses);
    g_test_add_func("/egress/domain-rules/nothing-allowed", test_nothing_allowed);
    g_test_add_func("/egress/domain-rules/resolved-places", test_resolved_places);
    g_test_add_func("/egress/domain-rules/resolved-to-listed", test_resolved_to_listed);
    g_test_add_func("/egress/domain-rules/localhost", test_localhost);
    g_test_add_func("/egress/domain-rules/reasons", test_reasons);
    return g_test_run();
}
