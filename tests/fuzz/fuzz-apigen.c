/* SPDX-License-Identifier: Apache-2.0
 *
 * API generation: for any list of tools, each module is UTF-8 in which all strings end. Outside
 * of strings there are only the characters that the generator writes itself, and names.
 */
#include <stdint.h>
#include <string.h>

#include "apigen/apigen.h"
#include "json/writer.h"

/* Number of bytes of an input that become texts of a tool. */
#define MAX_TEXT 600

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The end of the string literal that begins at @p. It must end, and only docstrings have several
 * lines. */
static const char *
skip_string(const char *p)
{
    bool is_docstring = g_str_has_prefix(p, "\"\"\"");
    for (p += is_docstring ? 3 : 1;; p++) {
        g_assert(*p != '\0');
        g_assert(is_docstring || *p != '\n');
        if (*p == '\\') {
            p++;
            g_assert(*p != '\0' && *p != '\n');
        } else if (*p == '"' && (!is_docstring || g_str_has_prefix(p, "\"\"\"")))
            return p + (is_docstring ? 3 : 1);
    }
}

/* At module level there are imports, classes, functions with their overloads, constants and
 * docstrings. The parameters of a function may fill several lines. */
static void
check_statement(const char *p)
{
    static const char *const STATEMENTS[] = {"\"\"\"",      "from ",     "class ",    "def ",
                                             "async def ",  "Result = ", "CLIENT = ", ") -> ",
                                             "@overload\n", NULL};
    for (const char *const *statement = STATEMENTS; *statement != NULL; statement++)
        if (g_str_has_prefix(p, *statement))
            return;
    g_assert_not_reached();
}

static void
check_source(const char *source)
{
    g_assert(g_utf8_validate(source, -1, NULL));
    g_assert(g_str_has_suffix(source, "\n") && !g_str_has_suffix(source, "\n\n"));
    for (const char *p = source; *p != '\0';) {
        if ((p == source || p[-1] == '\n') && *p != ' ' && *p != '\n')
            check_statement(p);
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        gunichar c = g_utf8_get_char(p);
        if (c == '#')
            g_assert(g_str_has_prefix(p, "# type: ignore[assignment]\n"));
        g_assert(c == '\n' || (c < 0x80 && g_ascii_isprint((char) c)) || g_unichar_isalpha(c));
        g_assert(c != '\'' && c != ';' && c != '\\');
        p = g_utf8_next_char(p);
    }
}

/* One line for people and models, with nothing hidden in it. */
static void
check_signature(const char *line)
{
    g_assert(g_utf8_validate(line, -1, NULL));
    for (const char *p = line; *p != '\0'; p = g_utf8_next_char(p))
        g_assert(!g_unichar_iscntrl(g_utf8_get_char(p)));
}

/* A line of JSON for each tool, with texts in which nothing is hidden. */
static void
check_catalog(const char *source, guint n_tools)
{
    static const char *const TEXTS[] = {"signature", "stub", "full"};
    g_auto(GStrv) lines = g_strsplit(source, "\n", -1);
    g_assert(n_tools == 0 ? *source == '\0'
                          : g_strv_length(lines) == n_tools + 1 && *lines[n_tools] == '\0');
    for (guint i = 0; i < n_tools; i++) {
        g_autoptr(IpbJsonDoc) doc =
            ipb_json_parse(lines[i], strlen(lines[i]), &IPB_JSON_LIMITS_SMALL, NULL);
        for (size_t j = 0; j < G_N_ELEMENTS(TEXTS); j++) {
            const char *text = ipb_json_get_string(ipb_json_root(doc), TEXTS[j]);
            g_assert(g_utf8_validate(text, -1, NULL));
            for (const char *p = text; *p != '\0'; p = g_utf8_next_char(p))
                g_assert(*p == '\n' || !g_unichar_iscntrl(g_utf8_get_char(p)));
        }
    }
}

static void
generate(const char *text, size_t size, bool async_api)
{
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, NULL);
    if (doc == NULL)
        return;
    IpbApigenOptions options = {
        .server_name = "srv",
        .registration_id = "0123",
        .async_api = async_api,
        .listing = async_api ? IPB_APIGEN_STUBS : IPB_APIGEN_SIGNATURES,
    };
    g_auto(GStrv) modules = NULL;
    g_autoptr(GPtrArray) files = ipb_apigen_generate(ipb_json_root(doc), &options, &modules, NULL);
    if (files == NULL)
        return;
    g_assert(files->len == g_strv_length(modules) + 2);
    for (guint i = 0; modules[i] != NULL; i++) {
        if (!async_api)
            check_signature(modules[i]);
        g_assert(g_utf8_validate(modules[i], -1, NULL));
    }
    const IpbApigenFile *catalog = g_ptr_array_index(files, files->len - 1);
    check_catalog(catalog->source, g_strv_length(modules));
    for (guint i = 1; i + 1 < files->len; i++) {
        const IpbApigenFile *file = g_ptr_array_index(files, i);
        g_assert(strlen(file->name) <= 200 && strchr(file->name, '/') == NULL);
        check_source(file->source);
    }
}

static void
write_property(IpbJsonWriter *writer, const char *text, size_t size)
{
    ipb_json_key_n(writer, text, size);
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "description");
    ipb_json_write_string_n(writer, text, size);
    ipb_json_key(writer, "pattern");
    ipb_json_write_string_n(writer, text, size);
    ipb_json_key(writer, "default");
    ipb_json_write_string_n(writer, text, size);
    ipb_json_key(writer, "enum");
    ipb_json_begin_array(writer);
    ipb_json_write_string_n(writer, text, size);
    ipb_json_write_string_n(writer, text, size / 2);
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
}

/* A tool with the input's lines wherever a server may put text. */
static char *
make_tool(const char *text, size_t size, size_t *ret_size)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    ipb_json_begin_object(writer);
    static const char *const TEXTS[] = {"name", "title", "description"};
    for (size_t i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
        ipb_json_key(writer, TEXTS[i]);
        ipb_json_write_string_n(writer, text, size);
    }
    ipb_json_key(writer, "inputSchema");
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "properties");
    ipb_json_begin_object(writer);
    for (const char *end; size > 0; size -= (size_t) (end - text), text = end) {
        const char *newline = memchr(text, '\n', size);
        end = newline != NULL ? newline + 1 : text + size;
        write_property(writer, text, (size_t) (end - text));
    }
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    ipb_json_end_array(writer);
    return ipb_json_writer_finish(writer, ret_size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    generate((const char *) data, size, false);
    size_t tool_size;
    g_autofree char *tool = make_tool((const char *) data, MIN(size, MAX_TEXT), &tool_size);
    generate(tool, tool_size, true);
    return 0;
}
