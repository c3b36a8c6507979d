/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading, checking and expanding server parameters, and their canonical text; see the header.
 */
#include "mcp/server-params.h"

#include <string.h>

#include "base/error.h"
#include "json/writer.h"

/* Linux cannot pass a longer argument or variable to a program (MAX_ARG_STRLEN). */
#define MAX_TEXT (128 * 1024 - 1)
/* Items in each of args, env and headers. */
#define MAX_ITEMS 1000
/* The longest timeout of a call. Some programs write milliseconds by mistake. */
#define MAX_TIMEOUT_S 86400
/* Missing variables that an error names; the others are only counted. */
#define MAX_NAMED_MISSING 20

static const struct {
    const char *name;
    IpbServerKind kind;
} KIND_NAMES[] = {
    {"stdio", IPB_SERVER_STDIO},
    {"streamable_http", IPB_SERVER_STREAMABLE_HTTP},
    /* Names that other programs use. */
    {"streamable-http", IPB_SERVER_STREAMABLE_HTTP},
    {"streamableHttp", IPB_SERVER_STREAMABLE_HTTP},
    {"http", IPB_SERVER_STREAMABLE_HTTP},
    {"sse", IPB_SERVER_SSE},
};

G_GNUC_PRINTF(2, 3)
static bool
set_invalid(GError **error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "server_params%s", text);
    return false;
}

/* The member; NULL if it is null, because Python programs write None for what they do not give. */
static const IpbJson *
get_member(const IpbJson *object, const char *name)
{
    const IpbJson *value = ipb_json_get(object, name);
    return ipb_json_is(value, IPB_JSON_NULL) ? NULL : value;
}

/* Reads a string that can be passed to a program or a request. @path is for messages. */
static char *
read_text(const IpbJson *value, const char *path, GError **error)
{
    size_t size = 0;
    const char *text = ipb_json_string(value, &size);
    if (text == NULL)
        set_invalid(error, "%s must be a string", path);
    else if (memchr(text, '\0', size) != NULL)
        set_invalid(error, "%s must not contain a NUL character", path);
    else if (!g_utf8_validate_len(text, size, NULL))
        set_invalid(error, "%s contains a lone surrogate, which is not a character", path);
    else if (size > MAX_TEXT)
        set_invalid(error, "%s has %zu bytes; at most %d are allowed", path, size, MAX_TEXT);
    else
        return g_strndup(text, size);
    return NULL;
}

static bool
read_optional_text(const IpbJson *object, const char *name, char **ret_text, GError **error)
{
    const IpbJson *value = get_member(object, name);
    if (value == NULL)
        return true;
    g_autofree char *path = g_strconcat(".", name, NULL);
    *ret_text = read_text(value, path, error);
    return *ret_text != NULL;
}

static bool
check_count(const IpbJson *value, const char *name, GError **error)
{
    size_t count = ipb_json_length(value);
    if (count <= MAX_ITEMS)
        return true;
    return set_invalid(error, ".%s has %zu items; at most %d are allowed", name, count, MAX_ITEMS);
}

static bool
read_args(const IpbJson *object, char ***ret_args, GError **error)
{
    const IpbJson *value = get_member(object, "args");
    g_autoptr(GStrvBuilder) args = g_strv_builder_new();
    if (value != NULL && !ipb_json_is(value, IPB_JSON_ARRAY))
        return set_invalid(error, ".args must be an array of strings, one for each argument");
    if (!check_count(value, "args", error))
        return false;
    size_t index = 0;
    IPB_JSON_FOREACH (item, value) {
        g_autofree char *path = g_strdup_printf(".args[%zu]", index++);
        g_autofree char *text = read_text(item, path, error);
        if (text == NULL)
            return false;
        g_strv_builder_add(args, text);
    }
    *ret_args = g_strv_builder_end(args);
    return true;
}

