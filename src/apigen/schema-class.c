/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects with named members become classes. The members come from all facets. Members that only
 * some alternatives of an anyOf or oneOf name are in the class, too, and are not required.
 */
#include "apigen/schema-reader.h"

#include <string.h>

#include "apigen/literal.h"
#include "apigen/identifier.h"
#include "apigen/schema-reader.h"
#include "apigen/wtf8.h"

#define MAX_FIELDS 5000
/* Bytes of a default in the source: of a scalar, and of an array or object. */
#define MAX_DEFAULT 200
#define MAX_NESTED_DEFAULT 60
/* Bytes of a schema that is compared with others, so that equal ones share a class. */
#define MAX_INLINE_KEY (16 << 10)

typedef struct {
    IpbSpan name;
    GPtrArray *nodes;    /* IpbJson: schemas that all hold for it */
    GPtrArray *variants; /* IpbJson: schemas of alternatives, of which one holds */
    bool is_required;
} Member;

typedef struct {
    GPtrArray *in_order; /* Member */
    GHashTable *by_name; /* &member->name → Member */
} Members;

static guint
hash_text(const void *data)
{
    const IpbSpan *text = data;
    guint hash = 5381;
    for (size_t i = 0; i < text->size; i++)
        hash = hash * 33 + (unsigned char) text->start[i];
    return hash;
}

static gboolean
equal_text(const void *a, const void *b)
{
    return ipb_wtf8_equal(*(const IpbSpan *) a, *(const IpbSpan *) b);
}

static void
free_member(void *data)
{
    Member *member = data;
    g_ptr_array_unref(member->nodes);
    g_ptr_array_unref(member->variants);
    g_free(member);
}

static void
init_members(Members *members)
{
    members->in_order = g_ptr_array_new_with_free_func(free_member);
    members->by_name = g_hash_table_new(hash_text, equal_text);
}

static void
clear_members(Members *members)
{
    g_hash_table_unref(members->by_name);
    g_ptr_array_unref(members->in_order);
}

static Member *
get_member(Members *members, IpbSpan name)
{
    Member *member = g_hash_table_lookup(members->by_name, &name);
    if (member == NULL) {
        member = g_new0(Member, 1);
        member->name = name;
        member->nodes = g_ptr_array_new();
        member->variants = g_ptr_array_new();
        g_ptr_array_add(members->in_order, member);
        g_hash_table_insert(members->by_name, &member->name, member);
    }
    return member;
}

bool
ipb_schema_has_members(const GPtrArray *facets)
{
    for (guint i = 0; i < facets->len; i++)
        if (ipb_json_length(ipb_json_get(g_ptr_array_index(facets, i), "properties")) > 0)
            return true;
    return false;
}

static void
gather_properties(IpbSchemaReader *reader, const IpbJson *facet, Members *members, bool is_variant,
                  GString *notes)
{
    const IpbJson *properties = ipb_json_get(facet, "properties");
    if (!ipb_json_is(properties, IPB_JSON_OBJECT) ||
        !ipb_schema_document_visit(&reader->document, ipb_json_length(properties), notes))
        return;
    g_autoptr(GHashTable) seen = g_hash_table_new(hash_text, equal_text);
    IPB_JSON_FOREACH (property, properties) {
        Member *member = get_member(members, ipb_wtf8_from_name(property));
        if (is_variant && member->nodes->len > 0)
            continue; /* it is described outside the alternatives, for all of them */
        GPtrArray *into = is_variant ? member->variants : member->nodes;
        if (!g_hash_table_add(seen, &member->name)) /* the same name twice: the last counts */
            g_ptr_array_set_size(into, (gint) into->len - 1);
        g_ptr_array_add(into, (void *) property);
    }
}

static void
gather_required(IpbSchemaReader *reader, const IpbJson *facet, Members *members, GString *notes)
{
    const IpbJson *required = ipb_json_get(facet, "required");
    if (!ipb_json_is(required, IPB_JSON_ARRAY) ||
        !ipb_schema_document_visit(&reader->document, ipb_json_length(required), notes))
        return;
    IPB_JSON_FOREACH (item, required)
        if (ipb_json_is(item, IPB_JSON_STRING))
            get_member(members, ipb_wtf8_from_json(item))->is_required = true;
}

/* Adds the properties of the alternatives. What an alternative requires holds only for it. */
static void
gather_variants(IpbSchemaReader *reader, const GPtrArray *facets, const char *keyword,
                Members *members, GString *notes)
{
    const IpbJson *alternatives = ipb_schema_get(facets, keyword);
    bool is_first = true;
    IPB_JSON_FOREACH (alternative, alternatives) {
        g_autoptr(GPtrArray) nodes = g_ptr_array_new();
        g_ptr_array_add(nodes, (void *) alternative);
        g_autoptr(GPtrArray) parts = ipb_schema_collect(reader, nodes, notes);
        for (guint i = 0; i < parts->len; i++)
            gather_properties(reader, g_ptr_array_index(parts, i), members, true, notes);
        if (is_first)
            ipb_schema_note_value(notes, keyword, alternatives);
        is_first = false;
    }
}

