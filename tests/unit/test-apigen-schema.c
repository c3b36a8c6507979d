/* SPDX-License-Identifier: Apache-2.0
 *
 * Schemas as types: the annotation and the notes of a parameter.
 */
#include "apigen/schema.h"

#include <string.h>

#include "apigen/annotation.h"

typedef struct {
    IpbJsonDoc *doc;
    IpbModule *module;
} Tool;

/* Reads a tool whose parameter p has the schema @json. @definitions: its $defs. */
static void
read_parameter(Tool *tool, const char *json, const char *definitions)
{
    g_autofree char *text = g_strdup_printf(
        "{\"name\": \"do\", \"inputSchema\": {\"$defs\": {%s}, \"properties\": {\"p\": %s}}}",
        definitions, json);
    g_autoptr(GError) error = NULL;
    tool->doc = ipb_json_parse(text, strlen(text), &IPB_JSON_LIMITS_SMALL, &error);
    g_assert_no_error(error);
    tool->module = ipb_schema_read_tool(ipb_json_root(tool->doc));
}

static void
clear(Tool *tool)
{
    ipb_module_free(tool->module);
    ipb_json_doc_free(tool->doc);
}

static void
check_with(const char *definitions, const char *json, const char *annotation, const char *notes)
{
    Tool tool;
    read_parameter(&tool, json, definitions);
    const IpbField *field = g_ptr_array_index(tool.module->params->fields, 0);
    g_autoptr(GString) text = g_string_new(NULL);
    ipb_annotation_append(text, field->type, true);
    g_assert_cmpstr(text->str, ==, annotation);
    g_assert_cmpstr(field->notes, ==, notes);
    clear(&tool);
}

static void
check(const char *json, const char *annotation, const char *notes)
{
    check_with("", json, annotation, notes);
}

static void
test_simple(void)
{
    check("{}", "Any", NULL);
    check("true", "Any", NULL);
    check("false", "Any", "The schema allows no value here.");
    check("5", "Any", "The schema is invalid: it is not an object.");
    check("{\"type\": \"string\"}", "str", NULL);
    check("{\"type\": \"integer\"}", "int", NULL);
    check("{\"type\": \"number\"}", "int | float", NULL);
    check("{\"type\": \"boolean\"}", "bool", NULL);
    check("{\"type\": \"null\"}", "None", NULL);
    check("{\"type\": [\"null\", \"integer\", \"string\"]}", "str | int | None", NULL);
    check("{\"type\": \"string\", \"nullable\": true}", "str | None", NULL);
    check("{\"type\": \"color\"}", "Any", "Unknown type: color");
}

static void
test_bounds(void)
{
    check("{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 1e2, \"multipleOf\": 5}",
          "Annotated[int, Field(ge=1, le=100, multiple_of=5)]", NULL);
    check("{\"type\": \"integer\", \"minimum\": 0.5}", "int", "minimum: 0.5");
    check("{\"type\": \"number\", \"exclusiveMinimum\": 0.5, \"maximum\": 1e400}",
          "Annotated[int | float, Field(gt=0.5)]", "maximum: 1e400");
    check("{\"type\": \"number\", \"minimum\": 1, \"exclusiveMinimum\": true}",
          "Annotated[int | float, Field(gt=1)]", NULL);
    check("{\"type\": \"number\", \"multipleOf\": 0.1}", "int | float", "multipleOf: 0.1");
    check("{\"type\": \"string\", \"minLength\": 0, \"maxLength\": 5, \"pattern\": \"^\\\\d\"}",
          "Annotated[str, Field(max_length=5, pattern=\"^[0-9]\")]", NULL);
    check("{\"type\": \"string\", \"pattern\": \"(?!x)\"}", "str", "pattern: (?!x)");
    check("{\"type\": \"array\", \"minItems\": 1, \"uniqueItems\": true}",
          "Annotated[list[Any], Field(min_length=1)]", "uniqueItems: true");
}

static void
test_enums(void)
{
    check("{\"enum\": [\"a\", \"b\", \"a\"]}", "P", NULL);
    check("{\"enum\": [\"a\", \"b\", null]}", "P | None", NULL);
    check("{\"type\": [\"string\", \"null\"], \"enum\": [\"a\", \"b\"]}", "P | None", NULL);
    check("{\"enum\": [\"only\"]}", "Literal[\"only\"]", NULL);
    check("{\"const\": 1.0}", "Literal[1]", NULL);
    check("{\"enum\": [\"a\", 1, null]}", "Literal[\"a\", 1] | None", NULL);
    check("{\"enum\": [true, 1]}", "Any", "One of: true, 1");
    check("{\"enum\": [0.5, 1]}", "int | float", "One of: 0.5, 1");
    check("{\"enum\": [{\"a\": 1}]}", "Any", "One of: {\"a\": 1}");
    check("{\"enum\": [\"\\ud800\", \"b\"]}", "str", "One of: \"\\ud800\", \"b\"");
    check("{\"enum\": [null]}", "None", NULL);
    check("{\"enum\": []}", "Any", "The schema allows no value here: its enum is empty.");
    check("{\"oneOf\": [{\"const\": \"a\", \"title\": \"First\"}, {\"const\": \"b\"}]}", "P",
          "\"a\": First");
}

