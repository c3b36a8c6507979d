/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads schemas into types: which kinds of values a schema allows, and their bounds. The input
 * schema of a tool becomes the class Params. The output schema becomes the class Result, or another
 * type of that name if it is not an object with named members.
 */
#include "apigen/schema.h"

#include <string.h>

#include "apigen/identifier.h"
#include "apigen/names.h"
#include "apigen/schema-reader.h"
#include "apigen/wtf8.h"

/* --- facets: $ref and allOf ------------------------------------------------------------------- */

/* Schemas that hold for one value. More are ignored with a note. */
#define MAX_FACETS 64
/* Length of a chain of $refs. */
#define MAX_HOPS 32

/* Keywords that do not restrict the values. */
static const char *const ANNOTATIONS[] = {
    "$anchor",     "$comment",   "$defs",       "$id",     "$schema",  "default",
    "definitions", "deprecated", "description", "example", "examples", "id",
    "readOnly",    "title",      "writeOnly",   NULL,
};

/* The value of @keyword if @node has no other keyword except annotations. */
static const IpbJson *
get_alone(const IpbJson *node, const char *keyword)
{
    const IpbJson *value = ipb_json_get(node, keyword);
    if (value == NULL)
        return NULL;
    IPB_JSON_FOREACH (member, node) {
        const char *name = ipb_json_name(member, NULL);
        if (!g_str_equal(name, keyword) && !g_strv_contains(ANNOTATIONS, name))
            return NULL;
    }
    return value;
}

/* The only schema in an allOf, anyOf or oneOf, if @node says nothing else. */
static const IpbJson *
get_only_part(const IpbJson *node)
{
    static const char *const KEYWORDS[] = {"allOf", "anyOf", "oneOf", NULL};
    for (const char *const *keyword = KEYWORDS; *keyword != NULL; keyword++) {
        const IpbJson *parts = get_alone(node, *keyword);
        if (ipb_json_is(parts, IPB_JSON_ARRAY) && ipb_json_length(parts) == 1)
            return ipb_json_first(parts);
    }
    return NULL;
}

static const IpbJson *
follow(IpbSchemaReader *reader, const IpbJson *node, IpbNameHint *hint, GString *notes)
{
    for (int hops = 0;; hops++) {
        const IpbJson *part = get_only_part(node), *ref = get_alone(node, "$ref");
        if (part == NULL && ref == NULL)
            return node;
        if (hops == MAX_HOPS ||
            !ipb_schema_document_visit(&reader->document, ipb_json_length(node), notes)) {
            ipb_schema_note(notes, "Recursive: not typed further.");
            return NULL;
        }
        if (part != NULL) {
            node = part;
            continue;
        }
        if ((node = ipb_schema_document_resolve(&reader->document, ref, notes)) == NULL)
            return NULL;
        g_autofree char *name = ipb_schema_document_name_of_ref(ref);
        if (name != NULL)
            hint->name = ipb_module_keep(reader->module, name);
        hint->is_definition = true;
    }
}

static void
collect_node(IpbSchemaReader *reader, const IpbJson *node, GPtrArray *facets, GString *notes)
{
    if (ipb_json_is(node, IPB_JSON_BOOL)) {
        if (!ipb_json_bool(node, true))
            ipb_schema_note(notes, "The schema allows no value here.");
        return;
    }
    if (!ipb_json_is(node, IPB_JSON_OBJECT)) {
        ipb_schema_note(notes, "The schema is invalid: it is not an object.");
        return;
    }
    if (g_ptr_array_find(facets, node, NULL))
        return;
    if (facets->len == MAX_FACETS) {
        ipb_schema_note(notes, "The schema has more parts: not all are checked here.");
        return;
    }
    if (!ipb_schema_document_visit(&reader->document, 1 + ipb_json_length(node), notes))
        return;
    g_ptr_array_add(facets, (void *) node);
    const IpbJson *ref = ipb_json_get(node, "$ref");
    const IpbJson *target =
        ref != NULL ? ipb_schema_document_resolve(&reader->document, ref, notes) : NULL;
    if (target != NULL)
        collect_node(reader, target, facets, notes);
    IPB_JSON_FOREACH (part, ipb_json_get(node, "allOf"))
        collect_node(reader, part, facets, notes);
}

