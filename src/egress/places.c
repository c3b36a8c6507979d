/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of places; see the header.
 */
#include "egress/places.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include <glib.h>

#include "sandbox/address.h"

typedef struct {
    const char *range;
    IpbPlace place;
    const char *name;
    const char *why;
} Row;

/* The first row that holds an address counts. Not in it: 198.18.0.0/15. Our own synthetic addresses are taken from there,
 * but they exist inside sandboxes only; on the host, VPN clients that answer each name with an address of that range
 * are common, and behind them lies the public internet. */
static const Row ROWS[] = {
    {"100.100.100.200", IPB_PLACE_SPECIAL, "a cloud metadata address", "Alibaba Cloud"},
    {"168.63.129.16", IPB_PLACE_SPECIAL, "a cloud metadata address", "Azure"},
    {"192.0.0.192", IPB_PLACE_SPECIAL, "a cloud metadata address", "Oracle Cloud"},
    {"fd00:ec2::/32", IPB_PLACE_SPECIAL, "a cloud metadata address", "AWS"},
    {"fd20:ce::254", IPB_PLACE_SPECIAL, "a cloud metadata address", "Google Cloud"},
    {"fd00:c1::a9fe:a9fe", IPB_PLACE_SPECIAL, "a cloud metadata address", "Oracle Cloud"},
    {"fd00:42::42", IPB_PLACE_SPECIAL, "a cloud metadata address", "Scaleway"},
    {"0.0.0.0/8", IPB_PLACE_SPECIAL, "an unspecified address", "0.0.0.0 reaches this host"},
    {"::", IPB_PLACE_SPECIAL, "an unspecified address", "the same"},
    {"127.0.0.0/8", IPB_PLACE_LOOPBACK, "a loopback address",
     "services of this host that trust their neighbours"},
    {"::1", IPB_PLACE_LOOPBACK, "a loopback address", "the same"},
    {"169.254.0.0/16", IPB_PLACE_SPECIAL, "a link-local address",
     "metadata services of most clouds; neighbours on the wire"},
    {"fe80::/10", IPB_PLACE_SPECIAL, "a link-local address", "neighbours on the wire"},
    {"255.255.255.255", IPB_PLACE_SPECIAL, "the broadcast address", "no single server"},
    {"224.0.0.0/4", IPB_PLACE_SPECIAL, "a multicast address", "no single server"},
    {"ff00::/8", IPB_PLACE_SPECIAL, "a multicast address", "no single server"},
    {"10.0.0.0/8", IPB_PLACE_PRIVATE, "a private address", "RFC 1918"},
    {"172.16.0.0/12", IPB_PLACE_PRIVATE, "a private address", "RFC 1918; Docker's networks"},
    {"192.168.0.0/16", IPB_PLACE_PRIVATE, "a private address", "RFC 1918"},
    {"100.64.0.0/10", IPB_PLACE_PRIVATE, "a private address",
     "RFC 6598: carriers; also VPN meshes and clusters"},
    {"192.0.0.0/24", IPB_PLACE_PRIVATE, "a private address", "RFC 6890: of protocols"},
    {"240.0.0.0/4", IPB_PLACE_PRIVATE, "a reserved address", "used inside some organisations"},
    {"fc00::/7", IPB_PLACE_PRIVATE, "a private address", "RFC 4193"},
    {"fec0::/10", IPB_PLACE_PRIVATE, "a private address", "RFC 3879: the former site-local"},
    {"64:ff9b:1::/48", IPB_PLACE_PRIVATE, "a private address",
     "RFC 8215: local NAT64, whose IPv4 address cannot be told from it"},
};

/* 2001:0000::/32, RFC 4380: the server's address is in bytes 4 to 7, the client's inverted in the last four. */
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
ipb_place_carried(const IpbHost *address, IpbHost ret_carried[IPB_PLACE_MAX_CARRIED])
{
    if (is_teredo(address)) {
        uint8_t client[4];
        for (size_t i = 0; i < sizeof client; i++)
            client[i] = (uint8_t) ~address->address[12 + i];
        ipb_hostname_from_address(address->address + 4, 4, &ret_carried[0]);
        ipb_hostname_from_address(client, sizeof client, &ret_carried[1]);
        return 2;
    }
    /* "::1" is no IPv4-compatible address. */
    if (is_unspecified_or_loopback(address))
        return 0;
    return ipb_address_embedded_ipv4(address, &ret_carried[0]) ? 1 : 0;
}

static IpbPlace
look_up(const IpbHost *address, const char **ret_name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(ROWS); i++) {
        IpbAddressRange range;
        bool is_valid = ipb_address_range_parse(ROWS[i].range, &range);
        g_assert(is_valid);
        if (ipb_address_range_contains(&range, address)) {
            *ret_name = ROWS[i].name;
            return ROWS[i].place;
        }
    }
    *ret_name = "a public address";
    return IPB_PLACE_PUBLIC;
}

/* Its own row, without what it carries: ::1 is loopback, not the IPv4-compatible 0.0.0.1. */
static IpbPlace
look_up_exactly(const IpbHost *address, const char **ret_name)
{
    if (is_unspecified_or_loopback(address)) {
        bool is_loopback = address->address[15] == 1;
        *ret_name = is_loopback ? "a loopback address" : "an unspecified address";
        return is_loopback ? IPB_PLACE_LOOPBACK : IPB_PLACE_SPECIAL;
    }
    return look_up(address, ret_name);
}

IpbPlace
ipb_place_of(const IpbHost *address, const char **ret_name)
{
    IpbHost carried[IPB_PLACE_MAX_CARRIED];
    size_t n = ipb_place_carried(address, carried);
    IpbPlace worst = look_up_exactly(address, ret_name);
    for (size_t i = 0; i < n; i++) {
        const char *name;
        IpbPlace place = look_up(&carried[i], &name);
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
ipb_place_equal(const IpbHost *address, const IpbHost *other)
{
    IpbHost carried[IPB_PLACE_MAX_CARRIED];
    size_t n = ipb_place_carried(address, carried);
    for (size_t i = 0; i < n; i++)
        if (is_same(&carried[i], other))
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
ipb_place_is_own(const IpbHost *address)
{
    struct ifaddrs *interfaces;
    bool is_own = false;
    if (getifaddrs(&interfaces) < 0)
        return true;
    for (struct ifaddrs *i = interfaces; i != NULL && !is_own; i = i->ifa_next) {
        IpbHost own;
        is_own = read_interface(i->ifa_addr, &own) && ipb_place_equal(address, &own);
    }
    freeifaddrs(interfaces);
    return is_own;
}
