/* SPDX-License-Identifier: Apache-2.0
 *
 * MCP over Streamable HTTP; see the header. The transport has the session and the queue of
 * messages. A Post is one message and its answer.
 *
 * If a server answers 404 to a session id, it has dropped the session and has not executed the
 * message. The message then waits (is_held) while initialize and notifications/initialized are sent
 * as they were the first time. After that the message is sent again in the new session, once.
 *
 * The transport and its posts are reference-counted, because every callback may free them. After a
 * callback, post->http is NULL if the post was freed.
 */
#include "mcp/streamable-http-transport.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "http/event-stream.h"
#include "json/writer.h"
#include "mcp/param-headers.h"

/* Total size of messages that wait or are under way. */
#define MAX_QUEUE (64 * 1024 * 1024)
/* Messages that wait. Many small ones are replies to a server that never stops asking. */
#define MAX_WAITING 10000
/* Length of a session id. */
#define MAX_SESSION 1024
/* Part of an HTTP error's body that is read, and part of it that an error message shows. */
#define MAX_ERROR_BODY (64 * 1024)
#define MAX_SHOWN 300
/* Part of Retry-After that is shown: a date, or a number of seconds. */
#define MAX_WAIT_SHOWN 40
/* Delay before a broken stream is resumed: the default, and bounds for the server's wish. */
#define DEFAULT_RETRY_MS 1000
#define MIN_RETRY_MS 100
#define MAX_RETRY_MS (60 * 1000)
/* After the answer, the stream has this long to end, so that its connection can be reused. */
#define LINGER_MS 1000
#define DELETE_TIMEOUT_MS 2000
#define NOT_AN_ANSWER "what it sent is not an answer to this request"

typedef struct Post Post;

typedef struct {
    IpbTransport base;
    unsigned refs; /* one of the owner, and one for each running callback */
    bool is_freed, is_closing;
    IpbEndpoint *endpoint;
    GQueue waiting;      /* of Post: not sent yet */
    GHashTable *posts;   /* set of Post: under way */
    unsigned n_requests; /* posts that are requests without an answer yet */
    unsigned n_notes;    /* posts that are replies to the server, or notifications */
    size_t queued;       /* bytes of all messages */
    char *session;       /* id; NULL: none */
    char *revision;      /* of the last message; NULL: not known */
    bool is_modern;
    /* The texts that were sent first, to start a new session with. */
    char *initialize, *initialized;
    /* No message is sent until the session exists and the server knows that we are ready. */
    bool is_held;
    Post *listener; /* the GET among the posts; NULL: none */
    bool wants_events;
    IpbTimer *timer; /* reports the failure or the end from the loop */
    GError *failure;
    void (*close_done)(void *data);
    void *close_data;
} Streamable;

typedef enum {
    POST_MESSAGE,
    POST_INITIALIZED,   /* notifications/initialized: other messages wait for it */
    POST_REINITIALIZE,  /* initialize again, for a new session */
    POST_REINITIALIZED, /* the notification after POST_REINITIALIZE */
    POST_LISTEN,        /* GET: the stream of what the server sends on its own */
    POST_DELETE,        /* ends the session */
} PostKind;

struct Post {
    unsigned refs;
    Streamable *http; /* NULL: freed */
    PostKind kind;
    int64_t id; /* of the request; 0: not a request */
    bool is_initialize, is_subscription;
    char *text;
    size_t size;
    char **headers; /* of this message only: Mcp-Method, … */
    char *session;  /* that it was sent with */
    bool is_started, is_answered, has_renewed;
    bool is_resumed; /* its stream broke: the server may have executed it */
    IpbEndpointRequest *request;
    unsigned status;
    bool is_json;
    GString *body;          /* of a JSON answer, or of an error */
    IpbEventStream *events; /* or NULL */
    char *last_event_id;
    int64_t retry_ms;
    unsigned resumptions; /* since the last event */
    IpbTimer *timer;      /* before a resumption, or after the answer */
};

static void send_post(Post *post);

/* --- references --- */

