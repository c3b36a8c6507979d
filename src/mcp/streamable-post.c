/* SPDX-License-Identifier: Apache-2.0
 *
 * One message to a server over Streamable HTTP, and its answer; see streamable-private.h.
 *
 * A post is reference-counted inside, so that what its functions tell may free it and its transport: after each
 * such call post->http says whether it is still of use.
 */
#include "mcp/streamable-private.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "json/writer.h"

/* Of the body of an HTTP error. */
#define MAX_ERROR_BODY (64 * 1024)
#define MAX_SHOWN 300
/* Of a date, or a number of seconds. */
#define MAX_WAIT_SHOWN 40
/* Before a broken stream is asked for again, if the server does not say; and at least and at most. */
#define DEFAULT_RETRY_MS 1000
#define MIN_RETRY_MS 100
#define MAX_RETRY_MS (60 * 1000)
/* A stream on which the answer came has this long to end, so that its connection can be used again. */
#define LINGER_MS 1000
#define DELETE_TIMEOUT_MS 2000
#define NO_ANSWER "what it answered with is no answer to this request"

static void
unref(IpbPost *post)
{
    if (--post->refs > 0)
        return;
    ipb_exchange_free(post->exchange);
    ipb_event_stream_free(post->events);
    if (post->body != NULL)
        g_string_free(post->body, true);
    g_strfreev(post->headers);
    g_free(post->last_event_id);
    g_free(post->session);
    g_free(post->text);
    g_free(post);
}

static IpbPost *
hold(IpbPost *post)
{
    post->refs++;
    return post;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbPost, unref)

IpbPost *
ipb_post_new(IpbStreamable *http, IpbPostKind kind, const char *text, size_t size)
{
    IpbPost *post = g_new0(IpbPost, 1);
    post->refs = 1;
    post->http = http;
    post->kind = kind;
    post->text = text != NULL ? g_strndup(text, size) : NULL;
    post->size = size;
    post->retry_ms = DEFAULT_RETRY_MS;
    return post;
}

void
ipb_post_free(IpbPost *post)
{
    post->http = NULL;
    g_clear_pointer(&post->timer, ipb_timer_free);
    g_clear_pointer(&post->exchange, ipb_exchange_free);
    unref(post);
}

G_GNUC_PRINTF(3, 4)
static void
fail(IpbPost *post, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    ipb_streamable_fail(post, g_error_new_literal(IPYBOX_ERROR, code, text));
}

/* --- what comes -------------------------------------------------------------------------------- */

static void
on_linger_end(void *data)
{
    ipb_streamable_done(data);
}

/* Is it a response with our id? Some servers give numbers back as strings. */
static bool
is_answer(const IpbPost *post, const char *text, size_t size)
{
    IpbSpan value, message = {text, size};
    g_autofree char *id = g_strdup_printf("%" PRId64, post->id);
    if (post->id == 0 || ipb_json_scan_member(message, "method", &value) ||
        !ipb_json_scan_member(message, "id", &value))
        return false;
    if (value.size > 2 && *value.start == '"')
        value = (IpbSpan){value.start + 1, value.size - 2};
    return value.size == strlen(id) && memcmp(value.start, id, value.size) == 0;
}

/* A whole message. The answer to the initialize of a new session is ours. */
static void
take_message(IpbPost *post, const char *text, size_t size)
{
    IpbSpan result;
    if (post->is_answered)
        return;
    if (is_answer(post, text, size) || (*text == '[' && post->is_json))
        ipb_streamable_answered(post);
    if (post->kind != IPB_POST_REINITIALIZE) {
        ipb_streamable_deliver(post->http, text, size);
    } else if (post->is_answered &&
               !ipb_json_scan_member((IpbSpan){text, size}, "result", &result)) {
        fail(post, IPYBOX_ERROR_SERVER, "it refuses initialize");
    }
    if (post->http == NULL || !post->is_answered)
        return;
    if (post->kind == IPB_POST_REINITIALIZE) {
        ipb_streamable_done(post); /* others wait for it */
        return;
    }
    post->timer =
        ipb_timer_new(ipb_endpoint_loop(post->http->endpoint), LINGER_MS, on_linger_end, post);
    /* If that was no valid answer, no other one comes; else nobody waits for one any more. */
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, NO_ANSWER);
    ipb_streamable_tell_failed(post->http, post->id, post->status, error);
}

static bool
on_event(const IpbEvent *event, void *data)
{
    IpbPost *post = data;
    if (event->id != NULL && g_strcmp0(event->id, post->last_event_id) != 0) {
        g_free(post->last_event_id);
        post->last_event_id = *event->id != '\0' ? g_strdup(event->id) : NULL;
        post->resumptions = 0;
    }
    if (event->size > 0 && strcmp(event->type, "message") == 0)
        take_message(post, event->data, event->size);
    return post->http != NULL && !post->is_answered;
}

static bool
has_type(const IpbPost *post, const char *type)
{
    const char *value = ipb_exchange_header(post->exchange, "Content-Type");
    size_t size = strlen(type);
    return value != NULL && g_ascii_strncasecmp(value, type, size) == 0 &&
           (value[size] == '\0' || strchr("; \t", value[size]) != NULL);
}

