/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/address-class.h"

#include <string.h>

#include <glib.h>

static IpbHost
parse(const char *text)
{
    IpbHost host;
    const char *reason;
    if (!ipb_hostname_parse(text, strlen(text), &host, &reason))
        g_error("%s: %s", text, reason);
    return host;
}

static void
test_places(void)
{
    static const struct {
        IpbAddressClass place;
        const char *address;
    } rows[] = {
        {IPB_ADDRESS_CLASS_PUBLIC, "1.1.1.1"},
        {IPB_ADDRESS_CLASS_PUBLIC, "9.255.255.255"},
        {IPB_ADDRESS_CLASS_PUBLIC, "11.0.0.0"},
        {IPB_ADDRESS_CLASS_PUBLIC, "172.15.255.255"},
        {IPB_ADDRESS_CLASS_PUBLIC, "172.32.0.0"},
        {IPB_ADDRESS_CLASS_PUBLIC, "192.167.255.255"},
        {IPB_ADDRESS_CLASS_PUBLIC, "100.63.255.255"},
        {IPB_ADDRESS_CLASS_PUBLIC, "100.128.0.0"},
        {IPB_ADDRESS_CLASS_PUBLIC, "198.18.0.1"},
        {IPB_ADDRESS_CLASS_PUBLIC, "2606:4700::1111"},
        {IPB_ADDRESS_CLASS_PRIVATE, "10.0.0.0"},
        {IPB_ADDRESS_CLASS_PRIVATE, "10.255.255.255"},
        {IPB_ADDRESS_CLASS_PRIVATE, "172.16.0.1"},
        {IPB_ADDRESS_CLASS_PRIVATE, "172.31.255.255"},
        {IPB_ADDRESS_CLASS_PRIVATE, "192.168.1.1"},
        {IPB_ADDRESS_CLASS_PRIVATE, "100.64.0.1"},
        {IPB_ADDRESS_CLASS_PRIVATE, "240.0.0.1"},
        {IPB_ADDRESS_CLASS_PRIVATE, "fc00::1"},
        {IPB_ADDRESS_CLASS_PRIVATE, "fdff::1"},
        {IPB_ADDRESS_CLASS_PRIVATE, "fec0::1"},
        {IPB_ADDRESS_CLASS_PRIVATE, "64:ff9b:1::a00:1"},
        {IPB_ADDRESS_CLASS_LOOPBACK, "127.0.0.1"},
        {IPB_ADDRESS_CLASS_LOOPBACK, "127.255.255.255"},
        {IPB_ADDRESS_CLASS_LOOPBACK, "::1"},
        {IPB_ADDRESS_CLASS_SPECIAL, "0.0.0.0"},
        {IPB_ADDRESS_CLASS_SPECIAL, "0.1.2.3"},
        {IPB_ADDRESS_CLASS_SPECIAL, "::"},
        {IPB_ADDRESS_CLASS_SPECIAL, "169.254.169.254"},
        {IPB_ADDRESS_CLASS_SPECIAL, "fe80::1"},
        {IPB_ADDRESS_CLASS_SPECIAL, "febf::1"},
        {IPB_ADDRESS_CLASS_SPECIAL, "224.0.0.1"},
        {IPB_ADDRESS_CLASS_SPECIAL, "239.255.255.255"},
        {IPB_ADDRESS_CLASS_SPECIAL, "255.255.255.255"},
        {IPB_ADDRESS_CLASS_SPECIAL, "ff02::1"},
        {IPB_ADDRESS_CLASS_SPECIAL, "100.100.100.200"},
        {IPB_ADDRESS_CLASS_SPECIAL, "168.63.129.16"},
        {IPB_ADDRESS_CLASS_SPECIAL, "192.0.0.192"},
        {IPB_ADDRESS_CLASS_SPECIAL, "fd00:ec2::254"},
        {IPB_ADDRESS_CLASS_SPECIAL, "fd20:ce::254"},
        {IPB_ADDRESS_CLASS_SPECIAL, "fd00:c1::a9fe:a9fe"},
        {IPB_ADDRESS_CLASS_SPECIAL, "fd00:42::42"},
        /* IPv4 in IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo's server and client */
        {IPB_ADDRESS_CLASS_LOOPBACK, "::ffff:127.0.0.1"},
        {IPB_ADDRESS_CLASS_LOOPBACK, "::127.0.0.1"},
        {IPB_ADDRESS_CLASS_LOOPBACK, "::ffff:0:127.0.0.1"},
        {IPB_ADDRESS_CLASS_LOOPBACK, "64:ff9b::127.0.0.1"},
        {IPB_ADDRESS_CLASS_SPECIAL, "2002:a9fe:a9fe::1"},
        {IPB_ADDRESS_CLASS_PRIVATE, "2001:0:a00:1::fefe:fefe"},
        {IPB_ADDRESS_CLASS_LOOPBACK, "2001:0:101:101::80ff:fffe"},
        {IPB_ADDRESS_CLASS_PUBLIC, "64:ff9b::1.1.1.1"},
        {IPB_ADDRESS_CLASS_PUBLIC, "2002:101:101::1"},
        {IPB_ADDRESS_CLASS_PUBLIC, "2001:0:101:101::fefe:fefe"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        IpbHost host = parse(rows[i].address);
        const char *name = NULL;
        IpbAddressClass place = ipb_address_class_of(&host, &name);
        if (place != rows[i].place || name == NULL)
            g_error("%s is %s", rows[i].address, name);
    }
}

static void
test_equal(void)
{
    IpbHost listed = parse("10.1.2.3");
    static const char *const SAME[] = {"10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203",
                                       "2002:a01:203::9"};
    for (size_t i = 0; i < G_N_ELEMENTS(SAME); i++) {
        IpbHost host = parse(SAME[i]);
        g_assert_true(ipb_address_class_equal(&host, &listed));
    }
    IpbHost other = parse("10.1.2.4"), name = parse("a.test"), same_name = parse("a.test");
    g_assert_false(ipb_address_class_equal(&other, &listed));
    g_assert_false(ipb_address_class_equal(&name, &listed));
    g_assert_false(ipb_address_class_equal(&name, &same_name));
}

/* Every machine has loopback. Its other addresses are not known here. */
static void
test_own(void)
{
    IpbHost loopback = parse("127.0.0.1"), carried = parse("64:ff9b::127.0.0.1");
    IpbHost foreign = parse("203.0.113.77");
    g_assert_true(ipb_address_class_is_own(&loopback));
    g_assert_true(ipb_address_class_is_own(&carried));
    g_assert_false(ipb_address_class_is_own(&foreign));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/address-class/places", test_places);
    g_test_add_func("/egress/address-class/equal", test_equal);
    g_test_add_func("/egress/address-class/own", test_own);
    return g_test_run();
}
