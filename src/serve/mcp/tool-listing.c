/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts about tools; see the header. The texts come from MCP servers. The generator has made them
 * printable, but cells without a sandbox can write the catalogs, so what is read from them is made
 * printable again.
 */
#include "serve/mcp/tool-listing.h"

#include <string.h>
#include <sys/stat.h>

#include "apigen/saved-code.h"
#include "base/display-text.h"

/* Bytes of signatures in the answer to a registration, and of the names of the other tools. */
#define MAX_REGISTERED (16 << 10)
#define MAX_REGISTERED_NAMES (2 << 10)
/* Bytes of an answer of describe_tools. */
#define MAX_DESCRIBED (32 << 10)
/* Names that a call may ask for, and characters of each. */
#define MAX_NAMES 100
#define MAX_NAME_CHARS 200
/* Packages in the instructions. */
#define MAX_INSTRUCTION_PACKAGES 20
/* Tools of an answer whose output parsers are searched for: more do not fit. */
#define MAX_PARSERS 500
/* Packages without a readable catalog, and actions, that are named. */
#define MAX_UNREADABLE 5

/* --- registrations ---------------------------------------------------------------------------- */

static void
append_left_out(GString *text, const char *const *modules, guint n_left, bool offers_describe)
{
    size_t max = text->len + MAX_REGISTERED_NAMES;
    guint n = 0;
    g_string_append_printf(text, "\n[The signatures of %u of %u tools are left out:", n_left,
                           g_strv_length((char **) modules));
    for (; *modules != NULL && text->len < max; modules++, n++)
        g_string_append_printf(text, "%s %.*s", n > 0 ? "," : "", (int) strcspn(*modules, "\n"),
                               *modules);
    g_string_append_printf(text, "%s. Find tools with %s]", *modules != NULL ? ", …" : "",
                           offers_describe ? "describe_tools(query=\"words\")."
                                           : "mcptools.search(\"words\") in a cell.");
}

