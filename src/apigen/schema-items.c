/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays, which become lists and tuples, and objects without named members, which become dicts.
 */
#include "apigen/identifier.h"
#include "apigen/schema-private.h"

/* Items of arrays that have schemas of their own. */
#define MAX_PLACES 64

static const char *
keep(IpbSchemaReader *reader, const char *text)
{
    return g_string_chunk_insert(reader->module->strings, text);
}

static bool
is_false(const IpbJson *value)
{
    return ipb_json_is(value, IPB_JSON_BOOL) && !ipb_json_bool(value, true);
}

/* The type of items or values, its notes and description told with @what before them. */
static const IpbType *
read_inner(IpbSchemaReader *reader, const IpbJson *schema, IpbHint hint, const char *what,
           GString *notes)
{
    const IpbReading *reading = ipb_schema_read_node(reader, schema, hint);
    if (reading->description.size > 0 && reading->type->kind != IPB_TYPE_CLASS &&
        reading->type->kind != IPB_TYPE_ENUM)
        ipb_schema_note_value(notes, what, ipb_json_get(schema, "description"));
    if (reading->notes->len > 0)
        ipb_schema_note(notes, "%s: %s", what, reading->notes->str);
    return reading->type;
}

/* Schemas by place: "prefixItems", or an array of "items" before 2020-12; NULL if there are none. */
static const IpbJson *
get_places(const GPtrArray *facets)
{
    const IpbJson *items = ipb_schema_get(facets, "items");
    const IpbJson *places =
        ipb_json_is(items, IPB_JSON_ARRAY) ? items : ipb_schema_get(facets, "prefixItems");
    return ipb_json_is(places, IPB_JSON_ARRAY) && ipb_json_length(places) > 0 ? places : NULL;
}

/* The schema of what comes after the places; false: nothing may. */
static const IpbJson *
get_rest(const GPtrArray *facets)
{
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *facet = g_ptr_array_index(facets, i);
        const IpbJson *items = ipb_json_get(facet, "items");
        if (items != NULL) /* additionalItems speaks of its own schema's items only */
            return ipb_json_is(items, IPB_JSON_ARRAY) ? ipb_json_get(facet, "additionalItems")
                                                      : items;
    }
    return NULL;
}

/* The types of the places, and of what comes after them if @rest is given; empty if not all are known. */
static void
read_place_types(IpbSchemaReader *reader, const IpbJson *places, const IpbJson *rest, IpbHint hint,
                 GPtrArray *types, GString *notes)
{
    IPB_JSON_FOREACH (place, places)
        g_ptr_array_add(types, (void *) read_inner(reader, place, hint, "Items", notes));
    if (rest != NULL)
        g_ptr_array_add(types, (void *) read_inner(reader, rest, hint, "Items", notes));
}

/* A tuple if there is exactly one item for each place, else a list of what the places allow. */
static const IpbType *
read_places(IpbSchemaReader *reader, const GPtrArray *facets, const IpbJson *places, IpbHint hint,
            GString *notes)
{
    const IpbJson *rest = get_rest(facets);
    int64_t n_places = (int64_t) ipb_json_length(places);
    int64_t least = ipb_schema_read_length(facets, "minItems", notes);
    int64_t most = ipb_schema_read_length(facets, "maxItems", notes);
    if (is_false(rest) && (most < 0 || most > n_places))
        most = n_places;
    bool is_open = most < 0 || most > n_places;
    bool is_tuple = least == n_places && most == n_places && n_places <= MAX_PLACES;
    g_autoptr(GPtrArray) types = g_ptr_array_new();
    hint.is_definition = false;
    if (n_places <= MAX_PLACES && (!is_open || ipb_json_is(rest, IPB_JSON_OBJECT)))
        read_place_types(reader, places, is_open ? rest : NULL, hint, types, notes);
    IpbType *type = ipb_module_add_type(reader->module, is_tuple ? IPB_TYPE_TUPLE : IPB_TYPE_LIST);
    if (is_tuple) {
        for (guint i = 0; i < types->len; i++) {
            const IpbType *member = g_ptr_array_index(types, i);
            g_ptr_array_add(type->members, (void *) member);
            type->height = MAX(type->height, member->height + 1);
        }
        return type;
    }
    ipb_schema_note_value(notes, "Items in order", places);
    type->bounds.min_length = least;
    type->bounds.max_length = most;
    type->item = types->len > 0 ? ipb_module_make_union(reader->module, types)
                                : ipb_schema_simple(reader, IPB_TYPE_ANY);
    type->height = type->item->height + 1;
    return type;
}

