/* SPDX-License-Identifier: Apache-2.0
 *
 * Signatures and stubs; see the header. Both leave out bounds and imports. What does not fit is
 * replaced by "…" or by a looser type.
 */
#include "apigen/stub.h"

#include <string.h>

#include "apigen/annotation.h"
#include "apigen/docstring.h"
#include "apigen/literal.h"
#include "apigen/wtf8.h"

/* Bytes of a signature's parameters, and of a stub. */
#define MAX_SIGNATURE 2000
#define MAX_STUB (64 << 10)
/* Characters of descriptions. */
#define MAX_SUMMARY 100
#define MAX_STUB_SUMMARY 200
#define MAX_STUB_NOTES 100
#define MAX_FULL_REMARK 2000
/* Values of an enum that are listed. */
#define MAX_VALUES 12
#define MAX_STUB_VALUES 40
/* Levels of objects whose members a signature shows. */
#define MAX_INLINE_DEPTH 2

typedef struct {
    GString *out;
    bool is_stub; /* write classes by name; else by their members */
    bool is_full; /* a stub with whole descriptions */
    unsigned depth;
    bool is_cut; /* there was no room for more parameters */
} Writer;

static void append_type(Writer *writer, const IpbType *type);

/* The end of the first sentence of @line, ignoring "1." and "e.g.". NULL: no sentence ends
 * there. */
static const char *
find_sentence_end(const char *line)
{
    for (const char *p = line; (p = strstr(p, ". ")) != NULL; p++)
        if (p >= line + 2 && !g_ascii_isdigit(p[-1]) && p[-2] != '.' && p[-2] != ' ')
            return p + 1;
    return NULL;
}

/* Appends the first paragraph of @text, or all, on one line. If the first one is too long, appends
 * its first sentence, or cuts it. Returns false if there is no text. */
static bool
append_line(GString *out, IpbSpan text, long max_characters, bool is_whole)
{
    g_autoptr(GString) line = g_string_new(NULL);
    bool was_space = true, was_newline = false;
    long n = 0;
    for (size_t at = 0; at < text.size;) {
        gunichar c = ipb_wtf8_next(text, &at);
        bool is_newline = c == '\n';
        if (is_newline && was_newline && line->len > 0 && !is_whole)
            break;
        bool is_space = g_unichar_isspace(c);
        was_newline = is_newline || (was_newline && is_space);
        if (is_space && was_space)
            continue;
        if (n++ == max_characters) {
            const char *end = is_whole ? NULL : find_sentence_end(line->str);
            if (end != NULL)
                g_string_truncate(line, (gsize) (end - line->str));
            else
                g_string_append(line, "…");
            break;
        }
        was_space = is_space;
        g_string_append_unichar(line, is_space                 ? ' '
                                      : ipb_wtf8_is_visible(c) ? c
                                                               : IPB_WTF8_REPLACEMENT);
    }
    g_strchomp(line->str);
    g_string_append(out, line->str);
    return line->str[0] != '\0';
}

static bool
append_summary(GString *out, IpbSpan text, long max_characters)
{
    return append_line(out, text, max_characters, false);
}

static void
append_comment(GString *out, IpbSpan text, long max_characters)
{
    size_t size = out->len;
    g_string_append(out, "  # ");
    if (!append_summary(out, text, max_characters))
        g_string_truncate(out, size);
}

/* Appends a description, and in parentheses the notes of rules that the type does not express. */
static void
append_remark(const Writer *writer, IpbSpan text, const char *notes)
{
    GString *out = writer->out;
    g_auto(GStrv) lines = g_strsplit(notes != NULL ? notes : "", "\n", -1);
    g_autofree char *line = g_strjoinv("; ", lines);
    size_t before = out->len;
    if (writer->is_full) {
        g_string_append(out, "  # ");
        if (!append_line(out, text, MAX_FULL_REMARK, true))
            g_string_truncate(out, before);
    } else {
        append_comment(out, text, MAX_STUB_SUMMARY);
    }
    if (line[0] == '\0')
        return;
    bool is_alone = out->len == before;
    g_string_append(out, is_alone ? "  # " : " (");
    append_line(out, ipb_wtf8_from(line), writer->is_full ? MAX_FULL_REMARK : MAX_STUB_NOTES,
                writer->is_full);
    g_string_append(out, is_alone ? "" : ")");
}