/* The path of a member for a message. The name is untrusted, so it is shown only if it is plain. */
static char *
make_member_path(const char *member, const char *name, size_t size)
{
    bool is_plain = size > 0 && size <= 64;
    for (size_t i = 0; is_plain && i < size; i++)
        is_plain = g_ascii_isalnum(name[i]) || name[i] == '_' || name[i] == '-';
    return is_plain ? g_strdup_printf(".%s.%.*s", member, (int) size, name)
                    : g_strdup_printf(".%s[name of %zu bytes]", member, size);
}

static bool
is_env_name(const char *name, size_t size)
{
    return size > 0 && memchr(name, '=', size) == NULL && memchr(name, '\0', size) == NULL &&
           g_utf8_validate_len(name, size, NULL);
}

/* Whether the name is a token of RFC 9110. */
static bool
is_header_name(const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!g_ascii_isalnum(name[i]) &&
            (name[i] == '\0' || strchr("!#$%&'*+-.^_`|~", name[i]) == NULL))
            return false;
    return size > 0;
}

/* Reads an object of strings as a list of "name" @separator "value". Of equal names the last one
 * counts. */
static bool
read_pairs(const IpbJson *object, const char *member, const char *separator,
           bool (*is_name)(const char *name, size_t size), char ***ret_list, GError **error)
{
    const IpbJson *value = get_member(object, member);
    g_autoptr(GStrvBuilder) list = g_strv_builder_new();
    if (value != NULL && !ipb_json_is(value, IPB_JSON_OBJECT))
        return set_invalid(error, ".%s must be an object of strings", member);
    if (!check_count(value, member, error))
        return false;
    IPB_JSON_FOREACH (item, value) {
        size_t size = 0;
        const char *name = ipb_json_name(item, &size);
        g_autofree char *path = make_member_path(member, name, size);
        if (!is_name(name, size))
            return set_invalid(error, "%s: this name is invalid", path);
        if (size > MAX_TEXT)
            return set_invalid(error, "%s: this name is too long", path);
        if (ipb_json_get(value, name) != item)
            continue;
        g_autofree char *text = read_text(item, path, error);
        if (text == NULL)
            return false;
        g_autofree char *pair = g_strconcat(name, separator, text, NULL);
        g_strv_builder_add(list, pair);
    }
    *ret_list = g_strv_builder_end(list);
    return true;
}

static size_t
placeholder_size(const char *text)
{
    if (text[0] != '$' || text[1] != '{')
        return 0;
    size_t size = 0;
    while (g_ascii_isalnum(text[2 + size]) || text[2 + size] == '_')
        size++;
    return text[2 + size] == '}' ? size : 0;
}

static bool
has_placeholder(const char *text)
{
    for (; (text = strchr(text, '$')) != NULL; text++)
        if (placeholder_size(text) > 0)
            return true;
    return false;
}

static IpbServerKind
kind_of_url(const char *url)
{
    /* Only the path counts: https://mcp.example.com/sse is SSE, https://sse.example.com is not. */
    const char *authority = strstr(url, "://");
    const char *path = strchr(authority != NULL ? authority + 3 : url, '/');
    if (path == NULL)
        return IPB_SERVER_STREAMABLE_HTTP;
    g_autofree char *text = g_strndup(path, strcspn(path, "?#"));
    if (strstr(text, "/mcp") == NULL && strstr(text, "/sse") != NULL)
        return IPB_SERVER_SSE;
    return IPB_SERVER_STREAMABLE_HTTP;
}

static bool
check_url(const char *url, bool is_expanded, GError **error)
{
    if (!is_expanded && has_placeholder(url))
        return true;
    size_t scheme = g_ascii_strncasecmp(url, "https://", 8) == 0  ? 8
                    : g_ascii_strncasecmp(url, "http://", 7) == 0 ? 7
                                                                  : 0;
    if (scheme == 0 || strchr("/?#", url[scheme]) != NULL)
        return set_invalid(error, ".url must begin with http:// or https:// and a host name");
    for (const char *c = url; *c != '\0'; c++)
        if ((unsigned char) *c <= ' ' || *c == 0x7f)
            return set_invalid(error, ".url must not contain spaces or control characters");
    return true;
}

