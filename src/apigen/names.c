/* SPDX-License-Identifier: Apache-2.0
 *
 * Python names for names from the wire; see the header.
 *
 * Letters beyond ASCII stay if they are of a script that every supported Python knows and that is
 * written from left to right, and if NFKC, which Python applies to identifiers, does not change them.
 */
#include "apigen/names.h"

#include <string.h>

#include "apigen/text.h"

/* Characters of a generated name, its number apart. */
#define MAX_NAME 60

static const char *const KEYWORDS[] = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",    NULL,
};

/* What generated modules use at their level, whether this one does or not: names stay stable. */
static const char *const MODULE_NAMES[] = {
    "Annotated",       "Any",         "CLIENT",     "Enum",        "Field",       "Literal",
    "Model",           "Params",      "Result",     "run",         "ResultError", "TypeAdapter",
    "ValidationError", "annotations", "run_parsed", "ParseResult", NULL,
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
ipb_names_is_keyword(const char *name)
{
    return g_strv_contains(KEYWORDS, name);
}

bool
ipb_names_is_str_method(const char *name)
{
    return g_strv_contains(STR_METHODS, name);
}

bool
ipb_names_is_plain_identifier(const char *name)
{
    if (!g_ascii_isalpha(name[0]) && name[0] != '_')
        return false;
    for (const char *p = name; *p != '\0'; p++)
        if (!g_ascii_isalnum(*p) && *p != '_')
            return false;
    return !ipb_names_is_keyword(name);
}

/* Letters with and without accents, Greek, Cyrillic, kana, Han, Hangul: assigned long ago. */
static bool
is_known_script(gunichar c)
{
    return (c >= 0x00c0 && c <= 0x024f) || (c >= 0x0386 && c <= 0x03ff) ||
           (c >= 0x0400 && c <= 0x052f) || (c >= 0x1e00 && c <= 0x1eff) ||
           (c >= 0x3041 && c <= 0x3096) || (c >= 0x30a1 && c <= 0x30fa) ||
           (c >= 0x4e00 && c <= 0x9fa5) || (c >= 0xac00 && c <= 0xd7a3);
}

static bool
is_stable_letter(gunichar c)
{
    if (!is_known_script(c) || !g_unichar_isalpha(c))
        return false;
    char text[7] = {0};
    g_unichar_to_utf8(c, text);
    g_autofree char *normal = g_utf8_normalize(text, -1, G_NORMALIZE_NFKC);
    return g_strcmp0(normal, text) == 0;
}

static bool
is_name_character(gunichar c)
{
    return c < 0x80 ? g_ascii_isalnum((char) c) : is_stable_letter(c);
}

static bool
has_bad_start(const char *name)
{
    return name[0] == '\0' || g_ascii_isdigit(name[0]);
}

char *
ipb_names_make_identifier(IpbText wire)
{
    g_autoptr(GString) name = g_string_new(NULL);
    bool was_replaced = false, is_private = wire.size > 0 && wire.text[0] == '_';
    size_t at = 0;
    for (size_t n = 0; at < wire.size && n < MAX_NAME; n++) {
        gunichar c = ipb_text_next(wire, &at);
        bool stays = c == '_' || is_name_character(c);
        if (!stays && (was_replaced || name->len == 0))
            continue;
        if (c == '_' && name->len == 0)
            continue; /* pydantic takes leading underscores for private attributes */
        g_string_append_unichar(name, stays ? c : '_');
        was_replaced = !stays;
    }
    if (was_replaced)
        g_string_truncate(name, name->len - 1);
    if (is_private || has_bad_start(name->str))
        g_string_prepend(name, name->len > 0 ? "field_" : "field"); /* the original's name */
    if (ipb_names_is_keyword(name->str))
        g_string_append_c(name, '_');
    return g_string_free(g_steal_pointer(&name), FALSE);
}

char *
ipb_names_make_class(IpbText wire)
{
    g_autoptr(GString) name = g_string_new(NULL);
    bool is_start = true;
    size_t at = 0;
    for (size_t n = 0; at < wire.size && n < MAX_NAME; n++) {
        gunichar c = ipb_text_next(wire, &at);
        if (!is_name_character(c)) {
            is_start = true;
            continue;
        }
        gunichar upper = g_unichar_toupper(c);
        if (is_start && is_name_character(upper))
            c = upper;
        g_string_append_unichar(name, c);
        is_start = false;
    }
    if (name->len > 0 && has_bad_start(name->str))
        g_string_prepend(name, "Type");
    return g_string_free(g_steal_pointer(&name), FALSE);
}

char *
ipb_names_make_singular(const char *plural)
{
    size_t size = strlen(plural);
    if (size > 4 && g_str_has_suffix(plural, "ies"))
        return g_strdup_printf("%.*sy", (int) size - 3, plural);
    static const char *const LONG[] = {"sses", "shes", "ches", "xes", NULL};
    for (const char *const *suffix = LONG; *suffix != NULL; suffix++)
        if (size > strlen(*suffix) + 1 && g_str_has_suffix(plural, *suffix))
            return g_strndup(plural, size - 2);
    bool has_s = g_str_has_suffix(plural, "s") && !g_str_has_suffix(plural, "ss") &&
                 !g_str_has_suffix(plural, "us") && !g_str_has_suffix(plural, "is");
    if (size > 3 && has_s)
        return g_strndup(plural, size - 1);
    return g_strconcat(plural, "Item", NULL);
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
    for (const char *const *name = KEYWORDS; *name != NULL; name++)
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
            g_autofree char *name = ipb_names_make_identifier(wire);
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
            g_autofree char *name = ipb_names_make_identifier(field->wire_name);
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
ipb_names_finish(IpbModule *module)
{
    ipb_names_give_classes(module);
    for (guint i = 0; i < module->classes->len; i++)
        name_fields(module, g_ptr_array_index(module->classes, i));
}
