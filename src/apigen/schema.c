/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads schemas into types: which kind of value a schema allows, and its bounds. See
 * schema-private.h for the idea; objects, enums and alternatives have their own files.
 */
#include "apigen/schema.h"

#include <string.h>

#include "apigen/identifier.h"
#include "apigen/schema-private.h"

/* Schemas in schemas, and types in types: pydantic recurses through them, with some ten Python frames for each. */
#define MAX_DEPTH 24
#define MAX_HEIGHT 24

enum {
    ALLOWS_NULL = 1 << 0,
    ALLOWS_BOOLEAN = 1 << 1,
    ALLOWS_INTEGER = 1 << 2,
    ALLOWS_NUMBER = 1 << 3,
    ALLOWS_STRING = 1 << 4,
    ALLOWS_ARRAY = 1 << 5,
    ALLOWS_OBJECT = 1 << 6,
    ALLOWS_ALL = (1 << 7) - 1,
};

static const struct {
    const char *name;
    unsigned allows;
} TYPE_NAMES[] = {
    {"null", ALLOWS_NULL},     {"boolean", ALLOWS_BOOLEAN}, {"integer", ALLOWS_INTEGER},
    {"number", ALLOWS_NUMBER}, {"string", ALLOWS_STRING},   {"array", ALLOWS_ARRAY},
    {"object", ALLOWS_OBJECT},
};

static unsigned
read_type_name(const IpbJson *name, GString *notes)
{
    const char *text = ipb_json_string(name, NULL);
    for (size_t i = 0; text != NULL && i < G_N_ELEMENTS(TYPE_NAMES); i++)
        if (g_str_equal(text, TYPE_NAMES[i].name))
            return TYPE_NAMES[i].allows;
    ipb_schema_note_value(notes, "Unknown type", name);
    return ALLOWS_ALL;
}

static unsigned
read_type_keyword(const IpbJson *type, GString *notes)
{
    if (!ipb_json_is(type, IPB_JSON_ARRAY))
        return read_type_name(type, notes);
    unsigned allowed = 0;
    IPB_JSON_FOREACH (name, type)
        allowed |= read_type_name(name, notes);
    return allowed;
}

/* What the type keywords of all facets leave; without any, what the other keywords are about. */
static unsigned
read_allowed(const GPtrArray *facets, GString *notes)
{
    unsigned allowed = ALLOWS_ALL;
    bool is_nullable = false;
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *facet = g_ptr_array_index(facets, i);
        const IpbJson *type = ipb_json_get(facet, "type");
        is_nullable |= ipb_json_get_bool(facet, "nullable", false); /* OpenAPI 3.0 */
        if (type == NULL)
            continue;
        unsigned here = read_type_keyword(type, notes);
        if ((here & ALLOWS_NUMBER) != 0 && (allowed & ALLOWS_NUMBER) == 0)
            here |= ALLOWS_INTEGER; /* integer and number: integer */
        if ((here & ALLOWS_INTEGER) != 0 && (allowed & ALLOWS_NUMBER) != 0)
            allowed |= ALLOWS_INTEGER;
        allowed &= here;
    }
    if (allowed == ALLOWS_ALL && ipb_schema_has_members(facets))
        allowed = ALLOWS_OBJECT;
    else if (allowed == ALLOWS_ALL && (ipb_json_length(ipb_schema_get(facets, "items")) > 0 ||
                                       ipb_json_length(ipb_schema_get(facets, "prefixItems")) > 0))
        allowed = ALLOWS_ARRAY;
    if (allowed == 0) {
        ipb_schema_note(notes, "The schema's types exclude each other.");
        return ALLOWS_ALL;
    }
    return allowed | (is_nullable ? ALLOWS_NULL : 0);
}

static const IpbType *
read_object(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint, IpbReading *reading)
{
    if (ipb_schema_has_members(facets))
        return ipb_schema_read_class(reader, facets, hint, reading);
    return ipb_schema_read_dict(reader, facets, hint, reading);
}

