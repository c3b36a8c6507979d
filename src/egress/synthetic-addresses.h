/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSyntheticAddresses: the addresses that names have inside a sandbox. A name gets an address of
 * 198.18.0.0/15 when a program first asks for it. An address never changes its name. So a
 * connection to an address says which name it is for, however long ago the program asked.
 *
 * Ownership: the owner frees it.
 */
#pragma once

#include <glib.h>

#include "sandbox/hostname.h"

typedef struct IpbSyntheticAddresses IpbSyntheticAddresses;

IpbSyntheticAddresses *ipb_synthetic_addresses_new(void);
void ipb_synthetic_addresses_free(IpbSyntheticAddresses *addresses);
/* False: the table is full. Names that are in the table still work. */
bool ipb_synthetic_addresses_assign(IpbSyntheticAddresses *addresses, const IpbHost *name,
                                    uint8_t ret_address[4]);
/* Is it an address of the range, assigned or not? */
bool ipb_synthetic_addresses_is_in_range(const IpbHost *address);
/* False: the address was not assigned. */
bool ipb_synthetic_addresses_look_up(const IpbSyntheticAddresses *addresses, const IpbHost *address,
                                     IpbHost *ret_name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSyntheticAddresses, ipb_synthetic_addresses_free)
