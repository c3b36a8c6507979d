/* SPDX-License-Identifier: Apache-2.0
 *
 * A module as Python text: imports, enums, classes, run. The body is written first, and then the
 * imports that it uses. All untrusted text goes through literal.c or docstring.c, or is a name of
 * names.c.
 */
#include "apigen/emit.h"

#include <string.h>

#include "apigen/annotation.h"
#include "apigen/docstring.h"
#include "apigen/literal.h"
#include "apigen/names.h"
#include "apigen/wtf8.h"

#define WIDTH 100
#define INDENT 4
/* Bytes of a title or a tool's name in the module's docstring. */
#define MAX_TITLE 200
/* Bytes of a default that a parameter of run shows. Lists and objects are never shown, because
 * linters forbid mutable defaults. */
#define MAX_SHOWN_DEFAULT 40

/* Types of ipybox.tool_exec.content that the module imports. */
enum { TOOL_DICT, TOOL_FLOAT, TOOL_INT, TOOL_LIST, TOOL_TEXT, N_CARRIERS };

/* The names that a body uses. */
typedef struct {
    bool annotated, literal, field, enums, model;
    bool any_result, tool_result; /* bases of result classes; AnyResult also reads other results */
    bool content;                 /* imported as _Content */
    bool carriers[N_CARRIERS];
    bool forward; /* an annotation names a class that is defined later */
} Uses;

static void
note_type_use(Uses *uses, const IpbType *type, const GHashTable *written, bool is_bare)
{
    g_autoptr(GString) bounds = g_string_new(NULL);
    ipb_annotation_append_bounds(bounds, type);
    if (bounds->len > 0) {
        uses->field = true;
        uses->annotated |= !is_bare;
    }
    uses->literal |= type->kind == IPB_TYPE_LITERAL;
    if (type->kind == IPB_TYPE_CLASS)
        uses->forward |= !g_hash_table_contains((GHashTable *) written, type->class);
    if (type->item != NULL)
        note_type_use(uses, type->item, written, false);
    if (type->key != NULL)
        note_type_use(uses, type->key, written, false);
    if (type->kind == IPB_TYPE_UNION || type->kind == IPB_TYPE_TUPLE)
        for (guint i = 0; i < type->members->len; i++)
            note_type_use(uses, g_ptr_array_index(type->members, i), written, false);
}

/* Notes what ipb_annotation_append_result() uses in addition to note_type_use(). */
static void
note_result_use(Uses *uses, const IpbType *type)
{
    uses->carriers[TOOL_TEXT] |= type->kind == IPB_TYPE_STR;
    uses->carriers[TOOL_INT] |= type->kind == IPB_TYPE_INT || type->kind == IPB_TYPE_NUMBER;
    uses->carriers[TOOL_FLOAT] |= type->kind == IPB_TYPE_NUMBER;
    uses->carriers[TOOL_LIST] |= type->kind == IPB_TYPE_LIST;
    uses->carriers[TOOL_DICT] |= type->kind == IPB_TYPE_DICT;
    if (type->kind == IPB_TYPE_UNION)
        for (guint i = 0; i < type->members->len; i++)
            note_result_use(uses, g_ptr_array_index(type->members, i));
}

/* Notes what ipb_annotation_append_argument() uses. Only the values of enums are not used by the
 * field itself. */
static void
note_argument_use(Uses *uses, const char *annotation)
{
    uses->literal |= strstr(annotation, " | Literal[") != NULL;
}

static void
append_enum(GString *out, const IpbEnum *enumeration)
{
    g_string_append_printf(out, "\n\nclass %s(str, Enum):\n", enumeration->name);
    if (ipb_docstring_append(out, INDENT, enumeration->description, enumeration->notes))
        g_string_append_c(out, '\n');
    for (guint i = 0; i < enumeration->members->len; i++) {
        const IpbEnumMember *member = &g_array_index(enumeration->members, IpbEnumMember, i);
        g_string_append_printf(out, "    %s = ", member->name);
        ipb_literal_append_string(out, ipb_wtf8_from_json(member->value));
        if (ipb_names_is_str_method(member->name))
            g_string_append(out, "  # type: ignore[assignment]");
        g_string_append_c(out, '\n');
    }
}