GPtrArray *
ipb_schema_collect(IpbSchemaReader *reader, GPtrArray *nodes, GString *notes)
{
    GPtrArray *facets = g_ptr_array_new();
    for (guint i = 0; i < nodes->len; i++)
        collect_node(reader, g_ptr_array_index(nodes, i), facets, notes);
    return facets;
}

/* --- arrays, and objects without named members ------------------------------------------------ */

/* Items of an array that have schemas of their own. */
#define MAX_PLACES 64

static bool
is_false(const IpbJson *value)
{
    return ipb_json_is(value, IPB_JSON_BOOL) && !ipb_json_bool(value, true);
}

/* The type of items or values. Its notes and description are added with @what in front. */
static const IpbType *
read_inner(IpbSchemaReader *reader, const IpbJson *schema, IpbNameHint hint, const char *what,
           GString *notes)
{
    const IpbSchemaReading *reading = ipb_schema_read_node(reader, schema, hint);
    if (reading->description.size > 0 && reading->type->kind != IPB_TYPE_CLASS &&
        reading->type->kind != IPB_TYPE_ENUM)
        ipb_schema_note_value(notes, what, ipb_json_get(schema, "description"));
    if (reading->notes->len > 0)
        ipb_schema_note(notes, "%s: %s", what, reading->notes->str);
    return reading->type;
}

/* The schemas by position: "prefixItems", or an array in "items" before 2020-12. NULL: none. */
static const IpbJson *
get_places(const GPtrArray *facets)
{
    const IpbJson *items = ipb_schema_get(facets, "items");
    const IpbJson *places =
        ipb_json_is(items, IPB_JSON_ARRAY) ? items : ipb_schema_get(facets, "prefixItems");
    return ipb_json_is(places, IPB_JSON_ARRAY) && ipb_json_length(places) > 0 ? places : NULL;
}

/* The schema of the items after these positions; false if there may be none. */
static const IpbJson *
get_rest(const GPtrArray *facets)
{
    for (guint i = 0; i < facets->len; i++) {
        const IpbJson *facet = g_ptr_array_index(facets, i);
        const IpbJson *items = ipb_json_get(facet, "items");
        if (items != NULL) /* additionalItems belongs to the items of the same schema */
            return ipb_json_is(items, IPB_JSON_ARRAY) ? ipb_json_get(facet, "additionalItems")
                                                      : items;
    }
    return NULL;
}

/* Adds the types of the positions, and of the items after them if @rest is given. */
static void
read_place_types(IpbSchemaReader *reader, const IpbJson *places, const IpbJson *rest,
                 IpbNameHint hint, GPtrArray *types, GString *notes)
{
    IPB_JSON_FOREACH (place, places)
        g_ptr_array_add(types, (void *) read_inner(reader, place, hint, "Items", notes));
    if (rest != NULL)
        g_ptr_array_add(types, (void *) read_inner(reader, rest, hint, "Items", notes));
}

/* A tuple if there is exactly one item for each position, else a list of all their types. */
static const IpbType *
read_places(IpbSchemaReader *reader, const GPtrArray *facets, const IpbJson *places,
            IpbNameHint hint, GString *notes)
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
                                : ipb_module_add_type(reader->module, IPB_TYPE_ANY);
    type->height = type->item->height + 1;
    return type;
}

static const IpbType *
read_list(IpbSchemaReader *reader, const GPtrArray *facets, IpbNameHint hint, GString *notes)
{
    const IpbJson *items = ipb_schema_get(facets, "items");
    const IpbJson *places = get_places(facets);
    g_autofree char *singular = ipb_identifier_make_singular(hint.name);
    hint.name = hint.is_definition ? hint.name : ipb_module_keep(reader->module, singular);
    if (places != NULL)
        return read_places(reader, facets, places, hint, notes);
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_LIST);
    type->bounds.min_length = ipb_schema_read_length(facets, "minItems", notes);
    type->bounds.max_length =
        is_false(items) ? 0 : ipb_schema_read_length(facets, "maxItems", notes);
    type->item = ipb_module_add_type(reader->module, IPB_TYPE_ANY);
    if (ipb_json_is(items, IPB_JSON_OBJECT)) {
        hint.is_definition = false;
        type->item = read_inner(reader, items, hint, "Items", notes);
        type->height = type->item->height + 1;
    }
    return type;
}

