/* SPDX-License-Identifier: Apache-2.0
 *
 * Names within a module and within a class; see the header.
 *
 * Several classes or enums of a module can claim the same name. An addition to a schema should
 * rename nothing else, so the order in the schema decides as little as possible:
 *
 * - Input comes before output, a definition before a property, and a class with fewer classes
 *   around it before one with more.
 * - If several claims of different classes are equal, none gets the bare name. Each gets the name
 *   of the class around it in front.
 * - Several claims of one class, such as alternatives, get the constant of a required member that
 *   differs in each: "MarkerOverlay". Without such a member they are numbered. So are definitions,
 *   and names that are still equal.
 */
#include "apigen/names.h"

#include <string.h>

#include "apigen/identifier.h"
#include "apigen/wtf8.h"

/* Names that generated modules use at their level. All are reserved in every module, so that names
 * are stable. */
static const char *const MODULE_NAMES[] = {
    "Annotated", "Any",         "AnyResult",       "CLIENT",      "Enum",       "Field",
    "Literal",   "Model",       "Params",          "Result",      "run",        "ResultError",
    "ToolDict",  "ToolFloat",   "ToolInt",         "ToolList",    "ToolResult", "ToolText",
    "overload",  "TypeAdapter", "ValidationError", "annotations", "run_parsed", "ParseResult",
    NULL,
};

/* A field of such a name would hide a name that annotations and defaults of its class use … */
static const char *const ANNOTATION_NAMES[] = {
    "Annotated", "Any", "Field", "Literal", "bool",  "dict",
    "float",     "int", "list",  "str",     "tuple", NULL,
};

/* … or an attribute of pydantic's models, in any version from 2.5 on, or of our Model. */
static const char *const MODEL_NAMES[] = {
    "construct",
    "copy",
    "dict",
    "for_call",
    "from_orm",
    "from_wire",
    "json",
    "model_computed_fields",
    "model_config",
    "model_construct",
    "model_copy",
    "model_dump",
    "model_dump_json",
    "model_extra",
    "model_fields",
    "model_fields_set",
    "model_json_schema",
    "model_parametrized_name",
    "model_post_init",
    "model_rebuild",
    "model_validate",
    "model_validate_json",
    "model_validate_strings",
    "parse_file",
    "parse_obj",
    "parse_raw",
    "schema",
    "schema_json",
    "to_wire",
    "update_forward_refs",
    "validate",
    NULL,
};

static const char *const STR_METHODS[] = {
    "capitalize",   "casefold",    "center",    "count",      "encode",       "endswith",
    "expandtabs",   "find",        "format",    "format_map", "index",        "isalnum",
    "isalpha",      "isascii",     "isdecimal", "isdigit",    "isidentifier", "islower",
    "isnumeric",    "isprintable", "isspace",   "istitle",    "isupper",      "join",
    "ljust",        "lower",       "lstrip",    "maketrans",  "partition",    "removeprefix",
    "removesuffix", "replace",     "rfind",     "rindex",     "rjust",        "rpartition",
    "rsplit",       "rstrip",      "split",     "splitlines", "startswith",   "strip",
    "swapcase",     "title",       "translate", "upper",      "zfill",        NULL,
};

bool
ipb_names_is_str_method(const char *name)
{
    return g_strv_contains(STR_METHODS, name);
}

/* Returns @name, or the first of @name_2, @name_3 … that is in neither set. @counters remembers the
 * last number of each name, so that naming many things takes linear time. */
static char *
make_unique(const char *name, GHashTable *taken, GHashTable *also_taken, GHashTable *counters)
{
    guint number = GPOINTER_TO_UINT(g_hash_table_lookup(counters, name));
    for (;;) {
        g_autofree char *candidate =
            number == 0 ? g_strdup(name) : g_strdup_printf("%s_%u", name, number + 1);
        number++;
        if (!g_hash_table_contains(taken, candidate) &&
            (also_taken == NULL || !g_hash_table_contains(also_taken, candidate))) {
            g_hash_table_replace(counters, g_strdup(name), GUINT_TO_POINTER(number));
            return g_steal_pointer(&candidate);
        }
    }
}

void
ipb_names_reserve(IpbModule *module)
{
    for (const char *const *name = MODULE_NAMES; *name != NULL; name++)
        g_hash_table_add(module->taken, (void *) *name);
    for (const char *const *name = IPB_PYTHON_KEYWORDS; *name != NULL; name++)
        g_hash_table_add(module->taken, (void *) *name);
}

const char *
ipb_names_take(IpbModule *module, const char *base)
{
    g_autofree char *unique = make_unique(base, module->taken, NULL, module->counters);
    const char *kept = ipb_module_keep(module, unique);
    g_hash_table_add(module->taken, (void *) kept);
    return kept;
}

/* Names the fields or members of one class. First those that can keep their wire names get them,
 * then the others get names that are free. */
typedef struct {
    IpbModule *module;
    GHashTable *taken;
    /* no other field gets one of these, so that both spellings are unambiguous */
    GHashTable *wire_names;
    GHashTable *counters;
} Naming;

static void
init_naming(Naming *naming, IpbModule *module)
{
    *naming = (Naming){
        .module = module,
        .taken = g_hash_table_new(g_str_hash, g_str_equal),
        .wire_names = g_hash_table_new(g_str_hash, g_str_equal),
        .counters = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
    };
}

static void
clear_naming(Naming *naming)
{
    g_hash_table_unref(naming->taken);
    g_hash_table_unref(naming->wire_names);
    g_hash_table_unref(naming->counters);
}

