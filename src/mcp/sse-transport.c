/* SPDX-License-Identifier: Apache-2.0
 *
 * MCP over HTTP+SSE; see the header.
 *
 * The transport is reference-counted inside, because every callback may free it.
 */
#include "mcp/sse-transport.h"

#include <string.h>

#include "base/error.h"
#include "http/event-stream.h"

/* Total size of messages that wait or are under way. */
#define MAX_QUEUE (64 * 1024 * 1024)
#define MAX_WAITING 10000
/* Part of the body of an HTTP error that an error shows. */
#define MAX_SHOWN 300

typedef struct SseTransport SseTransport;

/* One message that is POSTed. */
typedef struct {
    SseTransport *sse;
    int64_t id;
    bool is_initialized; /* notifications/initialized: other messages wait for it */
    char *text;
    size_t size;
    unsigned status;
    GString *body; /* the beginning of the answer */
    IpbEndpointRequest *request;
} Post;

struct SseTransport {
    IpbTransport base;
    unsigned refs;
    bool is_freed, is_over; /* closed or lost */
    char *revision;
    IpbEndpoint *endpoint;
    IpbEndpointRequest *stream;
    IpbEventStream *events;
    char *url;      /* of messages; NULL: not known yet */
    GQueue waiting; /* of Post: not sent yet */
    GHashTable *posts;
    const Post *held_by; /* other messages wait until this one is accepted; NULL: none */
    size_t queued;
    IpbTimer *timer; /* reports the failure or the end from the loop */
    GError *failure;
    void (*close_done)(void *data);
    void *close_data;
};

static void
unhold(SseTransport *sse)
{
    if (--sse->refs > 0)
        return;
    ipb_event_stream_free(sse->events);
    g_hash_table_unref(sse->posts);
    ipb_endpoint_free(sse->endpoint);
    g_clear_error(&sse->failure);
    g_free(sse->revision);
    g_free(sse->url);
    g_free(sse);
}

static SseTransport *
hold(SseTransport *sse)
{
    sse->refs++;
    return sse;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(SseTransport, unhold)

static void
free_post(Post *post)
{
    ipb_endpoint_request_free(post->request);
    g_string_free(post->body, true);
    g_free(post->text);
    g_free(post);
}

static void
remove_post(Post *post)
{
    SseTransport *sse = post->sse;
    if (sse->held_by == post)
        sse->held_by = NULL;
    g_hash_table_remove(sse->posts, post);
    g_queue_remove(&sse->waiting, post);
    sse->queued -= post->size;
    free_post(post);
}

static void
stop(SseTransport *sse)
{
    g_clear_pointer(&sse->stream, ipb_endpoint_request_free);
    GHashTableIter iter;
    gpointer post;
    g_hash_table_iter_init(&iter, sse->posts);
    while (g_hash_table_iter_next(&iter, &post, NULL)) {
        g_hash_table_iter_remove(&iter);
        free_post(post);
    }
    while ((post = g_queue_pop_head(&sse->waiting)) != NULL)
        free_post(post);
    sse->queued = 0;
    sse->held_by = NULL;
}

static void
on_timer(void *data)
{
    g_autoptr(SseTransport) sse = hold(data);
    g_clear_pointer(&sse->timer, ipb_timer_free);
    if (sse->close_done != NULL)
        sse->close_done(sse->close_data);
    else if (sse->failure != NULL)
        sse->base.funcs.on_closed(sse->failure, sse->base.data);
}

/* Ends the connection: on_closed is called from the loop. */
static void
lose(SseTransport *sse, int code, const char *text)
{
    if (sse->is_over)
        return;
    sse->is_over = true;
    sse->failure = g_error_new(IPYBOX_ERROR, code, "MCP server %s: %s",
                               ipb_endpoint_name(sse->endpoint), text);
    sse->timer = ipb_timer_new(ipb_endpoint_loop(sse->endpoint), 0, on_timer, sse);
}

/* --- messages to the server --- */

static void
on_post_head(IpbEndpointRequest *request, unsigned status, void *data)
{
    ((Post *) data)->status = status;
}

static void
on_post_body(IpbEndpointRequest *request, const char *bytes, size_t size, void *data)
{
    GString *body = ((Post *) data)->body;
    g_string_append_len(body, bytes, (gssize) MIN(size, MAX_SHOWN - body->len));
}

static GError *
make_status_error(const Post *post)
{
    g_autofree char *text = ipb_server_log_clean_body(post->body, MAX_SHOWN);
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "HTTP status %u%s%s", post->status,
                       *text != '\0' ? ": " : "", text);
}

