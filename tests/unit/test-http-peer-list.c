/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses and networks that may connect.
 */
#include "http/peer-list.h"

#include <arpa/inet.h>

#include "base/error.h"

static bool
contains(const IpbPeerList *list, const char *text)
{
    IpbSocketAddress address = {0};
    if (inet_pton(AF_INET, text, &address.in.sin_addr) == 1) {
        address.any.sa_family = AF_INET;
    } else {
        g_assert_cmpint(inet_pton(AF_INET6, text, &address.in6.sin6_addr), ==, 1);
        address.any.sa_family = AF_INET6;
    }
    return ipb_peer_list_contains(list, &address);
}

static void
test_addresses(void)
{
    static const char *const TEXTS[] = {"10.0.0.5",      "10.1.0.0/16", "192.168.1.128/25",
                                        "fd00:1::/32",   "::1",         "172.16.0.1/32",
                                        "2001:db8::/33", NULL};
    static const char *const IN[] = {"10.0.0.5",  "10.1.0.0",      "10.1.255.255",
                                     "::1",       "192.168.1.200", "::ffff:10.0.0.5",
                                     "fd00:1::7", "172.16.0.1",    "2001:db8:7fff::1"};
    static const char *const OUT[] = {
        "10.0.0.4",   "10.2.0.0", "192.168.1.127",    "fd00:2::1", "::2",
        "::10.0.0.5", "0.0.0.1",  "2001:db8:8000::1", "172.16.0.0"};
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbPeerList) list = ipb_peer_list_new(TEXTS, &error);
    g_assert_no_error(error);
    for (size_t i = 0; i < G_N_ELEMENTS(IN); i++)
        g_assert_true(contains(list, IN[i]));
    for (size_t i = 0; i < G_N_ELEMENTS(OUT); i++)
        g_assert_false(contains(list, OUT[i]));
    IpbSocketAddress other = {.any.sa_family = AF_UNIX};
    g_assert_false(ipb_peer_list_contains(list, &other));
}

static void
test_all(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbPeerList) ipv4 =
        ipb_peer_list_new((const char *const[]){"0.0.0.0/0", NULL}, &error);
    g_assert_no_error(error);
    g_assert_true(contains(ipv4, "8.8.8.8"));
    g_assert_false(contains(ipv4, "::1"));
    g_autoptr(IpbPeerList) all = ipb_peer_list_new((const char *const[]){"::/0", NULL}, &error);
    g_assert_no_error(error);
    g_assert_true(contains(all, "8.8.8.8"));
    g_assert_true(contains(all, "::1"));
}

static void
test_refused(void)
{
    static const char *const BAD[] = {"",           "10.0.0",      "10.0.0.1/33", "10.0.0.1/8",
                                      "10.0.0.0/",  "::1/129",     "fd00::1/8",   "host",
                                      "10.0.0.0/x", "10.0.0.0/-1", "fe80::1%lo"};
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(ipb_peer_list_new((const char *const[]){BAD[i], NULL}, &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    }
    g_autoptr(GError) error = NULL;
    const char *many[IPB_PEER_LIST_MAX + 2] = {0};
    for (size_t i = 0; i <= IPB_PEER_LIST_MAX; i++)
        many[i] = "10.0.0.1";
    g_assert_null(ipb_peer_list_new(many, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http/peer-list/addresses", test_addresses);
    g_test_add_func("/http/peer-list/all", test_all);
    g_test_add_func("/http/peer-list/refused", test_refused);
    return g_test_run();
}