static void
on_head(IpbExchange *exchange, unsigned status, void *data)
{
    g_autoptr(IpbPost) post = hold(data);
    const IpbMcpLimits *limits = ipb_endpoint_limits(post->http->endpoint);
    post->status = status;
    post->is_json = false;
    if (post->body != NULL)
        g_string_truncate(post->body, 0);
    else
        post->body = g_string_new(NULL);
    g_clear_pointer(&post->events, ipb_event_stream_free);
    if (status >= 300)
        return;
    if (post->is_initialize || post->kind == IPB_POST_REINITIALIZE)
        if (!ipb_streamable_take_session(post, ipb_exchange_header(exchange, "Mcp-Session-Id")))
            return;
    post->is_json = has_type(post, "application/json");
    if (has_type(post, "text/event-stream"))
        post->events = ipb_event_stream_new(limits->message_size);
}

static void
push_events(IpbPost *post, const char *bytes, size_t size)
{
    g_autoptr(GError) error = NULL;
    if (!ipb_event_stream_push(post->events, bytes, size, on_event, post, &error)) {
        fail(post, IPYBOX_ERROR_LIMIT, "%s" IPB_MCP_LIMIT_HINT("message_size"), error->message);
        return;
    }
    int64_t retry_ms = ipb_event_stream_retry_ms(post->events);
    if (retry_ms >= 0)
        post->retry_ms = CLAMP(retry_ms, MIN_RETRY_MS, MAX_RETRY_MS);
}

static void
on_body(IpbExchange *exchange, const char *bytes, size_t size, void *data)
{
    g_autoptr(IpbPost) post = hold(data);
    if (post->is_answered)
        return;
    if (post->events != NULL) {
        push_events(post, bytes, size);
        return;
    }
    size_t most =
        post->is_json ? ipb_endpoint_limits(post->http->endpoint)->message_size : MAX_ERROR_BODY;
    if (size > most - post->body->len && post->is_json)
        fail(post, IPYBOX_ERROR_LIMIT,
             "its answer has more than %zu bytes" IPB_MCP_LIMIT_HINT("message_size"), most);
    else
        g_string_append_len(post->body, bytes, (gssize) MIN(size, most - post->body->len));
}

/* --- the end ----------------------------------------------------------------------------------- */

static void on_end(IpbExchange *exchange, const GError *error, void *data);

static void
start_exchange(IpbPost *post, const char *method, GPtrArray *headers)
{
    static const IpbExchangeFuncs FUNCS = {
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
    };
    IpbStreamable *http = post->http;
    bool is_first = post->is_initialize || post->kind == IPB_POST_REINITIALIZE;
    g_free(post->session);
    post->session = is_first ? NULL : g_strdup(http->session);
    if (post->session != NULL)
        g_ptr_array_add(headers, g_strconcat("Mcp-Session-Id: ", post->session, NULL));
    if (http->revision != NULL && !is_first)
        g_ptr_array_add(headers, g_strconcat("MCP-Protocol-Version: ", http->revision, NULL));
    for (size_t i = 0; post->headers != NULL && post->headers[i] != NULL; i++)
        g_ptr_array_add(headers, g_strdup(post->headers[i]));
    g_ptr_array_add(headers, NULL);
    bool is_post = strcmp(method, "POST") == 0;
    bool is_short = post->id == 0 && post->kind != IPB_POST_LISTEN;
    const IpbMcpLimits *limits = ipb_endpoint_limits(http->endpoint);
    IpbExchangeOptions options = {
        .method = method,
        .headers = (const char *const *) headers->pdata,
        .body = is_post ? post->text : NULL,
        .body_size = post->size,
        /* Requests end with their calls' time. */
        .total_ms = post->kind == IPB_POST_DELETE                     ? DELETE_TIMEOUT_MS
                    : is_short || post->kind == IPB_POST_REINITIALIZE ? limits->connect_timeout_ms
                                                                      : 0,
    };
    ipb_exchange_free(post->exchange);
    post->exchange = ipb_exchange_new(http->endpoint, &options, &FUNCS, post);
}

static void
get_events(IpbPost *post)
{
    g_autoptr(GPtrArray) headers = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(headers, g_strdup("Accept: text/event-stream"));
    if (post->last_event_id != NULL)
        g_ptr_array_add(headers, g_strconcat("Last-Event-ID: ", post->last_event_id, NULL));
    start_exchange(post, "GET", headers);
}

void
ipb_post_start(IpbPost *post)
{
    post->is_started = true;
    g_autoptr(GPtrArray) headers = g_ptr_array_new_with_free_func(g_free);
    if (post->kind == IPB_POST_LISTEN) {
        get_events(post);
    } else if (post->kind == IPB_POST_DELETE) {
        start_exchange(post, "DELETE", headers);
    } else {
        g_ptr_array_add(headers, g_strdup("Content-Type: application/json"));
        g_ptr_array_add(headers, g_strdup("Accept: application/json, text/event-stream"));
        start_exchange(post, "POST", headers);
    }
}