static char *
structure_modules(const char *const *modules)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "modules");
    ipb_json_begin_array(writer);
    for (; *modules != NULL; modules++) {
        const char *end = strchr(*modules, '\n');
        ipb_json_begin_object(writer);
        ipb_json_key(writer, "name");
        ipb_json_write_string_n(writer, *modules, (size_t) (end - *modules));
        ipb_json_member_string(writer, "signature", end + 1);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

void
ipb_tool_listing_finish_register(IpbServedCall *call, const char *const *modules,
                                 bool offers_describe)
{
    g_autoptr(GString) text = g_string_new(NULL);
    const char *const *module = modules;
    for (; *module != NULL && text->len < MAX_REGISTERED; module++)
        g_string_append_printf(text, "%s%s", module == modules ? "" : "\n",
                               strchr(*module, '\n') + 1);
    if (*module != NULL)
        append_left_out(text, module, g_strv_length((char **) module), offers_describe);
    if (call->is_structured)
        call->structured = structure_modules(modules);
    ipb_served_call_finish(call, *modules != NULL ? text->str : "The server has no tools.", false);
}

/* --- describe_tools --------------------------------------------------------------------------- */

typedef struct {
    const char *query; /* or NULL */
    GPtrArray *names;  /* char * */
    IpbToolDetail detail;
} Question;

static bool
read_names(GPtrArray *names, const IpbJson *value)
{
    size_t size;
    if (value == NULL || ipb_json_is(value, IPB_JSON_NULL))
        return true;
    const char *one = ipb_json_string(value, &size);
    if (one != NULL && strlen(one) == size && g_utf8_strlen(one, -1) <= MAX_NAME_CHARS) {
        if (*one != '\0')
            g_ptr_array_add(names, g_strdup(one));
        return true;
    }
    if (!ipb_json_is(value, IPB_JSON_ARRAY) || ipb_json_length(value) > MAX_NAMES)
        return false;
    IPB_JSON_FOREACH (item, value) {
        if (!ipb_json_is(item, IPB_JSON_STRING) || !read_names(names, item))
            return false;
    }
    return true;
}

static bool
read_detail(const IpbJson *value, IpbToolDetail *ret_detail)
{
    static const char *const DETAILS[] = {"signatures", "stubs", "full"};
    const char *text = ipb_json_string(value, NULL);
    *ret_detail = IPB_TOOL_SIGNATURE;
    if (value == NULL || ipb_json_is(value, IPB_JSON_NULL))
        return true;
    for (int i = 0; text != NULL && i < (int) G_N_ELEMENTS(DETAILS); i++)
        if (g_str_equal(text, DETAILS[i])) {
            *ret_detail = (IpbToolDetail) i;
            return true;
        }
    return false;
}

static void
add_once(GPtrArray *found, void *tool)
{
    if (!g_ptr_array_find(found, tool, NULL))
        g_ptr_array_add(found, tool);
}

static void
append_unknown(GString *notes, const GPtrArray *tools, const char *name)
{
    const char *nearest = ipb_tool_catalog_nearest(tools, name);
    g_string_append(notes, "[no tool has the name ");
    ipb_display_text_quote(notes, name, strlen(name));
    if (nearest != NULL) {
        g_string_append(notes, ", did you mean ");
        ipb_display_text_quote_name(notes, nearest);
        g_string_append_c(notes, '?');
    }
    g_string_append(notes, "]\n");
}

/* The tools with one of the names, and of them those that the query finds. */
static GPtrArray *
find_tools(const GPtrArray *tools, const Question *question, GString *notes)
{
    g_autoptr(GPtrArray) named = g_ptr_array_new();
    for (guint i = 0; i < question->names->len; i++) {
        const char *name = g_ptr_array_index(question->names, i);
        g_autoptr(GPtrArray) found = ipb_tool_catalog_find(tools, name);
        for (guint j = 0; j < found->len; j++)
            add_once(named, g_ptr_array_index(found, j));
        if (found->len == 0)
            append_unknown(notes, tools, name);
    }
    return ipb_tool_catalog_search(question->names->len > 0 ? named : tools,
                                   question->query != NULL ? question->query : "");
}

static void
append_unreadable(GString *notes, const GPtrArray *unreadable)
{
    for (guint i = 0; i < MIN(unreadable->len, MAX_UNREADABLE); i++) {
        g_autofree char *reason = ipb_display_text_printable(g_ptr_array_index(unreadable, i));
        g_string_append_printf(notes, "[not described: %s]\n", reason);
    }
    if (unreadable->len > MAX_UNREADABLE)
        g_string_append_printf(notes, "[not described: %u more]\n",
                               unreadable->len - MAX_UNREADABLE);
}

/* Appends whole texts while there is room. The first one is cut if it alone is too long. */
static guint
append_tools(GString *text, const GPtrArray *found, IpbToolDetail detail)
{
    guint i = 0;
    for (; i < found->len; i++) {
        const IpbCatalogTool *tool = g_ptr_array_index(found, i);
        g_autofree char *shown = ipb_display_text_printable(ipb_catalog_tool_text(tool, detail));
        const char *between = i == 0 ? "" : detail == IPB_TOOL_SIGNATURE ? "\n" : "\n\n";
        if (i > 0 && text->len + strlen(shown) > MAX_DESCRIBED)
            break;
        g_strchomp(shown);
        g_string_append_printf(text, "%s%s", between, shown);
    }
    if (text->len > MAX_DESCRIBED) {
        const char *end = g_utf8_find_prev_char(text->str, text->str + MAX_DESCRIBED);
        g_string_truncate(text, (gsize) (end - text->str));
        g_string_append(text, "\n[The text was cut here.]");
    }
    return i;
}

/* The first @n of the tools that were found, as the text has them. */
static char *
structure_tools(const GPtrArray *found, guint n, IpbToolDetail detail, const char *notes)
{
    g_auto(GStrv) lines = g_strsplit(notes, "\n", -1);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "tools");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < n; i++) {
        const IpbCatalogTool *tool = g_ptr_array_index(found, i);
        g_autofree char *text = ipb_display_text_printable(ipb_catalog_tool_text(tool, detail));
        if (strlen(text) > MAX_DESCRIBED) /* the first one */
            *g_utf8_find_prev_char(text, text + MAX_DESCRIBED) = '\0';
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "server", tool->server);
        ipb_json_member_string(writer, "module", tool->module);
        ipb_json_member_string(writer, "text", text);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    ipb_json_member_int(writer, "found", found->len);
    ipb_json_key(writer, "notes");
    ipb_json_begin_array(writer);
    for (char **line = lines; *line != NULL; line++)
        if (**line != '\0')
            ipb_json_write_string(writer, *line);
    ipb_json_end_array(writer);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

/* The code actions of the workspace, then the tools of its packages. Returns false if packages
 * cannot be read. */
static bool
read_tools(IpbSession *session, const IpbBeneath *workspace, GPtrArray **ret_tools,
           GPtrArray **ret_unreadable, GError **error)
{
    g_auto(GStrv) servers = ipb_session_packages(session, error);
    if (servers == NULL)
        return false;
    g_autoptr(IpbBeneath) root =
        *servers != NULL ? ipb_beneath_descend(workspace, "mcptools", 0, error) : NULL;
    if (root == NULL && *servers != NULL)
        return false;
    *ret_tools = ipb_tool_catalog_read(root, (const char *const *) servers, ret_unreadable);
    ipb_saved_code_add_actions(workspace, *ret_tools, *ret_unreadable);
    return true;
}

