/* SPDX-License-Identifier: Apache-2.0
 *
 * Schemas that hold no others. Numbers and strings become types with bounds. An enum or a const
 * becomes a class with a member for each string, or a literal type for other scalars. Values that
 * Python or pydantic cannot compare exactly become a looser type with the values in a note.
 */
#include "apigen/schema-reader.h"

#include <string.h>

#include "apigen/names.h"
#include "apigen/pattern.h"
#include "apigen/literal.h"
#include "apigen/wtf8.h"

/* --- numbers and strings ---------------------------------------------------------------------- */

/* Bounds with more digits are ignored. */
#define MAX_BOUND_SIZE 100

/* A bound of a number as Python text; NULL if it cannot be a bound. */
static const char *
make_bound(IpbSchemaReader *reader, const IpbJson *value, bool is_integer)
{
    g_autoptr(GString) text = g_string_new(NULL);
    const char *number = ipb_json_number(value);
    int64_t integer;
    if (number != NULL && ipb_json_int64(value, &integer))
        g_string_printf(text, "%" G_GINT64_FORMAT, integer);
    else if (number != NULL && strlen(number) <= MAX_BOUND_SIZE &&
             (!is_integer || strpbrk(number, ".eE") == NULL))
        ipb_literal_append_number(text, number);
    return text->len > 0 ? ipb_module_keep(reader->module, text->str) : NULL;
}

/* The bound of a facet: a number, or before draft 6 true beside the other keyword. */
static const IpbJson *
get_bound(const IpbJson *facet, const char *keyword, const char *exclusive, bool is_exclusive)
{
    const IpbJson *flag = ipb_json_get(facet, exclusive);
    bool is_other = ipb_json_bool(flag, false);
    if (is_exclusive && !is_other)
        return ipb_json_is(flag, IPB_JSON_BOOL) ? NULL : flag;
    return is_exclusive == is_other ? ipb_json_get(facet, keyword) : NULL;
}

/* The tightest bound of the facets, since all of them hold. */
static const char *
read_bound(IpbSchemaReader *reader, const GPtrArray *facets, bool is_maximum, bool is_exclusive,
           bool is_integer, GString *notes)
{
    const char *keyword = is_maximum ? "maximum" : "minimum";
    const char *exclusive = is_maximum ? "exclusiveMaximum" : "exclusiveMinimum";
    const char *tightest = NULL;
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *value =
            get_bound(g_ptr_array_index(facets, i), keyword, exclusive, is_exclusive);
        const char *bound = value != NULL ? make_bound(reader, value, is_integer) : NULL;
        if (value != NULL && bound == NULL)
            ipb_schema_note_value(notes, is_exclusive ? exclusive : keyword, value);
        if (bound == NULL)
            continue;
        double here = g_ascii_strtod(bound, NULL);
        double there = tightest != NULL ? g_ascii_strtod(tightest, NULL) : 0;
        if (tightest == NULL || (is_maximum ? here < there : here > there))
            tightest = bound;
    }
    return tightest;
}

static const char *
read_multiple(IpbSchemaReader *reader, const GPtrArray *facets, bool is_integer, GString *notes)
{
    const IpbJson *value = ipb_schema_get(facets, "multipleOf");
    int64_t integer;
    if (value == NULL)
        return NULL;
    if (is_integer && ipb_json_int64(value, &integer) && integer > 0)
        return make_bound(reader, value, true);
    /* in floating point 0.3 is not a multiple of 0.1 */
    ipb_schema_note_value(notes, "multipleOf", value);
    return NULL;
}

const IpbType *
ipb_schema_read_number(IpbSchemaReader *reader, const GPtrArray *facets, IpbTypeKind kind,
                       GString *notes)
{
    bool is_integer = kind == IPB_TYPE_INT;
    IpbType *type = ipb_module_add_type(reader->module, kind);
    IpbBounds *bounds = &type->bounds;
    bounds->ge = read_bound(reader, facets, false, false, is_integer, notes);
    bounds->le = read_bound(reader, facets, true, false, is_integer, notes);
    bounds->gt = read_bound(reader, facets, false, true, is_integer, notes);
    bounds->lt = read_bound(reader, facets, true, true, is_integer, notes);
    bounds->multiple_of = read_multiple(reader, facets, is_integer, notes);
    return type;
}

