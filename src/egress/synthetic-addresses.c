/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of synthetic addresses; see the header. Addresses are assigned from 198.18.0.1 upwards.
 */
#include "egress/synthetic-addresses.h"

#include <string.h>

/* A wildcard allows any number of names. The range has room for 131,071. */
#define MAX_NAMES 16384
#define FIRST_ADDRESS UINT32_C(0xc6120001) /* 198.18.0.1 */
#define RANGE_MASK UINT32_C(0xfffe0000)

struct IpbSyntheticAddresses {
    GPtrArray *names; /* char *, in the order of their addresses */
    GHashTable *indexes;
};

IpbSyntheticAddresses *
ipb_synthetic_addresses_new(void)
{
    IpbSyntheticAddresses *addresses = g_new0(IpbSyntheticAddresses, 1);
    addresses->names = g_ptr_array_new_with_free_func(g_free);
    addresses->indexes = g_hash_table_new(g_str_hash, g_str_equal);
    return addresses;
}

void
ipb_synthetic_addresses_free(IpbSyntheticAddresses *addresses)
{
    if (addresses == NULL)
        return;
    g_hash_table_unref(addresses->indexes);
    g_ptr_array_unref(addresses->names);
    g_free(addresses);
}

static uint32_t
to_number(const IpbHost *address)
{
    uint32_t number;
    memcpy(&number, address->address, sizeof number);
    return GUINT32_FROM_BE(number);
}

bool
ipb_synthetic_addresses_assign(IpbSyntheticAddresses *addresses, const IpbHost *name,
                               uint8_t ret_address[4])
{
    gpointer index;
    if (!g_hash_table_lookup_extended(addresses->indexes, name->text, NULL, &index)) {
        if (addresses->names->len >= MAX_NAMES)
            return false;
        index = GUINT_TO_POINTER(addresses->names->len);
        g_ptr_array_add(addresses->names, g_strdup(name->text));
        g_hash_table_insert(addresses->indexes,
                            g_ptr_array_index(addresses->names, addresses->names->len - 1), index);
    }
    uint32_t number = GUINT32_TO_BE(FIRST_ADDRESS + GPOINTER_TO_UINT(index));
    memcpy(ret_address, &number, sizeof number);
    return true;
}

bool
ipb_synthetic_addresses_is_in_range(const IpbHost *address)
{
    return address->kind == IPB_HOST_IPV4 &&
           (to_number(address) & RANGE_MASK) == (FIRST_ADDRESS & RANGE_MASK);
}

bool
ipb_synthetic_addresses_look_up(const IpbSyntheticAddresses *addresses, const IpbHost *address,
                                IpbHost *ret_name)
{
    if (!ipb_synthetic_addresses_is_in_range(address) || to_number(address) < FIRST_ADDRESS)
        return false;
    uint32_t index = to_number(address) - FIRST_ADDRESS;
    if (index >= addresses->names->len)
        return false;
    const char *name = g_ptr_array_index(addresses->names, index);
    return ipb_hostname_parse(name, strlen(name), ret_name, NULL);
}
