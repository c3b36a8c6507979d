/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of addresses; see the header.
 */
#include "egress/address-class.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include <glib.h>

#include "sandbox/address.h"

typedef struct {
    const char *range;
    IpbAddressClass class;
    const char *name;
    const char *why;
} Row;

/* The first row whose range has the address decides.
 *
 * 198.18.0.0/15 is deliberately missing. Our synthetic addresses are from there, but they exist
 * inside sandboxes only. On the host, there are VPN clients that answer each name with an
 * address of that range, and the public internet is behind them. */
static const Row ROWS[] = {
    {"100.100.100.200", IPB_ADDRESS_CLASS_SPECIAL, "a cloud metadata address", "Alibaba Cloud"},
    {"168.63.129.16", IPB_ADDRESS_CLASS_SPECIAL, "a cloud metadata address", "Azure"},
    {"192.0.0.192", IPB_ADDRESS_CLASS_SPECIAL, "a cloud metadata address", "Oracle Cloud"},
    {"fd00:ec2::/32", IPB_ADDRESS_CLASS_SPECIAL, "a cloud metadata address", "AWS"},
    {"fd20:ce::254", IPB_ADDRESS_CLASS_SPECIAL, "a cloud metadata address", "Google Cloud"},
    {"fd00:c1::a9fe:a9fe", IPB_ADDRESS_CLASS_SPECIAL, "a cloud metadata address", "Oracle Cloud"},
    {"fd00:42::42", IPB_ADDRESS_CLASS_SPECIAL, "a cloud metadata address", "Scaleway"},
    {"0.0.0.0/8", IPB_ADDRESS_CLASS_SPECIAL, "an unspecified address", "0.0.0.0 reaches this host"},
    {"::", IPB_ADDRESS_CLASS_SPECIAL, "an unspecified address", "the same"},
    {"127.0.0.0/8", IPB_ADDRESS_CLASS_LOOPBACK, "a loopback address",
     "services of this host that trust local clients"},
    {"::1", IPB_ADDRESS_CLASS_LOOPBACK, "a loopback address", "the same"},
    {"169.254.0.0/16", IPB_ADDRESS_CLASS_SPECIAL, "a link-local address",
     "metadata services of most clouds; hosts on the same link"},
    {"fe80::/10", IPB_ADDRESS_CLASS_SPECIAL, "a link-local address", "hosts on the same link"},
    {"255.255.255.255", IPB_ADDRESS_CLASS_SPECIAL, "the broadcast address", "no single server"},
    {"224.0.0.0/4", IPB_ADDRESS_CLASS_SPECIAL, "a multicast address", "no single server"},
    {"ff00::/8", IPB_ADDRESS_CLASS_SPECIAL, "a multicast address", "no single server"},
    {"10.0.0.0/8", IPB_ADDRESS_CLASS_PRIVATE, "a private address", "RFC 1918"},
    {"172.16.0.0/12", IPB_ADDRESS_CLASS_PRIVATE, "a private address",
     "RFC 1918; Docker's networks"},
    {"192.168.0.0/16", IPB_ADDRESS_CLASS_PRIVATE, "a private address", "RFC 1918"},
    {"100.64.0.0/10", IPB_ADDRESS_CLASS_PRIVATE, "a private address",
     "RFC 6598: carriers; also VPN meshes and clusters"},
    {"192.0.0.0/24", IPB_ADDRESS_CLASS_PRIVATE, "a private address",
     "RFC 6890: protocol assignments"},
    {"240.0.0.0/4", IPB_ADDRESS_CLASS_PRIVATE, "a reserved address",
     "used inside some organisations"},
    {"fc00::/7", IPB_ADDRESS_CLASS_PRIVATE, "a private address", "RFC 4193"},
    {"fec0::/10", IPB_ADDRESS_CLASS_PRIVATE, "a private address",
     "RFC 3879: the former site-local"},
    {"64:ff9b:1::/48", IPB_ADDRESS_CLASS_PRIVATE, "a private address",
     "RFC 8215: local NAT64; the embedded IPv4 address is not known"},
};

/* 2001:0000::/32, RFC 4380: the server's address is in bytes 4 to 7, and the client's address,
 * with all bits inverted, in the last four bytes. */
static bool
is_teredo(const IpbHost *address)
{
    static const uint8_t PREFIX[4] = {0x20, 0x01, 0, 0};
    return address->kind == IPB_HOST_IPV6 && memcmp(address->address, PREFIX, sizeof PREFIX) == 0;
}

