/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbAddressClass: which network or host an IP address belongs to. The owner of a name can let it
 * resolve to any address, so names must not lead to some classes of addresses. The source has the
 * table of these classes. An IPv6 address can embed IPv4 addresses (mapped, NAT64, 6to4, Teredo,
 * …), which count as well.
 *
 * Pure, except for ipb_address_class_is_own. No function allocates.
 */
#pragma once

#include "sandbox/hostname.h"

#define IPB_ADDRESS_CLASS_MAX_EMBEDDED 2

/* From harmless to most dangerous. */
typedef enum {
    IPB_ADDRESS_CLASS_PUBLIC,
    /* In this organisation. A name may lead there if the policy allows exactly this name. */
    IPB_ADDRESS_CLASS_PRIVATE,
    /* This class and the next: no name may lead there. The only exception is localhost, which leads
     * to loopback. */
    IPB_ADDRESS_CLASS_LOOPBACK,
    IPB_ADDRESS_CLASS_SPECIAL,
} IpbAddressClass;

/* *ret_name: static, for example "a loopback address". */
IpbAddressClass ipb_address_class_of(const IpbHost *address, const char **ret_name);
/* Is it the address of a network interface of this host? Also true if the interfaces cannot be
 * read. */
bool ipb_address_class_is_own(const IpbHost *address);
/* The IPv4 addresses where traffic to an IPv6 address may end. Returns how many there are. */
size_t ipb_address_class_embedded(const IpbHost *address,
                                  IpbHost ret_embedded[IPB_ADDRESS_CLASS_MAX_EMBEDDED]);
/* Are the addresses equal, or is @other embedded in @address? */
bool ipb_address_class_equal(const IpbHost *address, const IpbHost *other);