/* The type of the keys by propertyNames. NULL: any str, or rules that a str with bounds cannot
 * express. */
static const IpbType *
read_keys(IpbSchemaReader *reader, const GPtrArray *facets, IpbSchemaReading *reading)
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
    reading->checks.names = ipb_json_get(names, "pattern") == NULL || key->bounds.pattern != NULL;
    return key;
}

/* If patternProperties has one pattern and nothing else names members: the values' schema, and the
 * keys' type. NULL otherwise. */
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
    const char *pattern = ipb_schema_make_pattern(reader, ipb_wtf8_from_name(values));
    if (pattern == NULL)
        return NULL;
    IpbType *key = ipb_module_add_type(reader->module, IPB_TYPE_STR);
    key->bounds.pattern = pattern;
    *ret_key = key;
    return values;
}

static const IpbType *
read_dict(IpbSchemaReader *reader, const GPtrArray *facets, IpbNameHint hint,
          IpbSchemaReading *reading)
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
    reading->checks.counts = true;
    type->key = read_keys(reader, facets, reading);
    const IpbJson *matching = read_one_pattern(reader, facets, &type->key);
    reading->checks.patterns = matching != NULL;
    values = matching != NULL ? matching : values;
    type->item = ipb_module_add_type(reader->module, IPB_TYPE_ANY);
    if (ipb_json_is(values, IPB_JSON_OBJECT) && (patterns == NULL || matching != NULL)) {
        g_autofree char *name = g_strconcat(hint.name, "Value", NULL);
        hint.name = ipb_module_keep(reader->module, name);
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

/* --- anyOf and oneOf -------------------------------------------------------------------------- */

#define MAX_UNION_MEMBERS 64
/* Bytes of a constant that is shown with its description. */
#define MAX_NOTED_CONSTANT 60

/* Whether the schema itself says what kind of value it allows. */
static bool
has_shape(const IpbJson *schema)
{
    static const char *const SHAPES[] = {"type",  "$ref",  "enum",  "const",      "anyOf",
                                         "oneOf", "allOf", "items", "properties", NULL};
    if (ipb_json_length(schema) == 0)
        return true; /* {} allows any value */
    for (const char *const *keyword = SHAPES; *keyword != NULL; keyword++)
        if (ipb_json_get(schema, *keyword) != NULL)
            return true;
    return false;
}

static const IpbJson *
get_alternatives(const GPtrArray *facets)
{
    const IpbJson *alternatives = ipb_schema_get(facets, "anyOf");
    if (ipb_json_length(alternatives) == 0)
        alternatives = ipb_schema_get(facets, "oneOf");
    if (!ipb_json_is(alternatives, IPB_JSON_ARRAY) || ipb_json_length(alternatives) == 0 ||
        ipb_schema_has_members(facets))
        return NULL;
    IPB_JSON_FOREACH (alternative, alternatives)
        if (!ipb_json_is(alternative, IPB_JSON_OBJECT) || !has_shape(alternative))
            return NULL;
    return alternatives;
}

/* The values of the alternatives if all are constants, with a note of each title or description;
 * else NULL. */
static GPtrArray *
get_constants(const IpbJson *alternatives, GString *notes)
{
    g_autoptr(GPtrArray) values = g_ptr_array_new();
    IPB_JSON_FOREACH (alternative, alternatives) {
        const IpbJson *value = ipb_json_get(alternative, "const");
        if (value == NULL)
            return NULL;
        g_ptr_array_add(values, (void *) value);
    }
    IPB_JSON_FOREACH (alternative, alternatives) {
        IpbSpan value = ipb_json_raw(ipb_json_get(alternative, "const"));
        const char *text = ipb_json_get_string(alternative, "description");
        text = text != NULL ? text : ipb_json_get_string(alternative, "title");
        if (text != NULL && value.size <= MAX_NOTED_CONSTANT)
            ipb_schema_note(notes, "%.*s: %s", (int) value.size, value.start, text);
    }
    return g_steal_pointer(&values);
}

/* Adds the description of an alternative. For an object its class shows it. */
static void
note_alternative(const IpbSchemaReading *inner, const char *word, GString *notes)
{
    g_autofree char *text = g_strndup(inner->description.start, inner->description.size);
    g_strdelimit(text, "\t\n\v\f\r", ' ');
    ipb_schema_note(notes, "%s%s", word, text);
}

static const IpbType *
read_union(IpbSchemaReader *reader, const IpbJson *alternatives, IpbNameHint hint,
           IpbSchemaReading *reading)
{
    g_autoptr(GPtrArray) types = g_ptr_array_new();
    g_autoptr(GPtrArray) described = g_ptr_array_new(); /* IpbSchemaReading */
    bool has_classes = false; /* the classes show the description, not the field */
    hint.is_definition = false;
    IPB_JSON_FOREACH (alternative, alternatives) {
        if (types->len == MAX_UNION_MEMBERS) {
            ipb_schema_note(reading->notes, "The schema has more alternatives.");
            return ipb_module_add_type(reader->module, IPB_TYPE_ANY);
        }
        const IpbSchemaReading *inner = ipb_schema_read_node(reader, alternative, hint);
        g_ptr_array_add(types, (void *) inner->type);
        if (inner->notes->len > 0)
            ipb_schema_note(reading->notes, "%s", inner->notes->str);
        has_classes |= inner->type->kind == IPB_TYPE_CLASS;
        if (inner->description.size == 0)
            continue;
        if (inner->type->kind != IPB_TYPE_CLASS)
            g_ptr_array_add(described, (void *) inner);
        else if (inner->type->class->description.size == 0 &&
                 ipb_schema_reader_spend_text(reader, inner->description.size))
            inner->type->class->description = inner->description;
    }
    if (described->len == 1 && reading->description.size == 0 && !has_classes) {
        const IpbSchemaReading *only = g_ptr_array_index(described, 0);
        reading->description = only->description;
        return ipb_module_make_union(reader->module, types);
    }
    for (guint i = 0; i < described->len; i++)
        note_alternative(g_ptr_array_index(described, i),
                         described->len == 1 ? ""
                         : i == 0            ? "Either: "
                                             : "Or: ",
                         reading->notes);
    return ipb_module_make_union(reader->module, types);
}

/* Adds notes of the keywords beside alternatives that become a union. */
static void
note_beside(const GPtrArray *facets, GString *notes)
{
    static const char *const BESIDE[] = {"minimum",  "maximum",  "minLength", "maxLength",
                                         "minItems", "maxItems", "required",  "multipleOf",
                                         "items",    NULL};
    for (const char *const *keyword = BESIDE; *keyword != NULL; keyword++) {
        const IpbJson *value = ipb_schema_get(facets, *keyword);
        if (value != NULL)
            ipb_schema_note_value(notes, *keyword, value);
    }
    if (ipb_schema_get(facets, "anyOf") != NULL && ipb_schema_get(facets, "oneOf") != NULL)
        ipb_schema_note_value(notes, "oneOf", ipb_schema_get(facets, "oneOf"));
}

static const IpbType *
read_alternatives(IpbSchemaReader *reader, const GPtrArray *facets, const IpbJson *alternatives,
                  IpbNameHint hint, IpbSchemaReading *reading)
{
    GString *notes = reading->notes;
    note_beside(facets, notes);
    g_autoptr(GPtrArray) constants = get_constants(alternatives, notes);
    const IpbType *type = constants != NULL ? ipb_schema_read_enum(reader, constants, hint,
                                                                   reading->description, notes)
                                            : read_union(reader, alternatives, hint, reading);
    bool is_nullable = ipb_json_bool(ipb_schema_get(facets, "nullable"), false);
    return is_nullable ? ipb_module_make_optional(reader->module, type) : type;
}

/* --- types ------------------------------------------------------------------------------------ */

/* Levels of schemas in schemas, and of types in types. pydantic recurses through them with about
 * ten Python frames for each. */
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

/* The kinds of values that the type keywords of all facets allow. Without type keywords, the kind
 * that the other keywords are about. */
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
            here |= ALLOWS_INTEGER; /* integer and number allow integers */
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
        ipb_schema_note(notes, "The schema's types contradict each other.");
        return ALLOWS_ALL;
    }
    return allowed | (is_nullable ? ALLOWS_NULL : 0);
}

