/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests as handlers see them, and how their routes are found; see server.h.
 */
#include <string.h>

#include "http/form.h"
#include "http/server-private.h"

/* Of "@"s in a route. */
#define MAX_PARAMETERS 4

struct IpbHttpRequest {
    IpbHttpConnection *connection;
    const IpbHttpRoute *route;
    char *bytes; /* the head; what is below points into it */
    IpbHttpHead head;
    char *parameters[MAX_PARAMETERS];
    unsigned role;
    void (*gone)(void *data);
    void *gone_data;
};

/* Routes */

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

/* @ret_parameters: NULL, or what they are put into. */
static bool
match(const char *pattern_text, IpbSpan path, char **ret_parameters)
{
    IpbSpan pattern = {pattern_text, strlen(pattern_text)};
    size_t n = 0;
    if (count_slashes(pattern) != count_slashes(path))
        return false;
    while (pattern.size > 0 || path.size > 0) {
        IpbSpan expected = take_segment(&pattern);
        IpbSpan found = take_segment(&path);
        if (!ipb_http_span_equal(expected, "@")) {
            if (expected.size != found.size || memcmp(expected.start, found.start, found.size) != 0)
                return false;
            continue;
        }
        g_autofree char *decoded = ipb_http_form_decode(found, false);
        if (decoded == NULL || decoded[0] == '\0' || n == MAX_PARAMETERS)
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
    return ipb_http_span_equal_nocase(value, "application/json");
}

static bool
has_right_type(const IpbHttpServer *server, const IpbHttpHead *head)
{
    IpbSpan token;
    return is_json(head) || (ipb_http_server_options(server)->takes_any_type_with_token &&
                             ipb_http_head_get(head, "Authorization", &token));
}

static bool
fail(IpbHttpRefusal *refusal, unsigned status, char *reason)
{
    refusal->status = status;
    refusal->reason = reason;
    return false;
}

static bool
check_body(const IpbHttpServer *server, const IpbHttpRoute *route, const IpbHttpHead *head,
           IpbHttpRefusal *refusal)
{
    IpbSpan expectation;
    size_t max_body = ipb_http_server_options(server)->max_body;
    bool has_body = head->content_length > 0 || route->body == IPB_HTTP_BODY_JSON;
    if (route->body == IPB_HTTP_BODY_NONE && has_body)
        return fail(refusal, 413,
                    g_strdup_printf("%s %s takes no body", route->method, route->path));
    if (has_body && !has_right_type(server, head))
        return fail(refusal, 415, g_strdup("the Content-Type must be application/json"));
    if (route->body == IPB_HTTP_BODY_JSON && !head->has_content_length)
        return fail(refusal, 411, g_strdup("there is no Content-Length"));
    if (head->content_length > max_body)
        return fail(refusal, 413,
                    g_strdup_printf("the request is larger than %zu MiB", max_body >> 20));
    if (ipb_http_head_get(head, "Expect", &expectation) &&
        !ipb_http_span_equal_nocase(expectation, "100-continue"))
        return fail(refusal, 417, g_strdup("the only known expectation is 100-continue"));
    return true;
}

static const IpbHttpRoute *
find(const IpbHttpServer *server, const IpbHttpHead *head, IpbHttpRefusal *refusal)
{
    const IpbHttpServerOptions *options = ipb_http_server_options(server);
    IpbSpan path = ipb_http_form_path(head->target);
    const IpbHttpRoute *same_path = NULL;
    for (size_t i = 0; i < options->n_routes; i++) {
        const IpbHttpRoute *route = &options->routes[i];
        if (!match(route->path, path, NULL))
            continue;
        if (ipb_http_span_equal(head->method, route->method))
            return route;
        same_path = route;
    }
    if (same_path != NULL) {
        refusal->allow = same_path->method;
        fail(refusal, 405, g_strdup_printf("%s takes %s", same_path->path, same_path->method));
    } else {
        fail(refusal, 404,
             g_strdup(options->not_found != NULL ? options->not_found : "there is no such path"));
    }
    return NULL;
}

const IpbHttpRoute *
ipb_http_route_find(const IpbHttpServer *server, const IpbHttpHead *head, unsigned role,
                    IpbHttpRefusal *ret_refusal)
{
    const IpbHttpRoute *route = find(server, head, ret_refusal);
    if (route == NULL)
        return NULL;
    if ((route->roles & role) == 0) {
        fail(ret_refusal, 403, g_strdup("this is for the application, not for kernels"));
        return NULL;
    }
    return check_body(server, route, head, ret_refusal) ? route : NULL;
}

/* Life */

IpbHttpRequest *
ipb_http_request_new(IpbHttpConnection *connection, const IpbHttpRoute *route, const char *head,
                     size_t size, unsigned role)
{
    IpbHttpRequest *request = g_new0(IpbHttpRequest, 1);
    size_t scanned = 0;
    request->connection = connection;
    request->route = route;
    request->role = role;
    request->bytes = g_memdup2(head, size);
    /* Once more, so that everything points into our own copy. */
    ipb_http_head_parse(request->bytes, size, &scanned, &request->head);
    match(route->path, ipb_http_form_path(request->head.target), request->parameters);
    return request;
}

static void
free_request(IpbHttpRequest *request)
{
    for (size_t i = 0; i < MAX_PARAMETERS; i++)
        g_free(request->parameters[i]);
    g_free(request->bytes);
    g_free(request);
}

void
ipb_http_request_handle(IpbHttpRequest *request)
{
    void *data = ipb_http_server_options(ipb_http_connection_server(request->connection))->data;
    request->route->handler(request, data);
}

void
ipb_http_request_end(IpbHttpRequest *request)
{
    void (*gone)(void *data) = request->gone;
    void *data = request->gone_data;
    free_request(request);
    if (gone != NULL)
        gone(data);
}

/* What is in it */

const IpbHttpHead *
ipb_http_request_head(const IpbHttpRequest *request)
{
    return &request->head;
}

const IpbHttpServer *
ipb_http_request_server(const IpbHttpRequest *request)
{
    return ipb_http_connection_server(request->connection);
}

const char *
ipb_http_request_parameter(const IpbHttpRequest *request, size_t index)
{
    g_return_val_if_fail(index < MAX_PARAMETERS, NULL);
    return request->parameters[index];
}

IpbSpan
ipb_http_request_body(const IpbHttpRequest *request)
{
    return ipb_http_connection_body(request->connection);
}

unsigned
ipb_http_request_role(const IpbHttpRequest *request)
{
    return request->role;
}

void
ipb_http_request_set_gone(IpbHttpRequest *request, void (*gone)(void *data), void *data)
{
    request->gone = gone;
    request->gone_data = data;
}

/* Answers */

static void
answer_as(IpbHttpRequest *request, const IpbHttpAnswer *answer, size_t claimed)
{
    IpbHttpConnection *connection = request->connection;
    free_request(request);
    ipb_http_connection_answer(connection, answer, NULL, claimed);
}

bool
ipb_http_request_answer(IpbHttpRequest *request, const IpbHttpAnswer *answer)
{
    IpbHttpServer *server = ipb_http_connection_server(request->connection);
    size_t size = answer->body != NULL ? g_bytes_get_size(answer->body) : 0;
    if (!ipb_http_server_claim_answer(server, size))
        return false;
    answer_as(request, answer, size);
    return true;
}

static void
answer_small(IpbHttpRequest *request, unsigned status, char *text, bool is_last)
{
    g_autoptr(GBytes) body = text != NULL ? g_bytes_new_take(text, strlen(text)) : NULL;
    answer_as(request, &(IpbHttpAnswer){.status = status, .body = body, .is_last = is_last}, 0);
}

void
ipb_http_request_answer_text(IpbHttpRequest *request, unsigned status, char *text)
{
    answer_small(request, status, text, false);
}

void
ipb_http_request_refuse(IpbHttpRequest *request, unsigned status, char *text)
{
    answer_small(request, status, text, true);
}

void
ipb_http_request_answer_error(IpbHttpRequest *request, unsigned status, const char *message)
{
    IpbHttpServer *server = ipb_http_connection_server(request->connection);
    g_autoptr(GBytes) body = ipb_http_server_describe(server, message);
    answer_as(request, &(IpbHttpAnswer){.status = status, .body = body}, 0);
}

int
ipb_http_request_steal(IpbHttpRequest *request, GBytes **ret_unread, IpbHttpPlace **ret_place)
{
    IpbHttpConnection *connection = request->connection;
    *ret_place = ipb_http_server_new_place(ipb_http_connection_server(connection));
    free_request(request);
    return ipb_http_connection_steal(connection, ret_unread);
}