/* A line end in a value would start another header. */
static bool
check_headers(char **headers, GError **error)
{
    for (char **header = headers; header != NULL && *header != NULL; header++)
        for (const char *c = *header; *c != '\0'; c++)
            if (((unsigned char) *c < ' ' && *c != '\t') || *c == 0x7f)
                return set_invalid(error, ".headers.%.*s must not contain control characters",
                                   (int) strcspn(*header, ":"), *header);
    return true;
}

static bool
check_values(const IpbServerParams *params, bool is_expanded, GError **error)
{
    if (params->kind == IPB_SERVER_STDIO) {
        if (*params->command == '\0')
            return set_invalid(error, ".command must not be empty");
        if (params->cwd != NULL && *params->cwd == '\0')
            return set_invalid(error, ".cwd must not be empty");
        return true;
    }
    if (params->ca_file != NULL && !g_path_is_absolute(params->ca_file) &&
        (is_expanded || *params->ca_file != '$'))
        return set_invalid(error, ".ca_file must be an absolute path");
    return check_url(params->url, is_expanded, error) && check_headers(params->headers, error);
}

/* Reads the kind of server from "command", "url" and "type". */
static bool
read_kind(const IpbJson *object, IpbServerParams *params, GError **error)
{
    bool has_command = get_member(object, "command") != NULL;
    if (has_command == (get_member(object, "url") != NULL))
        return set_invalid(error, has_command
                                      ? " has both \"command\" and \"url\": give one of them"
                                      : " needs \"command\" (a program that speaks MCP on "
                                        "stdio) or \"url\" (a server that speaks MCP over "
                                        "HTTP)");
    params->kind = has_command ? IPB_SERVER_STDIO : IPB_SERVER_STREAMABLE_HTTP;
    const IpbJson *type = get_member(object, "type");
    if (type == NULL)
        return true;
    const char *name = ipb_json_get_string(object, "type");
    for (size_t i = 0; name != NULL && i < G_N_ELEMENTS(KIND_NAMES); i++) {
        if (strcmp(name, KIND_NAMES[i].name) != 0)
            continue;
        if (has_command != (KIND_NAMES[i].kind == IPB_SERVER_STDIO))
            return set_invalid(error, ".type is \"%s\", which cannot be combined with \"%s\"", name,
                               has_command ? "command" : "url");
        params->kind = KIND_NAMES[i].kind;
        params->is_kind_given = true;
        return true;
    }
    return set_invalid(error, ".type must be \"stdio\", \"streamable_http\" or \"sse\"");
}

/* "sandbox": true (the defaults of kernels) or a configuration. It is never ignored: a server that
 * asks for a sandbox gets one, or an error. */
static bool
read_sandbox(const IpbJson *object, IpbServerParams *params, GError **error)
{
    const IpbJson *value = get_member(object, "sandbox");
    bool is_flag = ipb_json_is(value, IPB_JSON_BOOL);
    if (value == NULL || (is_flag && !ipb_json_bool(value, false)))
        return true;
    if (params->kind != IPB_SERVER_STDIO)
        return set_invalid(
            error, ".sandbox cannot be combined with \"url\": such a server runs elsewhere");
    if (is_flag)
        params->sandbox = ipb_sandbox_policy_default();
    else if (ipb_json_is(value, IPB_JSON_OBJECT))
        params->sandbox = ipb_sandbox_policy_from_json(value, "server_params.sandbox", error);
    else
        return set_invalid(error, ".sandbox must be true, false or a configuration");
    return params->sandbox != NULL;
}

static bool
read_timeout(const IpbJson *object, unsigned *ret_timeout_ms, GError **error)
{
    const IpbJson *value = get_member(object, "timeout");
    double seconds;
    if (value == NULL)
        return true;
    if (!ipb_json_double(value, &seconds) || !(seconds >= 0.001))
        return set_invalid(error, ".timeout must be a number of seconds above zero: how long a "
                                  "tool call may take without an answer or progress");
    *ret_timeout_ms = (unsigned) (MIN(seconds, MAX_TIMEOUT_S) * 1000);
    return true;
}