static void
on_retry_timer(void *data)
{
    IpbPost *post = data;
    g_clear_pointer(&post->timer, ipb_timer_free);
    get_events(post);
}

/* The stream ended before the answer. With an event's id it can go on where it was. */
static bool
resume(IpbPost *post)
{
    const IpbMcpLimits *limits = ipb_endpoint_limits(post->http->endpoint);
    bool can_resume =
        !post->http->is_modern && (post->last_event_id != NULL || post->kind == IPB_POST_LISTEN);
    if (!can_resume || post->resumptions >= limits->resumptions)
        return false;
    post->resumptions++;
    post->is_resumed = true;
    post->timer = ipb_timer_new(ipb_endpoint_loop(post->http->endpoint), (unsigned) post->retry_ms,
                                on_retry_timer, post);
    return true;
}

static void
end_events(IpbPost *post, const GError *error)
{
    if (resume(post))
        return;
    fail(post, IPYBOX_ERROR_SERVER,
         "its stream of events ended before the answer%s%s%s; the request may have been executed",
         error != NULL ? " (" : "", error != NULL ? error->message : "", error != NULL ? ")" : "");
}

/* A JSON-RPC error in the body is the answer, whatever id it has: the connection says whose it is. */
static bool
take_error(IpbPost *post, const char *text, size_t size)
{
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *error = doc != NULL ? ipb_json_get(ipb_json_root(doc), "error") : NULL;
    if (post->id == 0 || !ipb_json_is(error, IPB_JSON_OBJECT) ||
        post->kind == IPB_POST_REINITIALIZE)
        return false;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "jsonrpc", "2.0");
    ipb_json_member_int(writer, "id", post->id);
    ipb_json_member_value(writer, "error", error);
    ipb_json_end_object(writer);
    size_t answer_size;
    g_autofree char *answer = ipb_json_writer_finish(writer, &answer_size);
    take_message(post, answer, answer_size);
    return true;
}

static void
end_status(IpbPost *post)
{
    /* What the request for its stream is answered with says nothing of the message itself. */
    if (!post->is_resumed && post->status == 404 && post->session != NULL &&
        ipb_streamable_renew(post))
        return;
    if (!post->is_resumed && take_error(post, post->body->str, post->body->len)) {
        if (post->http != NULL)
            ipb_streamable_done(post);
        return;
    }
    g_autofree char *text = ipb_server_log_clean_body(post->body, MAX_SHOWN);
    const char *wait = ipb_exchange_header(post->exchange, "Retry-After");
    g_autofree char *later = ipb_server_log_clean(wait != NULL ? wait : "",
                                                  wait != NULL ? strlen(wait) : 0, MAX_WAIT_SHOWN);
    fail(post, IPYBOX_ERROR_SERVER, "%sHTTP status %u%s%s%s%s%s",
         post->is_resumed ? "its stream of events ended, and cannot be resumed: " : "",
         post->status, *text != '\0' ? ": " : "", text,
         wait != NULL ? "; it asks to wait (Retry-After): " : "", later,
         post->is_resumed ? "; the request may have been executed" : "");
}

/* The body of a JSON answer. Errors may come without our id. */
static void
take_body(IpbPost *post)
{
    const char *text = post->body->str;
    size_t size = post->body->len;
    ipb_utf8_skip_mark(&text, &size);
    if (size > 0 && (is_answer(post, text, size) || !take_error(post, text, size)))
        take_message(post, text, size);
}

static void
end_request(IpbPost *post)
{
    if (post->is_json)
        take_body(post);
    if (post->http == NULL)
        return;
    const char *type = ipb_exchange_header(post->exchange, "Content-Type");
    g_autofree char *shown =
        type != NULL ? ipb_server_log_clean(type, strlen(type), MAX_SHOWN) : g_strdup("none");
    if (post->is_answered)
        ipb_streamable_done(post);
    else if (post->is_json && post->body->len > 0)
        fail(post, IPYBOX_ERROR_PROTOCOL, NO_ANSWER);
    else
        fail(post, IPYBOX_ERROR_PROTOCOL,
             post->is_json ? "it answered with HTTP status %u and an empty body of the type %s"
                           : "it answered with HTTP status %u and the content type %s, not with "
                             "JSON or events",
             post->status, shown);
}

static void
on_end(IpbExchange *exchange, const GError *error, void *data)
{
    g_autoptr(IpbPost) post = hold(data);
    g_autoptr(IpbStreamable) http = ipb_streamable_hold(post->http);
    bool is_stream = post->events != NULL && post->status < 300;
    if (http->failure != NULL)
        return; /* that is told, for all */
    if (post->is_answered || post->kind == IPB_POST_DELETE)
        ipb_streamable_done(post);
    else if (is_stream && (post->id != 0 || post->kind == IPB_POST_LISTEN))
        end_events(post, error);
    else if (error != NULL && post->is_resumed)
        end_events(post, error);
    else if (error != NULL)
        ipb_streamable_fail(post, g_error_copy(error));
    else if (post->status >= 300)
        end_status(post);
    else if (post->id != 0)
        end_request(post);
    else
        ipb_streamable_done(post);
}