int64_t
ipb_schema_read_length(const GPtrArray *facets, const char *keyword, GString *notes)
{
    bool is_minimum = g_str_has_prefix(keyword, "min");
    int64_t tightest = -1;
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *value = ipb_json_get(g_ptr_array_index(facets, i), keyword);
        int64_t length;
        if (value == NULL)
            continue;
        if (!ipb_json_int64(value, &length) || length < 0)
            ipb_schema_note_value(notes, keyword, value);
        else if (tightest < 0 || (is_minimum ? length > tightest : length < tightest))
            tightest = length;
    }
    return tightest == 0 && is_minimum ? -1 : tightest;
}

const char *
ipb_schema_make_pattern(IpbSchemaReader *reader, IpbSpan text)
{
    g_autofree char *pattern = ipb_pattern_translate(text);
    if (pattern == NULL)
        return NULL;
    g_autoptr(GString) literal = g_string_new(NULL);
    ipb_literal_append_string(literal, ipb_wtf8_from(pattern));
    return ipb_module_keep(reader->module, literal->str);
}

const IpbType *
ipb_schema_read_string(IpbSchemaReader *reader, const GPtrArray *facets, GString *notes)
{
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_STR);
    type->bounds.min_length = ipb_schema_read_length(facets, "minLength", notes);
    type->bounds.max_length = ipb_schema_read_length(facets, "maxLength", notes);
    const IpbJson *pattern = ipb_schema_get(facets, "pattern");
    type->bounds.pattern = ipb_schema_make_pattern(reader, ipb_wtf8_from_json(pattern));
    return type;
}

/* --- enum and const --------------------------------------------------------------------------- */

#define MAX_ENUM_MEMBERS 1000
#define MAX_LITERALS 64
/* Bytes of all values in one note. */
#define MAX_NOTE_VALUES 500

typedef struct {
    guint n_strings, n_integers, n_numbers, n_booleans, n_nulls, n_others;
    bool has_surrogates;
} Kinds;

static Kinds
count_kinds(const GPtrArray *values)
{
    Kinds kinds = {0};
    for (guint i = 0; i < values->len; i++) {
        const IpbJson *value = g_ptr_array_index(values, i);
        int64_t integer;
        switch (ipb_json_type(value)) {
        case IPB_JSON_NULL:
            kinds.n_nulls++;
            break;
        case IPB_JSON_BOOL:
            kinds.n_booleans++;
            break;
        case IPB_JSON_NUMBER:
            kinds.n_numbers++;
            kinds.n_integers += ipb_json_int64(value, &integer);
            break;
        case IPB_JSON_STRING:
            kinds.n_strings++;
            kinds.has_surrogates |= ipb_wtf8_has_surrogate(ipb_wtf8_from_json(value));
            break;
        case IPB_JSON_ARRAY:
        case IPB_JSON_OBJECT:
            kinds.n_others++;
            break;
        }
    }
    return kinds;
}

/* The values except null, each once, in their order. */
static GPtrArray *
make_distinct(const GPtrArray *values)
{
    GPtrArray *distinct = g_ptr_array_new();
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < values->len; i++) {
        const IpbJson *value = g_ptr_array_index(values, i);
        g_autoptr(GString) key = g_string_new(NULL);
        int64_t integer;
        if (ipb_json_is(value, IPB_JSON_NULL))
            continue;
        if (ipb_json_int64(value, &integer))
            g_string_printf(key, "%" G_GINT64_FORMAT, integer);
        else if (ipb_json_is(value, IPB_JSON_STRING))
            ipb_literal_append_string(key, ipb_wtf8_from_json(value));
        else
            g_string_append_len(key, ipb_json_raw(value).start, (gssize) ipb_json_raw(value).size);
        if (g_hash_table_add(seen, g_strdup(key->str)))
            g_ptr_array_add(distinct, (void *) value);
    }
    return distinct;
}

