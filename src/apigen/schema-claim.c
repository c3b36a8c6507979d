/* SPDX-License-Identifier: Apache-2.0
 *
 * What classes and enums claim as their names, by where they stand; names-class.c decides.
 */
#include "apigen/schema-private.h"

static unsigned
get_rank(IpbHint hint)
{
    bool is_in_root = hint.parent == NULL || hint.parent->claim == NULL;
    if (hint.is_definition)
        return 0;
    return is_in_root ? 1 : MAX(hint.parent->claim->rank, 1) + 1;
}

IpbClaim *
ipb_schema_claim(IpbSchemaReader *reader, const char **name, IpbHint hint)
{
    IpbClaim *claim = ipb_module_add_claim(reader->module, name);
    claim->base = g_string_chunk_insert(reader->module->strings, hint.name);
    claim->parent = hint.is_definition ? NULL : hint.parent;
    claim->rank = get_rank(hint);
    claim->is_input = reader->is_input;
    return claim;
}

void
ipb_schema_claim_again(IpbClaim *claim, IpbHint hint)
{
    unsigned rank = get_rank(hint);
    if (claim == NULL || rank >= claim->rank)
        return;
    claim->rank = rank;
    claim->parent = hint.is_definition ? NULL : hint.parent;
}
