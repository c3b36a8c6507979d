/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of IP addresses ("10.0.0.0/8", "fc00::/7", "192.0.2.1"). Some IPv6 addresses contain an
 * IPv4 address to which some network would deliver them (IPv4-mapped, IPv4-compatible,
 * IPv4-translated, NAT64, 6to4). Such an address is also in the ranges of its IPv4 address.
 *
 * Pure functions; nothing is allocated.
 */
#pragma once

#include "sandbox/hostname.h"

typedef struct {
    IpbHostKind kind; /* IPB_HOST_IPV4 or IPB_HOST_IPV6 */
    uint8_t address[16];
    unsigned prefix; /* number of leading bits that are compared */
} IpbAddressRange;

/* @text: an address, or an address, "/" and the number of bits. IPv6 without brackets. */
bool ipb_address_range_parse(const char *text, IpbAddressRange *ret_range);
/* Returns false for a host name. */
bool ipb_address_range_contains(const IpbAddressRange *range, const IpbHost *host);
/* Returns false if @host does not contain an IPv4 address. */
bool ipb_address_embedded_ipv4(const IpbHost *host, IpbHost *ret_ipv4);