static void
append_values(Writer *writer, const IpbEnum *enumeration)
{
    guint max = writer->is_stub ? MAX_STUB_VALUES : MAX_VALUES;
    if (enumeration->members->len > max) {
        g_string_append(writer->out, "str");
        return;
    }
    g_string_append(writer->out, "Literal[");
    for (guint i = 0; i < enumeration->members->len; i++) {
        const IpbEnumMember *member = &g_array_index(enumeration->members, IpbEnumMember, i);
        g_string_append(writer->out, i > 0 ? ", " : "");
        ipb_literal_append_string(writer->out, ipb_wtf8_from_json(member->value));
    }
    g_string_append_c(writer->out, ']');
}

/* Whether None means that the field is left out, and is not a value of its type. */
static bool
adds_none(const IpbField *field)
{
    return !field->is_required && field->default_value == NULL && !ipb_type_has_none(field->type);
}

/* Input is shown as {"a": str, "b?": int}, because a dict can be given. A result is shown as
 * Name(a=str), because its members are attributes. */
static void
append_members(Writer *writer, const IpbClass *class)
{
    if (writer->depth == MAX_INLINE_DEPTH || class->fields->len == 0) {
        g_string_append(writer->out, class->is_input ? "dict" : class->name);
        return;
    }
    writer->depth++;
    g_string_append(writer->out, class->is_input ? "" : class->name);
    g_string_append_c(writer->out, class->is_input ? '{' : '(');
    for (guint i = 0; i < class->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        g_string_append(writer->out, i > 0 ? ", " : "");
        if (writer->out->len > MAX_SIGNATURE) {
            g_string_append(writer->out, "**more");
            break;
        }
        if (class->is_input)
            g_string_append_printf(writer->out, "\"%s%s\": ", field->name,
                                   field->is_required ? "" : "?");
        else
            g_string_append_printf(writer->out, "%s=", field->name);
        append_type(writer, field->type);
        if (!class->is_input && !field->is_required && !ipb_type_has_none(field->type))
            g_string_append(writer->out, " | None");
    }
    g_string_append_c(writer->out, class->is_input ? '}' : ')');
    writer->depth--;
}

static void
append_alternatives(Writer *writer, const IpbType *type, const char *between)
{
    for (guint i = 0; i < type->members->len; i++) {
        g_string_append(writer->out, i > 0 ? between : "");
        append_type(writer, g_ptr_array_index(type->members, i));
    }
}

static void
append_type(Writer *writer, const IpbType *type)
{
    switch (type->kind) {
    case IPB_TYPE_LIST:
    case IPB_TYPE_DICT:
        g_string_append(writer->out, type->kind == IPB_TYPE_LIST ? "list[" : "dict[str, ");
        append_type(writer, type->item);
        g_string_append_c(writer->out, ']');
        break;
    case IPB_TYPE_UNION:
        append_alternatives(writer, type, " | ");
        break;
    case IPB_TYPE_TUPLE:
        g_string_append(writer->out, "tuple[");
        append_alternatives(writer, type, ", ");
        g_string_append_c(writer->out, ']');
        break;
    case IPB_TYPE_ENUM:
        append_values(writer, type->enumeration);
        break;
    case IPB_TYPE_CLASS:
        if (writer->is_stub)
            g_string_append(writer->out, type->class->name);
        else
            append_members(writer, type->class);
        break;
    case IPB_TYPE_LATER:
        append_type(writer, type->item);
        break;
    case IPB_TYPE_NUMBER:
        g_string_append(writer->out, "float");
        break;
    case IPB_TYPE_ANY:
    case IPB_TYPE_NONE:
    case IPB_TYPE_BOOL:
    case IPB_TYPE_INT:
    case IPB_TYPE_STR:
    case IPB_TYPE_LITERAL:
        ipb_annotation_append(writer->out, type, false);
        break;
    }
}

/* Appends "name: type = default". */
static void
append_field(Writer *writer, const IpbField *field)
{
    g_string_append_printf(writer->out, "%s: ", field->name);
    append_type(writer, field->type);
    g_string_append(writer->out, adds_none(field) ? " | None" : "");
    if (field->is_required)
        return;
    g_string_append(writer->out, " = ");
    if (field->default_value != NULL)
        ipb_literal_append_default(writer->out, field->type, field->default_value, true);
    else
        g_string_append(writer->out, "None");
}

