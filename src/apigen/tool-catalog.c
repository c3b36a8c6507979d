/* SPDX-License-Identifier: Apache-2.0
 *
 * Catalogs of packages; see the header.
 */
#include "apigen/tool-catalog.h"

#include <string.h>

#include "apigen/stub.h"
#include "base/error.h"
#include "base/spelling.h"
#include "json/writer.h"

/* Bytes of a catalog, and of all that are read at once. */
#define MAX_CATALOG (4 << 20)
#define MAX_READ (16 << 20)
/* Words of a query that count. */
#define MAX_WORDS 32
#define NAME_WEIGHT 4

/* --- writing ---------------------------------------------------------------------------------- */

static char *
make_line(const IpbModule *module, bool async_api, bool is_whole)
{
    g_autofree char *signature = ipb_stub_make_signature(module, async_api);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "tool");
    ipb_json_write_string_n(writer, module->tool_name.start, module->tool_name.size);
    ipb_json_member_string(writer, "module", module->name);
    ipb_json_member_string(writer, "signature", signature);
    if (is_whole) {
        g_autofree char *stub = ipb_stub_make(module, async_api);
        g_autofree char *full = ipb_stub_make_full(module, async_api);
        ipb_json_member_string(writer, "stub", stub);
        ipb_json_member_string(writer, "full", full);
    }
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