static const char *
give(Naming *naming, const char *name)
{
    g_autofree char *unique =
        make_unique(name, naming->taken, naming->wire_names, naming->counters);
    const char *kept = ipb_module_keep(naming->module, unique);
    g_hash_table_add(naming->taken, (void *) kept);
    return kept;
}

static bool
is_same(IpbSpan wire, const char *name)
{
    return strlen(name) == wire.size && memcmp(wire.start, name, wire.size) == 0;
}

void
ipb_names_give_members(IpbModule *module, IpbEnum *enumeration)
{
    Naming naming;
    init_naming(&naming, module);
    for (int changed = 0; changed <= 1; changed++)
        for (guint i = 0; i < enumeration->members->len; i++) {
            IpbEnumMember *member = &g_array_index(enumeration->members, IpbEnumMember, i);
            IpbSpan wire = ipb_wtf8_from_json(member->value);
            g_autofree char *name = ipb_identifier_make_member(wire);
            bool is_usable = is_same(wire, name) && !g_str_equal(name, "mro");
            if (g_str_equal(name, "mro")) {
                g_free(name);
                name = g_strdup("mro_");
            }
            if (is_usable != (bool) changed)
                member->name = give(&naming, name);
        }
    clear_naming(&naming);
}

/* "run" and "annotations" are used in no annotation, so fields may have these names. */
static bool
is_reserved_field(const IpbModule *module, const char *name)
{
    bool is_harmless = g_strv_contains(MODULE_NAMES, name) && g_ascii_islower(name[0]);
    return g_strv_contains(ANNOTATION_NAMES, name) || g_strv_contains(MODEL_NAMES, name) ||
           (g_hash_table_contains(module->taken, name) && !is_harmless);
}

static void
name_fields(IpbModule *module, IpbClass *class)
{
    Naming naming;
    init_naming(&naming, module);
    for (int changed = 0; changed <= 1; changed++) {
        for (guint i = 0; i < class->fields->len; i++) {
            IpbField *field = g_ptr_array_index(class->fields, i);
            g_autofree char *name = ipb_identifier_make(field->wire_name);
            bool is_reserved = is_reserved_field(module, name);
            bool is_usable = is_same(field->wire_name, name) && !is_reserved;
            if (is_reserved) {
                char *free_name = g_strconcat(name, "_", NULL);
                g_free(name);
                name = free_name;
            }
            if (is_usable != (bool) changed)
                field->name = give(&naming, name);
        }
        for (guint i = 0; i < class->fields->len; i++) {
            const IpbField *field = g_ptr_array_index(class->fields, i);
            if (strlen(field->wire_name.start) == field->wire_name.size)
                g_hash_table_add(naming.wire_names, (void *) field->wire_name.start);
        }
    }
    clear_naming(&naming);
}

void
ipb_names_give_fields(IpbModule *module)
{
    for (guint i = 0; i < module->classes->len; i++)
        name_fields(module, g_ptr_array_index(module->classes, i));
}

/* --- classes and enums ------------------------------------------------------------------------ */

static unsigned
get_rank(IpbNameHint hint)
{
    bool is_in_root = hint.parent == NULL || hint.parent->claim == NULL;
    if (hint.is_definition)
        return 0;
    return is_in_root ? 1 : MAX(hint.parent->claim->rank, 1) + 1;
}

IpbClaim *
ipb_names_claim(IpbModule *module, const char **name, IpbNameHint hint, bool is_input)
{
    IpbClaim *claim = g_new0(IpbClaim, 1);
    claim->name = name;
    claim->base = ipb_module_keep(module, hint.name);
    claim->parent = hint.is_definition ? NULL : hint.parent;
    claim->rank = get_rank(hint);
    claim->is_input = is_input;
    g_ptr_array_add(module->claims, claim);
    return claim;
}

void
ipb_names_claim_again(IpbClaim *claim, IpbNameHint hint)
{
    unsigned rank = get_rank(hint);
    if (claim == NULL || rank >= claim->rank)
        return;
    claim->rank = rank;
    claim->parent = hint.is_definition ? NULL : hint.parent;
}

/* Bytes of a name with the name of the class around it in front. */
#define MAX_QUALIFIED 120
/* Alternatives that are named by a constant, and members that are tried for it. */
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

/* The best claims for one name. is_shared: several are equal, and have different classes around
 * them. */
typedef struct {
    const IpbClaim *best;
    bool is_shared;
    GPtrArray *equals; /* IpbClaim that are equal to the best, including it */
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

/* The constant of the member @name of an alternative; empty if it has none. */
static IpbSpan
get_tag(const IpbClass *class, IpbSpan name)
{
    for (guint i = 0; class != NULL && i < class->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        if (ipb_wtf8_equal(field->wire_name, name) && field->is_required &&
            field->type->kind == IPB_TYPE_LITERAL && field->type->members->len == 1)
            return ipb_wtf8_from_json(g_ptr_array_index(field->type->members, 0));
    }
    return (IpbSpan){0};
}

/* The claims' names with the constants of that member in front. NULL if two would be equal. */
static GPtrArray *
make_tagged(const GPtrArray *claims, IpbSpan member)
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

/* Names alternatives by a constant that differs in each, if there is one. */
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

/* Takes a name with the class around it in front. In the class "Item_2" it is "ItemSort", with a
 * number of its own if needed. A class that would have the name of the module's own class gets
 * "Value" appended. */
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
    g_ptr_array_sort(claims, compare_claims); /* the sort is stable */
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
    /* A class comes before the classes in it, so its name is known here. */
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
