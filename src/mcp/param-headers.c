/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments as headers; see the header. An annotation is valid only where a chain of "properties"
 * leads from the root of the schema to it. Elsewhere it makes the tool invalid, because its value
 * cannot be found in the arguments. So the whole schema is searched, except for data (enum, const,
 * default, examples) and names.
 */
#include "mcp/param-headers.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "mcp/server-log.h"

#define ANNOTATION "x-mcp-header"
#define MAX_HEADERS 100
#define MAX_NAME 200
/* One value. Servers accept about 8 KiB of headers in total. */
#define MAX_VALUE 8192
#define MAX_SHOWN 100
/* Every peer can represent integers up to this one. */
#define MAX_INTEGER ((INT64_C(1) << 53) - 1)

#define SENTINEL_START "=?base64?"
#define SENTINEL_END "?="

typedef struct {
    char *name;  /* without "Mcp-Param-" */
    char **path; /* of the argument's names */
} Header;

struct IpbParamHeaders {
    GPtrArray *headers; /* of Header */
    GHashTable *names;  /* in lower case, because header names ignore case */
};

static void
free_header(void *data)
{
    Header *header = data;
    g_free(header->name);
    g_strfreev(header->path);
    g_free(header);
}

void
ipb_param_headers_free(IpbParamHeaders *headers)
{
    if (headers == NULL)
        return;
    g_ptr_array_unref(headers->headers);
    g_hash_table_unref(headers->names);
    g_free(headers);
}

typedef struct {
    IpbParamHeaders *headers;
    GPtrArray *path; /* names, borrowed from the document */
} Walk;

/* Whether the text is a token of RFC 9110. */
static bool
is_token(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!g_ascii_isalnum(text[i]) &&
            (text[i] == '\0' || strchr("!#$%&'*+-.^_`|~", text[i]) == NULL))
            return false;
    return size > 0 && size <= MAX_NAME;
}

static bool
refuse(const IpbJson *annotation, const char *why, GError **error)
{
    IpbSpan raw = ipb_json_raw(annotation);
    g_autofree char *shown = ipb_server_log_clean(raw.start, raw.size, MAX_SHOWN);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                "its inputSchema has an invalid " ANNOTATION " %s: %s", shown, why);
    return false;
}

static bool
is_header_type(const IpbJson *schema)
{
    const char *type = ipb_json_get_string(schema, "type");
    return g_strcmp0(type, "string") == 0 || g_strcmp0(type, "integer") == 0 ||
           g_strcmp0(type, "boolean") == 0;
}

/* Adds the annotation of the schema that @walk is at. @is_reachable: only "properties" lead to
 * it. */
static bool
add_header(Walk *walk, const IpbJson *schema, bool is_reachable, GError **error)
{
    const IpbJson *annotation = ipb_json_get(schema, ANNOTATION);
    if (annotation == NULL)
        return true;
    size_t size = 0;
    const char *name = ipb_json_string(annotation, &size);
    if (name == NULL || !is_token(name, size))
        return refuse(annotation, "it must be a token of RFC 9110", error);
    if (!is_reachable || walk->path->len == 0)
        return refuse(annotation, "it is not at a property that only \"properties\" lead to",
                      error);
    if (!is_header_type(schema))
        return refuse(annotation, "the type must be \"string\", \"integer\" or \"boolean\"", error);
    if (!g_hash_table_add(walk->headers->names, g_ascii_strdown(name, (gssize) size)))
        return refuse(annotation, "the name is used twice", error);
    if (walk->headers->headers->len >= MAX_HEADERS) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "its inputSchema has more than %d properties with " ANNOTATION, MAX_HEADERS);
        return false;
    }
    Header *header = g_new0(Header, 1);
    header->name = g_strndup(name, size);
    header->path = g_new0(char *, walk->path->len + 1);
    for (guint i = 0; i < walk->path->len; i++)
        header->path[i] = g_strdup(g_ptr_array_index(walk->path, i));
    g_ptr_array_add(walk->headers->headers, header);
    return true;
}

static bool
is_one_of(const char *name, const char *const *names)
{
    return name != NULL && g_strv_contains(names, name);
}

static bool walk_schema(Walk *walk, const IpbJson *schema, bool is_reachable, GError **error);

/* An object whose names are free and whose values are schemas. */
static bool
walk_map(Walk *walk, const IpbJson *map, bool is_reachable, GError **error)
{
    IPB_JSON_FOREACH (item, map) {
        size_t size = 0;
        const char *name = ipb_json_name(item, &size);
        /* The last of equal names counts. A name with a NUL cannot be looked up. */
        bool is_found = name != NULL && strlen(name) == size && ipb_json_get(map, name) == item;
        g_ptr_array_add(walk->path, (gpointer) name);
        bool is_fine = walk_schema(walk, item, is_reachable && is_found, error);
        g_ptr_array_set_size(walk->path, (int) walk->path->len - 1);
        if (!is_fine)
            return false;
    }
    return true;
}

