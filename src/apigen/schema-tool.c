/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a tool: its input schema becomes the class Params, its output schema the class Result, or
 * another type of that name if it is no object with named members.
 */
#include "apigen/names.h"
#include "apigen/schema-private.h"
#include "apigen/schema.h"

#define WRAPPED "result"

static void
free_reading(void *data)
{
    IpbReading *reading = data;
    g_string_free(reading->notes, TRUE);
    g_clear_pointer(&reading->later, g_ptr_array_unref);
    g_free(reading);
}

static void
init_reader(IpbSchemaReader *reader, IpbModule *module, const IpbJson *root, bool is_input)
{
    *reader = (IpbSchemaReader){
        .module = module,
        .root = root,
        .is_input = is_input,
        .readings = g_hash_table_new_full(g_bytes_hash, g_bytes_equal,
                                          (GDestroyNotify) g_bytes_unref, free_reading),
        .loose = g_ptr_array_new_with_free_func(free_reading),
        .refs = g_hash_table_new(g_str_hash, g_str_equal),
        .indexes = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify) g_hash_table_unref),
        .enums = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
        .inlined = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
    };
}

static void
clear_reader(IpbSchemaReader *reader)
{
    g_hash_table_unref(reader->readings);
    g_ptr_array_unref(reader->loose);
    g_hash_table_unref(reader->refs);
    g_clear_pointer(&reader->resources, g_ptr_array_unref);
    g_hash_table_unref(reader->indexes);
    g_hash_table_unref(reader->enums);
    g_hash_table_unref(reader->inlined);
}

/* The facets of the root, remembered as the class @name, so that a reference to it finds it. */
static IpbType *
add_root_class(IpbSchemaReader *reader, const GPtrArray *facets, const char *name)
{
    IpbType *type = ipb_module_add_type(reader->module, IPB_TYPE_CLASS);
    type->class = ipb_class_new(name);
    IpbReading *reading = g_new0(IpbReading, 1);
    reading->notes = g_string_new(NULL);
    reading->type = type;
    g_hash_table_insert(reader->readings, g_bytes_new(facets->pdata, facets->len * sizeof(void *)),
                        reading);
    return type;
}

static GPtrArray *
collect_root(IpbSchemaReader *reader, const IpbJson *schema, GString *notes)
{
    IpbHint unused = {0};
    g_autoptr(GPtrArray) nodes = g_ptr_array_new();
    const IpbJson *node = ipb_schema_follow(reader, schema, &unused, notes);
    if (node != NULL)
        g_ptr_array_add(nodes, (void *) node);
    return ipb_schema_collect(reader, nodes, notes);
}

static IpbType *
fill_root_class(IpbSchemaReader *reader, const GPtrArray *facets, const char *name, GString *notes)
{
    IpbType *type = add_root_class(reader, facets, name);
    IpbText description = ipb_text_of(ipb_schema_get(facets, "description"));
    if (ipb_schema_spend_text(reader, description.size))
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

/* FastMCP makes {"result": value} of a value that is no object. The value's schema; NULL: it is not wrapped. */
static const IpbJson *
get_wrapped(const IpbJson *schema)
{
    const IpbJson *properties = ipb_json_get(schema, "properties");
    bool is_wrapped = ipb_json_get_bool(schema, "x-fastmcp-wrap-result", false);
    return is_wrapped && ipb_json_length(properties) == 1 ? ipb_json_get(properties, WRAPPED)
                                                          : NULL;
}

/* Classes that run may return have what came beside them. */
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
        IpbHint hint = {.name = "Result"};
        const IpbReading *reading = ipb_schema_read_node(&reader, schema, hint);
        module->result = reading->type;
        if (reading->notes->len > 0)
            module->result_notes = g_string_chunk_insert(module->strings, reading->notes->str);
    }
    mark_results(module->result);
    clear_reader(&reader);
}

IpbModule *
ipb_schema_read_tool(const IpbJson *tool)
{
    IpbModule *module = ipb_module_new();
    ipb_names_reserve(module);
    module->tool_name = ipb_text_of(ipb_json_get(tool, "name"));
    module->title = ipb_text_of(ipb_json_get(tool, "title"));
    module->description = ipb_text_of(ipb_json_get(tool, "description"));
    read_params(module, ipb_json_get(tool, "inputSchema"));
    const IpbJson *output = ipb_json_get(tool, "outputSchema");
    if (output != NULL && !ipb_json_is(output, IPB_JSON_NULL))
        read_result(module, output);
    ipb_names_give_classes(module);
    ipb_names_give_fields(module);
    return module;
}