static bool
read_limits(const IpbJson *object, IpbMcpLimits *ret_limits, GError **error)
{
    const IpbJson *value = get_member(object, "limits");
    return value == NULL || ipb_mcp_limits_parse(value, ret_limits, error);
}

static bool
read_members(const IpbJson *object, IpbServerParams *params, GError **error)
{
    if (params->kind == IPB_SERVER_STDIO)
        return read_optional_text(object, "command", &params->command, error) &&
               read_args(object, &params->args, error) &&
               read_pairs(object, "env", "=", is_env_name, &params->env, error) &&
               read_optional_text(object, "cwd", &params->cwd, error);
    if (!read_optional_text(object, "url", &params->url, error) ||
        !read_pairs(object, "headers", ": ", is_header_name, &params->headers, error) ||
        !read_optional_text(object, "ca_file", &params->ca_file, error))
        return false;
    const IpbJson *oauth = get_member(object, "oauth");
    if (oauth != NULL)
        params->oauth = ipb_oauth_settings_parse(oauth, "server_params.oauth", error);
    if (oauth != NULL && params->oauth == NULL)
        return false;
    if (!params->is_kind_given)
        params->kind = kind_of_url(params->url);
    return true;
}

IpbServerParams *
ipb_server_params_parse(const IpbJson *object, GError **error)
{
    g_autoptr(IpbServerParams) params = g_new0(IpbServerParams, 1);
    if (!ipb_json_is(object, IPB_JSON_OBJECT)) {
        set_invalid(error, " must be an object");
        return NULL;
    }
    if (!read_kind(object, params, error) || !read_members(object, params, error) ||
        !read_sandbox(object, params, error) ||
        !read_timeout(object, &params->limits.call_timeout_ms, error) ||
        !read_limits(object, &params->limits, error) ||
        !check_values(params, /* is_expanded= */ false, error))
        return NULL;
    return g_steal_pointer(&params);
}

IpbServerParams *
ipb_server_params_copy(const IpbServerParams *params)
{
    IpbServerParams *copy = g_new0(IpbServerParams, 1);
    copy->kind = params->kind;
    copy->is_kind_given = params->is_kind_given;
    copy->command = g_strdup(params->command);
    copy->args = g_strdupv(params->args);
    copy->env = g_strdupv(params->env);
    copy->cwd = g_strdup(params->cwd);
    copy->sandbox = params->sandbox != NULL ? ipb_sandbox_policy_ref(params->sandbox) : NULL;
    copy->url = g_strdup(params->url);
    copy->ca_file = g_strdup(params->ca_file);
    copy->headers = g_strdupv(params->headers);
    copy->oauth = params->oauth != NULL ? ipb_oauth_settings_copy(params->oauth) : NULL;
    copy->limits = params->limits;
    return copy;
}

void
ipb_server_params_free(IpbServerParams *params)
{
    if (params == NULL)
        return;
    g_free(params->command);
    g_strfreev(params->args);
    g_strfreev(params->env);
    g_free(params->cwd);
    if (params->sandbox != NULL)
        ipb_sandbox_policy_unref(params->sandbox);
    g_free(params->url);
    g_free(params->ca_file);
    g_strfreev(params->headers);
    ipb_oauth_settings_free(params->oauth);
    g_free(params);
}

/* Compares by name, then by position in the text, so that the last of equal names stays the
 * last. */
static int
compare_members(const void *a, const void *b)
{
    const IpbJson *left = *(const IpbJson *const *) a, *right = *(const IpbJson *const *) b;
    size_t left_size = 0, right_size = 0;
    const char *left_name = ipb_json_name(left, &left_size);
    const char *right_name = ipb_json_name(right, &right_size);
    int order = memcmp(left_name, right_name, MIN(left_size, right_size));
    if (order != 0)
        return order;
    if (left_size != right_size)
        return left_size < right_size ? -1 : 1;
    return ipb_json_raw(left).start < ipb_json_raw(right).start ? -1 : 1;
}