/* The recursion is limited by the depth of the document. */
static bool
walk_schema(Walk *walk, const IpbJson *schema, bool is_reachable, GError **error)
{
    static const char *const DATA[] = {"const", "enum", "default", "examples", "example", NULL};
    static const char *const MAPS[] = {"$defs", "definitions", "patternProperties",
                                       "dependentSchemas", NULL};
    if (!ipb_json_is(schema, IPB_JSON_OBJECT) && !ipb_json_is(schema, IPB_JSON_ARRAY))
        return true;
    bool is_object = ipb_json_is(schema, IPB_JSON_OBJECT);
    if (is_object && !add_header(walk, schema, is_reachable, error))
        return false;
    IPB_JSON_FOREACH (item, schema) {
        const char *name = is_object ? ipb_json_name(item, NULL) : NULL;
        bool is_fine = true;
        if (g_strcmp0(name, "properties") == 0)
            is_fine = walk_map(walk, item, is_reachable, error);
        else if (is_one_of(name, MAPS))
            is_fine = walk_map(walk, item, /* is_reachable= */ false, error);
        else if (!is_one_of(name, DATA))
            is_fine = walk_schema(walk, item, /* is_reachable= */ false, error);
        if (!is_fine)
            return false;
    }
    return true;
}

IpbParamHeaders *
ipb_param_headers_parse(const IpbJson *input_schema, GError **error)
{
    g_autoptr(IpbParamHeaders) headers = g_new0(IpbParamHeaders, 1);
    headers->headers = g_ptr_array_new_with_free_func(free_header);
    headers->names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GPtrArray) path = g_ptr_array_new();
    Walk walk = {headers, path};
    return walk_schema(&walk, input_schema, /* is_reachable= */ true, error)
               ? g_steal_pointer(&headers)
               : NULL;
}

static bool
is_plain(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f || (unsigned char) text[i] > 0x7f)
            return false;
    if (size > 0 && (strchr(" \t", text[0]) != NULL || strchr(" \t", text[size - 1]) != NULL))
        return false;
    /* A text that looks encoded would be decoded by the server. */
    return !(size >= strlen(SENTINEL_START SENTINEL_END) &&
             memcmp(text, SENTINEL_START, strlen(SENTINEL_START)) == 0 &&
             memcmp(text + size - strlen(SENTINEL_END), SENTINEL_END, strlen(SENTINEL_END)) == 0);
}

char *
ipb_param_headers_encode(const char *text, size_t size)
{
    if (is_plain(text, size))
        return g_strndup(text, size);
    g_autofree char *base64 = g_base64_encode((const guchar *) text, size);
    return g_strconcat(SENTINEL_START, base64, SENTINEL_END, NULL);
}

static const IpbJson *
find_argument(const IpbJson *arguments, char *const *path)
{
    for (; *path != NULL; path++)
        arguments = ipb_json_get(arguments, *path);
    return arguments;
}

/* Whether the text has no lone surrogate. NUL is a valid character here. */
static bool
is_text(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((unsigned char) text[i] == 0xed && (unsigned char) text[i + 1] >= 0xa0)
            return false;
    return true;
}

/* The value of a header; NULL: the argument cannot be one. */
static char *
make_value(const IpbJson *argument)
{
    size_t size = 0;
    int64_t number;
    const char *text = ipb_json_string(argument, &size);
    if (text != NULL)
        return size <= MAX_VALUE && is_text(text, size) ? ipb_param_headers_encode(text, size)
                                                        : NULL;
    if (ipb_json_is(argument, IPB_JSON_BOOL))
        return g_strdup(ipb_json_bool(argument, false) ? "true" : "false");
    if (ipb_json_int64(argument, &number) && number >= -MAX_INTEGER && number <= MAX_INTEGER)
        return g_strdup_printf("%" PRId64, number);
    return NULL;
}

char **
ipb_param_headers_make(const IpbParamHeaders *headers, const IpbJson *arguments, GError **error)
{
    g_autoptr(GStrvBuilder) list = g_strv_builder_new();
    for (guint i = 0; i < headers->headers->len; i++) {
        const Header *header = g_ptr_array_index(headers->headers, i);
        const IpbJson *argument = find_argument(arguments, header->path);
        if (argument == NULL || ipb_json_is(argument, IPB_JSON_NULL))
            continue;
        g_autofree char *value = make_value(argument);
        if (value == NULL) {
            g_autofree char *path = g_strjoinv(".", header->path);
            g_autofree char *clean = ipb_server_log_clean(path, strlen(path), MAX_SHOWN);
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "argument %s goes into a header: it must be a text of at most %d bytes, "
                        "true, false or an integer below 2^53",
                        clean, MAX_VALUE);
            return NULL;
        }
        g_autofree char *line = g_strdup_printf("Mcp-Param-%s: %s", header->name, value);
        g_strv_builder_add(list, line);
    }
    return g_strv_builder_end(list);
}