static Streamable *
hold_transport(Streamable *http)
{
    http->refs++;
    return http;
}

static void
unhold_transport(Streamable *http)
{
    if (--http->refs > 0)
        return;
    g_hash_table_unref(http->posts);
    ipb_endpoint_free(http->endpoint);
    g_clear_error(&http->failure);
    g_free(http->session);
    g_free(http->revision);
    g_free(http->initialize);
    g_free(http->initialized);
    g_free(http);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Streamable, unhold_transport)

static void
unref_post(Post *post)
{
    if (--post->refs > 0)
        return;
    ipb_endpoint_request_free(post->request);
    ipb_event_stream_free(post->events);
    if (post->body != NULL)
        g_string_free(post->body, true);
    g_strfreev(post->headers);
    g_free(post->last_event_id);
    g_free(post->session);
    g_free(post->text);
    g_free(post);
}

static Post *
hold_post(Post *post)
{
    post->refs++;
    return post;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Post, unref_post)

static Post *
new_post(Streamable *http, PostKind kind, const char *text, size_t size)
{
    Post *post = g_new0(Post, 1);
    post->refs = 1;
    post->http = http;
    post->kind = kind;
    post->text = text != NULL ? g_strndup(text, size) : NULL;
    post->size = size;
    post->retry_ms = DEFAULT_RETRY_MS;
    return post;
}

static void
free_post(Post *post)
{
    post->http = NULL;
    g_clear_pointer(&post->timer, ipb_timer_free);
    g_clear_pointer(&post->request, ipb_endpoint_request_free);
    unref_post(post);
}

/* --- reports to the client --- */

static void
on_timer(void *data)
{
    g_autoptr(Streamable) http = hold_transport(data);
    g_clear_pointer(&http->timer, ipb_timer_free);
    g_autoptr(GError) failure = g_steal_pointer(&http->failure);
    if (http->is_closing)
        http->close_done(http->close_data);
    else if (failure != NULL)
        http->base.funcs.on_closed(failure, http->base.data);
}

/* Ends the connection: on_closed is called from the loop. Takes @why. */
static void
lose(Streamable *http, GError *why)
{
    if (http->failure != NULL || http->is_closing) {
        g_error_free(why);
        return;
    }
    g_prefix_error(&why, "MCP server %s: ", ipb_endpoint_name(http->endpoint));
    http->failure = why;
    http->timer = ipb_timer_new(ipb_endpoint_loop(http->endpoint), 0, on_timer, http);
}

static void
deliver(Streamable *http, const char *text, size_t size)
{
    g_autoptr(Streamable) held = hold_transport(http);
    if (!http->is_freed && !http->is_closing)
        http->base.funcs.on_message(text, size, http->base.data);
}

static void
report_failure(Streamable *http, int64_t id, unsigned status, const GError *why)
{
    g_autoptr(Streamable) held = hold_transport(http);
    if (!http->is_freed && !http->is_closing)
        http->base.funcs.on_failed(id, status, why, http->base.data);
}

/* --- the queue of messages --- */

/* The counter of the post's kind, which limits how many are under way. NULL: not counted, such as a
 * subscription, which stays open as long as the connection. */
static unsigned *
find_counter(Streamable *http, const Post *post)
{
    if (post->kind != POST_MESSAGE || post->is_subscription)
        return NULL;
    return post->id != 0 ? &http->n_requests : &http->n_notes;
}

static void
uncount(Streamable *http, const Post *post)
{
    unsigned *counter = find_counter(http, post);
    if (counter != NULL)
        --*counter;
}

static void
start(Streamable *http, Post *post)
{
    unsigned *counter = find_counter(http, post);
    g_hash_table_add(http->posts, post);
    if (counter != NULL)
        (*counter)++;
    send_post(post);
}

/* Sends the messages that may go now. Replies and notifications do not wait for requests, because
 * the server may need them to answer a request. */