static void
append_result(Writer *writer, const IpbModule *module)
{
    if (module->result == NULL) {
        g_string_append(writer->out, "str");
        return;
    }
    size_t size = writer->out->len;
    append_type(writer, module->result);
    if (!writer->is_stub && writer->out->len > MAX_SIGNATURE) {
        g_string_truncate(writer->out, size);
        g_string_append(writer->out, "Result");
    }
}

/* Appends the required fields, or the others. Fields without room become one `**more`. */
static void
append_parameters(Writer *writer, const IpbClass *params, bool is_required)
{
    for (guint i = 0; i < params->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(params->fields, i);
        if (field->is_required != is_required)
            continue;
        if (writer->is_cut)
            return;
        g_string_append(writer->out, ", ");
        writer->is_cut = writer->out->len > MAX_SIGNATURE;
        if (writer->is_cut)
            g_string_append(writer->out, "**more");
        else
            append_field(writer, field);
    }
}

char *
ipb_stub_make_signature(const IpbModule *module, bool async_api)
{
    Writer writer = {.out = g_string_new(async_api ? "async " : NULL)};
    bool has_fields = module->params->fields->len > 0;
    g_string_append(writer.out, has_fields ? "def run(*" : "def run(");
    append_parameters(&writer, module->params, true);
    append_parameters(&writer, module->params, false);
    g_string_append(writer.out, ") -> ");
    append_result(&writer, module);
    g_string_append_printf(writer.out, ": ...  # %s.%s", module->server_name, module->name);
    size_t size = writer.out->len;
    g_string_append(writer.out, ": ");
    if (!append_summary(writer.out, module->description, MAX_SUMMARY))
        g_string_truncate(writer.out, size);
    return g_string_free(writer.out, FALSE);
}

static void
append_class(Writer *writer, const IpbClass *class)
{
    g_string_append_printf(writer->out, "class %s:", class->name);
    append_remark(writer, class->description, class->notes);
    g_string_append_c(writer->out, '\n');
    for (guint i = 0; i < class->fields->len; i++) {
        const IpbField *field = g_ptr_array_index(class->fields, i);
        if (writer->out->len > MAX_STUB) {
            g_string_append(writer->out, "    ...  # and more\n");
            return;
        }
        g_string_append(writer->out, "    ");
        append_field(writer, field);
        append_remark(writer, field->description, field->notes);
        g_string_append_c(writer->out, '\n');
    }
    if (class->fields->len == 0)
        g_string_append(writer->out, "    ...\n");
}

static bool
is_result_class(const IpbModule *module)
{
    return module->result != NULL && module->result->kind == IPB_TYPE_CLASS;
}

static char *
make_stub(const IpbModule *module, bool async_api, bool is_full)
{
    Writer writer = {.out = g_string_new(NULL), .is_stub = true, .is_full = is_full};
    g_string_append_printf(writer.out, "# %s.%s\n", module->server_name, module->name);
    for (guint i = 0; i < module->classes->len; i++)
        if (writer.out->len <= MAX_STUB || i + 1 == module->classes->len)
            append_class(&writer, g_ptr_array_index(module->classes, i));
    if (module->result != NULL && !is_result_class(module)) {
        g_string_append(writer.out, "Result = ");
        append_type(&writer, module->result);
        g_string_append_c(writer.out, '\n');
    }
    g_string_append_printf(writer.out, "%sdef run(params: Params | None = None, **fields) -> %s:",
                           async_api ? "async " : "", module->result != NULL ? "Result" : "str");
    size_t size = writer.out->len;
    g_string_append_c(writer.out, '\n');
    if (is_full && ipb_docstring_append(writer.out, 4, module->description, NULL))
        return g_string_free(writer.out, FALSE);
    g_string_truncate(writer.out, size);
    g_string_append(writer.out, " ...");
    append_comment(writer.out, module->description, MAX_STUB_SUMMARY);
    g_string_append_c(writer.out, '\n');
    return g_string_free(writer.out, FALSE);
}

char *
ipb_stub_make(const IpbModule *module, bool async_api)
{
    return make_stub(module, async_api, false);
}

char *
ipb_stub_make_full(const IpbModule *module, bool async_api)
{
    return make_stub(module, async_api, true);
}