static bool
is_unspecified_or_loopback(const IpbHost *address)
{
    static const uint8_t ZERO[15] = {0};
    return address->kind == IPB_HOST_IPV6 && memcmp(address->address, ZERO, sizeof ZERO) == 0 &&
           address->address[15] <= 1;
}

size_t
ipb_address_class_embedded(const IpbHost *address,
                           IpbHost ret_embedded[IPB_ADDRESS_CLASS_MAX_EMBEDDED])
{
    if (is_teredo(address)) {
        uint8_t client[4];
        for (size_t i = 0; i < sizeof client; i++)
            client[i] = (uint8_t) ~address->address[12 + i];
        ipb_hostname_from_address(address->address + 4, 4, &ret_embedded[0]);
        ipb_hostname_from_address(client, sizeof client, &ret_embedded[1]);
        return 2;
    }
    /* "::1" is not an IPv4-compatible address. */
    if (is_unspecified_or_loopback(address))
        return 0;
    return ipb_address_embedded_ipv4(address, &ret_embedded[0]) ? 1 : 0;
}

static IpbAddressClass
look_up(const IpbHost *address, const char **ret_name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        IpbAddressRange range;
        bool is_valid = ipb_address_range_parse(ROWS[i].range, &range);
        g_assert(is_valid);
        if (ipb_address_range_contains(&range, address)) {
            *ret_name = ROWS[i].name;
            return ROWS[i].class;
        }
    }
    *ret_name = "a public address";
    return IPB_ADDRESS_CLASS_PUBLIC;
}

/* The class of the address itself: ::1 is loopback, and not the IPv4-compatible 0.0.0.1. */
static IpbAddressClass
look_up_exactly(const IpbHost *address, const char **ret_name)
{
    if (is_unspecified_or_loopback(address)) {
        bool is_loopback = address->address[15] == 1;
        *ret_name = is_loopback ? "a loopback address" : "an unspecified address";
        return is_loopback ? IPB_ADDRESS_CLASS_LOOPBACK : IPB_ADDRESS_CLASS_SPECIAL;
    }
    return look_up(address, ret_name);
}

IpbAddressClass
ipb_address_class_of(const IpbHost *address, const char **ret_name)
{
    IpbHost embedded[IPB_ADDRESS_CLASS_MAX_EMBEDDED];
    size_t n = ipb_address_class_embedded(address, embedded);
    IpbAddressClass worst = look_up_exactly(address, ret_name);
    for (size_t i = 0; i < n; i++) {
        const char *name;
        IpbAddressClass place = look_up(&embedded[i], &name);
        if (place > worst) {
            worst = place;
            *ret_name = name;
        }
    }
    return worst;
}

static bool
is_same(const IpbHost *a, const IpbHost *b)
{
    return a->kind == b->kind && a->kind != IPB_HOST_NAME &&
           memcmp(a->address, b->address, a->kind == IPB_HOST_IPV4 ? 4 : 16) == 0;
}

bool
ipb_address_class_equal(const IpbHost *address, const IpbHost *other)
{
    IpbHost embedded[IPB_ADDRESS_CLASS_MAX_EMBEDDED];
    size_t n = ipb_address_class_embedded(address, embedded);
    for (size_t i = 0; i < n; i++)
        if (is_same(&embedded[i], other))
            return true;
    return is_same(address, other);
}

static bool
read_interface(const struct sockaddr *address, IpbHost *ret_host)
{
    if (address != NULL && address->sa_family == AF_INET)
        ipb_hostname_from_address(&((const struct sockaddr_in *) address)->sin_addr, 4, ret_host);
    else if (address != NULL && address->sa_family == AF_INET6)
        ipb_hostname_from_address(&((const struct sockaddr_in6 *) address)->sin6_addr, 16,
                                  ret_host);
    else
        return false;
    return true;
}

bool
ipb_address_class_is_own(const IpbHost *address)
{
    struct ifaddrs *interfaces;
    bool is_own = false;
    if (getifaddrs(&interfaces) < 0)
        return true;
    for (struct ifaddrs *i = interfaces; i != NULL && !is_own; i = i->ifa_next) {
        IpbHost own;
        is_own = read_interface(i->ifa_addr, &own) && ipb_address_class_equal(address, &own);
    }
    freeifaddrs(interfaces);
    return is_own;
}