static const IpbType *
read_object(IpbSchemaReader *reader, const GPtrArray *facets, IpbNameHint hint,
            IpbSchemaReading *reading)
{
    if (ipb_schema_has_members(facets))
        return ipb_schema_read_class(reader, facets, hint, reading);
    return read_dict(reader, facets, hint, reading);
}

/* The union of the types that the facets allow. */
static const IpbType *
read_by_type(IpbSchemaReader *reader, const GPtrArray *facets, IpbNameHint hint,
             IpbSchemaReading *reading)
{
    GString *notes = reading->notes;
    unsigned allowed = read_allowed(facets, notes);
    if (allowed == ALLOWS_ALL)
        return ipb_module_add_type(reader->module, IPB_TYPE_ANY);
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
        g_ptr_array_add(types, (void *) ipb_module_add_type(reader->module, IPB_TYPE_BOOL));
    if (allowed & ALLOWS_ARRAY)
        g_ptr_array_add(types, (void *) read_list(reader, facets, hint, notes));
    if (allowed & ALLOWS_OBJECT)
        g_ptr_array_add(types, (void *) read_object(reader, facets, hint, reading));
    if (allowed & ALLOWS_NULL)
        g_ptr_array_add(types, (void *) ipb_module_add_type(reader->module, IPB_TYPE_NONE));
    return ipb_module_make_union(reader->module, types);
}

