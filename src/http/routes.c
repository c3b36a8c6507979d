/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes of a server; see the header.
 */
#include "http/routes.h"

#include <string.h>

#include "http/target.h"

static IpbSpan
take_segment(IpbSpan *rest)
{
    const char *slash = memchr(rest->start, '/', rest->size);
    IpbSpan segment = {rest->start, slash != NULL ? (size_t) (slash - rest->start) : rest->size};
    size_t taken = MIN(segment.size + 1, rest->size);
    rest->start += taken;
    rest->size -= taken;
    return segment;
}

static size_t
count_slashes(IpbSpan path)
{
    size_t n = 0;
    for (size_t i = 0; i < path.size; i++)
        n += path.start[i] == '/';
    return n;
}

/* @ret_parameters: receives the decoded segments; may be NULL. */
static bool
match(const char *pattern_text, IpbSpan path, char **ret_parameters)
{
    IpbSpan pattern = {pattern_text, strlen(pattern_text)};
    size_t n = 0;
    if (pattern.size > 0 && pattern.start[pattern.size - 1] == '*')
        return path.size >= pattern.size - 1 &&
               memcmp(path.start, pattern.start, pattern.size - 1) == 0;
    if (count_slashes(pattern) != count_slashes(path))
        return false;
    while (pattern.size > 0 || path.size > 0) {
        IpbSpan expected = take_segment(&pattern);
        IpbSpan found = take_segment(&path);
        if (!ipb_span_equal(expected, "@")) {
            if (expected.size != found.size || memcmp(expected.start, found.start, found.size) != 0)
                return false;
            continue;
        }
        g_autofree char *decoded = ipb_http_target_decode(found, false);
        if (decoded == NULL || decoded[0] == '\0' || n == IPB_HTTP_ROUTE_MAX_PARAMETERS)
            return false;
        if (ret_parameters != NULL)
            ret_parameters[n++] = g_steal_pointer(&decoded);
    }
    return true;
}

static bool
is_json(const IpbHttpHead *head)
{
    IpbSpan value;
    if (!ipb_http_head_get(head, "Content-Type", &value))
        return false;
    const char *parameters = memchr(value.start, ';', value.size);
    if (parameters != NULL)
        value.size = (size_t) (parameters - value.start);
    while (value.size > 0 && g_ascii_isspace(value.start[value.size - 1]))
        value.size--;
    return ipb_span_equal_nocase(value, "application/json");
}

static bool
has_right_type(const IpbHttpServerOptions *options, const IpbHttpHead *head)
{
    IpbSpan token;
    return is_json(head) ||
           (options->takes_any_type_with_token && ipb_http_head_get(head, "Authorization", &token));
}

static bool
fail(IpbHttpRefusal *refusal, unsigned status, char *reason)
{
    refusal->status = status;
    refusal->reason = reason;
    return false;
}

static bool
check_body(const IpbHttpServerOptions *options, const IpbHttpRoute *route, const IpbHttpHead *head,
           IpbHttpRefusal *refusal)
{
    IpbSpan expectation;
    bool is_stream = route->body == IPB_HTTP_BODY_STREAM;
    bool has_body = head->content_length > 0 || route->body == IPB_HTTP_BODY_JSON;
    if (head->is_chunked && !is_stream)
        return fail(refusal, 411,
                    g_strdup("Transfer-Encoding is not accepted here: send the body with a "
                             "Content-Length"));
    if (route->body == IPB_HTTP_BODY_NONE && has_body)
        return fail(refusal, 413,
                    g_strdup_printf("%s %s takes no body", route->method, route->path));
    if (has_body && !is_stream && !has_right_type(options, head))
        return fail(refusal, 415, g_strdup("the Content-Type must be application/json"));
    if (route->body == IPB_HTTP_BODY_JSON && !head->has_content_length)
        return fail(refusal, 411, g_strdup("there is no Content-Length"));
    if (head->content_length > options->max_body && !is_stream)
        return fail(refusal, 413,
                    g_strdup_printf("the request is larger than %zu MiB", options->max_body >> 20));
    if (ipb_http_head_get(head, "Expect", &expectation) &&
        !ipb_span_equal_nocase(expectation, "100-continue"))
        return fail(refusal, 417, g_strdup("the only known expectation is 100-continue"));
    return true;
}

/* The path of @head without the server's base path; empty, as no route is, if it is not below that.
 */
static IpbSpan
path_of(const IpbHttpServerOptions *options, const IpbHttpHead *head)
{
    IpbSpan path = ipb_http_target_path(head->target);
    size_t base_size = options->base_path != NULL ? strlen(options->base_path) : 0;
    if (base_size == 0)
        return path;
    bool is_below = path.size > base_size && path.start[base_size] == '/' &&
                    memcmp(path.start, options->base_path, base_size) == 0;
    return is_below ? (IpbSpan){path.start + base_size, path.size - base_size}
                    : (IpbSpan){path.start, 0};
}

char *
ipb_http_route_list_methods(const IpbHttpServerOptions *options, const IpbHttpHead *head)
{
    IpbSpan path = path_of(options, head);
    g_autoptr(GString) methods = g_string_new(NULL);
    for (size_t i = 0; i < options->n_routes; i++)
        if (match(options->routes[i].path, path, NULL))
            g_string_append_printf(methods, "%s%s", methods->len > 0 ? ", " : "",
                                   options->routes[i].method);
    return methods->len > 0 ? g_strdup(methods->str) : NULL;
}

static const IpbHttpRoute *
find(const IpbHttpServerOptions *options, const IpbHttpHead *head, IpbHttpRefusal *refusal)
{
    IpbSpan path = path_of(options, head);
    const char *pattern = NULL;
    for (size_t i = 0; i < options->n_routes; i++) {
        const IpbHttpRoute *route = &options->routes[i];
        if (!match(route->path, path, NULL))
            continue;
        if (ipb_span_equal(head->method, route->method))
            return route;
        pattern = route->path;
    }
    refusal->allow = ipb_http_route_list_methods(options, head);
    if (refusal->allow != NULL)
        fail(refusal, 405, g_strdup_printf("%s takes %s", pattern, refusal->allow));
    else
        fail(refusal, 404,
             g_strdup(options->not_found != NULL ? options->not_found : "there is no such path"));
    return NULL;
}

const IpbHttpRoute *
ipb_http_route_find(const IpbHttpServerOptions *options, const IpbHttpHead *head, unsigned role,
                    IpbHttpRefusal *ret_refusal)
{
    const IpbHttpRoute *route = find(options, head, ret_refusal);
    if (route == NULL)
        return NULL;
    if ((route->roles & role) == 0) {
        fail(ret_refusal, 403, g_strdup("this is for the application, not for kernels"));
        return NULL;
    }
    return check_body(options, route, head, ret_refusal) ? route : NULL;
}

void
ipb_http_route_get_parameters(const IpbHttpServerOptions *options, const IpbHttpRoute *route,
                              const IpbHttpHead *head,
                              char *ret_parameters[IPB_HTTP_ROUTE_MAX_PARAMETERS])
{
    match(route->path, path_of(options, head), ret_parameters);
}
