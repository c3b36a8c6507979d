/* SPDX-License-Identifier: Apache-2.0
 *
 * What kind of place an address leads to: the table of those that a name must not lead to, since who controls a
 * name's DNS decides where it points. An IPv6 address that carries IPv4 ones (mapped, NAT64, 6to4, Teredo, …) is judged by those,
 * too.
 *
 * Pure functions but for ipb_place_is_own; nothing is allocated.
 */
#pragma once

#include "sandbox/hostname.h"

#define IPB_PLACE_MAX_CARRIED 2

/* From harmless to worst. */
typedef enum {
    IPB_PLACE_PUBLIC,
    IPB_PLACE_PRIVATE,  /* of this organisation: for names that the policy allows exactly */
    IPB_PLACE_LOOPBACK, /* this and what follows: for no name, but loopback for localhost */
    IPB_PLACE_SPECIAL,
} IpbPlace;

/* *ret_name: such as "a loopback address", static. */
IpbPlace ipb_place_of(const IpbHost *address, const char **ret_name);
/* Does one of this host's network interfaces have it? True if that cannot be told. */
bool ipb_place_is_own(const IpbHost *address);
/* The IPv4 addresses at which traffic to an IPv6 address may end; returns how many. */
size_t ipb_place_carried(const IpbHost *address, IpbHost ret_carried[IPB_PLACE_MAX_CARRIED]);
/* The same address, or one that carries the other? */
bool ipb_place_equal(const IpbHost *address, const IpbHost *other);
