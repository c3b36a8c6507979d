/* SPDX-License-Identifier: Apache-2.0
 *
 * Tools of an application; see the header.
 */
#include "tools/application-tools.h"

#include <string.h>

#include "apigen/apigen.h"
#include "base/error.h"
#include "json/writer.h"
#include "tools/approvals.h"

#define MAX_TEXT (4u << 20)
#define MAX_DEPTH 128
#define MAX_VALUES 1000000
#define MAX_GROUPS 64
#define MAX_TOOLS 1000
/* Each kernel gets all sources when it starts. */
#define MAX_SOURCES (8u << 20)
#define MAX_TOOL_NAME 128
#define ID_PREFIX "application:"
#define WHERE "application_tools: "

struct IpbApplicationTools {
    unsigned references;
    GHashTable *groups; /* id → Group */
    GBytes *packages;
};

typedef struct {
    char *name;
    GHashTable *tools; /* the names */
} Group;

/* While it is made. */
typedef struct {
    IpbApplicationTools *tools;
    IpbJsonWriter *packages;
    size_t n_tools;
    size_t size; /* of the sources */
} Making;

static void
free_group(void *data)
{
    Group *group = data;
    g_hash_table_unref(group->tools);
    g_free(group->name);
    g_free(group);
}

IpbApplicationTools *
ipb_application_tools_ref(IpbApplicationTools *tools)
{
    tools->references++;
    return tools;
}

void
ipb_application_tools_unref(IpbApplicationTools *tools)
{
    if (tools == NULL || --tools->references > 0)
        return;
    g_hash_table_unref(tools->groups);
    if (tools->packages != NULL)
        g_bytes_unref(tools->packages);
    g_free(tools);
}

/* --- reading --------------------------------------------------------------------------------- */

static bool
is_tool_name(const IpbJson *value)
{
    size_t size = 0;
    const char *name = ipb_json_string(value, &size);
    if (name == NULL || size == 0 || size > MAX_TOOL_NAME)
        return false;
    return strspn(name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_-./") == size;
}

/* An absent member is right. */
static bool
has_type(const IpbJson *tool, const char *member, IpbJsonType type)
{
    const IpbJson *value = ipb_json_get(tool, member);
    return value == NULL || ipb_json_is(value, type);
}

/* NULL: nothing is wrong. */
static const char *
find_problem(const Group *group, const IpbJson *tool)
{
    const IpbJson *name = ipb_json_get(tool, "name");
    if (!is_tool_name(name))
        return "\"name\" must have 1 – " G_STRINGIFY(MAX_TOOL_NAME) " ASCII letters, digits, _, -, "
                                                                    ". and /";
    if (g_hash_table_contains(group->tools, ipb_json_string(name, NULL)))
        return "another tool has this name";
    if (!ipb_json_is(ipb_json_get(tool, "inputSchema"), IPB_JSON_OBJECT))
        return "\"inputSchema\" must be an object, a JSON Schema";
    if (!has_type(tool, "outputSchema", IPB_JSON_OBJECT))
        return "\"outputSchema\" must be an object, a JSON Schema";
    if (!has_type(tool, "description", IPB_JSON_STRING) ||
        !has_type(tool, "title", IPB_JSON_STRING))
        return "\"description\" and \"title\" must be strings";
    return NULL;
}

static bool
add_tool(Making *making, Group *group, const IpbJson *tool, GError **error)
{
    const IpbJson *name = ipb_json_get(tool, "name");
    const char *problem = find_problem(group, tool);
    if (problem != NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, WHERE "%s, tool %u%s%s: %s",
                    group->name, g_hash_table_size(group->tools) + 1, is_tool_name(name) ? " " : "",
                    is_tool_name(name) ? ipb_json_string(name, NULL) : "", problem);
        return false;
    }
    if (++making->n_tools > MAX_TOOLS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    WHERE "there are more than %d tools in total", MAX_TOOLS);
        return false;
    }
    g_hash_table_add(group->tools, g_strdup(ipb_json_string(name, NULL)));
    return true;
}

/* The catalog has lines of JSON; the other files are Python. */
static bool
add_package(Making *making, const Group *group, const char *id, const IpbJson *tools,
            GError **error)
{
    g_auto(GStrv) modules = NULL;
    IpbApigenOptions options = {
        .server_name = group->name, .registration_id = id, .is_application = true};
    g_autoptr(GPtrArray) files = ipb_apigen_generate(tools, &options, &modules, error);
    if (files == NULL) {
        g_prefix_error_literal(error, WHERE);
        return false;
    }
    ipb_json_key(making->packages, group->name);
    ipb_json_begin_object(making->packages);
    for (guint i = 0; i < files->len; i++) {
        const IpbApigenFile *file = g_ptr_array_index(files, i);
        making->size += strlen(file->source);
        ipb_json_member_string(making->packages, file->name, file->source);
    }
    ipb_json_end_object(making->packages);
    if (making->size <= MAX_SOURCES)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                WHERE "the packages that are generated are larger than %u MiB: offer fewer tools, "
                      "or simpler schemas",
                MAX_SOURCES >> 20);
    return false;
}