static void
pump(Streamable *http)
{
    unsigned most = ipb_endpoint_limits(http->endpoint)->requests;
    GList *next;
    for (GList *item = http->waiting.head; item != NULL && !http->is_held; item = next) {
        Post *post = item->data;
        const unsigned *counter = find_counter(http, post);
        next = item->next;
        if (counter != NULL && *counter >= most)
            continue;
        g_queue_delete_link(&http->waiting, item);
        http->is_held = post->kind == POST_INITIALIZED;
        start(http, post);
    }
}

static void
remove_post(Streamable *http, Post *post)
{
    if (g_hash_table_remove(http->posts, post) && !post->is_answered)
        uncount(http, post);
    g_queue_remove(&http->waiting, post);
    if (http->listener == post)
        http->listener = NULL;
    if (post->kind == POST_MESSAGE || post->kind == POST_INITIALIZED)
        http->queued -= post->size;
    free_post(post);
}

static void
free_posts(Streamable *http)
{
    GHashTableIter iter;
    gpointer post;
    g_hash_table_iter_init(&iter, http->posts);
    while (g_hash_table_iter_next(&iter, &post, NULL)) {
        g_hash_table_iter_remove(&iter);
        free_post(post);
    }
    while ((post = g_queue_pop_head(&http->waiting)) != NULL)
        free_post(post);
    http->listener = NULL;
    http->queued = 0;
    http->n_requests = http->n_notes = 0;
}

static void
set_answered(Post *post)
{
    post->is_answered = true;
    uncount(post->http, post);
    pump(post->http);
}

static void listen_to_server(IpbTransport *transport);

static void
end_post(Post *post)
{
    g_autoptr(Streamable) http = hold_transport(post->http);
    PostKind kind = post->kind;
    remove_post(http, post);
    if (kind == POST_DELETE) {
        http->close_done(http->close_data); /* may free the transport */
        return;
    }
    if (kind == POST_REINITIALIZE)
        start(http,
              new_post(http, POST_REINITIALIZED, http->initialized != NULL ? http->initialized : "",
                       http->initialized != NULL ? strlen(http->initialized) : 0));
    if (kind == POST_INITIALIZED || kind == POST_REINITIALIZED)
        http->is_held = false;
    if (kind == POST_REINITIALIZED && http->wants_events)
        listen_to_server(&http->base);
    pump(http);
}

static void
fail_post(Post *post, GError *error)
{
    g_autoptr(GError) owned = error;
    g_autoptr(Streamable) http = hold_transport(post->http);
    int64_t id = post->id;
    unsigned status = post->status;
    PostKind kind = post->kind;
    if (kind == POST_REINITIALIZE) {
        /* Without a session the server refuses every message: the owner has to reconnect. */
        g_prefix_error(&owned, "its session is lost and a new one could not be started: ");
        remove_post(http, post);
        lose(http, g_steal_pointer(&owned));
        return;
    }
    if (id == 0 && kind != POST_LISTEN && kind != POST_DELETE) {
        g_autofree char *text =
            g_strdup_printf("it rejected a notification or a reply: %s", owned->message);
        ipb_server_log_write(ipb_endpoint_log(http->endpoint), "warning", text, strlen(text));
    }
    if (kind != POST_MESSAGE || id == 0) {
        end_post(post);
        return;
    }
    remove_post(http, post);
    report_failure(http, id, status, owned);
    if (!http->is_freed && !http->is_closing)
        pump(http);
}

G_GNUC_PRINTF(3, 4)
static void
fail(Post *post, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    fail_post(post, g_error_new_literal(IPYBOX_ERROR, code, text));
}

/* --- the session --- */