static bool
have_same_name(const IpbJson *a, const IpbJson *b)
{
    size_t a_size = 0, b_size = 0;
    const char *a_name = ipb_json_name(a, &a_size), *b_name = ipb_json_name(b, &b_size);
    return a_size == b_size && memcmp(a_name, b_name, a_size) == 0;
}

static void write_canonical(IpbJsonWriter *writer, const IpbJson *value);

static void
write_canonical_object(IpbJsonWriter *writer, const IpbJson *object)
{
    g_autoptr(GPtrArray) members = g_ptr_array_new();
    IPB_JSON_FOREACH (item, object)
        g_ptr_array_add(members, (void *) item);
    if (members->len > 0)
        qsort(members->pdata, members->len, sizeof *members->pdata, compare_members);
    ipb_json_begin_object(writer);
    for (guint i = 0; i < members->len; i++) {
        const IpbJson *item = members->pdata[i];
        if (i + 1 < members->len && have_same_name(item, members->pdata[i + 1]))
            continue;
        size_t size = 0;
        const char *name = ipb_json_name(item, &size);
        ipb_json_key_n(writer, name, size);
        write_canonical(writer, item);
    }
    ipb_json_end_object(writer);
}

/* The recursion is limited by the depth that the document was parsed with. */
static void
write_canonical(IpbJsonWriter *writer, const IpbJson *value)
{
    size_t size = 0;
    const char *text = ipb_json_string(value, &size);
    if (text != NULL) {
        ipb_json_write_string_n(writer, text, size); /* writes each character in one way */
    } else if (ipb_json_is(value, IPB_JSON_OBJECT)) {
        write_canonical_object(writer, value);
    } else if (ipb_json_is(value, IPB_JSON_ARRAY)) {
        ipb_json_begin_array(writer);
        IPB_JSON_FOREACH (item, value)
            write_canonical(writer, item);
        ipb_json_end_array(writer);
    } else {
        ipb_json_write_value(writer, value);
    }
}

char *
ipb_server_params_canonical(const IpbJson *object)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    write_canonical(writer, object);
    return ipb_json_writer_finish(writer, NULL);
}

/* --- replacing ${NAME} --- */

typedef struct {
    const char *const *env;
    GPtrArray *missing;   /* names, each only once */
    const char *too_long; /* the member that became too long, or NULL */
} Expansion;

static const char *
find_variable(const char *const *env, const char *name, size_t size)
{
    const char *found = NULL;
    for (; env != NULL && *env != NULL; env++)
        if (strncmp(*env, name, size) == 0 && (*env)[size] == '=')
            found = *env + size + 1;
    return found;
}

static void
add_missing(Expansion *expansion, const char *name, size_t size)
{
    g_autofree char *text = g_strndup(name, size);
    if (!g_ptr_array_find_with_equal_func(expansion->missing, text, g_str_equal, NULL))
        g_ptr_array_add(expansion->missing, g_steal_pointer(&text));
}

/* @text with its variables replaced; NULL stays NULL. */
static char *
expand_text(Expansion *expansion, const char *member, const char *text)
{
    if (text == NULL)
        return NULL;
    GString *out = g_string_new(NULL);
    while (*text != '\0' && expansion->too_long == NULL) {
        size_t plain = strcspn(text, "$");
        g_string_append_len(out, text, (gssize) plain);
        text += plain;
        size_t size = *text == '$' ? placeholder_size(text) : 0;
        if (size > 0) {
            const char *value = find_variable(expansion->env, text + 2, size);
            if (value == NULL)
                add_missing(expansion, text + 2, size);
            else
                g_string_append_len(out, value, (gssize) strnlen(value, MAX_TEXT + 1));
            text += size + 3;
        } else if (*text == '$') {
            g_string_append_c(out, *text++);
        }
        if (out->len > 2 * MAX_TEXT)
            expansion->too_long = member;
    }
    if (out->len > MAX_TEXT)
        expansion->too_long = member;
    return g_string_free(out, false);
}

