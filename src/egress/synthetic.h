/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSynthetic: the addresses that names have inside a sandbox. Each name gets one of 198.18.0.0/15 when it is first asked for
 * and keeps it; an address never comes to mean another name, so a connection to it says which name it is for,
 * however long ago the program asked.
 *
 * Ownership: the owner frees it.
 */
#pragma once

#include <glib.h>

#include "sandbox/hostname.h"

typedef struct IpbSynthetic IpbSynthetic;

IpbSynthetic *ipb_synthetic_new(void);
void ipb_synthetic_free(IpbSynthetic *synthetic);
/* False: the table is full; names that are in it go on working. */
bool ipb_synthetic_assign(IpbSynthetic *synthetic, const IpbHost *name, uint8_t ret_address[4]);
/* Is it an address of this range, given out or not? */
bool ipb_synthetic_has_range(const IpbHost *address);
/* False: the address was not given out. */
bool ipb_synthetic_look_up(const IpbSynthetic *synthetic, const IpbHost *address,
                           IpbHost *ret_name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSynthetic, ipb_synthetic_free)
