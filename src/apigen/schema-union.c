/* SPDX-License-Identifier: Apache-2.0
 *
 * anyOf and oneOf: alternatives that say what kind of value they allow become a union; constants with
 * descriptions, an enum. Alternatives that only add conditions are no union: see schema-class.c.
 */
#include "apigen/schema-private.h"

#define MAX_UNION_MEMBERS 64
/* Constants that are told with their descriptions. */
#define MAX_NOTED_CONSTANT 60

/* Does the schema say by itself what kind of value it allows? */
static bool
has_shape(const IpbJson *schema)
{
    static const char *const SHAPES[] = {"type",  "$ref",  "enum",  "const",      "anyOf",
                                         "oneOf", "allOf", "items", "properties", NULL};
    if (ipb_json_length(schema) == 0)
        return true; /* {}: anything */
    for (const char *const *keyword = SHAPES; *keyword != NULL; keyword++)
        if (ipb_json_get(schema, *keyword) != NULL)
            return true;
    return false;
}

const IpbJson *
ipb_schema_get_alternatives(const GPtrArray *facets)
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

/* The values of alternatives that are constants with a title or description each; NULL if they are not. */
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

/* The description of an alternative; an object's is that of its class. */
static void
note_alternative(const IpbReading *inner, const char *word, GString *notes)
{
    g_autofree char *text = g_strndup(inner->description.text, inner->description.size);
    g_strdelimit(text, "\t\n\v\f\r", ' ');
    ipb_schema_note(notes, "%s%s", word, text);
}

static const IpbType *
read_union(IpbSchemaReader *reader, const IpbJson *alternatives, IpbHint hint, IpbReading *reading)
{
    g_autoptr(GPtrArray) types = g_ptr_array_new();
    g_autoptr(GPtrArray) described = g_ptr_array_new(); /* IpbReading */
    bool has_classes = false;                           /* a field leaves its description to them */
    hint.is_definition = false;
    IPB_JSON_FOREACH (alternative, alternatives) {
        if (types->len == MAX_UNION_MEMBERS) {
            ipb_schema_note(reading->notes, "The schema has more alternatives.");
            return ipb_schema_simple(reader, IPB_TYPE_ANY);
        }
        const IpbReading *inner = ipb_schema_read_node(reader, alternative, hint);
        g_ptr_array_add(types, (void *) inner->type);
        if (inner->notes->len > 0)
            ipb_schema_note(reading->notes, "%s", inner->notes->str);
        has_classes |= inner->type->kind == IPB_TYPE_CLASS;
        if (inner->description.size == 0)
            continue;
        if (inner->type->kind != IPB_TYPE_CLASS)
            g_ptr_array_add(described, (void *) inner);
        else if (inner->type->class->description.size == 0 &&
                 ipb_schema_spend_text(reader, inner->description.size))
            inner->type->class->description = inner->description;
    }
    if (described->len == 1 && reading->description.size == 0 && !has_classes) {
        const IpbReading *only = g_ptr_array_index(described, 0);
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

/* What stands beside alternatives that are read as a union. */
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

const IpbType *
ipb_schema_read_alternatives(IpbSchemaReader *reader, const GPtrArray *facets,
                             const IpbJson *alternatives, IpbHint hint, IpbReading *reading)
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