void
ipb_tool_catalog_append(GString *catalog, const IpbModule *module, bool async_api)
{
    for (int is_whole = 1; is_whole >= 0; is_whole--) {
        g_autofree char *line = make_line(module, async_api, is_whole);
        if (catalog->len + strlen(line) + 1 > MAX_CATALOG)
            continue;
        g_string_append(catalog, line);
        g_string_append_c(catalog, '\n');
        return;
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

void
ipb_catalog_tool_free(void *data)
{
    IpbCatalogTool *tool = data;
    g_free(tool->server);
    g_free(tool->module);
    g_free(tool->tool);
    g_free(tool->signature);
    g_free(tool->stub);
    g_free(tool->full);
    g_free(tool);
}

static void
add_tool(GPtrArray *tools, const char *server, const IpbJson *line)
{
    const char *module = ipb_json_get_string(line, "module");
    const char *signature = ipb_json_get_string(line, "signature");
    if (module == NULL || signature == NULL)
        return;
    IpbCatalogTool *tool = g_new0(IpbCatalogTool, 1);
    tool->server = g_strdup(server);
    tool->module = g_strdup(module);
    tool->signature = g_strdup(signature);
    tool->tool = g_strdup(ipb_json_get_string(line, "tool"));
    tool->stub = g_strdup(ipb_json_get_string(line, "stub"));
    tool->full = g_strdup(ipb_json_get_string(line, "full"));
    g_ptr_array_add(tools, tool);
}

static bool
read_package(GPtrArray *tools, const IpbBeneath *root, const char *server, size_t *left,
             GError **error)
{
    g_autoptr(IpbBeneath) package = ipb_beneath_descend(root, server, 0, error);
    g_autofree char *text = NULL;
    size_t size;
    if (package == NULL || !ipb_beneath_read(package, IPB_TOOL_CATALOG_FILE,
                                             MIN(*left, MAX_CATALOG), &text, &size, error))
        return false;
    *left -= size;
    for (char *line = text, *end; line < text + size; line = end + 1) {
        end = memchr(line, '\n', (size_t) (text + size - line));
        end = end != NULL ? end : text + size;
        g_autoptr(IpbJsonDoc) doc =
            ipb_json_parse(line, (size_t) (end - line), &IPB_JSON_LIMITS_SMALL, error);
        if (doc == NULL)
            return false;
        add_tool(tools, server, ipb_json_root(doc));
    }
    return true;
}

GPtrArray *
ipb_tool_catalog_read(const IpbBeneath *root, const char *const *servers,
                      GPtrArray **ret_unreadable)
{
    GPtrArray *tools = g_ptr_array_new_with_free_func(ipb_catalog_tool_free);
    *ret_unreadable = g_ptr_array_new_with_free_func(g_free);
    size_t left = MAX_READ;
    for (; *servers != NULL; servers++) {
        g_autoptr(GError) error = NULL;
        if (read_package(tools, root, *servers, &left, &error))
            continue;
        bool is_missing = g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
        char *line = g_strdup_printf("%s: %s", *servers,
                                     is_missing ? "its package has no catalog. Register it again"
                                                : error->message);
        g_ptr_array_add(*ret_unreadable, line);
    }
    return tools;
}

const char *
ipb_catalog_tool_text(const IpbCatalogTool *tool, IpbToolDetail detail)
{
    const char *stub = tool->stub != NULL ? tool->stub : tool->signature;
    switch (detail) {
    case IPB_TOOL_SIGNATURE:
        return tool->signature;
    case IPB_TOOL_STUB:
        return stub;
    case IPB_TOOL_FULL:
        return tool->full != NULL ? tool->full : stub;
    }
    return tool->signature;
}

/* --- finding ---------------------------------------------------------------------------------- */

typedef struct {
    const IpbCatalogTool *tool;
    unsigned score;
    guint place;
} Match;

/* The words of a query, in lower case. */
static char **
split_words(const char *query)
{
    g_autofree char *lower = g_utf8_strdown(query, -1);
    for (char *p = lower; *p != '\0'; p++)
        if (!g_ascii_isalnum(*p) && ((unsigned char) *p & 0x80) == 0)
            *p = ' ';
    g_auto(GStrv) all = g_strsplit(lower, " ", -1);
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    unsigned n = 0;
    for (char **word = all; *word != NULL && n < MAX_WORDS; word++) {
        if (**word == '\0')
            continue;
        g_strv_builder_add(builder, *word);
        n++;
    }
    return g_strv_builder_end(builder);
}

static unsigned
rate(const IpbCatalogTool *tool, char **words)
{
    g_autofree char *name = g_strdup_printf("%s.%s", tool->server, tool->module);
    g_autofree char *text = g_utf8_strdown(ipb_catalog_tool_text(tool, IPB_TOOL_FULL), -1);
    unsigned score = 0;
    for (char **word = words; *word != NULL; word++)
        if (strstr(name, *word) != NULL)
            score += NAME_WEIGHT;
        else if (strstr(text, *word) != NULL)
            score++;
    return score;
}

static int
compare_matches(const void *a, const void *b)
{
    const Match *left = a, *right = b;
    if (left->score != right->score)
        return left->score < right->score ? 1 : -1;
    return left->place < right->place ? -1 : 1;
}

GPtrArray *
ipb_tool_catalog_search(const GPtrArray *tools, const char *query)
{
    g_auto(GStrv) words = split_words(query);
    g_autoptr(GArray) matches = g_array_new(FALSE, FALSE, sizeof(Match));
    for (guint i = 0; i < tools->len; i++) {
        const IpbCatalogTool *tool = g_ptr_array_index(tools, i);
        Match match = {tool, *words != NULL ? rate(tool, words) : 1, i};
        if (match.score > 0)
            g_array_append_val(matches, match);
    }
    g_array_sort(matches, compare_matches);
    GPtrArray *found = g_ptr_array_new();
    for (guint i = 0; i < matches->len; i++)
        g_ptr_array_add(found, (void *) g_array_index(matches, Match, i).tool);
    return found;
}

static bool
has_name(const IpbCatalogTool *tool, const char *name)
{
    return g_str_equal(name, tool->module) || g_strcmp0(name, tool->tool) == 0;
}

GPtrArray *
ipb_tool_catalog_find(const GPtrArray *tools, const char *name)
{
    GPtrArray *found = g_ptr_array_new();
    for (guint i = 0; i < tools->len; i++) {
        IpbCatalogTool *tool = g_ptr_array_index(tools, i);
        size_t size = strlen(tool->server);
        bool is_of_server =
            strncmp(name, tool->server, size) == 0 && (name[size] == '\0' || name[size] == '.');
        if (has_name(tool, name) ||
            (is_of_server && (name[size] == '\0' || has_name(tool, name + size + 1))))
            g_ptr_array_add(found, tool);
    }
    return found;
}

const char *
ipb_tool_catalog_nearest(const GPtrArray *tools, const char *name)
{
    const char *point = strrchr(name, '.'), *nearest = NULL;
    const char *last = point != NULL ? point + 1 : name;
    unsigned best = (unsigned) MAX(strlen(last) / 2, 1) + 1;
    for (guint i = 0; i < tools->len; i++) {
        const IpbCatalogTool *tool = g_ptr_array_index(tools, i);
        unsigned distance = ipb_spelling_distance(last, tool->module);
        if (distance >= best)
            continue;
        best = distance;
        nearest = tool->module;
    }
    return nearest;
}
