/* SPDX-License-Identifier: Apache-2.0
 *
 * The one parser of host names. Whatever names a host, a rule of the policy, a proxy request, a DNS question, a TLS server name,
 * goes through it, so that two spellings of one host are one text and a spelling that programs read in different ways is
 * refused: other bytes than letters, digits, "-", "_" and ".", empty or long labels, escapes, user names, zones.
 *
 * Canonical is: lower case, no trailing dot; an address in its one usual spelling. What an old resolver would take for an IPv4
 * address (0x7f.1, 017700000001, 2130706433) is that address, and an IPv4 address inside IPv6 (::ffff:127.0.0.1) is the IPv4 one.
 *
 * Pure functions; nothing is allocated.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IPB_HOST_MAX 253

typedef enum {
    IPB_HOST_NAME,
    IPB_HOST_IPV4,
    IPB_HOST_IPV6,
} IpbHostKind;

typedef struct {
    IpbHostKind kind;
    char text[IPB_HOST_MAX + 1]; /* canonical; an IPv6 address without brackets */
    uint8_t address[16];         /* of an address, in network order; of IPv4 the first four */
} IpbHost;

/* @text need not end in NUL. An IPv6 address may stand in brackets. False: *ret_reason (may be NULL) is a constant text. */
bool ipb_hostname_parse(const char *text, size_t size, IpbHost *ret_host, const char **ret_reason);
/* "host", "host:port", "[v6]", "[v6]:port"; *ret_port is 0 where none stands there. An IPv6 address must be in brackets. */
bool ipb_hostname_parse_authority(const char *text, size_t size, IpbHost *ret_host,
                                  unsigned *ret_port, const char **ret_reason);
/* Decimal, 1 to 65535, no sign, no leading zero. */
bool ipb_hostname_parse_port(const char *text, size_t size, unsigned *ret_port);
/* From 4 or 16 bytes in network order, as sockets have them. */
void ipb_hostname_from_address(const void *address, size_t size, IpbHost *ret_host);