static void
replace_text(Expansion *expansion, const char *member, char **text)
{
    char *expanded = expand_text(expansion, member, *text);
    g_free(*text);
    *text = expanded;
}

/* Expands each item. With @separator, only the part after it (values, not names). */
static char **
expand_list(Expansion *expansion, const char *member, char **list, const char *separator)
{
    g_autoptr(GStrvBuilder) out = g_strv_builder_new();
    for (char **item = list; item != NULL && *item != NULL; item++) {
        const char *value = *item;
        if (separator != NULL)
            value = strstr(*item, separator) + strlen(separator);
        g_autofree char *name = g_strndup(*item, (gsize) (value - *item));
        g_autofree char *expanded = expand_text(expansion, member, value);
        g_autofree char *text = g_strconcat(name, expanded, NULL);
        g_strv_builder_add(out, text);
    }
    return g_strv_builder_end(out);
}

static void
set_missing_error(GError **error, const GPtrArray *missing)
{
    GString *names = g_string_new(NULL);
    for (guint i = 0; i < missing->len && i < MAX_NAMED_MISSING; i++) {
        const char *name = g_ptr_array_index(missing, i);
        const char *comma = i == 0 ? "" : i + 1 == missing->len ? " and " : ", ";
        g_string_append_printf(names, "%s${%.100s}", comma, name);
    }
    if (missing->len > MAX_NAMED_MISSING)
        g_string_append_printf(names, " and %u more", missing->len - MAX_NAMED_MISSING);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "server_params uses %s, which %s not set. Set %s in the environment that ipybox is "
                "started with, or in the .env file of its workspace",
                names->str, missing->len == 1 ? "is" : "are", missing->len == 1 ? "it" : "them");
    g_string_free(names, true);
}

/* execve accepts no longer value, and we should not hold one. */
static bool
check_too_long(const Expansion *expansion, GError **error)
{
    if (expansion->too_long == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "server_params.%s: a value has more than %d bytes after its variables are replaced",
                expansion->too_long, MAX_TEXT);
    return false;
}

IpbServerParams *
ipb_server_params_expand(const IpbServerParams *params, const char *const *env, GError **error)
{
    g_autoptr(GPtrArray) missing = g_ptr_array_new_with_free_func(g_free);
    Expansion expansion = {.env = env, .missing = missing};
    g_autoptr(IpbServerParams) expanded = g_new0(IpbServerParams, 1);
    expanded->kind = params->kind;
    expanded->is_kind_given = params->is_kind_given;
    expanded->limits = params->limits;
    expanded->command = expand_text(&expansion, "command", params->command);
    expanded->args = expand_list(&expansion, "args", params->args, NULL);
    expanded->env = expand_list(&expansion, "env", params->env, "=");
    expanded->cwd = expand_text(&expansion, "cwd", params->cwd);
    expanded->sandbox = params->sandbox != NULL ? ipb_sandbox_policy_ref(params->sandbox) : NULL;
    expanded->url = expand_text(&expansion, "url", params->url);
    expanded->ca_file = expand_text(&expansion, "ca_file", params->ca_file);
    expanded->headers = expand_list(&expansion, "headers", params->headers, ": ");
    if (params->oauth != NULL) {
        IpbOAuthSettings *oauth = ipb_oauth_settings_copy(params->oauth);
        replace_text(&expansion, "oauth.clientId", &oauth->client_id);
        replace_text(&expansion, "oauth.clientSecret", &oauth->client_secret);
        expanded->oauth = oauth;
    }
    if (missing->len > 0) {
        set_missing_error(error, missing);
        return NULL;
    }
    if (!check_too_long(&expansion, error))
        return NULL;
    if (expanded->url != NULL && !expanded->is_kind_given)
        expanded->kind = kind_of_url(expanded->url);
    if (!check_values(expanded, /* is_expanded= */ true, error))
        return NULL;
    return g_steal_pointer(&expanded);
}