static bool
renew_session(Post *post)
{
    Streamable *http = post->http;
    if (post->has_renewed || post->kind != POST_MESSAGE || http->initialize == NULL)
        return false;
    post->has_renewed = true;
    g_hash_table_remove(http->posts, post);
    uncount(http, post);
    g_queue_push_head(&http->waiting, post);
    /* Another message may have started a new session already. */
    if (http->is_held || g_strcmp0(post->session, http->session) != 0) {
        pump(http);
        return true;
    }
    static const char TEXT[] = "it dropped the session; a new one is started";
    ipb_server_log_write(ipb_endpoint_log(http->endpoint), "info", TEXT, strlen(TEXT));
    if (http->is_freed || http->is_closing)
        return true;
    http->is_held = true;
    g_clear_pointer(&http->session, g_free);
    if (http->listener != NULL) /* it belongs to the old session */
        remove_post(http, http->listener);
    Post *first = new_post(http, POST_REINITIALIZE, http->initialize, strlen(http->initialize));
    IpbSpan id;
    /* The answer has the same id as the first time. */
    if (ipb_json_scan_member((IpbSpan){first->text, first->size}, "id", &id))
        first->id = g_ascii_strtoll(id.start, NULL, 10);
    start(http, first);
    return true;
}

static bool
take_session(Post *post, const char *id)
{
    Streamable *http = post->http;
    g_clear_pointer(&http->session, g_free);
    size_t size = id != NULL ? strlen(id) : 0;
    bool is_valid = size <= MAX_SESSION;
    for (size_t i = 0; i < size; i++)
        is_valid = is_valid && id[i] >= 0x21 && id[i] <= 0x7e;
    if (!is_valid) {
        lose(http, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                               "its session id is invalid: it must be at most %d characters of "
                               "visible ASCII",
                               MAX_SESSION));
        return false;
    }
    http->session = size > 0 ? g_strdup(id) : NULL;
    return true;
}

/* --- receiving the answer --- */

static void
on_linger_end(void *data)
{
    end_post(data);
}

/* Whether the message is a response with the post's id. Some servers return numbers as strings. */
static bool
is_answer(const Post *post, const char *text, size_t size)
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

/* Handles a complete message. The answer to POST_REINITIALIZE is not passed to the client. */
static void
take_message(Post *post, const char *text, size_t size)
{
    IpbSpan result;
    if (post->is_answered)
        return;
    if (is_answer(post, text, size) || (*text == '[' && post->is_json))
        set_answered(post);
    if (post->kind != POST_REINITIALIZE) {
        deliver(post->http, text, size);
    } else if (post->is_answered &&
               !ipb_json_scan_member((IpbSpan){text, size}, "result", &result)) {
        fail(post, IPYBOX_ERROR_SERVER, "it refused initialize");
    }
    if (post->http == NULL || !post->is_answered)
        return;
    if (post->kind == POST_REINITIALIZE) {
        end_post(post); /* other messages wait for it */
        return;
    }
    post->timer =
        ipb_timer_new(ipb_endpoint_loop(post->http->endpoint), LINGER_MS, on_linger_end, post);
    /* If the client did not accept the answer, fail the request now: no other answer comes. If it
     * did, this has no effect. */
    g_autoptr(GError) error =
        g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL, NOT_AN_ANSWER);
    report_failure(post->http, post->id, post->status, error);
}

