/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <glib.h>

#include "sandbox/address.h"
#include "sandbox/hostname.h"

typedef struct {
    const char *text;
    const char *canonical; /* NULL: refused */
    IpbHostKind kind;
} HostCase;

static const HostCase HOSTS[] = {
    {"example.com", "example.com", IPB_HOST_NAME},
    {"EXAMPLE.Com", "example.com", IPB_HOST_NAME},
    {"example.com.", "example.com", IPB_HOST_NAME},
    {"localhost", "localhost", IPB_HOST_NAME},
    {"xn--bcher-kva.example", "xn--bcher-kva.example", IPB_HOST_NAME},
    {"_acme.a-b.c", "_acme.a-b.c", IPB_HOST_NAME},
    {"0x7f.example", "0x7f.example", IPB_HOST_NAME},
    {"1.2.3.4.example", "1.2.3.4.example", IPB_HOST_NAME},
    {"0xfg", "0xfg", IPB_HOST_NAME},
    {"a1", "a1", IPB_HOST_NAME},
    /* addresses, as a resolver reads them */
    {"127.0.0.1", "127.0.0.1", IPB_HOST_IPV4},
    {"127.0.0.1.", "127.0.0.1", IPB_HOST_IPV4},
    {"127.1", "127.0.0.1", IPB_HOST_IPV4},
    {"10.1.2", "10.1.0.2", IPB_HOST_IPV4},
    {"2130706433", "127.0.0.1", IPB_HOST_IPV4},
    {"0x7f000001", "127.0.0.1", IPB_HOST_IPV4},
    {"0X7F.1", "127.0.0.1", IPB_HOST_IPV4},
    {"0x7f.0.0.0x1", "127.0.0.1", IPB_HOST_IPV4},
    {"017700000001", "127.0.0.1", IPB_HOST_IPV4},
    {"0251.0376.0251.0376", "169.254.169.254", IPB_HOST_IPV4},
    {"0x", "0.0.0.0", IPB_HOST_IPV4},
    {"0", "0.0.0.0", IPB_HOST_IPV4},
    {"4294967295", "255.255.255.255", IPB_HOST_IPV4},
    {"::1", "::1", IPB_HOST_IPV6},
    {"[::1]", "::1", IPB_HOST_IPV6},
    {"2001:DB8:0:0:0:0:0:1", "2001:db8::1", IPB_HOST_IPV6},
    {"::ffff:127.0.0.1", "127.0.0.1", IPB_HOST_IPV4},
    {"[::FFFF:7f00:1]", "127.0.0.1", IPB_HOST_IPV4},
    {"0:0:0:0:0:ffff:a9fe:a9fe", "169.254.169.254", IPB_HOST_IPV4},
    /* refused */
    {"", NULL, 0},
    {".", NULL, 0},
    {"..", NULL, 0},
    {"a..b", NULL, 0},
    {".a", NULL, 0},
    {"example.com..", NULL, 0},
    {"-a.b", NULL, 0},
    {"a-.b", NULL, 0},
    {"a b", NULL, 0},
    {" a", NULL, 0},
    {"a\t", NULL, 0},
    {"a\n", NULL, 0},
    {"a%2eb", NULL, 0},
    {"user@a.b", NULL, 0},
    {"a/b", NULL, 0},
    {"a\\b", NULL, 0},
    {"*.a.b", NULL, 0},
    {"a.b:80", NULL, 0},
    {"b\xc3\xbc"
     "cher.example",
     NULL, 0},
    {"a\xe3\x80\x82"
     "b",
     NULL, 0}, /* the ideographic full stop, which IDNA maps to "." */
    {"256.1.1.1", NULL, 0},
    {"1.2.3.4.5", NULL, 0},
    {"1.2.3.256", NULL, 0},
    {"4294967296", NULL, 0},
    {"08.1.1.1", NULL, 0},
    {"a.1", NULL, 0},
    {"a.0x1", NULL, 0},
    {"1..2", NULL, 0},
    {"[]", NULL, 0},
    {"[", NULL, 0},
    {"[127.0.0.1]", NULL, 0},
    {"[::1", NULL, 0},
    {"::1]", NULL, 0},
    {"fe80::1%eth0", NULL, 0},
    {"::ffff:1.2.3.4%x.allowed.com", NULL, 0},
    {"[::ffff:1.2.3.4%25x.allowed.com]", NULL, 0},
    {":::", NULL, 0},
    {"1:2:3:4:5:6:7:8:9", NULL, 0},
    {"::ffff:0x7f.1", NULL, 0},
};

static void
test_hosts(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(HOSTS); i++) {
        const HostCase *c = &HOSTS[i];
        IpbHost host;
        const char *reason = NULL;
        bool ok = ipb_hostname_parse(c->text, strlen(c->text), &host, &reason);
        g_test_message("%s", c->text);
        g_assert_cmpint(ok, ==, c->canonical != NULL);
        g_assert_cmpint(ok, ==, reason == NULL);
        if (!ok)
            continue;
        g_assert_cmpstr(host.text, ==, c->canonical);
        g_assert_cmpint(host.kind, ==, c->kind);
    }
}