/* The type that Field() describes: of a union with None, the other member. */
static const IpbType *
get_bounded(const IpbType *type)
{
    if (type->kind != IPB_TYPE_UNION)
        return type;
    const IpbType *first = g_ptr_array_index(type->members, 0);
    return type->members->len == 2 && ipb_type_has_none(type) ? first : type;
}

static void
append_call(GString *out, const GPtrArray *arguments)
{
    g_autoptr(GString) line = g_string_new("Field(");
    for (guint i = 0; i < arguments->len; i++)
        g_string_append_printf(line, "%s%s", i > 0 ? ", " : "",
                               (const char *) g_ptr_array_index(arguments, i));
    g_string_append_c(line, ')');
    const char *start = strrchr(out->str, '\n');
    start = start != NULL ? start + 1 : out->str;
    if (g_utf8_strlen(start, -1) + g_utf8_strlen(line->str, -1) <= WIDTH) {
        g_string_append_len(out, line->str, (gssize) line->len);
        return;
    }
    g_string_append(out, "Field(\n");
    for (guint i = 0; i < arguments->len; i++)
        g_string_append_printf(out, "        %s,\n",
                               (const char *) g_ptr_array_index(arguments, i));
    g_string_append(out, "    )");
}

static char *
make_alias(IpbSpan name)
{
    g_autoptr(GString) text = g_string_new("alias=");
    ipb_literal_append_string(text, name);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static bool
has_alias(const IpbField *field)
{
    return strlen(field->name) != field->wire_name.size ||
           memcmp(field->name, field->wire_name.start, field->wire_name.size) != 0;
}

/* Appends the default of a field; nothing for a required one. Returns whether the annotation must
 * add None for it. */
static bool
append_default(GString *value, const IpbField *field)
{
    if (field->default_value != NULL)
        ipb_literal_append_default(value, field->type, field->default_value, false);
    else if (!field->is_required)
        g_string_append(value, "None");
    return !field->is_required && field->default_value == NULL && !ipb_type_has_none(field->type);
}

/* Appends "name: annotation = value". */
static void
append_field_line(GString *out, const IpbField *field, Uses *uses, const GHashTable *written)
{
    g_autoptr(GString) value = g_string_new(NULL);
    bool adds_none = append_default(value, field);
    const IpbType *bounded = get_bounded(field->type);
    note_type_use(uses, bounded, written, true);

    g_autoptr(GString) bounds = g_string_new(NULL);
    ipb_annotation_append_bounds(bounds, bounded);
    g_string_append_printf(out, "    %s: ", field->name);
    ipb_annotation_append(out, bounded, false);
    if (adds_none || bounded != field->type)
        g_string_append(out, " | None");

    g_autoptr(GPtrArray) arguments = g_ptr_array_new_with_free_func(g_free);
    if (value->len > 0)
        g_ptr_array_add(arguments, g_strdup_printf("default=%s", value->str));
    if (has_alias(field))
        g_ptr_array_add(arguments, make_alias(field->wire_name));
    if (bounds->len > 0)
        g_ptr_array_add(arguments, g_strdup(bounds->str));
    /* Linters do not know that Model is pydantic's, and forbid lists and objects as defaults. */
    bool is_nested = value->str[0] == '[' || value->str[0] == '{';
    if (is_nested || has_alias(field) || bounds->len > 0) {
        uses->field = true;
        g_string_append(out, " = ");
        append_call(out, arguments);
    } else if (value->len > 0) {
        g_string_append_printf(out, " = %s", value->str);
    }
    g_string_append_c(out, '\n');
}

static bool
has_field(const IpbClass *class, const char *name)
{
    for (guint i = 0; i < class->fields->len; i++)
        if (g_str_equal(((const IpbField *) g_ptr_array_index(class->fields, i))->name, name))
            return true;
    return false;
}

/* Whether a result can inherit `contents` and `text`, because no member has such a name. */
static bool
is_plain_result(const IpbClass *class)
{
    return class->is_result && !has_field(class, "contents") && !has_field(class, "text");
}

static void
append_class_line(GString *out, const IpbClass *class, Uses *uses)
{
    bool has_aliases = false;
    for (guint i = 0; i < class->fields->len; i++)
        has_aliases |= has_alias(g_ptr_array_index(class->fields, i));
    const char *base = is_plain_result(class) ? "ToolResult"
                       : class->is_result     ? "AnyResult"
                                              : "Model";
    uses->tool_result |= is_plain_result(class);
    uses->any_result |= class->is_result && !is_plain_result(class);
    uses->model |= !class->is_result;
    g_string_append_printf(out, "\n\nclass %s(%s", class->name, base);
    if (class->is_input && class->is_closed)
        g_string_append(out, ", extra=\"forbid\"");
    if (class->is_input && has_aliases)
        g_string_append(out, ", populate_by_name=True");
    g_string_append(out, "):\n");
}

static bool
allows_null(const IpbType *type)
{
    if (type->kind == IPB_TYPE_LATER)
        return allows_null(type->item);
    if (type->kind == IPB_TYPE_UNION)
        for (guint i = 0; i < type->members->len; i++)
            if (allows_null(g_ptr_array_index(type->members, i)))
                return true;
    return ipb_type_has_none(type);
}

/* The fields whose default is None and that may be sent as null. For all other fields None means
 * "not given". Any is not listed: its annotation says it. */
static char **
list_nullable(const IpbClass *class)
{
    g_autoptr(GStrvBuilder) names = g_strv_builder_new();
    for (guint i = 0; class->is_input && i < class->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        bool is_none =
            field->default_value == NULL || ipb_json_is(field->default_value, IPB_JSON_NULL);
        if (field->is_required || !is_none || field->type->kind == IPB_TYPE_ANY ||
            !allows_null(field->type))
            continue;
        g_autofree char *name = g_strdup_printf("\"%s\"", field->name);
        g_strv_builder_add(names, name);
    }
    return g_strv_builder_end(names);
}

static bool
append_nullable(GString *out, const IpbClass *class, bool is_apart)
{
    g_auto(GStrv) names = list_nullable(class);
    guint n_names = g_strv_length(names);
    if (n_names == 0)
        return is_apart;
    g_autofree char *line = g_strjoinv(", ", names);
    g_autofree char *lines = g_strjoinv(",\n        ", names);
    g_string_append(out, is_apart ? "\n" : "");
    if (g_utf8_strlen(line, -1) + (long) strlen("    _nullable = ()") <= WIDTH)
        g_string_append_printf(out, "    _nullable = (%s%s)\n", line, n_names == 1 ? "," : "");
    else
        g_string_append_printf(out, "    _nullable = (\n        %s,\n    )\n", lines);
    return true;
}

/* Appends a property for what came with a result. `_` is appended to its name until no member has
 * it. */
static void
append_beside(GString *out, const IpbClass *class, const char *name, const char *type,
              const char *what)
{
    g_autoptr(GString) free_name = g_string_new(name);
    while (has_field(class, free_name->str))
        g_string_append_c(free_name, '_');
    g_string_append_printf(out,
                           "\n    @property\n    def %s(self) -> %s:\n        \"\"\"%s\"\"\"\n"
                           "        return self._beside.%s\n",
                           free_name->str, type, what, name);
}

static void
append_class(GString *out, const IpbClass *class, Uses *uses, const GHashTable *written)
{
    append_class_line(out, class, uses);
    bool has_doc = ipb_docstring_append(out, INDENT, class->description, class->notes);
    if (!has_doc && class->fields->len == 0 && class->extra == NULL)
        g_string_append(out, "    pass\n");
    /* A blank line separates a docstring from what follows. */
    bool is_apart = append_nullable(out, class, has_doc);
    if (class->extra != NULL) {
        note_type_use(uses, class->extra, written, false);
        g_string_append(out, is_apart ? "\n    " : "    ");
        g_string_append(out, "__pydantic_extra__: dict[str, ");
        ipb_annotation_append(out, class->extra, true);
        g_string_append(out, "]\n");
        is_apart = true;
    }
    for (guint i = 0; i < class->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        g_string_append(out, is_apart ? "\n" : "");
        append_field_line(out, field, uses, written);
        is_apart = ipb_docstring_append(out, INDENT, field->description, field->notes);
    }
    if (!class->is_result || is_plain_result(class))
        return;
    uses->content = true;
    append_beside(out, class, "contents", "list[_Content]", "All contents that the tool sent.");
    append_beside(out, class, "text", "str", "The texts among the contents.");
}

/* Whether the result is the class named Result, and not another type. */
static bool
is_result_class(const IpbModule *module)
{
    return module->result != NULL && module->result->kind == IPB_TYPE_CLASS &&
           g_str_equal(module->result->class->name, "Result");
}

/* Appends "name: type = default", for a parameter of run. */
static void
append_parameter(GString *out, const IpbField *field, Uses *uses)
{
    g_autoptr(GString) annotation = g_string_new(NULL), value = g_string_new(NULL);
    ipb_annotation_append_argument(annotation, field->type);
    note_argument_use(uses, annotation->str);
    bool adds_none = append_default(value, field);
    g_string_append_printf(out, "%s: %s%s", field->name, annotation->str,
                           adds_none ? " | None" : "");
    bool is_shown = value->len <= MAX_SHOWN_DEFAULT && value->str[0] != '[' && value->str[0] != '{';
    if (value->len > 0)
        g_string_append_printf(out, " = %s", is_shown ? value->str : "...");
}

/* The fields as keyword-only parameters. */
static GPtrArray *
make_parameters(const IpbClass *params, Uses *uses)
{
    GPtrArray *parameters = g_ptr_array_new_with_free_func(g_free);
    if (params->fields->len > 0)
        g_ptr_array_add(parameters, g_strdup("*"));
    for (guint i = 0; i < params->fields->len; i++) {
        g_autoptr(GString) parameter = g_string_new(NULL);
        append_parameter(parameter, g_ptr_array_index(params->fields, i), uses);
        g_ptr_array_add(parameters, g_strdup(parameter->str));
    }
    if (params->is_open) {
        g_autoptr(GString) more = g_string_new("more");
        while (has_field(params, more->str))
            g_string_append_c(more, '_');
        g_string_prepend(more, "**");
        g_string_append(more, ": ");
        if (params->extra != NULL)
            ipb_annotation_append_argument(more, params->extra);
        else
            g_string_append(more, "Any");
        note_argument_use(uses, more->str);
        g_ptr_array_add(parameters, g_strdup(more->str));
    }
    return parameters;
}

/* Appends "def run(…) -> result" on one line, or with a line for each parameter. */
static void
append_define(GString *out, const char *define, const GPtrArray *parameters, const char *result)
{
    g_autoptr(GString) line = g_string_new(NULL);
    g_string_append_printf(line, "%s run(", define);
    for (guint i = 0; i < parameters->len; i++)
        g_string_append_printf(line, "%s%s", i > 0 ? ", " : "",
                               (const char *) g_ptr_array_index(parameters, i));
    g_string_append_printf(line, ") -> %s: ...\n", result);
    g_string_append(out, "@overload\n");
    if (g_utf8_strlen(line->str, -1) <= WIDTH + 1) {
        g_string_append_len(out, line->str, (gssize) line->len);
        return;
    }
    g_string_append_printf(out, "%s run(\n", define);
    for (guint i = 0; i < parameters->len; i++)
        g_string_append_printf(out, "    %s,\n", (const char *) g_ptr_array_index(parameters, i));
    g_string_append_printf(out, ") -> %s: ...\n", result);
}

static void
append_return(GString *out, const IpbModule *module)
{
    g_autofree char *member = module->result_member != NULL
                                  ? g_strdup_printf(", \"%s\"", module->result_member)
                                  : g_strdup("");
    if (module->result == NULL)
        g_string_append(out, "    return answer.to_text()\n");
    else
        g_string_append_printf(out,
                               "    result: Result = AnyResult.from_wire(Result, answer%s)\n"
                               "    return result\n",
                               member);
}

static void
append_run(GString *out, const IpbModule *module, bool async_api, Uses *uses)
{
    const char *define = async_api ? "async def" : "def";
    const char *result = module->result != NULL ? "Result" : "ToolText";
    uses->carriers[TOOL_TEXT] |= module->result == NULL;
    uses->any_result |= module->result != NULL;
    g_autoptr(GPtrArray) parameters = make_parameters(module->params, uses);
    g_string_append_printf(out, "\n\n@overload\n%s run(params: Params) -> %s: ...\n", define,
                           result);
    append_define(out, define, parameters, result);
    g_string_append_printf(out, "%s run(params: Params | None = None, /, **fields: Any) -> %s:\n",
                           define, result);
    ipb_docstring_append(out, INDENT, module->description, NULL);
    g_string_append_printf(out, "    answer = %s(",
                           async_api ? "await CLIENT.call" : "CLIENT.call_sync");
    ipb_literal_append_string(out, module->tool_name);
    g_string_append_printf(out, ", Params.for_call(params, fields%s))\n",
                           module->params->is_open ? ", is_open=True" : "");
    append_return(out, module);
}

/* Defines the result's type as Result, unless it is the class of that name. */
static void
append_result_alias(GString *out, const IpbModule *module, Uses *uses, const GHashTable *written)
{
    if (module->result == NULL || is_result_class(module))
        return;
    note_type_use(uses, module->result, written, false);
    note_result_use(uses, module->result);
    g_string_append(out, "\n\nResult = ");
    ipb_annotation_append_result(out, module->result);
    g_string_append_c(out, '\n');
    ipb_docstring_append(out, 0, (IpbSpan){0}, module->result_notes);
}

static void
append_import(GString *out, const char *from, const char *const *names, const bool *is_used)
{
    g_autoptr(GString) list = g_string_new(NULL);
    for (size_t i = 0; names[i] != NULL; i++)
        if (is_used[i])
            g_string_append_printf(list, "%s%s", list->len > 0 ? ", " : "", names[i]);
    if (list->len > 0)
        g_string_append_printf(out, "from %s import %s\n", from, list->str);
}

static void
append_imports(GString *out, const Uses *uses)
{
    static const char *const TYPING[] = {"Annotated", "Any", "Literal", "overload", NULL};
    static const char *const PYDANTIC[] = {"Field", NULL};
    static const char *const PACKAGE[] = {"CLIENT", "AnyResult", "Model", "ToolResult", NULL};
    static const char *const CONTENT[] = {"ToolDict", "ToolFloat", "ToolInt",
                                          "ToolList", "ToolText",  NULL};
    static const char FROM_CONTENT[] = "ipybox.tool_exec.content";
    if (uses->forward)
        g_string_append(out, "from __future__ import annotations\n\n");
    if (uses->enums)
        g_string_append(out, "from enum import Enum\n");
    append_import(out, "typing", TYPING, (bool[]){uses->annotated, true, uses->literal, true});
    g_string_append_c(out, '\n');
    size_t size = out->len;
    if (uses->content)
        append_import(out, FROM_CONTENT, (const char *[]){"Content as _Content", NULL},
                      (bool[]){true});
    append_import(out, FROM_CONTENT, CONTENT, uses->carriers);
    append_import(out, "pydantic", PYDANTIC, &uses->field);
    if (out->len > size)
        g_string_append_c(out, '\n');
    append_import(out, ".", PACKAGE,
                  (bool[]){true, uses->any_result, uses->model, uses->tool_result});
}

/* Appends "Title: tool NAME of MCP server SERVER.", or "… of the application, in SERVER." */
static void
append_module_docstring(GString *out, const IpbModule *module)
{
    g_autoptr(GString) text = g_string_new(NULL);
    if (module->title.size > 0 && module->title.size <= MAX_TITLE)
        g_string_append_len(text, module->title.start, (gssize) module->title.size);
    g_string_append(text, text->len > 0 ? ": tool " : "Tool ");
    if (module->tool_name.size <= MAX_TITLE)
        g_string_append_len(text, module->tool_name.start, (gssize) module->tool_name.size);
    else
        g_string_append(text, module->name);
    g_string_append_printf(text, " of %s %s.",
                           module->is_application ? "the application, in" : "MCP server",
                           module->server_name);
    ipb_docstring_append(out, 0, (IpbSpan){text->str, text->len}, NULL);
    g_string_append_c(out, '\n');
}

char *
ipb_emit_module(const IpbModule *module, bool async_api)
{
    g_autoptr(GString) body = g_string_new(NULL);
    g_autoptr(GHashTable) written = g_hash_table_new(NULL, NULL);
    Uses uses = {.enums = module->enums->len > 0};
    for (guint i = 0; i < module->enums->len; i++)
        append_enum(body, g_ptr_array_index(module->enums, i));
    for (guint i = 0; i < module->classes->len; i++) {
        IpbClass *class = g_ptr_array_index(module->classes, i);
        append_class(body, class, &uses, written);
        g_hash_table_add(written, class);
    }
    append_result_alias(body, module, &uses, written);
    append_run(body, module, async_api, &uses);
    g_autoptr(GString) out = g_string_new(NULL);
    append_module_docstring(out, module);
    append_imports(out, &uses);
    g_string_append_len(out, body->str, (gssize) body->len);
    return g_string_free(g_steal_pointer(&out), FALSE);
}
