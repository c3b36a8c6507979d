/* SPDX-License-Identifier: Apache-2.0
 *
 * MCP over Streamable HTTP; see the header. One message is in streamable-post.c.
 *
 * A server that answers 404 to a session does not know it any more, so the message was not executed: it waits
 * (is_held) while initialize and notifications/initialized are sent as they were the first time, and is sent again in
 * the new session, once.
 */
#include "mcp/streamable-http-transport.h"

#include <string.h>

#include "base/error.h"
#include "mcp/param-headers.h"
#include "mcp/streamable-private.h"

/* Bytes of messages that wait, or are under way. */
#define MAX_QUEUE (64 * 1024 * 1024)
/* Messages that wait: many small ones are answers to a server that asks without an end. */
#define MAX_WAITING 10000
/* Of a session's id. */
#define MAX_SESSION 1024

IpbStreamable *
ipb_streamable_hold(IpbStreamable *http)
{
    http->refs++;
    return http;
}

void
ipb_streamable_unhold(IpbStreamable *http)
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

static void
on_timer(void *data)
{
    g_autoptr(IpbStreamable) http = ipb_streamable_hold(data);
    g_clear_pointer(&http->timer, ipb_timer_free);
    g_autoptr(GError) failure = g_steal_pointer(&http->failure);
    if (http->is_closing)
        http->close_done(http->close_data);
    else if (failure != NULL)
        http->base.funcs.on_closed(failure, http->base.data);
}

static void
forget_posts(IpbStreamable *http)
{
    GHashTableIter iter;
    gpointer post;
    g_hash_table_iter_init(&iter, http->posts);
    while (g_hash_table_iter_next(&iter, &post, NULL)) {
        g_hash_table_iter_remove(&iter);
        ipb_post_free(post);
    }
    while ((post = g_queue_pop_head(&http->waiting)) != NULL)
        ipb_post_free(post);
    http->listener = NULL;
    http->queued = 0;
    http->n_requests = http->n_notes = 0;
}

/* The connection is of no use any more: told from the loop. Takes @why. */
static void
lose(IpbStreamable *http, GError *why)
{
    if (http->failure != NULL || http->is_closing) {
        g_error_free(why);
        return;
    }
    g_prefix_error(&why, "MCP server %s: ", ipb_endpoint_name(http->endpoint));
    http->failure = why;
    http->timer = ipb_timer_new(ipb_endpoint_loop(http->endpoint), 0, on_timer, http);
}

/* The counter that a message under way is in; NULL: in none, as a subscription, which is open as long as we are. */
static unsigned *
find_counter(IpbStreamable *http, const IpbPost *post)
{
    if (post->kind != IPB_POST_MESSAGE || post->is_subscription)
        return NULL;
    return post->id != 0 ? &http->n_requests : &http->n_notes;
}

static void
uncount(IpbStreamable *http, const IpbPost *post)
{
    unsigned *counter = find_counter(http, post);
    if (counter != NULL)
        --*counter;
}

static void
start(IpbStreamable *http, IpbPost *post)
{
    unsigned *counter = find_counter(http, post);
    g_hash_table_add(http->posts, post);
    if (counter != NULL)
        (*counter)++;
    ipb_post_start(post);
}

/* Sends what may be sent now. What is no request does not wait for requests: the server may wait for it. */
static void
pump(IpbStreamable *http)
{
    unsigned most = ipb_endpoint_limits(http->endpoint)->requests;
    GList *next;
    for (GList *item = http->waiting.head; item != NULL && !http->is_held; item = next) {
        IpbPost *post = item->data;
        const unsigned *counter = find_counter(http, post);
        next = item->next;
        if (counter != NULL && *counter >= most)
            continue;
        g_queue_delete_link(&http->waiting, item);
        http->is_held = post->kind == IPB_POST_INITIALIZED;
        start(http, post);
    }
}

static void
remove_post(IpbStreamable *http, IpbPost *post)
{
    if (g_hash_table_remove(http->posts, post) && !post->is_answered)
        uncount(http, post);
    g_queue_remove(&http->waiting, post);
    if (http->listener == post)
        http->listener = NULL;
    if (post->kind == IPB_POST_MESSAGE || post->kind == IPB_POST_INITIALIZED)
        http->queued -= post->size;
    ipb_post_free(post);
}