static void
test_containers(void)
{
    check("{\"type\": \"array\", \"items\": {\"type\": \"string\"}}", "list[str]", NULL);
    check("{\"type\": \"object\"}", "dict[str, Any]", NULL);
    check("{\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}}",
          "dict[str, int]", NULL);
    check("{\"type\": \"object\", \"properties\": {\"a\": {}}}", "P", NULL);
    check("{\"type\": \"array\", \"items\": {\"properties\": {\"a\": {}}}}", "list[PItem]", NULL);
    check("{\"type\": \"array\", \"prefixItems\": [{\"type\": \"string\"}]}", "list[Any]",
          "Items in order: [{\"type\": \"string\"}]");
}

static void
test_unions(void)
{
    check("{\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"string\"}]}", "str | None", NULL);
    check("{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}", "int | float", NULL);
    check("{\"anyOf\": [{\"enum\": [1, \"a\"]}, {\"type\": \"boolean\"}]}",
          "bool | Literal[1, \"a\"]", NULL);
    check("{\"anyOf\": [{\"enum\": [1, 2]}, {\"enum\": [true, \"a\"]}]}",
          "bool | Literal[1, 2, \"a\"]", NULL);
    check("{\"anyOf\": [{\"const\": false}, {\"type\": \"integer\"}]}", "bool | int", NULL);
    check("{\"anyOf\": [{\"const\": false}, {\"type\": \"string\"}]}", "Literal[False] | str",
          NULL);
    check("{\"anyOf\": [{}, {\"type\": \"string\"}]}", "Any", NULL);
    check("{\"type\": \"string\", \"anyOf\": [{\"format\": \"uri\"}, {\"format\": \"email\"}]}",
          "str", NULL);
    check("{\"allOf\": [{\"type\": \"integer\"}]}", "int", NULL);
    check("{\"allOf\": [{\"type\": \"integer\", \"minimum\": 1}, {\"minimum\": 5}]}",
          "Annotated[int, Field(ge=5)]", NULL);
}

static void
test_references(void)
{
    const char *node =
        "\"Tree node\": {\"properties\": {\"next\": {\"$ref\": \"#/$defs/Tree%20node\"}}}";
    check_with(node, "{\"$ref\": \"#/$defs/Tree%20node\"}", "TreeNode", NULL);
    check_with(node, "{\"anyOf\": [{\"$ref\": \"#/$defs/Tree node\"}, {\"type\": \"null\"}]}",
               "TreeNode | None", NULL);
    check_with(node, "{\"$ref\": \"#/$defs/Tree node\", \"minProperties\": 1}", "P", NULL);
    check("{\"$ref\": \"#\"}", "Params", NULL);
    check("{\"$ref\": \"#/properties/p\"}", "Any", "Recursive: not typed further.");
    check("{\"$ref\": \"http://example.org/x\"}", "Any",
          "Not resolved: $ref: http://example.org/x");
    check("{\"type\": \"array\", \"items\": {\"$ref\": \"#/properties/p\"}}", "list[Any]",
          "Items: Recursive: not typed further.");
}

static void
test_members(void)
{
    Tool tool;
    read_parameter(&tool,
                   "{\"allOf\": [{\"properties\": {\"a\": {\"type\": \"string\"}}, \"required\": "
                   "[\"a\", \"z\"]}, {\"properties\": {\"b\": {}}}], \"oneOf\": [{\"properties\": "
                   "{\"c\": {\"type\": \"integer\"}}}, {\"properties\": {\"c\": {\"type\": "
                   "\"null\"}}, \"required\": [\"c\"]}]}",
                   "");
    const IpbClass *class = g_ptr_array_index(tool.module->classes, 0);
    static const char *const NAMES[] = {"a", "z", "b", "c"};
    static const bool REQUIRED[] = {true, true, false, false};
    g_assert_cmpuint(class->fields->len, ==, 4);
    for (guint i = 0; i < 4; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        g_assert_cmpstr(field->name, ==, NAMES[i]);
        g_assert_cmpint(field->is_required, ==, REQUIRED[i]);
    }
    g_assert_nonnull(strstr(class->notes, "oneOf: ["));
    clear(&tool);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/apigen/schema/simple", test_simple);
    g_test_add_func("/apigen/schema/bounds", test_bounds);
    g_test_add_func("/apigen/schema/enums", test_enums);
    g_test_add_func("/apigen/schema/containers", test_containers);
    g_test_add_func("/apigen/schema/unions", test_unions);
    g_test_add_func("/apigen/schema/references", test_references);
    g_test_add_func("/apigen/schema/members", test_members);
    return g_test_run();
}