const IpbType *
ipb_schema_read_list(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint, GString *notes)
{
    const IpbJson *items = ipb_schema_get(facets, "items");
    const IpbJson *places = get_places(facets);
    g_autofree char *singular = ipb_identifier_make_singular(hint.name);
    hint.name = hint.is_definition ? hint.name : keep(reader, singular);
    if (places != NULL)
        return read_places(reader, facets, places, hint, notes);
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_LIST);
    type->bounds.min_length = ipb_schema_read_length(facets, "minItems", notes);
    type->bounds.max_length =
        is_false(items) ? 0 : ipb_schema_read_length(facets, "maxItems", notes);
    type->item = ipb_schema_simple(reader, IPB_TYPE_ANY);
    if (ipb_json_is(items, IPB_JSON_OBJECT)) {
        hint.is_definition = false;
        type->item = read_inner(reader, items, hint, "Items", notes);
        type->height = type->item->height + 1;
    }
    return type;
}

/* What the keys keep to, by propertyNames; NULL if that is nothing, or more than a str with bounds. */
static const IpbType *
read_keys(IpbSchemaReader *reader, const GPtrArray *facets, IpbReading *reading)
{
    static const char *const KNOWN[] = {"type", "pattern", "minLength", "maxLength", NULL};
    const IpbJson *names = ipb_schema_get(facets, "propertyNames");
    if (facets->len > 1 || !ipb_json_is(names, IPB_JSON_OBJECT))
        return NULL;
    const char *type = ipb_json_get_string(names, "type");
    if (ipb_json_get(names, "type") != NULL && g_strcmp0(type, "string") != 0)
        return NULL;
    IPB_JSON_FOREACH (rule, names)
        if (!g_strv_contains(KNOWN, ipb_json_name(rule, NULL)))
            return NULL;
    g_autoptr(GPtrArray) facet = g_ptr_array_new();
    g_ptr_array_add(facet, (void *) names);
    const IpbType *key = ipb_schema_read_string(reader, facet, reading->notes);
    reading->checks_names = ipb_json_get(names, "pattern") == NULL || key->bounds.pattern != NULL;
    return key;
}

/* patternProperties of one pattern without anything beside it: the values' schema, and the keys' type. */
static const IpbJson *
read_one_pattern(IpbSchemaReader *reader, const GPtrArray *facets, const IpbType **ret_key)
{
    const IpbJson *patterns = ipb_schema_get(facets, "patternProperties");
    bool is_alone = facets->len == 1 && ipb_json_is(patterns, IPB_JSON_OBJECT) &&
                    ipb_json_length(patterns) == 1 &&
                    is_false(ipb_schema_get(facets, "additionalProperties")) &&
                    ipb_schema_get(facets, "propertyNames") == NULL;
    if (!is_alone)
        return NULL;
    const IpbJson *values = ipb_json_first(patterns);
    IpbText text;
    text.text = ipb_json_name(values, &text.size);
    const char *pattern = ipb_schema_make_pattern(reader, text);
    if (pattern == NULL)
        return NULL;
    IpbType *key = ipb_module_add_type(reader->module, IPB_TYPE_STR);
    key->bounds.pattern = pattern;
    *ret_key = key;
    return values;
}

const IpbType *
ipb_schema_read_dict(IpbSchemaReader *reader, const GPtrArray *facets, IpbHint hint,
                     IpbReading *reading)
{
    GString *notes = reading->notes;
    const IpbJson *values = ipb_schema_get(facets, "additionalProperties");
    const IpbJson *required = ipb_schema_get(facets, "required");
    const IpbJson *patterns = ipb_schema_get(facets, "patternProperties");
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_DICT);
    if (ipb_json_length(required) > 0)
        ipb_schema_note_value(notes, "required", required);
    type->bounds.min_length = ipb_schema_read_length(facets, "minProperties", notes);
    type->bounds.max_length = ipb_schema_read_length(facets, "maxProperties", notes);
    reading->checks_counts = true;
    type->key = read_keys(reader, facets, reading);
    const IpbJson *matching = read_one_pattern(reader, facets, &type->key);
    reading->checks_patterns = matching != NULL;
    values = matching != NULL ? matching : values;
    type->item = ipb_schema_simple(reader, IPB_TYPE_ANY);
    if (ipb_json_is(values, IPB_JSON_OBJECT) && (patterns == NULL || matching != NULL)) {
        g_autofree char *name = g_strconcat(hint.name, "Value", NULL);
        hint.name = keep(reader, name);
        hint.is_definition = false;
        type->item = read_inner(reader, values, hint, "Values", notes);
        type->height = type->item->height + 1;
    } else if (is_false(values) && patterns == NULL && facets->len == 1) {
        type->bounds.max_length = 0;
    } else if (values != NULL && matching == NULL && !ipb_json_bool(values, false)) {
        ipb_schema_note_value(notes, "additionalProperties", values);
    }
    return type;
}