/* The union of what the facets allow by type. */
static const IpbType *
read_by_type(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint, IpbReading *reading)
{
    GString *notes = reading->notes;
    unsigned allowed = read_allowed(facets, notes);
    if (allowed == ALLOWS_ALL)
        return ipb_schema_simple(reader, IPB_TYPE_ANY);
    g_autoptr(GPtrArray) types = g_ptr_array_new();
    if (allowed & ALLOWS_STRING)
        g_ptr_array_add(types, (void *) ipb_schema_read_string(reader, facets, notes));
    if ((allowed & ALLOWS_NUMBER) != 0)
        g_ptr_array_add(types,
                        (void *) ipb_schema_read_number(reader, facets, IPB_TYPE_NUMBER, notes));
    else if (allowed & ALLOWS_INTEGER)
        g_ptr_array_add(types,
                        (void *) ipb_schema_read_number(reader, facets, IPB_TYPE_INT, notes));
    if (allowed & ALLOWS_BOOLEAN)
        g_ptr_array_add(types, (void *) ipb_schema_simple(reader, IPB_TYPE_BOOL));
    if (allowed & ALLOWS_ARRAY)
        g_ptr_array_add(types, (void *) ipb_schema_read_list(reader, facets, hint, notes));
    if (allowed & ALLOWS_OBJECT)
        g_ptr_array_add(types, (void *) read_object(reader, facets, hint, reading));
    if (allowed & ALLOWS_NULL)
        g_ptr_array_add(types, (void *) ipb_schema_simple(reader, IPB_TYPE_NONE));
    return ipb_module_make_union(reader->module, types);
}

/* The values of enum or const; NULL if there is neither. */
static GPtrArray *
get_values(const GPtrArray *facets)
{
    const IpbJson *constant = ipb_schema_get(facets, "const");
    const IpbJson *values = ipb_schema_get(facets, "enum");
    if (constant == NULL && !ipb_json_is(values, IPB_JSON_ARRAY))
        return NULL;
    GPtrArray *all = g_ptr_array_new();
    if (constant != NULL)
        g_ptr_array_add(all, (void *) constant);
    else
        IPB_JSON_FOREACH (value, values)
            g_ptr_array_add(all, (void *) value);
    return all;
}

static const IpbType *
read_facets(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint, IpbReading *reading)
{
    g_autoptr(GPtrArray) values = get_values(facets);
    if (values != NULL) {
        const IpbType *type =
            ipb_schema_read_enum(reader, values, hint, reading->description, reading->notes);
        g_autoptr(GString) unused = g_string_new(NULL);
        unsigned allowed = read_allowed(facets, unused);
        /* Servers list null among the types and forget it among the values. */
        bool is_nullable = allowed != ALLOWS_ALL && (allowed & ALLOWS_NULL) != 0;
        return is_nullable ? ipb_module_make_optional(reader->module, type) : type;
    }
    const IpbJson *alternatives = ipb_schema_get_alternatives(facets);
    if (alternatives != NULL)
        return ipb_schema_read_alternatives(reader, facets, alternatives, hint, reading);
    return read_by_type(reader, facets, hint, reading);
}

static bool
is_class_name(const char *title)
{
    return title != NULL && g_ascii_isupper(title[0]) && strlen(title) <= 40 &&
           ipb_identifier_is_plain(title);
}

static bool
is_class(const IpbType *type)
{
    return type != NULL && type->kind == IPB_TYPE_CLASS;
}

static bool
has_pattern(const IpbType *type)
{
    if (type->kind != IPB_TYPE_UNION)
        return type->bounds.pattern != NULL;
    for (guint i = 0; i < type->members->len; i++)
        if (has_pattern(g_ptr_array_index(type->members, i)))
            return true;
    return false;
}