static bool
on_event(const IpbServerSentEvent *event, void *data)
{
    Post *post = data;
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
has_type(const Post *post, const char *type)
{
    const char *value = ipb_endpoint_request_header(post->request, "Content-Type");
    size_t size = strlen(type);
    return value != NULL && g_ascii_strncasecmp(value, type, size) == 0 &&
           (value[size] == '\0' || strchr("; \t", value[size]) != NULL);
}

static void
on_head(IpbEndpointRequest *request, unsigned status, void *data)
{
    g_autoptr(Post) post = hold_post(data);
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
    if (post->is_initialize || post->kind == POST_REINITIALIZE)
        if (!take_session(post, ipb_endpoint_request_header(request, "Mcp-Session-Id")))
            return;
    post->is_json = has_type(post, "application/json");
    if (has_type(post, "text/event-stream"))
        post->events = ipb_event_stream_new(limits->message_size);
}

static void
push_events(Post *post, const char *bytes, size_t size)
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
on_body(IpbEndpointRequest *request, const char *bytes, size_t size, void *data)
{
    g_autoptr(Post) post = hold_post(data);
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

/* --- sending, and the end of a post --- */

static void on_end(IpbEndpointRequest *request, const GError *error, void *data);

static void
send_request(Post *post, const char *method, GPtrArray *headers)
{
    static const IpbEndpointRequestFuncs FUNCS = {
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
    };
    Streamable *http = post->http;
    bool is_first = post->is_initialize || post->kind == POST_REINITIALIZE;
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
    bool is_short = post->id == 0 && post->kind != POST_LISTEN;
    const IpbMcpLimits *limits = ipb_endpoint_limits(http->endpoint);
    IpbEndpointRequestOptions options = {
        .method = method,
        .headers = (const char *const *) headers->pdata,
        .body = is_post ? post->text : NULL,
        .body_size = post->size,
        /* Other requests are limited by the timeout of their call. */
        .total_ms = post->kind == POST_DELETE                     ? DELETE_TIMEOUT_MS
                    : is_short || post->kind == POST_REINITIALIZE ? limits->connect_timeout_ms
                                                                  : 0,
    };
    ipb_endpoint_request_free(post->request);
    post->request = ipb_endpoint_request_new(http->endpoint, &options, &FUNCS, post);
}

static void
request_events(Post *post)
{
    g_autoptr(GPtrArray) headers = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(headers, g_strdup("Accept: text/event-stream"));
    if (post->last_event_id != NULL)
        g_ptr_array_add(headers, g_strconcat("Last-Event-ID: ", post->last_event_id, NULL));
    send_request(post, "GET", headers);
}

static void
send_post(Post *post)
{
    post->is_started = true;
    g_autoptr(GPtrArray) headers = g_ptr_array_new_with_free_func(g_free);
    if (post->kind == POST_LISTEN) {
        request_events(post);
    } else if (post->kind == POST_DELETE) {
        send_request(post, "DELETE", headers);
    } else {
        g_ptr_array_add(headers, g_strdup("Content-Type: application/json"));
        g_ptr_array_add(headers, g_strdup("Accept: application/json, text/event-stream"));
        send_request(post, "POST", headers);
    }
}

static void
on_retry_timer(void *data)
{
    Post *post = data;
    g_clear_pointer(&post->timer, ipb_timer_free);
    request_events(post);
}

/* The stream ended before the answer. With an event id it can continue where it stopped. */
static bool
resume(Post *post)
{
    const IpbMcpLimits *limits = ipb_endpoint_limits(post->http->endpoint);
    bool can_resume =
        !post->http->is_modern && (post->last_event_id != NULL || post->kind == POST_LISTEN);
    if (!can_resume || post->resumptions >= limits->resumptions)
        return false;
    post->resumptions++;
    post->is_resumed = true;
    post->timer = ipb_timer_new(ipb_endpoint_loop(post->http->endpoint), (unsigned) post->retry_ms,
                                on_retry_timer, post);
    return true;
}

static void
end_events(Post *post, const GError *error)
{
    if (resume(post))
        return;
    fail(post, IPYBOX_ERROR_SERVER,
         "its event stream ended before the answer%s%s%s; the request may have been executed",
         error != NULL ? " (" : "", error != NULL ? error->message : "", error != NULL ? ")" : "");
}

/* A JSON-RPC error in the body is the answer, whatever its id is: each request has a connection. */
static bool
take_error(Post *post, const char *text, size_t size)
{
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, NULL);
    const IpbJson *error = doc != NULL ? ipb_json_get(ipb_json_root(doc), "error") : NULL;
    if (post->id == 0 || !ipb_json_is(error, IPB_JSON_OBJECT) || post->kind == POST_REINITIALIZE)
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
end_status(Post *post)
{
    /* If the post was resumed, the status is that of the GET, not of the message. */
    if (!post->is_resumed && post->status == 404 && post->session != NULL && renew_session(post))
        return;
    if (!post->is_resumed && take_error(post, post->body->str, post->body->len)) {
        if (post->http != NULL)
            end_post(post);
        return;
    }
    g_autofree char *text = ipb_server_log_clean_body(post->body, MAX_SHOWN);
    const char *wait = ipb_endpoint_request_header(post->request, "Retry-After");
    g_autofree char *later = ipb_server_log_clean(wait != NULL ? wait : "",
                                                  wait != NULL ? strlen(wait) : 0, MAX_WAIT_SHOWN);
    fail(post, IPYBOX_ERROR_SERVER, "%sHTTP status %u%s%s%s%s%s",
         post->is_resumed ? "its event stream ended and cannot be resumed: " : "", post->status,
         *text != '\0' ? ": " : "", text, wait != NULL ? "; it asks to wait (Retry-After): " : "",
         later, post->is_resumed ? "; the request may have been executed" : "");
}

/* Handles the body of a JSON answer. An error may have no id. */
static void
take_body(Post *post)
{
    const char *text = post->body->str;
    size_t size = post->body->len;
    ipb_utf8_skip_mark(&text, &size);
    if (size > 0 && (is_answer(post, text, size) || !take_error(post, text, size)))
        take_message(post, text, size);
}

static void
end_request(Post *post)
{
    if (post->is_json)
        take_body(post);
    if (post->http == NULL)
        return;
    const char *type = ipb_endpoint_request_header(post->request, "Content-Type");
    g_autofree char *shown =
        type != NULL ? ipb_server_log_clean(type, strlen(type), MAX_SHOWN) : g_strdup("none");
    if (post->is_answered)
        end_post(post);
    else if (post->is_json && post->body->len > 0)
        fail(post, IPYBOX_ERROR_PROTOCOL, NOT_AN_ANSWER);
    else
        fail(post, IPYBOX_ERROR_PROTOCOL,
             post->is_json ? "it answered with HTTP status %u and an empty body of the type %s"
                           : "it answered with HTTP status %u and the content type %s, not with "
                             "JSON or events",
             post->status, shown);
}

static void
on_end(IpbEndpointRequest *request, const GError *error, void *data)
{
    g_autoptr(Post) post = hold_post(data);
    g_autoptr(Streamable) http = hold_transport(post->http);
    bool is_stream = post->events != NULL && post->status < 300;
    if (http->failure != NULL)
        return; /* on_closed reports it for all posts */
    if (post->is_answered || post->kind == POST_DELETE)
        end_post(post);
    else if (is_stream && (post->id != 0 || post->kind == POST_LISTEN))
        end_events(post, error);
    else if (error != NULL && post->is_resumed)
        end_events(post, error);
    else if (error != NULL)
        fail_post(post, g_error_copy(error));
    else if (post->status >= 300)
        end_status(post);
    else if (post->id != 0)
        end_request(post);
    else
        end_post(post);
}

/* --- the transport's functions --- */

static char **
make_headers(const IpbTransportMessage *message)
{
    GPtrArray *headers = g_ptr_array_new();
    if (message->is_modern && message->method != NULL)
        g_ptr_array_add(headers, g_strconcat("Mcp-Method: ", message->method, NULL));
    if (message->is_modern && message->name != NULL) {
        g_autofree char *value = ipb_param_headers_encode(message->name, strlen(message->name));
        g_ptr_array_add(headers, g_strconcat("Mcp-Name: ", value, NULL));
    }
    for (size_t i = 0; message->param_headers != NULL && message->param_headers[i] != NULL; i++)
        g_ptr_array_add(headers, g_strdup(message->param_headers[i]));
    g_ptr_array_add(headers, NULL);
    return (char **) g_ptr_array_free(headers, false);
}

static bool
has_room(const IpbTransport *transport, size_t size)
{
    const Streamable *http = (const Streamable *) transport;
    return size < MAX_QUEUE && http->queued < MAX_QUEUE - size &&
           http->waiting.length < MAX_WAITING;
}

static void
send_message(IpbTransport *transport, const IpbTransportMessage *message)
{
    Streamable *http = (Streamable *) transport;
    if (http->is_closing || http->failure != NULL)
        return;
    if (!has_room(transport, message->size)) {
        lose(http, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                               "it does not answer: more than %d MiB or %d messages wait to be "
                               "sent",
                               MAX_QUEUE / 1024 / 1024, MAX_WAITING));
        return;
    }
    bool is_initialized = g_strcmp0(message->method, "notifications/initialized") == 0;
    Post *post = new_post(http, is_initialized ? POST_INITIALIZED : POST_MESSAGE, message->text,
                          message->size);
    post->id = message->id;
    post->is_initialize = g_strcmp0(message->method, "initialize") == 0;
    post->is_subscription = g_strcmp0(message->method, "subscriptions/listen") == 0;
    post->headers = make_headers(message);
    http->queued += message->size;
    g_free(http->revision);
    http->revision = g_strdup(message->revision);
    http->is_modern = message->is_modern;
    if (is_initialized || post->is_initialize) {
        char **place = is_initialized ? &http->initialized : &http->initialize;
        g_free(*place);
        *place = g_strdup(post->text);
    }
    g_queue_push_tail(&http->waiting, post);
    pump(http);
}

/* A post that has its answer only waits for the end of its stream. */
static bool
is_waiting_for(const Post *post, int64_t id)
{
    return post->id == id && post->kind == POST_MESSAGE && !post->is_answered;
}

static Post *
find_waiting(Streamable *http, int64_t id)
{
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, http->posts);
    while (g_hash_table_iter_next(&iter, &item, NULL))
        if (is_waiting_for(item, id))
            return item;
    for (GList *link = http->waiting.head; link != NULL; link = link->next)
        if (((Post *) link->data)->id == id)
            return link->data;
    return NULL;
}

