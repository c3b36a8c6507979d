/* SPDX-License-Identifier: Apache-2.0
 *
 * The only parser of host names. All host names go through it: those in rules of the policy, proxy
 * requests, DNS questions and TLS server names. So two spellings of one host become one text.
 * Spellings that programs read in different ways are refused: bytes other than letters, digits,
 * "-", "_" and ".", empty or long labels, escapes, user names, zones.
 *
 * The canonical form is lower case, without a trailing dot. An address has its one usual spelling.
 * What an old resolver would read as an IPv4 address (0x7f.1, 017700000001, 2130706433) becomes
 * that address, and an IPv4 address inside IPv6 (::ffff:127.0.0.1) becomes the IPv4 address.
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
    uint8_t address[16];         /* of an address, in network order; of IPv4 the first four bytes */
} IpbHost;

/* @text need not end in NUL. An IPv6 address may be in brackets. On failure *ret_reason (may be
 * NULL) is a constant text. */
bool ipb_hostname_parse(const char *text, size_t size, IpbHost *ret_host, const char **ret_reason);
/* Parses "host", "host:port", "[v6]" or "[v6]:port". *ret_port is 0 if there is no port. An IPv6
 * address must be in brackets. */
bool ipb_hostname_parse_authority(const char *text, size_t size, IpbHost *ret_host,
                                  unsigned *ret_port, const char **ret_reason);
/* A decimal number from 1 to 65535, without sign and leading zeros. */
bool ipb_hostname_parse_port(const char *text, size_t size, unsigned *ret_port);
/* @address: 4 or 16 bytes in network order, as sockets have them. */
void ipb_hostname_from_address(const void *address, size_t size, IpbHost *ret_host);
