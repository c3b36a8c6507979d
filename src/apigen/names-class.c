/* SPDX-License-Identifier: Apache-2.0
 *
 * Who gets a name that several classes or enums of a module want. What is added to a schema should rename nothing else,
 * so the order in the schema decides as little as can be:
 *
 * - Input comes before output, a definition before a property, and what has fewer classes around it before what has more.
 * - Where that leaves several of different classes, none gets the bare name: each has its class in front.
 * - Those of one class, as alternatives are, are numbered. So are definitions, and what still collides.
 */
#include "apigen/names.h"

/* Bytes of a name with that of the class around it. */
#define MAX_QUALIFIED 120

static int
compare_claims(const void *a, const void *b)
{
    const IpbClaim *x = *(const IpbClaim *const *) a, *y = *(const IpbClaim *const *) b;
    if (x->is_input != y->is_input)
        return x->is_input ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The best claim for each name; is_shared: others are as good, and have other classes around them. */
typedef struct {
    const IpbClaim *best;
    bool is_shared;
} Contest;

static GHashTable *
find_contests(const GPtrArray *claims)
{
    GHashTable *contests = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
    for (guint i = 0; i < claims->len; i++) {
        const IpbClaim *claim = g_ptr_array_index(claims, i);
        Contest *contest = g_hash_table_lookup(contests, claim->base);
        if (contest == NULL) {
            contest = g_new0(Contest, 1);
            contest->best = claim;
            g_hash_table_insert(contests, (void *) claim->base, contest);
        } else if (compare_claims(&contest->best, &claim) == 0) {
            contest->is_shared |= contest->best->parent != claim->parent;
        }
    }
    return contests;
}

/* "Item_2" has "Item2Sort". */
static const char *
take_qualified(IpbModule *module, const IpbClaim *claim)
{
    g_autoptr(GString) name = g_string_new(claim->is_input ? "Params" : "Result");
    if (claim->parent != NULL)
        g_string_assign(name, claim->parent->name);
    g_string_replace(name, "_", "", 0);
    g_string_append(name, claim->base);
    return ipb_names_take(module, name->len <= MAX_QUALIFIED ? name->str : claim->base);
}

void
ipb_names_give_classes(IpbModule *module)
{
    g_autoptr(GPtrArray) claims = g_ptr_array_new();
    g_ptr_array_extend(claims, module->claims, NULL, NULL);
    g_ptr_array_sort(claims, compare_claims); /* keeps the order of equals */
    g_autoptr(GHashTable) contests = find_contests(claims);
    for (guint i = 0; i < claims->len; i++) {
        const IpbClaim *claim = g_ptr_array_index(claims, i);
        const Contest *contest = g_hash_table_lookup(contests, claim->base);
        if (contest->best == claim && !contest->is_shared &&
            !g_hash_table_contains(module->taken, claim->base))
            *claim->name = ipb_names_take(module, claim->base);
    }
    /* Classes around others come before them, so they have their names. */
    for (guint i = 0; i < claims->len; i++) {
        const IpbClaim *claim = g_ptr_array_index(claims, i);
        const Contest *contest = g_hash_table_lookup(contests, claim->base);
        bool is_sibling = *contest->best->name != NULL && !contest->is_shared &&
                          compare_claims(&contest->best, &claim) == 0;
        if (*claim->name == NULL)
            *claim->name =
                is_sibling ? ipb_names_take(module, claim->base) : take_qualified(module, claim);
    }
}
