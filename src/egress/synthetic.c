/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of synthetic addresses; see the header. Addresses are given out from 198.18.0.1 upwards.
 */
#include "egress/synthetic.h"

#include <string.h>

/* A wildcard allows names without end; the range has room for 131,071. */
#define MAX_NAMES 16384
#define FIRST_ADDRESS UINT32_C(0xc6120001) /* 198.18.0.1 */
#define RANGE_MASK UINT32_C(0xfffe0000)

struct IpbSynthetic {
    GPtrArray *names; /* char *, in the order of their addresses */
    GHashTable *indexes;
};

IpbSynthetic *
ipb_synthetic_new(void)
{
    IpbSynthetic *synthetic = g_new0(IpbSynthetic, 1);
    synthetic->names = g_ptr_array_new_with_free_func(g_free);
    synthetic->indexes = g_hash_table_new(g_str_hash, g_str_equal);
    return synthetic;
}

void
ipb_synthetic_free(IpbSynthetic *synthetic)
{
    if (synthetic == NULL)
        return;
    g_hash_table_unref(synthetic->indexes);
    g_ptr_array_unref(synthetic->names);
    g_free(synthetic);
}

static uint32_t
to_number(const IpbHost *address)
{
    uint32_t number;
    memcpy(&number, address->address, sizeof number);
    return GUINT32_FROM_BE(number);
}

bool
ipb_synthetic_assign(IpbSynthetic *synthetic, const IpbHost *name, uint8_t ret_address[4])
{
    gpointer index;
    if (!g_hash_table_lookup_extended(synthetic->indexes, name->text, NULL, &index)) {
        if (synthetic->names->len >= MAX_NAMES)
            return false;
        index = GUINT_TO_POINTER(synthetic->names->len);
        g_ptr_array_add(synthetic->names, g_strdup(name->text));
        g_hash_table_insert(synthetic->indexes,
                            g_ptr_array_index(synthetic->names, synthetic->names->len - 1), index);
    }
    uint32_t number = GUINT32_TO_BE(FIRST_ADDRESS + GPOINTER_TO_UINT(index));
    memcpy(ret_address, &number, sizeof number);
    return true;
}

bool
ipb_synthetic_has_range(const IpbHost *address)
{
    return address->kind == IPB_HOST_IPV4 &&
           (to_number(address) & RANGE_MASK) == (FIRST_ADDRESS & RANGE_MASK);
}

bool
ipb_synthetic_look_up(const IpbSynthetic *synthetic, const IpbHost *address, IpbHost *ret_name)
{
    if (!ipb_synthetic_has_range(address) || to_number(address) < FIRST_ADDRESS)
        return false;
    uint32_t index = to_number(address) - FIRST_ADDRESS;
    if (index >= synthetic->names->len)
        return false;
    const char *name = g_ptr_array_index(synthetic->names, index);
    return ipb_hostname_parse(name, strlen(name), ret_name, NULL);
}
