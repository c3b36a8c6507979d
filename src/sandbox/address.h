/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of IP addresses ("10.0.0.0/8", "fc00::/7", "192.0.2.1"). An IPv6 address that carries an IPv4 one, and that some network
 * would deliver to it (IPv4-mapped, -compatible and -translated, NAT64, 6to4), lies in the ranges of that IPv4 address, too.
 *
 * Pure functions; nothing is allocated.
 */
#pragma once

#include "sandbox/hostname.h"

typedef struct {
    IpbHostKind kind; /* IPB_HOST_IPV4 or IPB_HOST_IPV6 */
    uint8_t address[16];
    unsigned prefix; /* bits that count */
} IpbAddressRange;

/* @text: an address, or an address, "/" and the number of bits; IPv6 without brackets. */
bool ipb_address_range_parse(const char *text, IpbAddressRange *ret_range);
/* False for a name. */
bool ipb_address_range_contains(const IpbAddressRange *range, const IpbHost *host);
/* Does an IPv6 address carry an IPv4 one? */
bool ipb_address_embedded_ipv4(const IpbHost *host, IpbHost *ret_ipv4);