/* *ret_structured: the same as JSON. */
static char *
answer_question(IpbSession *session, const Question *question, char **ret_structured,
                GError **error)
{
    static const char NONE[] = "No MCP server is registered in this workspace.";
    const char *path = ipb_session_workspace(session);
    g_autoptr(IpbBeneath) workspace = ipb_beneath_open(path, error);
    g_autoptr(GPtrArray) tools = NULL, unreadable = NULL;
    if (workspace == NULL || !read_tools(session, workspace, &tools, &unreadable, error))
        return NULL;
    g_autoptr(GString) notes = g_string_new(NULL), text = g_string_new(NULL);
    if (tools->len == 0 && unreadable->len == 0) {
        *ret_structured = structure_tools(tools, 0, question->detail, NONE);
        return g_strdup(NONE);
    }
    g_autoptr(GPtrArray) found = find_tools(tools, question, notes);
    for (guint i = 0; i < MIN(found->len, MAX_PARSERS); i++)
        ipb_saved_code_add_parser(workspace, g_ptr_array_index(found, i));
    guint n = append_tools(text, found, question->detail);
    if (found->len == 0)
        g_string_append_printf(text, "No tool was found among %u.", tools->len);
    append_unreadable(notes, unreadable);
    if (n < found->len)
        g_string_append_printf(notes,
                               "[%u of %u tools are shown: ask for fewer with query or names, or "
                               "with less detail]\n",
                               n, found->len);
    *ret_structured = structure_tools(found, n, question->detail, notes->str);
    if (notes->len > 0)
        g_string_append_printf(text, "\n%s", notes->str);
    return g_strchomp(g_string_free(g_steal_pointer(&text), FALSE));
}

void
ipb_tool_listing_describe(IpbServedCall *call, const IpbJson *arguments)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    Question question = {.names = names};
    const IpbJson *query = ipb_json_get(arguments, "query");
    if (query != NULL && !ipb_json_is(query, IPB_JSON_NULL)) {
        question.query = ipb_json_get_string(arguments, "query");
        if (question.query == NULL || strlen(question.query) > MAX_NAME_CHARS * 10) {
            ipb_served_call_refuse(call, "query", "a string of at most 2000 bytes");
            return;
        }
    }
    if (!read_names(names, ipb_json_get(arguments, "names"))) {
        ipb_served_call_refuse(call, "names", "an array of at most 100 strings");
        return;
    }
    if (!read_detail(ipb_json_get(arguments, "detail"), &question.detail)) {
        ipb_served_call_refuse(call, "detail", "\"signatures\", \"stubs\" or \"full\"");
        return;
    }
    g_autoptr(GError) error = NULL;
    g_autofree char *text = answer_question(call->session, &question, &call->structured, &error);
    if (text != NULL)
        ipb_served_call_finish(call, text, false);
    else
        ipb_served_call_fail(call, error->message);
}

/* --- the instructions ------------------------------------------------------------------------- */

static void
append_package(GString *text, guint *n, const char *name)
{
    if ((*n)++ >= MAX_INSTRUCTION_PACKAGES)
        return;
    g_string_append_printf(text, "%s mcptools.%s", *n > 1 ? "," : "", name);
}

static void
append_actions(GString *text, const char *path)
{
    g_autoptr(IpbBeneath) workspace = ipb_beneath_open(path, NULL);
    if (workspace != NULL && S_ISDIR(ipb_beneath_kind(workspace, IPB_SAVED_CODE_ACTIONS)))
        g_string_append_printf(text,
                               "%sCode actions that were saved before are in "
                               "gentools: prefer one of them if it does the task.",
                               text->len > 0 ? " " : "");
}

char *
ipb_tool_listing_instructions(IpbSession *session, const IpbJson *servers)
{
    /* A registry that cannot be read is reported when the session starts. */
    g_auto(GStrv) packages = ipb_session_packages(session, NULL);
    g_autoptr(GString) text = g_string_new("These packages are ready:");
    guint n = 0;
    for (char **package = packages; package != NULL && *package != NULL; package++)
        append_package(text, &n, *package);
    IPB_JSON_FOREACH (server, servers) {
        const char *name = ipb_json_name(server, NULL);
        if (packages == NULL || !g_strv_contains((const char *const *) packages, name))
            append_package(text, &n, name);
    }
    if (n > MAX_INSTRUCTION_PACKAGES)
        g_string_append_printf(text, " and %u more", n - MAX_INSTRUCTION_PACKAGES);
    g_string_append_c(text, '.');
    if (n == 0)
        g_string_truncate(text, 0);
    append_actions(text, ipb_session_workspace(session));
    return text->len > 0 ? g_string_free(g_steal_pointer(&text), FALSE) : NULL;
}
