/* SPDX-License-Identifier: Apache-2.0
 *
 * Which class gets a name that several classes or enums of a module could have. An addition to a schema
 * should rename nothing else, so the order in the schema decides as little as possible:
 *
 * - Input comes before output, a definition before a property, and what has fewer classes around it before what has more.
 * - Where that leaves several of different classes, none gets the bare name: each has its class in front.
 * - Several of one class, such as alternatives, get the constant of a required member that differs in
 *   each: "MarkerOverlay". Without one they are numbered. So are definitions, and names that still
 *   collide.
 */
#include "apigen/names.h"

#include <string.h>

#include "apigen/identifier.h"

/* Bytes of a name with that of the class around it. */
#define MAX_QUALIFIED 120
/* Alternatives that are named by a member of theirs, and members that are tried. */
#define MAX_TAGGED 64
#define MAX_TAGS 20

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
    GPtrArray *equals; /* IpbClaim that are as good, the best among them */
} Contest;

static void
free_contest(void *data)
{
    Contest *contest = data;
    g_ptr_array_unref(contest->equals);
    g_free(contest);
}

static GHashTable *
find_contests(const GPtrArray *claims)
{
    GHashTable *contests = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_contest);
    for (guint i = 0; i < claims->len; i++) {
        const IpbClaim *claim = g_ptr_array_index(claims, i);
        Contest *contest = g_hash_table_lookup(contests, claim->base);
        if (contest == NULL) {
            contest = g_new0(Contest, 1);
            contest->best = claim;
            contest->equals = g_ptr_array_new();
            g_hash_table_insert(contests, (void *) claim->base, contest);
        }
        if (compare_claims(&contest->best, &claim) == 0) {
            contest->is_shared |= contest->best->parent != claim->parent;
            g_ptr_array_add(contest->equals, (void *) claim);
        }
    }
    return contests;
}

/* The constant of the member by which an alternative is known; an empty text: it has none. */
static IpbText
get_tag(const IpbClass *class, IpbText name)
{
    for (guint i = 0; class != NULL && i < class->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        bool is_it = field->wire_name.size == name.size &&
                     memcmp(field->wire_name.text, name.text, name.size) == 0;
        if (is_it && field->is_required && field->type->kind == IPB_TYPE_LITERAL &&
            field->type->members->len == 1)
            return ipb_text_of(g_ptr_array_index(field->type->members, 0));
    }
    return (IpbText){0};
}

/* The claims' names with the constants of that member in front; NULL if not each has another. */
static GPtrArray *
make_tagged(const GPtrArray *claims, IpbText member)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    for (guint i = 0; i < claims->len; i++) {
        const IpbClaim *claim = g_ptr_array_index(claims, i);
        g_autofree char *tag = ipb_identifier_make_class(get_tag(claim->class, member));
        char *name = g_strconcat(tag, claim->base, NULL);
        bool is_known = g_ptr_array_find_with_equal_func(names, name, g_str_equal, NULL);
        g_ptr_array_add(names, name);
        if (tag[0] == '\0' || is_known)
            return NULL;
    }
    return g_steal_pointer(&names);
}

/* Names alternatives by the value in which they differ, if there is one. */
static void
take_tagged(IpbModule *module, const Contest *contest)
{
    const IpbClass *first = contest->best->class;
    if (contest->is_shared || contest->equals->len < 2 || contest->equals->len > MAX_TAGGED ||
        first == NULL)
        return;
    for (guint i = 0; i < first->fields->len && i < MAX_TAGS; i++) {
        const IpbField *field = g_ptr_array_index(first->fields, i);
        g_autoptr(GPtrArray) names = make_tagged(contest->equals, field->wire_name);
        for (guint k = 0; names != NULL && k < names->len; k++) {
            const IpbClaim *claim = g_ptr_array_index(contest->equals, k);
            *claim->name = ipb_names_take(module, g_ptr_array_index(names, k));
        }
        if (names != NULL)
            return;
    }
}

/* The class in "Item_2" is "ItemSort", with a number of its own if needed. A class that would have
 * the name of the module's own class gets "Value" appended. */
static const char *
take_qualified(IpbModule *module, const IpbClaim *claim)
{
    const char *root = claim->is_input ? "Params" : "Result";
    g_autoptr(GString) name = g_string_new(root);
    if (claim->parent != NULL)
        g_string_assign(name, claim->parent->name);
    const char *number = strrchr(name->str, '_');
    if (number != NULL && strspn(number + 1, "0123456789") == strlen(number + 1))
        g_string_truncate(name, (gsize) (number - name->str));
    g_string_replace(name, "_", "", 0);
    bool is_root = g_str_equal(claim->base, root) && g_str_equal(name->str, root);
    g_string_append(name, is_root ? "Value" : claim->base);
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
        if (contest->best == claim)
            take_tagged(module, contest);
        if (contest->best == claim && *claim->name == NULL && !contest->is_shared &&
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
