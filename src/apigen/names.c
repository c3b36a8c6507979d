/* SPDX-License-Identifier: Apache-2.0
 *
 * Names told apart, within a module and within a class; see the header.
 */
#include "apigen/names.h"

#include <string.h>

#include "apigen/identifier.h"

/* What generated modules use at their level, whether this one does or not: names stay stable. */
static const char *const MODULE_NAMES[] = {
    "Annotated", "Any",         "AnyResult",       "CLIENT",      "Enum",       "Field",
    "Literal",   "Model",       "Params",          "Result",      "run",        "ResultError",
    "ToolDict",  "ToolFloat",   "ToolInt",         "ToolList",    "ToolResult", "ToolText",
    "overload",  "TypeAdapter", "ValidationError", "annotations", "run_parsed", "ParseResult",
    NULL,
};

/* A field of such a name would hide what an annotation or a default of its class means … */
static const char *const ANNOTATION_NAMES[] = {
    "Annotated", "Any", "Field", "Literal", "bool",  "dict",
    "float",     "int", "list",  "str",     "tuple", NULL,
};

/* … or what pydantic, in any version from 2.5 on, and our Model have as attributes. */
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

/* @name, or the first of @name_2, @name_3 … that is in neither set. Numbers go up by a search that stays
 * linear over all: @counters remembers the last number of each name. */
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
    const char *kept = g_string_chunk_insert(module->strings, unique);
    g_hash_table_add(module->taken, (void *) kept);
    return kept;
}

/* The fields or members of one class while they are named: those that can keep their wire names do, then
 * the others are named around them. */
typedef struct {
    IpbModule *module;
    GHashTable *taken;
    /* Kept free even where they are no names here, so that both spellings are clear */
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
    const char *kept = g_string_chunk_insert(naming->module->strings, unique);
    g_hash_table_add(naming->taken, (void *) kept);
    return kept;
}

static bool
is_same(IpbText wire, const char *name)
{
    return strlen(name) == wire.size && memcmp(wire.text, name, wire.size) == 0;
}

void
ipb_names_give_members(IpbModule *module, IpbEnum *enumeration)
{
    Naming naming;
    init_naming(&naming, module);
    for (int changed = 0; changed <= 1; changed++)
        for (guint i = 0; i < enumeration->members->len; i++) {
            IpbEnumMember *member = &g_array_index(enumeration->members, IpbEnumMember, i);
            IpbText wire = ipb_text_of(member->value);
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

/* "run" and "annotations" stand in no annotation. */
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
            if (strlen(field->wire_name.text) == field->wire_name.size)
                g_hash_table_add(naming.wire_names, (void *) field->wire_name.text);
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