/* The values of enum or const; NULL if the schema has neither. */
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
read_facets(IpbSchemaReader *reader, const GPtrArray *facets, IpbNameHint hint,
            IpbSchemaReading *reading)
{
    g_autoptr(GPtrArray) values = get_values(facets);
    if (values != NULL) {
        const IpbType *type =
            ipb_schema_read_enum(reader, values, hint, reading->description, reading->notes);
        g_autoptr(GString) unused = g_string_new(NULL);
        unsigned allowed = read_allowed(facets, unused);
        /* Some servers list null among the types and forget it among the values. */
        bool is_nullable = allowed != ALLOWS_ALL && (allowed & ALLOWS_NULL) != 0;
        return is_nullable ? ipb_module_make_optional(reader->module, type) : type;
    }
    const IpbJson *alternatives = get_alternatives(facets);
    if (alternatives != NULL)
        return read_alternatives(reader, facets, alternatives, hint, reading);
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
finish_reading(IpbSchemaReader *reader, const GPtrArray *facets, IpbNameHint hint,
               IpbSchemaReading *reading)
{
    reading->description = ipb_wtf8_from_json(ipb_schema_get(facets, "description"));
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
    if (!is_class(type)) /* the class has these notes */
        ipb_schema_note_rest(facets, &reading->checks, reading->notes);
}

/* Makes a reading that is not remembered: any value, with @notes. */
static const IpbSchemaReading *
add_loose(IpbSchemaReader *reader, const GString *notes)
{
    IpbSchemaReading *reading = g_new0(IpbSchemaReading, 1);
    reading->notes = g_string_new(notes->str);
    reading->type = ipb_module_add_type(reader->module, IPB_TYPE_ANY);
    g_ptr_array_add(reader->unshared, reading);
    return reading;
}

/* Recursion through a class. The type that is being read is set when it is known, and the class can
 * be written before it. */
static const IpbSchemaReading *
add_later(IpbSchemaReader *reader, IpbSchemaReading *reading)
{
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_LATER);
    type->item = ipb_module_add_type(reader->module, IPB_TYPE_ANY);
    if (reading->later == NULL)
        reading->later = g_ptr_array_new();
    g_ptr_array_add(reading->later, type);
    IpbSchemaReading *here = g_new0(IpbSchemaReading, 1);
    here->notes = g_string_new(NULL);
    here->type = type;
    g_ptr_array_add(reader->unshared, here);
    return here;
}

