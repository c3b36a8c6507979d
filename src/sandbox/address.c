/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of IP addresses; see the header.
 */
#include "sandbox/address.h"

#include <string.h>

#include <glib.h>

/* Where IPv6 addresses contain IPv4 addresses: the prefix, and the byte at which the address
 * begins. */
static const struct {
    uint8_t prefix[12];
    unsigned prefix_size;
    unsigned offset;
} CARRIERS[] = {
    {{[10] = 0xff, [11] = 0xff}, 12, 12}, /* mapped: ::ffff:0:0/96 */
    {{0}, 12, 12},                        /* compatible: ::/96 */
    {{[8] = 0xff, [9] = 0xff}, 12, 12},   /* translated: ::ffff:0:0:0/96 */
    {{0x00, 0x64, 0xff, 0x9b}, 12, 12},   /* NAT64: 64:ff9b::/96 */
    {{0x20, 0x02}, 2, 2},                 /* 6to4: 2002::/16 */
};

bool
ipb_address_embedded_ipv4(const IpbHost *host, IpbHost *ret_ipv4)
{
    if (host->kind != IPB_HOST_IPV6)
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(CARRIERS); i++) {
        if (memcmp(host->address, CARRIERS[i].prefix, CARRIERS[i].prefix_size) != 0)
            continue;
        ipb_hostname_from_address(host->address + CARRIERS[i].offset, 4, ret_ipv4);
        return true;
    }
    return false;
}

/* Parses the number of bits after "/": digits only, at most @max. */
static bool
parse_prefix(const char *text, unsigned max, unsigned *ret_prefix)
{
    size_t size = strlen(text);
    if (size == 0 || size > 3 || strspn(text, "0123456789") != size)
        return false;
    unsigned value = 0;
    for (; *text != '\0'; text++)
        value = value * 10 + (unsigned) (*text - '0');
    *ret_prefix = value;
    return value <= max;
}

bool
ipb_address_range_parse(const char *text, IpbAddressRange *ret_range)
{
    size_t size = strcspn(text, "/");
    IpbHost host;
    if (text[0] == '[' || !ipb_hostname_parse(text, size, &host, NULL) ||
        host.kind == IPB_HOST_NAME)
        return false;
    bool was_ipv6 = memchr(text, ':', size) != NULL;
    unsigned max = was_ipv6 ? 128 : 32;
    unsigned prefix = max;
    if (text[size] == '/' && !parse_prefix(text + size + 1, max, &prefix))
        return false;
    if (was_ipv6 && host.kind == IPB_HOST_IPV4) {
        /* ::ffff:10.0.0.0/104 is 10.0.0.0/8. */
        if (prefix < 96)
            return false;
        prefix -= 96;
    }
    *ret_range = (IpbAddressRange){.kind = host.kind, .prefix = prefix};
    memcpy(ret_range->address, host.address, sizeof host.address);
    return true;
}

static bool
has_prefix(const uint8_t *address, const IpbAddressRange *range)
{
    unsigned n_bytes = range->prefix / 8, n_bits = range->prefix % 8;
    if (memcmp(address, range->address, n_bytes) != 0)
        return false;
    return n_bits == 0 || ((address[n_bytes] ^ range->address[n_bytes]) >> (8 - n_bits)) == 0;
}

bool
ipb_address_range_contains(const IpbAddressRange *range, const IpbHost *host)
{
    if (host->kind == range->kind)
        return has_prefix(host->address, range);
    IpbHost ipv4;
    return range->kind == IPB_HOST_IPV4 && ipb_address_embedded_ipv4(host, &ipv4) &&
           has_prefix(ipv4.address, range);
}