void
ipb_streamable_answered(IpbPost *post)
{
    post->is_answered = true;
    uncount(post->http, post);
    pump(post->http);
}

static void listen_to_server(IpbTransport *transport);

void
ipb_streamable_deliver(IpbStreamable *http, const char *text, size_t size)
{
    g_autoptr(IpbStreamable) held = ipb_streamable_hold(http);
    if (!http->is_freed && !http->is_closing)
        http->base.funcs.on_message(text, size, http->base.data);
}

void
ipb_streamable_tell_failed(IpbStreamable *http, int64_t id, unsigned status, const GError *why)
{
    g_autoptr(IpbStreamable) held = ipb_streamable_hold(http);
    if (!http->is_freed && !http->is_closing)
        http->base.funcs.on_failed(id, status, why, http->base.data);
}

void
ipb_streamable_fail(IpbPost *post, GError *error)
{
    g_autoptr(GError) owned = error;
    g_autoptr(IpbStreamable) http = ipb_streamable_hold(post->http);
    int64_t id = post->id;
    unsigned status = post->status;
    IpbPostKind kind = post->kind;
    if (kind == IPB_POST_REINITIALIZE) {
        /* Without a session the server would refuse everything from now on: the owner may connect anew. */
        g_prefix_error(&owned, "its session is lost, and no new one could be begun: ");
        remove_post(http, post);
        lose(http, g_steal_pointer(&owned));
        return;
    }
    if (id == 0 && kind != IPB_POST_LISTEN && kind != IPB_POST_DELETE) {
        g_autofree char *text =
            g_strdup_printf("it did not take a notification or an answer: %s", owned->message);
        ipb_server_log_tell(ipb_endpoint_log(http->endpoint), "warning", text, strlen(text));
    }
    if (kind != IPB_POST_MESSAGE || id == 0) {
        ipb_streamable_done(post);
        return;
    }
    remove_post(http, post);
    ipb_streamable_tell_failed(http, id, status, owned);
    if (!http->is_freed && !http->is_closing)
        pump(http);
}

void
ipb_streamable_done(IpbPost *post)
{
    g_autoptr(IpbStreamable) http = ipb_streamable_hold(post->http);
    IpbPostKind kind = post->kind;
    remove_post(http, post);
    if (kind == IPB_POST_DELETE) {
        http->close_done(http->close_data); /* may free the transport */
        return;
    }
    if (kind == IPB_POST_REINITIALIZE)
        start(http, ipb_post_new(http, IPB_POST_REINITIALIZED,
                                 http->initialized != NULL ? http->initialized : "",
                                 http->initialized != NULL ? strlen(http->initialized) : 0));
    if (kind == IPB_POST_INITIALIZED || kind == IPB_POST_REINITIALIZED)
        http->is_held = false;
    if (kind == IPB_POST_REINITIALIZED && http->wants_events)
        listen_to_server(&http->base);
    pump(http);
}

bool
ipb_streamable_renew(IpbPost *post)
{
    IpbStreamable *http = post->http;
    if (post->has_renewed || post->kind != IPB_POST_MESSAGE || http->initialize == NULL)
        return false;
    post->has_renewed = true;
    g_hash_table_remove(http->posts, post);
    uncount(http, post);
    g_queue_push_head(&http->waiting, post);
    /* Has another message begun a new one already? */
    if (http->is_held || g_strcmp0(post->session, http->session) != 0) {
        pump(http);
        return true;
    }
    static const char TEXT[] = "it does not know the session any more; a new one is begun";
    ipb_server_log_tell(ipb_endpoint_log(http->endpoint), "info", TEXT, strlen(TEXT));
    if (http->is_freed || http->is_closing)
        return true;
    http->is_held = true;
    g_clear_pointer(&http->session, g_free);
    if (http->listener != NULL) /* to the old session, be its stream still open or not */
        remove_post(http, http->listener);
    IpbPost *first =
        ipb_post_new(http, IPB_POST_REINITIALIZE, http->initialize, strlen(http->initialize));
    IpbSpan id;
    /* Its own id: it is answered with it once more. */
    if (ipb_json_scan_member((IpbSpan){first->text, first->size}, "id", &id))
        first->id = g_ascii_strtoll(id.start, NULL, 10);
    start(http, first);
    return true;
}