static void pump(SseTransport *sse);

static void
on_post_end(IpbEndpointRequest *request, const GError *error, void *data)
{
    Post *post = data;
    g_autoptr(SseTransport) sse = hold(post->sse);
    int64_t id = post->id;
    unsigned status = post->status;
    g_autoptr(GError) failure = error != NULL ? g_error_copy(error) : NULL;
    if (failure == NULL && status >= 300)
        failure = make_status_error(post);
    remove_post(post);
    if (failure != NULL && id != 0) {
        sse->base.funcs.on_failed(id, status, failure, sse->base.data);
    } else if (failure != NULL) {
        g_autofree char *text =
            g_strdup_printf("it rejected a notification or a reply: %s", failure->message);
        ipb_server_log_write(ipb_endpoint_log(sse->endpoint), "warning", text, strlen(text));
    }
    if (!sse->is_over && !sse->is_freed)
        pump(sse);
}

static void
send_post(Post *post)
{
    static const IpbEndpointRequestFuncs FUNCS = {
        .on_head = on_post_head,
        .on_body = on_post_body,
        .on_end = on_post_end,
    };
    SseTransport *sse = post->sse;
    g_autofree char *revision = g_strconcat("MCP-Protocol-Version: ", sse->revision, NULL);
    const char *headers[] = {"Content-Type: application/json",
                             sse->revision != NULL ? revision : NULL, NULL};
    IpbEndpointRequestOptions options = {
        .method = "POST",
        .url = sse->url,
        .headers = headers,
        .body = post->text,
        .body_size = post->size,
        .total_ms = ipb_endpoint_limits(sse->endpoint)->connect_timeout_ms,
    };
    g_hash_table_add(sse->posts, post);
    post->request = ipb_endpoint_request_new(sse->endpoint, &options, &FUNCS, post);
}

/* Sends the messages that may go now. */
static void
pump(SseTransport *sse)
{
    unsigned most = ipb_endpoint_limits(sse->endpoint)->requests;
    while (sse->url != NULL && sse->held_by == NULL && sse->waiting.length > 0 &&
           g_hash_table_size(sse->posts) < most) {
        Post *post = g_queue_pop_head(&sse->waiting);
        if (post->is_initialized)
            sse->held_by = post;
        send_post(post);
    }
}

static bool
has_room(const IpbTransport *transport, size_t size)
{
    const SseTransport *sse = (const SseTransport *) transport;
    return size < MAX_QUEUE && sse->queued < MAX_QUEUE - size && sse->waiting.length < MAX_WAITING;
}

static void
send_message(IpbTransport *transport, const IpbTransportMessage *message)
{
    SseTransport *sse = (SseTransport *) transport;
    if (sse->is_over)
        return;
    if (!has_room(transport, message->size)) {
        lose(sse, IPYBOX_ERROR_LIMIT, "it does not read: too much waits to be sent");
        return;
    }
    Post *post = g_new0(Post, 1);
    *post = (Post){
        .sse = sse,
        .id = message->id,
        .is_initialized = g_strcmp0(message->method, "notifications/initialized") == 0,
        .text = g_strndup(message->text, message->size),
        .size = message->size,
        .body = g_string_new(NULL),
    };
    sse->queued += post->size;
    g_free(sse->revision);
    sse->revision = g_strdup(message->revision);
    g_queue_push_tail(&sse->waiting, post);
    pump(sse);
}

/* --- events from the server --- */

static void
take_endpoint(SseTransport *sse, const IpbServerSentEvent *event)
{
    g_autoptr(GError) error = NULL;
    if (sse->url != NULL)
        return;
    g_autofree char *reference = g_strndup(event->data, event->size);
    sse->url = ipb_endpoint_resolve(sse->endpoint, reference, &error);
    if (sse->url != NULL) {
        pump(sse);
        return;
    }
    g_autofree char *text =
        g_strdup_printf("the endpoint that it announces is not used: %s", error->message);
    bool is_refused = g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED);
    lose(sse, is_refused ? IPYBOX_ERROR_REFUSED : IPYBOX_ERROR_PROTOCOL, text);
}