/* Whether the field's default can be in the source: not if it does not fit the field's type, or is
 * long. */
static bool
can_be_written(IpbSchemaReader *reader, const IpbField *field, const IpbJson *value)
{
    bool is_nested = ipb_json_is(value, IPB_JSON_ARRAY) || ipb_json_is(value, IPB_JSON_OBJECT);
    size_t size = ipb_json_raw(value).size;
    g_autoptr(GString) unused = g_string_new(NULL);
    return !field->is_required && size <= (is_nested ? MAX_NESTED_DEFAULT : MAX_DEFAULT) &&
           ipb_schema_reader_spend_text(reader, size) &&
           ipb_literal_append_default(unused, field->type, value, false);
}

/* Sets the field's default, or adds a note of it. */
static void
set_default(IpbSchemaReader *reader, IpbField *field, const IpbJson *value, GString *notes)
{
    if (value == NULL)
        return;
    if (can_be_written(reader, field, value))
        field->default_value = value;
    else if (!ipb_json_is(value, IPB_JSON_NULL))
        ipb_schema_note_value(notes, "Default", value);
}

/* Whether the description of a definition is shown at its class. */
static bool
is_described_elsewhere(const IpbType *type)
{
    if (type->kind != IPB_TYPE_UNION)
        return type->kind == IPB_TYPE_CLASS || type->kind == IPB_TYPE_ENUM;
    for (guint i = 0; i < type->members->len; i++)
        if (is_described_elsewhere(g_ptr_array_index(type->members, i)))
            return true;
    return false;
}

static const IpbJson *
get_of_nodes(const GPtrArray *nodes, const char *keyword)
{
    for (guint i = 0; i < nodes->len; i++) {
        const IpbJson *value = ipb_json_get(g_ptr_array_index(nodes, i), keyword);
        if (value != NULL)
            return value;
    }
    return NULL;
}

/* The union of the types that alternatives give to one member. */
static const IpbType *
read_variants(IpbSchemaReader *reader, const Member *member, IpbNameHint hint, IpbSpan *description,
              GString *notes)
{
    g_autoptr(GPtrArray) types = g_ptr_array_new();
    for (guint i = 0; i < member->variants->len; i++) {
        const IpbSchemaReading *reading =
            ipb_schema_read_node(reader, g_ptr_array_index(member->variants, i), hint);
        g_ptr_array_add(types, (void *) reading->type);
        if (reading->notes->len > 0)
            ipb_schema_note(notes, "%s", reading->notes->str);
        if (description->size == 0)
            *description = reading->description;
    }
    return ipb_module_make_union(reader->module, types);
}

/* The letters and digits of the text, in lower case. */
static char *
make_bare(IpbSpan text)
{
    GString *out = g_string_new(NULL);
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char) text.start[i] >= 0x80 || g_ascii_isalnum(text.start[i]))
            g_string_append_c(out, g_ascii_tolower(text.start[i]));
    return g_string_free(out, FALSE);
}

/* The title, or nothing if it is only the name in other words: generators make "Server Name" of
 * server_name. */
static IpbSpan
get_title(const GPtrArray *nodes, IpbSpan name)
{
    IpbSpan title = ipb_wtf8_from_json(get_of_nodes(nodes, "title"));
    g_autofree char *bare_title = make_bare(title), *bare_name = make_bare(name);
    return g_str_equal(bare_title, bare_name) ? (IpbSpan){0} : title;
}

static void
read_field(IpbSchemaReader *reader, IpbClass *class, const Member *member)
{
    g_autoptr(GString) notes = g_string_new(NULL);
    const GPtrArray *nodes = member->nodes->len > 0 ? member->nodes : member->variants;
    g_autofree char *camel = ipb_identifier_make_class(member->name);
    IpbNameHint hint = {.name = camel[0] != '\0' ? camel : "Field", .parent = class};
    IpbSpan description = ipb_wtf8_from_json(get_of_nodes(nodes, "description"));
    IpbSpan inner = {0};
    const IpbType *type;
    if (nodes->len == 0) {
        type = ipb_module_add_type(reader->module, IPB_TYPE_ANY);
    } else if (nodes == member->variants) {
        type = read_variants(reader, member, hint, &inner, notes);
    } else {
        const IpbSchemaReading *reading = ipb_schema_read(reader, member->nodes, hint);
        type = reading->type;
        inner = reading->description;
        g_string_append(notes, reading->notes->str);
    }
    IpbField *field = ipb_class_add_field(class);
    field->wire_name = member->name;
    field->type = type;
    field->is_required = member->is_required;
    if (description.size == 0 && !is_described_elsewhere(type))
        description = inner;
    if (description.size == 0)
        description = get_title(nodes, member->name);
    if (ipb_schema_reader_spend_text(reader, description.size))
        field->description = description;
    set_default(reader, field, get_of_nodes(nodes, "default"), notes);
    ipb_schema_note_annotations(nodes, notes);
    if (notes->len > 0)
        field->notes = ipb_module_keep(reader->module, notes->str);
}