bool
ipb_streamable_take_session(IpbPost *post, const char *id)
{
    IpbStreamable *http = post->http;
    g_clear_pointer(&http->session, g_free);
    size_t size = id != NULL ? strlen(id) : 0;
    bool is_valid = size <= MAX_SESSION;
    for (size_t i = 0; i < size; i++)
        is_valid = is_valid && id[i] >= 0x21 && id[i] <= 0x7e;
    if (!is_valid) {
        lose(http, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                               "its session id is wrong: it must be visible ASCII, of at most %d "
                               "characters",
                               MAX_SESSION));
        return false;
    }
    http->session = size > 0 ? g_strdup(id) : NULL;
    return true;
}

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
    const IpbStreamable *http = (const IpbStreamable *) transport;
    return size < MAX_QUEUE && http->queued < MAX_QUEUE - size &&
           http->waiting.length < MAX_WAITING;
}

static void
send_message(IpbTransport *transport, const IpbTransportMessage *message)
{
    IpbStreamable *http = (IpbStreamable *) transport;
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
    IpbPost *post = ipb_post_new(http, is_initialized ? IPB_POST_INITIALIZED : IPB_POST_MESSAGE,
                                 message->text, message->size);
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

/* One with the answer only lingers. */
static bool
is_waiting_for(const IpbPost *post, int64_t id)
{
    return post->id == id && post->kind == IPB_POST_MESSAGE && !post->is_answered;
}

static IpbPost *
find_post(IpbStreamable *http, int64_t id)
{
    GHashTableIter iter;
    gpointer item;
    g_hash_table_iter_init(&iter, http->posts);
    while (g_hash_table_iter_next(&iter, &item, NULL))
        if (is_waiting_for(item, id))
            return item;
    for (GList *link = http->waiting.head; link != NULL; link = link->next)
        if (((IpbPost *) link->data)->id == id)
            return link->data;
    return NULL;
}

static bool
cancel(IpbTransport *transport, int64_t id)
{
    IpbStreamable *http = (IpbStreamable *) transport;
    IpbPost *post = find_post(http, id);
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
    IpbStreamable *http = (IpbStreamable *) transport;
    if (http->listener != NULL || http->is_modern)
        return;
    http->wants_events = true;
    http->listener = ipb_post_new(http, IPB_POST_LISTEN, NULL, 0);
    g_queue_push_tail(&http->waiting, http->listener);
    pump(http);
}

static char *
last_words(const IpbTransport *transport)
{
    return NULL;
}

static void
close_transport(IpbTransport *transport, void (*done)(void *data), void *data)
{
    IpbStreamable *http = (IpbStreamable *) transport;
    http->is_closing = true;
    http->close_done = done;
    http->close_data = data;
    g_clear_pointer(&http->timer, ipb_timer_free);
    forget_posts(http);
    if (http->session != NULL)
        start(http, ipb_post_new(http, IPB_POST_DELETE, NULL, 0));
    else
        http->timer = ipb_timer_new(ipb_endpoint_loop(http->endpoint), 0, on_timer, http);
}

static void
free_transport(IpbTransport *transport)
{
    IpbStreamable *http = (IpbStreamable *) transport;
    http->is_freed = true;
    g_clear_pointer(&http->timer, ipb_timer_free);
    forget_posts(http);
    ipb_streamable_unhold(http);
}

IpbTransport *
ipb_streamable_http_transport_new(IpbLoop *loop, const IpbEndpointOptions *options,
                                  const IpbTransportFuncs *funcs, void *data, GError **error)
{
    static const IpbTransportOps OPS = {
        .send = send_message,
        .cancel = cancel,
        .listen = listen_to_server,
        .has_room = has_room,
        .last_words = last_words,
        .close = close_transport,
        .free = free_transport,
    };
    IpbEndpoint *endpoint = ipb_endpoint_new(loop, options, error);
    if (endpoint == NULL)
        return NULL;
    IpbStreamable *http = g_new0(IpbStreamable, 1);
    http->base = (IpbTransport){.ops = &OPS, .funcs = *funcs, .data = data};
    http->refs = 1;
    http->endpoint = endpoint;
    http->posts = g_hash_table_new(NULL, NULL);
    return &http->base;
}