static bool
check_name(const char *name, size_t size, GError **error)
{
    g_autoptr(GError) cause = NULL;
    if (strlen(name) == size && !g_str_equal(name, IPB_OWN_SERVER) &&
        ipb_apigen_check_server_name(name, &cause))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, WHERE "%s",
                cause != NULL ? cause->message
                              : "a name must not be \"" IPB_OWN_SERVER "\", or contain a NUL");
    return false;
}

static bool
add_group(Making *making, const IpbJson *tools, GError **error)
{
    size_t size;
    const char *name = ipb_json_name(tools, &size);
    if (!check_name(name, size, error))
        return false;
    if (!ipb_json_is(tools, IPB_JSON_ARRAY)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, WHERE "%s must be an array of tools",
                    name);
        return false;
    }
    Group *group = g_new0(Group, 1);
    char *id = g_strconcat(ID_PREFIX, name, NULL);
    group->name = g_strdup(name);
    group->tools = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_hash_table_insert(making->tools->groups, id, group);
    IPB_JSON_FOREACH (tool, tools)
        if (!add_tool(making, group, tool, error))
            return false;
    return add_package(making, group, id, tools, error);
}

static bool
add_groups(Making *making, const IpbJson *groups, GError **error)
{
    ipb_json_begin_object(making->packages);
    IPB_JSON_FOREACH (tools, groups)
        if (!add_group(making, tools, error))
            return false;
    ipb_json_end_object(making->packages);
    return true;
}

static IpbJsonDoc *
parse(const char *text, size_t size, GError **error)
{
    static const IpbJsonLimits LIMITS = {MAX_TEXT, MAX_DEPTH, MAX_VALUES};
    g_autoptr(GError) cause = NULL;
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &LIMITS, &cause);
    bool is_too_large = g_error_matches(cause, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    const char *problem = NULL;
    if (document == NULL)
        problem = cause->message;
    else if (!ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT))
        problem = "it must be an object: {name: [tools]}";
    else if (ipb_json_has_duplicates(document))
        problem = "an object in it has the same name twice";
    else if (ipb_json_length(ipb_json_root(document)) > MAX_GROUPS)
        problem = "it may have at most " G_STRINGIFY(MAX_GROUPS) " names";
    if (problem == NULL)
        return g_steal_pointer(&document);
    g_set_error(error, IPYBOX_ERROR, is_too_large ? IPYBOX_ERROR_LIMIT : IPYBOX_ERROR_INVALID,
                WHERE "%s", problem);
    return NULL;
}

IpbApplicationTools *
ipb_application_tools_new(const char *text, size_t size, GError **error)
{
    g_autoptr(IpbJsonDoc) document = parse(text, size, error);
    if (document == NULL)
        return NULL;
    g_autoptr(IpbApplicationTools) tools = g_new0(IpbApplicationTools, 1);
    tools->references = 1;
    tools->groups = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_group);
    Making making = {.tools = tools, .packages = ipb_json_writer_new()};
    if (!add_groups(&making, ipb_json_root(document), error)) {
        ipb_json_writer_free(making.packages);
        return NULL;
    }
    size_t packages_size;
    char *packages = ipb_json_writer_finish(making.packages, &packages_size);
    tools->packages = g_bytes_new_take(packages, packages_size);
    return g_steal_pointer(&tools);
}

/* --- what was read --------------------------------------------------------------------------- */

bool
ipb_application_tools_is_id(const char *server_id)
{
    return g_str_has_prefix(server_id, ID_PREFIX);
}

const char *
ipb_application_tools_find(const IpbApplicationTools *tools, const char *server_id,
                           const char *tool_name, GError **error)
{
    const Group *group = tools != NULL ? g_hash_table_lookup(tools->groups, server_id) : NULL;
    if (group != NULL && g_hash_table_contains(group->tools, tool_name))
        return group->name;
    /* What a kernel sends is not shown; what the application has named is. */
    if (group == NULL)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                            "the application of this session offers no tools with this name");
    else
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "the application offers no such tool in %s: mcptools.describe(\"%s\") shows "
                    "which there are",
                    group->name, group->name);
    return NULL;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

GPtrArray *
ipb_application_tools_names(const IpbApplicationTools *tools)
{
    GPtrArray *names = g_ptr_array_new();
    GHashTableIter groups;
    void *group;
    g_hash_table_iter_init(&groups, tools->groups);
    while (g_hash_table_iter_next(&groups, NULL, &group))
        g_ptr_array_add(names, ((Group *) group)->name);
    g_ptr_array_sort(names, compare_names);
    return names;
}

GBytes *
ipb_application_tools_packages(const IpbApplicationTools *tools)
{
    return tools->packages;
}
