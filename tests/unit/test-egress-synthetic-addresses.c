/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/synthetic-addresses.h"

#include <string.h>

static IpbHost
parse(const char *text)
{
    IpbHost host;
    g_assert_true(ipb_hostname_parse(text, strlen(text), &host, NULL));
    return host;
}

static void
test_assign(void)
{
    g_autoptr(IpbSyntheticAddresses) synthetic = ipb_synthetic_addresses_new();
    IpbHost a = parse("a.test"), b = parse("b.test"), found;
    uint8_t address[4];
    g_assert_true(ipb_synthetic_addresses_assign(synthetic, &a, address));
    g_assert_cmpmem(address, 4, "\xc6\x12\0\1", 4);
    g_assert_true(ipb_synthetic_addresses_assign(synthetic, &b, address));
    g_assert_cmpmem(address, 4, "\xc6\x12\0\2", 4);
    g_assert_true(ipb_synthetic_addresses_assign(synthetic, &a, address));
    g_assert_cmpmem(address, 4, "\xc6\x12\0\1", 4);
    IpbHost first = parse("198.18.0.1"), second = parse("198.18.0.2");
    g_assert_true(ipb_synthetic_addresses_look_up(synthetic, &first, &found));
    g_assert_cmpstr(found.text, ==, "a.test");
    g_assert_true(ipb_synthetic_addresses_look_up(synthetic, &second, &found));
    g_assert_cmpstr(found.text, ==, "b.test");
}

static void
test_others(void)
{
    g_autoptr(IpbSyntheticAddresses) synthetic = ipb_synthetic_addresses_new();
    IpbHost a = parse("a.test"), found;
    uint8_t address[4];
    g_assert_true(ipb_synthetic_addresses_assign(synthetic, &a, address));
    static const char *const ABSENT[] = {"198.18.0.0", "198.18.0.2", "198.19.255.255"};
    static const char *const OUTSIDE[] = {"198.17.255.255",  "198.20.0.0", "1.2.3.4", "::1",
                                          "64:ff9b::c612:1", "a.test"};
    for (size_t i = 0; i < G_N_ELEMENTS(ABSENT); i++) {
        IpbHost host = parse(ABSENT[i]);
        g_assert_true(ipb_synthetic_addresses_is_in_range(&host));
        g_assert_false(ipb_synthetic_addresses_look_up(synthetic, &host, &found));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(OUTSIDE); i++) {
        IpbHost host = parse(OUTSIDE[i]);
        g_assert_false(ipb_synthetic_addresses_is_in_range(&host));
        g_assert_false(ipb_synthetic_addresses_look_up(synthetic, &host, &found));
    }
}

/* A wildcard allows any number of names. The table has a limit, and keeps assigned names. */
static void
test_full(void)
{
    g_autoptr(IpbSyntheticAddresses) synthetic = ipb_synthetic_addresses_new();
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
    uint8_t address[4];
    IpbHost found;
    unsigned n = 0;
    for (;; n++) {
        g_autofree char *text = g_strdup_printf("n%u.test", n);
        IpbHost name = parse(text);
        if (!ipb_synthetic_addresses_assign(synthetic, &name, address))
            break;
        IpbHost host;
        ipb_hostname_from_address(address, 4, &host);
        g_assert_true(ipb_synthetic_addresses_is_in_range(&host));
        uint32_t number;
        memcpy(&number, address, 4);
        g_assert_true(g_hash_table_add(seen, GUINT_TO_POINTER(number)));
        g_assert_cmpuint(n, <, 131071);
    }
    g_assert_cmpuint(n, >=, 1024);
    IpbHost old = parse("n0.test"), first = parse("198.18.0.1");
    g_assert_true(ipb_synthetic_addresses_assign(synthetic, &old, address));
    g_assert_true(ipb_synthetic_addresses_look_up(synthetic, &first, &found));
    g_assert_cmpstr(found.text, ==, "n0.test");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/synthetic-addresses/assign", test_assign);
    g_test_add_func("/egress/synthetic-addresses/others", test_others);
    g_test_add_func("/egress/synthetic-addresses/full", test_full);
    return g_test_run();
}