static const IpbSchemaReading *
read_collected(IpbSchemaReader *reader, const GPtrArray *facets, IpbNameHint hint, GString *notes)
{
    g_autoptr(GBytes) key = g_bytes_new(facets->pdata, facets->len * sizeof(void *));
    IpbSchemaReading *reading = g_hash_table_lookup(reader->readings, key);
    if (reading != NULL && reading->type == NULL && reader->class_depth > reading->class_depth)
        return add_later(reader, reading);
    if (reading != NULL && reading->type == NULL) {
        ipb_schema_note(notes, "Recursive: not typed further.");
        return add_loose(reader, notes);
    }
    if (reading == NULL && reader->depth < MAX_DEPTH) {
        reading = g_new0(IpbSchemaReading, 1);
        reading->notes = g_string_new(notes->str);
        reading->class_depth = reader->class_depth;
        g_hash_table_insert(reader->readings, g_bytes_ref(key), reading);
        finish_reading(reader, facets, hint, reading);
        for (guint i = 0; reading->later != NULL && i < reading->later->len; i++)
            ((IpbType *) g_ptr_array_index(reading->later, i))->item = reading->type;
    }
    if (reading != NULL && reading->type->height < MAX_HEIGHT)
        return reading;
    /* Not remembered, because at a place nearer to the root there is room for it. */
    ipb_schema_note(notes, "Nested too deeply: not typed further.");
    return add_loose(reader, notes);
}

