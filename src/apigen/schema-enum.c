/* SPDX-License-Identifier: Apache-2.0
 *
 * enum and const: strings become a class with a member for each, other scalars a literal type. What
 * Python or pydantic cannot compare exactly becomes a looser type with the values in a note.
 */
#include "apigen/names.h"
#include "apigen/schema-private.h"
#include "apigen/text.h"

#define MAX_ENUM_MEMBERS 1000
#define MAX_LITERALS 64
/* Bytes of all values in a note. */
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
            kinds.has_surrogates |= ipb_text_has_surrogate(ipb_text_of(value));
            break;
        case IPB_JSON_ARRAY:
        case IPB_JSON_OBJECT:
            kinds.n_others++;
            break;
        }
    }
    return kinds;
}

/* The values but nulls, each once, in their order. */
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
            ipb_text_append_literal(key, ipb_text_of(value));
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
make_class(IpbSchemaReader *reader, const GPtrArray *values, IpbHint hint, IpbText description)
{
    g_autoptr(GString) key = g_string_new(hint.name);
    for (guint i = 0; i < values->len; i++)
        ipb_text_append_literal(key, ipb_text_of(g_ptr_array_index(values, i)));
    IpbEnum *enumeration = g_hash_table_lookup(reader->enums, key->str);
    if (enumeration == NULL) {
        enumeration = ipb_module_add_enum(reader->module);
        enumeration->claim = ipb_schema_claim(reader, &enumeration->name, hint);
        if (hint.is_definition)
            enumeration->description = description;
        for (guint i = 0; i < values->len; i++) {
            IpbEnumMember member = {.value = g_ptr_array_index(values, i)};
            g_array_append_val(enumeration->members, member);
        }
        ipb_names_give_members(reader->module, enumeration);
        g_hash_table_insert(reader->enums, g_strdup(key->str), enumeration);
    } else {
        ipb_schema_claim_again(enumeration->claim, hint);
    }
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_ENUM);
    type->enumeration = enumeration;
    return type;
}

/* The type that all values have, with a note. */
static const IpbType *
make_loose(IpbSchemaReader *reader, const GPtrArray *values, const Kinds *kinds, GString *notes)
{
    note_values(values, notes);
    if (kinds->n_strings == values->len)
        return ipb_schema_simple(reader, IPB_TYPE_STR);
    if (kinds->n_numbers == values->len)
        return ipb_schema_simple(reader, IPB_TYPE_NUMBER);
    return ipb_schema_simple(reader, IPB_TYPE_ANY);
}

static const IpbType *
read_distinct(IpbSchemaReader *reader, const GPtrArray *values, IpbHint hint, IpbText description,
              GString *notes)
{
    Kinds kinds = count_kinds(values);
    size_t size = 0;
    for (guint i = 0; i < values->len; i++)
        size += ipb_json_raw(g_ptr_array_index(values, i)).size;
    if (kinds.has_surrogates || kinds.n_others > 0 || kinds.n_numbers > kinds.n_integers ||
        (kinds.n_numbers > 0 && kinds.n_booleans > 0) || /* for Python, 1 == True */
        !ipb_schema_spend_text(reader, size))
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
ipb_schema_read_enum(IpbSchemaReader *reader, GPtrArray *values, IpbHint hint, IpbText description,
                     GString *notes)
{
    g_autoptr(GPtrArray) distinct = make_distinct(values);
    Kinds kinds = count_kinds(values);
    if (distinct->len == 0 && kinds.n_nulls > 0)
        return ipb_schema_simple(reader, IPB_TYPE_NONE);
    if (distinct->len == 0) {
        ipb_schema_note(notes, "The schema allows no value here: its enum is empty.");
        return ipb_schema_simple(reader, IPB_TYPE_ANY);
    }
    const IpbType *type = read_distinct(reader, distinct, hint, description, notes);
    return kinds.n_nulls > 0 ? ipb_module_make_optional(reader->module, type) : type;
}