static void
note_values(const GPtrArray *values, GString *notes)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < values->len; i++) {
        IpbSpan raw = ipb_json_raw(g_ptr_array_index(values, i));
        if (text->len + raw.size > MAX_NOTE_VALUES) {
            g_string_append(text, ", …");
            break;
        }
        g_string_append(text, text->len > 0 ? ", " : "");
        for (size_t k = 0; k < raw.size; k++)
            if ((unsigned char) raw.start[k] >= 0x20)
                g_string_append_c(text, raw.start[k]);
    }
    ipb_schema_note(notes, "One of: %s", text->str);
}

static const IpbType *
make_class(IpbSchemaReader *reader, const GPtrArray *values, IpbNameHint hint, IpbSpan description)
{
    g_autoptr(GString) key = g_string_new(hint.name);
    for (guint i = 0; i < values->len; i++)
        ipb_literal_append_string(key, ipb_wtf8_from_json(g_ptr_array_index(values, i)));
    IpbEnum *enumeration = g_hash_table_lookup(reader->enums, key->str);
    if (enumeration == NULL) {
        enumeration = ipb_module_add_enum(reader->module);
        enumeration->claim =
            ipb_names_claim(reader->module, &enumeration->name, hint, reader->is_input);
        if (hint.is_definition)
            enumeration->description = description;
        for (guint i = 0; i < values->len; i++) {
            IpbEnumMember member = {.value = g_ptr_array_index(values, i)};
            g_array_append_val(enumeration->members, member);
        }
        ipb_names_give_members(reader->module, enumeration);
        g_hash_table_insert(reader->enums, g_strdup(key->str), enumeration);
    } else {
        ipb_names_claim_again(enumeration->claim, hint);
    }
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_ENUM);
    type->enumeration = enumeration;
    return type;
}

/* The common type of all values, with a note of the values. */
static const IpbType *
make_loose(IpbSchemaReader *reader, const GPtrArray *values, const Kinds *kinds, GString *notes)
{
    note_values(values, notes);
    if (kinds->n_strings == values->len)
        return ipb_module_add_type(reader->module, IPB_TYPE_STR);
    if (kinds->n_numbers == values->len)
        return ipb_module_add_type(reader->module, IPB_TYPE_NUMBER);
    return ipb_module_add_type(reader->module, IPB_TYPE_ANY);
}

static const IpbType *
read_distinct(IpbSchemaReader *reader, const GPtrArray *values, IpbNameHint hint,
              IpbSpan description, GString *notes)
{
    Kinds kinds = count_kinds(values);
    size_t size = 0;
    for (guint i = 0; i < values->len; i++)
        size += ipb_json_raw(g_ptr_array_index(values, i)).size;
    if (kinds.has_surrogates || kinds.n_others > 0 || kinds.n_numbers > kinds.n_integers ||
        (kinds.n_numbers > 0 && kinds.n_booleans > 0) || /* in Python 1 == True */
        !ipb_schema_reader_spend_text(reader, size))
        return make_loose(reader, values, &kinds, notes);
    if (kinds.n_strings == values->len && values->len > 1 && values->len <= MAX_ENUM_MEMBERS)
        return make_class(reader, values, hint, description);
    if (values->len > MAX_LITERALS)
        return make_loose(reader, values, &kinds, notes);
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_LITERAL);
    for (guint i = 0; i < values->len; i++)
        g_ptr_array_add(type->members, g_ptr_array_index(values, i));
    return type;
}

const IpbType *
ipb_schema_read_enum(IpbSchemaReader *reader, GPtrArray *values, IpbNameHint hint,
                     IpbSpan description, GString *notes)
{
    g_autoptr(GPtrArray) distinct = make_distinct(values);
    Kinds kinds = count_kinds(values);
    if (distinct->len == 0 && kinds.n_nulls > 0)
        return ipb_module_add_type(reader->module, IPB_TYPE_NONE);
    if (distinct->len == 0) {
        ipb_schema_note(notes, "The schema allows no value here: its enum is empty.");
        return ipb_module_add_type(reader->module, IPB_TYPE_ANY);
    }
    const IpbType *type = read_distinct(reader, distinct, hint, description, notes);
    return kinds.n_nulls > 0 ? ipb_module_make_optional(reader->module, type) : type;
}