const IpbSchemaReading *
ipb_schema_read(IpbSchemaReader *reader, GPtrArray *nodes, IpbNameHint hint)
{
    g_autoptr(GString) notes = g_string_new(NULL);
    g_autoptr(GPtrArray) followed = g_ptr_array_new();
    if (nodes->len == 1) {
        const IpbJson *node = follow(reader, g_ptr_array_index(nodes, 0), &hint, notes);
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

const IpbSchemaReading *
ipb_schema_read_node(IpbSchemaReader *reader, const IpbJson *node, IpbNameHint hint)
{
    g_autoptr(GPtrArray) nodes = g_ptr_array_new();
    g_ptr_array_add(nodes, (void *) node);
    return ipb_schema_read(reader, nodes, hint);
}

/* --- tools ------------------------------------------------------------------------------------ */

#define WRAPPED "result"

static void
free_reading(void *data)
{
    IpbSchemaReading *reading = data;
    g_string_free(reading->notes, TRUE);
    g_clear_pointer(&reading->later, g_ptr_array_unref);
    g_free(reading);
}

static void
init_reader(IpbSchemaReader *reader, IpbModule *module, const IpbJson *root, bool is_input)
{
    *reader = (IpbSchemaReader){
        .module = module,
        .is_input = is_input,
        .readings = g_hash_table_new_full(g_bytes_hash, g_bytes_equal,
                                          (GDestroyNotify) g_bytes_unref, free_reading),
        .unshared = g_ptr_array_new_with_free_func(free_reading),
        .enums = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
        .inlined = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
    };
    ipb_schema_document_init(&reader->document, root);
}

static void
clear_reader(IpbSchemaReader *reader)
{
    g_hash_table_unref(reader->readings);
    g_ptr_array_unref(reader->unshared);
    ipb_schema_document_clear(&reader->document);
    g_hash_table_unref(reader->enums);
    g_hash_table_unref(reader->inlined);
}

/* Remembers the facets of the root as the class @name, so that references to it find it. */
static IpbType *
add_root_class(IpbSchemaReader *reader, const GPtrArray *facets, const char *name)
{
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_CLASS);
    type->class = ipb_class_new(name);
    IpbSchemaReading *reading = g_new0(IpbSchemaReading, 1);
    reading->notes = g_string_new(NULL);
    reading->type = type;
    g_hash_table_insert(reader->readings, g_bytes_new(facets->pdata, facets->len * sizeof(void *)),
                        reading);
    return type;
}

static GPtrArray *
collect_root(IpbSchemaReader *reader, const IpbJson *schema, GString *notes)
{
    IpbNameHint unused = {0};
    g_autoptr(GPtrArray) nodes = g_ptr_array_new();
    const IpbJson *node = follow(reader, schema, &unused, notes);
    if (node != NULL)
        g_ptr_array_add(nodes, (void *) node);
    return ipb_schema_collect(reader, nodes, notes);
}

static IpbType *
fill_root_class(IpbSchemaReader *reader, const GPtrArray *facets, const char *name, GString *notes)
{
    IpbType *type = add_root_class(reader, facets, name);
    IpbSpan description = ipb_wtf8_from_json(ipb_schema_get(facets, "description"));
    if (ipb_schema_reader_spend_text(reader, description.size))
        type->class->description = description;
    ipb_schema_note_rest(facets, NULL, notes);
    ipb_schema_fill_class(reader, facets, type->class, notes);
    return type;
}

static void
read_params(IpbModule *module, const IpbJson *schema)
{
    IpbSchemaReader reader;
    init_reader(&reader, module, schema, true);
    g_autoptr(GString) notes = g_string_new(NULL);
    g_autoptr(GPtrArray) facets = g_ptr_array_new();
    if (schema != NULL) {
        g_ptr_array_unref(g_steal_pointer(&facets));
        facets = collect_root(&reader, schema, notes);
    }
    const char *type = ipb_json_string(ipb_schema_get(facets, "type"), NULL);
    if (type != NULL && !g_str_equal(type, "object"))
        ipb_schema_note_value(notes, "type", ipb_schema_get(facets, "type"));
    module->params = fill_root_class(&reader, facets, "Params", notes)->class;
    clear_reader(&reader);
}

static bool
is_object_with_members(IpbSchemaReader *reader, const IpbJson *schema)
{
    g_autoptr(GString) unused = g_string_new(NULL);
    g_autoptr(GPtrArray) facets = collect_root(reader, schema, unused);
    const IpbJson *type = ipb_schema_get(facets, "type");
    bool may_be_object = type == NULL || g_strcmp0(ipb_json_string(type, NULL), "object") == 0;
    return may_be_object && ipb_schema_has_members(facets);
}

/* FastMCP wraps a value that is not an object: {"result": value}. Returns the value's schema; NULL:
 * it is not wrapped. */
static const IpbJson *
get_wrapped(const IpbJson *schema)
{
    const IpbJson *properties = ipb_json_get(schema, "properties");
    bool is_wrapped = ipb_json_get_bool(schema, "x-fastmcp-wrap-result", false);
    return is_wrapped && ipb_json_length(properties) == 1 ? ipb_json_get(properties, WRAPPED)
                                                          : NULL;
}

/* Marks the classes that run may return: they carry the contents of the answer. */
static void
mark_results(const IpbType *type)
{
    if (type->kind == IPB_TYPE_CLASS)
        type->class->is_result = true;
    if (type->kind == IPB_TYPE_UNION)
        for (guint i = 0; i < type->members->len; i++)
            mark_results(g_ptr_array_index(type->members, i));
}

static void
read_result(IpbModule *module, const IpbJson *schema)
{
    IpbSchemaReader reader;
    init_reader(&reader, module, schema, false);
    g_autoptr(GString) notes = g_string_new(NULL);
    const IpbJson *wrapped = get_wrapped(schema);
    if (wrapped != NULL) {
        schema = wrapped;
        module->result_member = WRAPPED;
    }
    if (is_object_with_members(&reader, schema)) {
        g_autoptr(GPtrArray) facets = collect_root(&reader, schema, notes);
        module->result = fill_root_class(&reader, facets, "Result", notes);
    } else {
        IpbNameHint hint = {.name = "Result"};
        const IpbSchemaReading *reading = ipb_schema_read_node(&reader, schema, hint);
        module->result = reading->type;
        if (reading->notes->len > 0)
            module->result_notes = ipb_module_keep(module, reading->notes->str);
    }
    mark_results(module->result);
    clear_reader(&reader);
}

IpbModule *
ipb_schema_read_tool(const IpbJson *tool)
{
    IpbModule *module = ipb_module_new();
    ipb_names_reserve(module);
    module->tool_name = ipb_wtf8_from_json(ipb_json_get(tool, "name"));
    module->title = ipb_wtf8_from_json(ipb_json_get(tool, "title"));
    module->description = ipb_wtf8_from_json(ipb_json_get(tool, "description"));
    read_params(module, ipb_json_get(tool, "inputSchema"));
    const IpbJson *output = ipb_json_get(tool, "outputSchema");
    if (output != NULL && !ipb_json_is(output, IPB_JSON_NULL))
        read_result(module, output);
    ipb_names_give_classes(module);
    ipb_names_give_fields(module);
    return module;
}