/* Reads what the schema says about members that it does not name. */
static void
read_additional(IpbSchemaReader *reader, const GPtrArray *facets, IpbClass *class, GString *notes)
{
    const IpbJson *additional = ipb_schema_get(facets, "additionalProperties");
    bool has_patterns = ipb_schema_get(facets, "patternProperties") != NULL;
    bool is_schema = ipb_json_is(additional, IPB_JSON_OBJECT) && ipb_json_length(additional) > 0;
    if (is_schema && facets->len == 1 && !has_patterns) {
        const char *base = class->claim != NULL ? class->claim->base : class->name;
        g_autofree char *name = g_strconcat(base, "Value", NULL);
        IpbNameHint hint = {.name = name, .parent = class};
        const IpbSchemaReading *reading = ipb_schema_read_node(reader, additional, hint);
        class->extra = reading->type->kind != IPB_TYPE_ANY ? reading->type : NULL;
        if (reading->notes->len > 0)
            ipb_schema_note(notes, "Other members: %s", reading->notes->str);
    } else if (is_schema) {
        ipb_schema_note_value(notes, "Other members", additional);
    }
    /* With several facets, a member that one facet does not name may be named by another. */
    class->is_closed = facets->len == 1 && !ipb_json_bool(additional, true) && !has_patterns;
    bool names_some = facets->len == 0 || ipb_schema_get(facets, "properties") != NULL;
    class->is_open = has_patterns || is_schema || ipb_json_bool(additional, false) ||
                     ipb_json_is(additional, IPB_JSON_OBJECT) ||
                     (additional == NULL && !names_some);
}

void
ipb_schema_fill_class(IpbSchemaReader *reader, const GPtrArray *facets, IpbClass *class,
                      GString *notes)
{
    Members members;
    init_members(&members);
    class->is_input = reader->is_input;
    for (guint i = 0; i < facets->len; i++) {
        gather_properties(reader, g_ptr_array_index(facets, i), &members, false, notes);
        gather_required(reader, g_ptr_array_index(facets, i), &members, notes);
    }
    reader->class_depth++;
    read_additional(reader, facets, class, notes);
    gather_variants(reader, facets, "anyOf", &members, notes);
    gather_variants(reader, facets, "oneOf", &members, notes);
    for (guint i = 0; i < members.in_order->len; i++) {
        const Member *member = g_ptr_array_index(members.in_order, i);
        if (ipb_wtf8_has_surrogate(member->name)) {
            ipb_schema_note(notes, "Not typed, because its name is not valid text: %s",
                            member->name.start);
            class->is_closed = false;
            continue;
        }
        if (i == MAX_FIELDS || !ipb_schema_reader_spend_text(reader, member->name.size)) {
            ipb_schema_note(notes, "The schema names more members than are typed here.");
            class->is_closed = false;
            break;
        }
        read_field(reader, class, member);
    }
    reader->class_depth--;
    clear_members(&members);
    if (notes->len > 0)
        class->notes = ipb_module_keep(reader->module, notes->str);
    g_ptr_array_add(reader->module->classes, class);
}

/* A key for a schema that is written out in its place. NULL: it shares no class with other
 * places. */
static char *
make_inline_key(const GPtrArray *facets, const char *name)
{
    IpbSpan raw = ipb_json_raw(g_ptr_array_index(facets, 0));
    if (facets->len > 1 || raw.size > MAX_INLINE_KEY)
        return NULL;
    g_autofree char *digest =
        g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *) raw.start, raw.size);
    return g_strdup_printf("%s %s", name, digest);
}

const IpbType *
ipb_schema_read_class(IpbSchemaReader *reader, const GPtrArray *facets, IpbNameHint hint,
                      IpbSchemaReading *reading)
{
    g_autofree char *key = make_inline_key(facets, hint.name);
    const IpbType *known = key != NULL ? g_hash_table_lookup(reader->inlined, key) : NULL;
    if (known != NULL) {
        ipb_names_claim_again(known->class->claim, hint);
        return known;
    }
    IpbClass *class = ipb_class_new(NULL);
    class->claim = ipb_names_claim(reader->module, &class->name, hint, reader->is_input);
    class->claim->class = class;
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_CLASS);
    type->class = class;
    reading->type = type;
    if (key != NULL)
        g_hash_table_insert(reader->inlined, g_steal_pointer(&key), type);
    IpbSpan description = ipb_wtf8_from_json(ipb_schema_get(facets, "description"));
    if (hint.is_definition && ipb_schema_reader_spend_text(reader, description.size))
        class->description = description;
    g_autoptr(GString) notes = g_string_new(NULL);
    ipb_schema_note_rest(facets, NULL, notes);
    ipb_schema_fill_class(reader, facets, class, notes);
    for (guint i = 0; i < class->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        type->height = MAX(type->height, field->type->height + 1);
    }
    return type;
}