static bool
cancel(IpbTransport *transport, int64_t id)
{
    Streamable *http = (Streamable *) transport;
    Post *post = find_waiting(http, id);
    if (post == NULL)
        return false;
    bool was_sent = post->is_started;
    remove_post(http, post);
    pump(http);
    return http->is_modern || !was_sent;
}

static void
listen_to_server(IpbTransport *transport)
{
    Streamable *http = (Streamable *) transport;
    if (http->listener != NULL || http->is_modern)
        return;
    http->wants_events = true;
    http->listener = new_post(http, POST_LISTEN, NULL, 0);
    g_queue_push_tail(&http->waiting, http->listener);
    pump(http);
}

static char *
last_stderr(const IpbTransport *transport)
{
    return NULL;
}

static void
close_transport(IpbTransport *transport, void (*done)(void *data), void *data)
{
    Streamable *http = (Streamable *) transport;
    http->is_closing = true;
    http->close_done = done;
    http->close_data = data;
    g_clear_pointer(&http->timer, ipb_timer_free);
    free_posts(http);
    if (http->session != NULL)
        start(http, new_post(http, POST_DELETE, NULL, 0));
    else
        http->timer = ipb_timer_new(ipb_endpoint_loop(http->endpoint), 0, on_timer, http);
}

static void
free_transport(IpbTransport *transport)
{
    Streamable *http = (Streamable *) transport;
    http->is_freed = true;
    g_clear_pointer(&http->timer, ipb_timer_free);
    free_posts(http);
    unhold_transport(http);
}

IpbTransport *
ipb_transport_new_streamable_http(IpbLoop *loop, const IpbEndpointOptions *options,
                                  const IpbTransportFuncs *funcs, void *data, GError **error)
{
    static const IpbTransportOps OPS = {
        .send = send_message,
        .cancel = cancel,
        .listen = listen_to_server,
        .has_room = has_room,
        .last_stderr = last_stderr,
        .close = close_transport,
        .free = free_transport,
    };
    IpbEndpoint *endpoint = ipb_endpoint_new(loop, options, error);
    if (endpoint == NULL)
        return NULL;
    Streamable *http = g_new0(Streamable, 1);
    http->base = (IpbTransport){.ops = &OPS, .funcs = *funcs, .data = data};
    http->refs = 1;
    http->endpoint = endpoint;
    http->posts = g_hash_table_new(NULL, NULL);
    return &http->base;
}
