/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages of tools/list; see the header.
 */
#include "mcp/tool-list.h"

#include <string.h>

#include "base/error.h"
#include "json/writer.h"
#include "mcp/limits.h"
#include "mcp/param-headers.h"

/* Size of the text of all tools. */
#define MAX_SIZE (64 * 1024 * 1024)
#define MAX_NAME_SHOWN 100
#define MAX_CURSOR (64 * 1024)

struct IpbToolList {
    IpbJsonWriter *writer; /* inside of the array "tools" */
    GHashTable *cursors;   /* texts of the cursors so far */
    IpbServerLog *log;
    GHashTable *headers; /* of name → IpbParamHeaders or NULL */
    size_t n_pages, n_tools, size;
    size_t max_pages, max_tools;
};

static void
free_headers(void *headers)
{
    ipb_param_headers_free(headers);
}

IpbToolList *
ipb_tool_list_new(size_t max_pages, size_t max_tools, IpbServerLog *log)
{
    IpbToolList *list = g_new0(IpbToolList, 1);
    list->max_pages = max_pages;
    list->max_tools = max_tools;
    list->log = log;
    if (log != NULL)
        list->headers = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_headers);
    list->writer = ipb_json_writer_new();
    ipb_json_begin_object(list->writer);
    ipb_json_key(list->writer, "tools");
    ipb_json_begin_array(list->writer);
    list->cursors = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return list;
}

void
ipb_tool_list_free(IpbToolList *list)
{
    if (list == NULL)
        return;
    g_clear_pointer(&list->writer, ipb_json_writer_free);
    g_hash_table_unref(list->cursors);
    g_clear_pointer(&list->headers, g_hash_table_unref);
    g_free(list);
}

G_GNUC_PRINTF(3, 4)
static bool
refuse(GError **error, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, IPYBOX_ERROR, code, "its list of tools %s", text);
    return false;
}

/* False: the tool is left out. */
static bool
read_headers(IpbToolList *list, const char *name, const IpbJson *tool)
{
    if (list->log == NULL)
        return true;
    g_autoptr(GError) error = NULL;
    IpbParamHeaders *headers = ipb_param_headers_parse(ipb_json_get(tool, "inputSchema"), &error);
    g_hash_table_replace(list->headers, g_strdup(name), headers);
    if (headers != NULL)
        return true;
    g_autofree char *clean = ipb_server_log_clean(name, strlen(name), MAX_NAME_SHOWN);
    g_autofree char *text = g_strdup_printf("tool %s is left out: %s", clean, error->message);
    ipb_server_log_write(list->log, "warning", text, strlen(text));
    return false;
}

static bool
add_tool(IpbToolList *list, const IpbJson *tool, GError **error)
{
    if (!ipb_json_is(tool, IPB_JSON_OBJECT))
        return refuse(error, IPYBOX_ERROR_PROTOCOL, "is invalid: tools[%zu] is not an object",
                      list->n_tools);
    const char *name = ipb_json_get_string(tool, "name");
    if (name == NULL || *name == '\0')
        return refuse(error, IPYBOX_ERROR_PROTOCOL,
                      "is invalid: tools[%zu] has no \"name\" that is a string", list->n_tools);
    if (++list->n_tools > list->max_tools)
        return refuse(error, IPYBOX_ERROR_LIMIT,
                      "has more than %zu tools" IPB_MCP_LIMIT_HINT("tools"), list->max_tools);
    list->size += ipb_json_raw(tool).size;
    if (list->size > MAX_SIZE)
        return refuse(error, IPYBOX_ERROR_LIMIT, "has more than %d MiB", MAX_SIZE / 1024 / 1024);
    if (read_headers(list, name, tool))
        ipb_json_write_value(list->writer, tool);
    return true;
}

/* Finds the cursor of the next page. An empty text is a cursor, too. */
static bool
make_next(IpbToolList *list, const IpbJson *result, char **ret_next, GError **error)
{
    const IpbJson *cursor = ipb_json_get(result, "nextCursor");
    *ret_next = NULL;
    if (cursor == NULL || ipb_json_is(cursor, IPB_JSON_NULL))
        return true;
    if (!ipb_json_is(cursor, IPB_JSON_STRING))
        return refuse(error, IPYBOX_ERROR_PROTOCOL, "is invalid: nextCursor is not a string");
    IpbSpan raw = ipb_json_raw(cursor);
    if (raw.size > MAX_CURSOR)
        return refuse(error, IPYBOX_ERROR_LIMIT, "has a cursor of more than %d bytes", MAX_CURSOR);
    if (list->n_pages >= list->max_pages)
        return refuse(error, IPYBOX_ERROR_LIMIT,
                      "has more than %zu pages" IPB_MCP_LIMIT_HINT("pages"), list->max_pages);
    if (!g_hash_table_add(list->cursors, g_strndup(raw.start, raw.size)))
        return refuse(error, IPYBOX_ERROR_PROTOCOL,
                      "does not end: page %zu leads back to an earlier one", list->n_pages);
    *ret_next = g_strndup(raw.start, raw.size);
    return true;
}

bool
ipb_tool_list_add(IpbToolList *list, const IpbJson *result, char **ret_next, GError **error)
{
    const IpbJson *tools = ipb_json_get(result, "tools");
    if (!ipb_json_is(tools, IPB_JSON_ARRAY))
        return refuse(error, IPYBOX_ERROR_PROTOCOL, "is invalid: it has no \"tools\" array");
    list->n_pages++;
    IPB_JSON_FOREACH (tool, tools)
        if (!add_tool(list, tool, error))
            return false;
    return make_next(list, result, ret_next, error);
}

GHashTable *
ipb_tool_list_steal_headers(IpbToolList *list)
{
    return g_steal_pointer(&list->headers);
}

IpbJsonDoc *
ipb_tool_list_finish(IpbToolList *list, GError **error)
{
    ipb_json_end_array(list->writer);
    ipb_json_end_object(list->writer);
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(g_steal_pointer(&list->writer), &size);
    return ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, error);
}