static bool
on_event(const IpbServerSentEvent *event, void *data)
{
    SseTransport *sse = data;
    if (strcmp(event->type, "endpoint") == 0)
        take_endpoint(sse, event);
    else if (strcmp(event->type, "message") == 0 && event->size > 0)
        sse->base.funcs.on_message(event->data, event->size, sse->base.data);
    return !sse->is_over && !sse->is_freed;
}

static void
on_head(IpbEndpointRequest *request, unsigned status, void *data)
{
    SseTransport *sse = data;
    const char *type = ipb_endpoint_request_header(request, "Content-Type");
    if (status == 200 && type != NULL &&
        g_ascii_strncasecmp(type, "text/event-stream", strlen("text/event-stream")) == 0) {
        sse->events = ipb_event_stream_new(ipb_endpoint_limits(sse->endpoint)->message_size);
        return;
    }
    g_autofree char *text = g_strdup_printf(
        "it answered with HTTP status %u and without the event stream of HTTP+SSE", status);
    lose(sse, IPYBOX_ERROR_SERVER, text);
}

static void
on_body(IpbEndpointRequest *request, const char *bytes, size_t size, void *data)
{
    g_autoptr(SseTransport) sse = hold(data);
    g_autoptr(GError) error = NULL;
    if (sse->is_over || sse->events == NULL ||
        ipb_event_stream_push(sse->events, bytes, size, on_event, sse, &error))
        return;
    g_autofree char *text = g_strconcat(error->message, IPB_MCP_LIMIT_HINT("message_size"), NULL);
    lose(sse, IPYBOX_ERROR_LIMIT, text);
}

static void
on_end(IpbEndpointRequest *request, const GError *error, void *data)
{
    SseTransport *sse = data;
    if (error != NULL)
        lose(sse, error->code, error->message);
    else
        lose(sse, IPYBOX_ERROR_SERVER, "it ended its event stream");
}

static void
open_stream(SseTransport *sse)
{
    static const IpbEndpointRequestFuncs FUNCS = {
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
    };
    static const char *const HEADERS[] = {"Accept: text/event-stream", NULL};
    IpbEndpointRequestOptions options = {.method = "GET", .headers = HEADERS};
    sse->stream = ipb_endpoint_request_new(sse->endpoint, &options, &FUNCS, sse);
}

/* --- the end --- */

static char *
last_stderr(const IpbTransport *transport)
{
    return NULL;
}

static void
close_transport(IpbTransport *transport, void (*done)(void *data), void *data)
{
    SseTransport *sse = (SseTransport *) transport;
    sse->is_over = true;
    sse->close_done = done;
    sse->close_data = data;
    stop(sse);
    g_clear_pointer(&sse->timer, ipb_timer_free);
    sse->timer = ipb_timer_new(ipb_endpoint_loop(sse->endpoint), 0, on_timer, sse);
}

static void
free_transport(IpbTransport *transport)
{
    SseTransport *sse = (SseTransport *) transport;
    sse->is_freed = true;
    g_clear_pointer(&sse->timer, ipb_timer_free);
    stop(sse);
    unhold(sse);
}

IpbTransport *
ipb_transport_new_sse(IpbLoop *loop, const IpbEndpointOptions *options,
                      const IpbTransportFuncs *funcs, void *data, GError **error)
{
    static const IpbTransportOps OPS = {
        .send = send_message,
        .has_room = has_room,
        .last_stderr = last_stderr,
        .close = close_transport,
        .free = free_transport,
    };
    IpbEndpoint *endpoint = ipb_endpoint_new(loop, options, error);
    if (endpoint == NULL)
        return NULL;
    SseTransport *sse = g_new0(SseTransport, 1);
    sse->base = (IpbTransport){.ops = &OPS, .funcs = *funcs, .data = data};
    sse->refs = 1;
    sse->endpoint = endpoint;
    sse->posts = g_hash_table_new(NULL, NULL);
    open_stream(sse);
    return &sse->base;
}