static void
test_lengths(void)
{
    g_autofree char *label = g_strnfill(63, 'a');
    g_autofree char *long_label = g_strnfill(64, 'a');
    IpbHost host;
    g_assert_true(ipb_hostname_parse(label, strlen(label), &host, NULL));
    g_assert_false(ipb_hostname_parse(long_label, strlen(long_label), &host, NULL));
    g_autofree char *longest = g_strdup_printf("%s.%s.%s.%.61s", label, label, label, label);
    g_assert_cmpuint(strlen(longest), ==, IPB_HOST_MAX);
    g_assert_true(ipb_hostname_parse(longest, strlen(longest), &host, NULL));
    g_autofree char *dotted = g_strconcat(longest, ".", NULL);
    g_assert_true(ipb_hostname_parse(dotted, strlen(dotted), &host, NULL));
    g_autofree char *longer = g_strdup_printf("%s.%s.%s.%.62s", label, label, label, label);
    g_assert_false(ipb_hostname_parse(longer, strlen(longer), &host, NULL));
}

/* What libc would cut at the NUL must not pass. */
static void
test_nul(void)
{
    IpbHost host;
    g_assert_false(ipb_hostname_parse("evil.example\0.allowed.com", 24, &host, NULL));
    g_assert_false(ipb_hostname_parse("a\0", 2, &host, NULL));
    g_assert_false(ipb_hostname_parse("::1\0", 4, &host, NULL));
    g_assert_true(ipb_hostname_parse("example.com, and more", 11, &host, NULL));
    g_assert_cmpstr(host.text, ==, "example.com");
}

static void
test_authority(void)
{
    static const struct {
        const char *text;
        const char *host; /* NULL: refused */
        unsigned port;
    } CASES[] = {
        {"example.com", "example.com", 0},
        {"example.com:443", "example.com", 443},
        {"example.com.:65535", "example.com", 65535},
        {"[::1]", "::1", 0},
        {"[::1]:443", "::1", 443},
        {"[::ffff:1.2.3.4]:80", "1.2.3.4", 80},
        {"127.1:80", "127.0.0.1", 80},
        {"example.com:", NULL, 0},
        {"example.com:0", NULL, 0},
        {"example.com:080", NULL, 0},
        {"example.com:65536", NULL, 0},
        {"example.com:+80", NULL, 0},
        {"example.com:8a", NULL, 0},
        {"example.com:999999999999", NULL, 0},
        {"::1:443", NULL, 0},
        {"[::1]443", NULL, 0},
        {"[::1]:", NULL, 0},
        {"[::1", NULL, 0},
        {"[example.com]:80", NULL, 0},
        {"evil.com:443.allowed.com", NULL, 0},
        {"user:pass@example.com", NULL, 0},
        {":80", NULL, 0},
        {"", NULL, 0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        IpbHost host;
        unsigned port;
        const char *reason = NULL;
        g_test_message("%s", CASES[i].text);
        bool ok = ipb_hostname_parse_authority(CASES[i].text, strlen(CASES[i].text), &host, &port,
                                               &reason);
        g_assert_cmpint(ok, ==, CASES[i].host != NULL);
        g_assert_cmpint(ok, ==, reason == NULL);
        if (!ok)
            continue;
        g_assert_cmpstr(host.text, ==, CASES[i].host);
        g_assert_cmpuint(port, ==, CASES[i].port);
    }
}

static void
test_ranges(void)
{
    static const struct {
        const char *range;
        const char *inside; /* NULL: no range */
        const char *outside;
    } CASES[] = {
        {"10.0.0.0/8", "10.255.0.1", "11.0.0.0"},
        {"10.0.0.0/8", "::ffff:10.1.2.3", "::1"},
        {"10.0.0.0/8", "64:ff9b::10.1.2.3", "64:ff9b:1::10.1.2.3"},
        {"10.0.0.0/8", "2002:a01:203::1", "2002:b01:203::1"},
        {"127.0.0.0/8", "::127.0.0.1", "::1.2.3.4"},
        {"127.0.0.0/8", "::ffff:0:127.0.0.1", "::ffff:0:1.2.3.4"},
        {"192.0.2.1", "192.0.2.1", "192.0.2.2"},
        {"172.16.0.0/12", "172.31.255.255", "172.32.0.0"},
        {"0.0.0.0/0", "1.2.3.4", "2001:db8::1"},
        {"fc00::/7", "fdff::1", "fe00::1"},
        {"::/0", "2001:db8::1", "1.2.3.4"},
        {"::1", "::1", "::2"},
        {"::ffff:10.0.0.0/104", "10.9.8.7", "11.0.0.0"},
        {"10.0.0.0/33", NULL, NULL},
        {"10.0.0.0/", NULL, NULL},
        {"10.0.0.0/ 8", NULL, NULL},
        {"10.0.0.0/8/8", NULL, NULL},
        {"::/129", NULL, NULL},
        {"::ffff:10.0.0.0/95", NULL, NULL},
        {"[::1]", NULL, NULL},
        {"example.com", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        IpbAddressRange range;
        IpbHost host;
        g_test_message("%s", CASES[i].range);
        bool ok = ipb_address_range_parse(CASES[i].range, &range);
        g_assert_cmpint(ok, ==, CASES[i].inside != NULL);
        if (!ok)
            continue;
        g_assert_true(ipb_hostname_parse(CASES[i].inside, strlen(CASES[i].inside), &host, NULL));
        g_assert_true(ipb_address_range_contains(&range, &host));
        g_assert_true(ipb_hostname_parse(CASES[i].outside, strlen(CASES[i].outside), &host, NULL));
        g_assert_false(ipb_address_range_contains(&range, &host));
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/hostname/hosts", test_hosts);
    g_test_add_func("/sandbox/hostname/lengths", test_lengths);
    g_test_add_func("/sandbox/hostname/nul", test_nul);
    g_test_add_func("/sandbox/hostname/authority", test_authority);
    g_test_add_func("/sandbox/hostname/ranges", test_ranges);
    return g_test_run();
}