static void
finish_reading(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint, IpbReading *reading)
{
    reading->description = ipb_text_of(ipb_schema_get(facets, "description"));
    const char *title = ipb_json_string(ipb_schema_get(facets, "title"), NULL);
    if (!hint.is_definition && is_class_name(title) && ipb_schema_has_members(facets))
        hint.name = title;
    reader->depth++;
    const IpbType *type = read_facets(reader, facets, hint, reading);
    reader->depth--;
    reading->type = type;
    const IpbJson *pattern = ipb_schema_get(facets, "pattern");
    if (pattern != NULL && !has_pattern(type))
        ipb_schema_note_value(reading->notes, "pattern", pattern);
    if (!is_class(type)) /* a class has these notes already */
        ipb_schema_note_rest(facets, reading, reading->notes);
}

/* A reading that is not remembered: nothing is known of the schema but @notes. */
static const IpbReading *
add_loose(IpbSchemaReader *reader, const GString *notes)
{
    IpbReading *reading = g_new0(IpbReading, 1);
    reading->notes = g_string_new(notes->str);
    reading->type = ipb_schema_simple(reader, IPB_TYPE_ANY);
    g_ptr_array_add(reader->loose, reading);
    return reading;
}

/* Recursion through a class: what is being read now will have a type, and the class can be written before it. */
static const IpbReading *
add_later(IpbSchemaReader *reader, IpbReading *reading)
{
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_LATER);
    type->item = ipb_schema_simple(reader, IPB_TYPE_ANY);
    if (reading->later == NULL)
        reading->later = g_ptr_array_new();
    g_ptr_array_add(reading->later, type);
    IpbReading *here = g_new0(IpbReading, 1);
    here->notes = g_string_new(NULL);
    here->type = type;
    g_ptr_array_add(reader->loose, here);
    return here;
}

static const IpbReading *
read_collected(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint, GString *notes)
{
    g_autoptr(GBytes) key = g_bytes_new(facets->pdata, facets->len * sizeof(void *));
    IpbReading *reading = g_hash_table_lookup(reader->readings, key);
    if (reading != NULL && reading->type == NULL && reader->class_depth > reading->class_depth)
        return add_later(reader, reading);
    if (reading != NULL && reading->type == NULL) {
        ipb_schema_note(notes, "Recursive: not typed further.");
        return add_loose(reader, notes);
    }
    if (reading == NULL && reader->depth < MAX_DEPTH) {
        reading = g_new0(IpbReading, 1);
        reading->notes = g_string_new(notes->str);
        reading->class_depth = reader->class_depth;
        g_hash_table_insert(reader->readings, g_bytes_ref(key), reading);
        finish_reading(reader, facets, hint, reading);
        for (guint i = 0; reading->later != NULL && i < reading->later->len; i++)
            ((IpbType *) g_ptr_array_index(reading->later, i))->item = reading->type;
    }
    if (reading != NULL && reading->type->height < MAX_HEIGHT)
        return reading;
    /* Not remembered: elsewhere, nearer to the root, there is room for it. */
    ipb_schema_note(notes, "Nested too deeply: not typed further.");
    return add_loose(reader, notes);
}

const IpbReading *
ipb_schema_read(IpbSchemaReader *reader, GPtrArray *nodes, IpbHint hint)
{
    g_autoptr(GString) notes = g_string_new(NULL);
    g_autoptr(GPtrArray) followed = g_ptr_array_new();
    if (nodes->len == 1) {
        const IpbJson *node = ipb_schema_follow(reader, g_ptr_array_index(nodes, 0), &hint, notes);
        if (node == NULL)
            return add_loose(reader, notes);
        g_ptr_array_add(followed, (void *) node);
        nodes = followed;
    }
    g_autoptr(GPtrArray) facets = ipb_schema_collect(reader, nodes, notes);
    if (facets->len == 0)
        return add_loose(reader, notes);
    return read_collected(reader, facets, hint, notes);
}

const IpbReading *
ipb_schema_read_node(IpbSchemaReader *reader, const IpbJson *node, IpbHint hint)
{
    g_autoptr(GPtrArray) nodes = g_ptr_array_new();
    g_ptr_array_add(nodes, (void *) node);
    return ipb_schema_read(reader, nodes, hint);
}
