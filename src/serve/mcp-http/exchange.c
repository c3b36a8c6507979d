/* SPDX-License-Identifier: Apache-2.0
 *
 * One POST and its answer; see the header.
 *
 * Answers are written from a timer of 0 ms. To answer a request may call the handler of the next
 * request on its connection, which must not happen within a function of the channel. For the same
 * reason an answer that ends is written last, when the exchange may be freed already.
 */
#include "serve/mcp-http/exchange.h"

#include <inttypes.h>
#include <string.h>

#include "mcp/messages.h"
#include "serve/mcp-http/refusal.h"

/* A response that comes within this time is sent as JSON; then the event stream begins. */
#define JSON_TIMEOUT_MS 1000
/* While nothing else is sent, a comment keeps proxies and clients from giving up. */
#define PING_INTERVAL_MS 15000
/* What an event costs beside its text. */
#define EVENT_OVERHEAD 128

static const char PING[] = ": ping\n\n";

typedef struct {
    uint64_t number;
    /* As it is sent; of this, @json_size bytes at @json_at are the message */
    char *text;
    size_t size, json_at, json_size;
    /* Of JSON-RPC; 0: it is no error */
    int error_code;
} Event;

struct IpbMcpExchange {
    IpbMcpExchangeOptions options;
    GList link;
    /* Responses that are missing */
    size_t n_open;
    /* Not answered yet, or NULL */
    IpbHttpRequest *request;
    /* The answer, or NULL */
    IpbHttpStream *stream;
    /* The client got an event stream. */
    bool has_streamed;
    /* Event, the oldest first */
    GQueue events;
    uint64_t last_number;
    size_t size;
    /* The next event to be written, and how much of it was; bytes from there on */
    GList *next;
    size_t offset;
    size_t pending;
    /* Bytes of the comment that are being written; others follow it */
    size_t ping_left;
    /* Writes soon; and begins the stream, or sends a comment, later */
    IpbTimer *write_timer, *idle_timer;
    bool is_over;
    IpbMcpExchangeFuncs funcs;
    void *data;
};

static void
free_event(Event *event)
{
    g_free(event->text);
    g_free(event);
}

static bool
is_attached(const IpbMcpExchange *exchange)
{
    return exchange->request != NULL || exchange->stream != NULL;
}

/* --- sums ------------------------------------------------------------------------------------- */

static void
set_pending(IpbMcpExchange *exchange, size_t pending)
{
    exchange->options.sums->pending += pending - exchange->pending;
    exchange->pending = pending;
}

static void
set_size(IpbMcpExchange *exchange, size_t size)
{
    exchange->options.sums->size += size - exchange->size;
    exchange->size = size;
}

/* --- the connection --------------------------------------------------------------------------- */

static void begin_stream(IpbMcpExchange *exchange);
static void write_events(IpbMcpExchange *exchange);
static void set_idle_timer(IpbMcpExchange *exchange, unsigned delay_ms);

/* Nothing follows, or no one is there. May free the exchange. */
static void
report_if_over(IpbMcpExchange *exchange)
{
    if (exchange->is_over || exchange->n_open > 0 || is_attached(exchange))
        return;
    exchange->is_over = true;
    exchange->funcs.on_over(exchange, exchange->data);
}

static void
detach(IpbMcpExchange *exchange)
{
    exchange->request = NULL;
    exchange->stream = NULL;
    exchange->next = NULL;
    exchange->offset = exchange->ping_left = 0;
    set_pending(exchange, 0);
    g_clear_pointer(&exchange->idle_timer, ipb_timer_free);
    g_clear_pointer(&exchange->write_timer, ipb_timer_free);
}

/* What comes now is kept for a resumption; it does not wait. */
static void
on_gone(void *data)
{
    IpbMcpExchange *exchange = data;
    detach(exchange);
    if (exchange->n_open > 0)
        exchange->funcs.on_written(exchange, exchange->data);
    else
        report_if_over(exchange);
}

static void
on_writable(void *data)
{
    write_events(data);
}

static const IpbHttpStreamFuncs STREAM_FUNCS = {.on_writable = on_writable, .on_gone = on_gone};

static void
on_idle_timer(void *data)
{
    IpbMcpExchange *exchange = data;
    g_clear_pointer(&exchange->idle_timer, ipb_timer_free);
    if (exchange->stream == NULL) {
        begin_stream(exchange);
    } else if (exchange->pending == 0 && exchange->ping_left == 0) {
        size_t size = sizeof PING - 1;
        exchange->ping_left = size - ipb_http_stream_write(exchange->stream, PING, size);
    }
    set_idle_timer(exchange, PING_INTERVAL_MS);
    write_events(exchange);
}

static void
set_idle_timer(IpbMcpExchange *exchange, unsigned delay_ms)
{
    ipb_timer_free(exchange->idle_timer);
    exchange->idle_timer = ipb_timer_new(exchange->options.loop, delay_ms, on_idle_timer, exchange);
}

/* --- writing ---------------------------------------------------------------------------------- */

static Event *
make_event(IpbMcpExchange *exchange, const char *json, size_t json_size)
{
    Event *event = g_new0(Event, 1);
    event->number = ++exchange->last_number;
    g_autofree char *head = exchange->options.is_stateless
                                ? g_strdup("event: message\ndata: ")
                                : g_strdup_printf("event: message\nid: %u-%" PRIu64 "\ndata: ",
                                                  exchange->options.number, event->number);
    event->json_at = strlen(head);
    event->json_size = json_size;
    event->size = event->json_at + json_size + 2;
    event->text = g_malloc(event->size);
    memcpy(event->text, head, event->json_at);
    memcpy(event->text + event->json_at, json, json_size);
    memcpy(event->text + event->json_at + json_size, "\n\n", 2);
    return event;
}

static IpbHttpStream *
open_stream(const IpbMcpExchange *exchange, IpbHttpRequest *request, void *data)
{
    /* A proxy must pass events on at once. */
    g_autofree char *headers = g_strconcat("Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n",
                                           exchange->options.headers, NULL);
    return ipb_http_request_answer_stream(
        request,
        &(IpbHttpAnswer){.status = 200, .content_type = "text/event-stream", .headers = headers},
        &STREAM_FUNCS, data);
}

static void
begin_stream(IpbMcpExchange *exchange)
{
    exchange->stream = open_stream(exchange, g_steal_pointer(&exchange->request), exchange);
    exchange->has_streamed = true;
    if (exchange->options.is_primed) {
        g_autofree char *event = g_strdup_printf("id: %u-0\ndata: \n\n", exchange->options.number);
        ipb_http_stream_write(exchange->stream, event, strlen(event));
    }
    set_idle_timer(exchange, PING_INTERVAL_MS);
}

/* False: the client must read first. */
static bool
write_comment(IpbMcpExchange *exchange)
{
    const char *rest = PING + sizeof PING - 1 - exchange->ping_left;
    if (exchange->ping_left > 0)
        exchange->ping_left -= ipb_http_stream_write(exchange->stream, rest, exchange->ping_left);
    return exchange->ping_left == 0;
}

static bool
write_event(IpbMcpExchange *exchange)
{
    const Event *event = exchange->next->data;
    size_t n = ipb_http_stream_write(exchange->stream, event->text + exchange->offset,
                                     event->size - exchange->offset);
    exchange->offset += n;
    set_pending(exchange, exchange->pending - n);
    if (exchange->offset < event->size)
        return false;
    exchange->next = exchange->next->next;
    exchange->offset = 0;
    return true;
}

/* May free the exchange. */
static void
write_events(IpbMcpExchange *exchange)
{
    if (exchange->stream == NULL)
        return;
    bool is_writable = write_comment(exchange);
    while (is_writable && exchange->next != NULL)
        is_writable = write_event(exchange);
    if (exchange->n_open > 0 || !is_writable) {
        exchange->funcs.on_written(exchange, exchange->data);
        return;
    }
    IpbHttpStream *stream = exchange->stream;
    detach(exchange);
    report_if_over(exchange);
    ipb_http_stream_end(stream);
}

/* The status of a response that is the whole answer. */
static unsigned
choose_status(const IpbMcpExchange *exchange, int error_code)
{
    if (!exchange->options.is_stateless)
        return 200;
    switch (error_code) {
    case IPB_RPC_METHOD_NOT_FOUND:
        return 404;
    case IPB_RPC_PARSE_ERROR:
    case IPB_RPC_INVALID_REQUEST:
    case IPB_MCP_MISSING_CAPABILITY:
    case IPB_MCP_UNSUPPORTED_REVISION:
        return 400;
    default:
        return 200;
    }
}

/* The whole answer is this response. Frees the exchange, probably. */
static void
answer_json(IpbMcpExchange *exchange)
{
    Event *event = g_queue_peek_head(&exchange->events);
    IpbHttpRequest *request = exchange->request;
    /* No stream: the text is not needed again. */
    g_autoptr(GBytes) text = g_bytes_new_take(g_steal_pointer(&event->text), event->size);
    g_autoptr(GBytes) body = g_bytes_new_from_bytes(text, event->json_at, event->json_size);
    g_autofree char *headers = g_strdup(event->error_code != 0 ? NULL : exchange->options.headers);
    unsigned status = choose_status(exchange, event->error_code);
    detach(exchange);
    report_if_over(exchange);
    if (!ipb_http_request_answer(
            request, &(IpbHttpAnswer){.status = status, .headers = headers, .body = body}))
        ipb_mcp_refuse(request, &(IpbMcpRefusal){
                                    .status = 503,
                                    .code = IPB_RPC_INTERNAL_ERROR,
                                    .message = "too many large answers at the same time",
                                });
}

/* May free the exchange. */
static void
write_all(IpbMcpExchange *exchange)
{
    bool is_one = exchange->options.n_requests == 1 && exchange->n_open == 0 &&
                  g_queue_get_length(&exchange->events) == 1;
    if (exchange->request != NULL && is_one) {
        answer_json(exchange);
        return;
    }
    if (exchange->request != NULL)
        begin_stream(exchange);
    write_events(exchange);
}

static void
on_write_timer(void *data)
{
    IpbMcpExchange *exchange = data;
    g_clear_pointer(&exchange->write_timer, ipb_timer_free);
    if (is_attached(exchange))
        write_all(exchange);
    else
        report_if_over(exchange);
}

static void
write_soon(IpbMcpExchange *exchange)
{
    if (exchange->write_timer == NULL)
        exchange->write_timer = ipb_timer_new(exchange->options.loop, 0, on_write_timer, exchange);
}

/* --- what the channel does -------------------------------------------------------------------- */

void
ipb_mcp_exchange_add(IpbMcpExchange *exchange, const char *text, size_t size, bool is_response,
                     int error_code)
{
    Event *event = make_event(exchange, text, size);
    event->error_code = error_code;
    g_queue_push_tail(&exchange->events, event);
    set_size(exchange, exchange->size + event->size + EVENT_OVERHEAD);
    if (is_response)
        exchange->n_open--;
    if (is_attached(exchange)) {
        set_pending(exchange, exchange->pending + event->size);
        if (exchange->next == NULL)
            exchange->next = exchange->events.tail;
    }
    write_soon(exchange);
}

void
ipb_mcp_exchange_drop(IpbMcpExchange *exchange)
{
    exchange->n_open--;
    write_soon(exchange);
}

/* Writes from the first event behind @last on. */
static void
rewind_to(IpbMcpExchange *exchange, uint64_t last)
{
    exchange->next = exchange->events.head;
    exchange->offset = 0;
    size_t pending = 0;
    while (exchange->next != NULL && ((const Event *) exchange->next->data)->number <= last)
        exchange->next = exchange->next->next;
    for (const GList *link = exchange->next; link != NULL; link = link->next)
        pending += ((const Event *) link->data)->size;
    set_pending(exchange, pending);
}

void
ipb_mcp_exchange_resume(IpbMcpExchange *exchange, IpbHttpRequest *request, uint64_t last)
{
    IpbHttpStream *previous = exchange->stream;
    detach(exchange);
    exchange->is_over = false;
    exchange->stream = open_stream(exchange, request, exchange);
    rewind_to(exchange, last);
    set_idle_timer(exchange, PING_INTERVAL_MS);
    write_soon(exchange);
    if (previous != NULL)
        ipb_http_stream_end(previous);
}

unsigned
ipb_mcp_exchange_number(const IpbMcpExchange *exchange)
{
    return exchange->options.number;
}

bool
ipb_mcp_exchange_is_attached(const IpbMcpExchange *exchange)
{
    return is_attached(exchange);
}

bool
ipb_mcp_exchange_is_open(const IpbMcpExchange *exchange)
{
    return exchange->n_open > 0;
}

bool
ipb_mcp_exchange_can_resume(const IpbMcpExchange *exchange)
{
    return exchange->has_streamed && !exchange->options.is_stateless;
}

GList *
ipb_mcp_exchange_link(IpbMcpExchange *exchange)
{
    return &exchange->link;
}

size_t
ipb_mcp_exchange_size(const IpbMcpExchange *exchange)
{
    return exchange->size;
}

bool
ipb_mcp_exchange_forget(IpbMcpExchange *exchange)
{
    GList *oldest = exchange->events.head;
    if (oldest == NULL || oldest == exchange->next)
        return false;
    Event *event = oldest->data;
    set_size(exchange, exchange->size - event->size - EVENT_OVERHEAD);
    g_queue_delete_link(&exchange->events, oldest);
    free_event(event);
    return true;
}

/* --- life ------------------------------------------------------------------------------------- */

static void
on_request_gone(void *data)
{
    on_gone(data);
}

IpbMcpExchange *
ipb_mcp_exchange_new(const IpbMcpExchangeOptions *options, IpbHttpRequest *request,
                     const IpbMcpExchangeFuncs *funcs, void *data)
{
    IpbMcpExchange *exchange = g_new0(IpbMcpExchange, 1);
    exchange->options = *options;
    exchange->link.data = exchange;
    exchange->n_open = options->n_requests;
    exchange->request = request;
    exchange->funcs = *funcs;
    exchange->data = data;
    g_queue_init(&exchange->events);
    ipb_http_request_set_gone(request, on_request_gone, exchange);
    set_idle_timer(exchange, JSON_TIMEOUT_MS);
    return exchange;
}

static void
ignore(IpbMcpExchange *exchange, void *data)
{
}

/* What has been added is still sent, as far as the client accepts it now. */
static void
answer_rest(IpbMcpExchange *exchange)
{
    if (exchange->n_open == 0 && is_attached(exchange))
        write_all(exchange);
    if (exchange->request != NULL)
        ipb_mcp_refuse(g_steal_pointer(&exchange->request), &IPB_MCP_REFUSAL_SESSION_ENDED);
    if (exchange->stream != NULL)
        ipb_http_stream_end(g_steal_pointer(&exchange->stream));
}

void
ipb_mcp_exchange_free(IpbMcpExchange *exchange)
{
    if (exchange == NULL)
        return;
    exchange->funcs = (IpbMcpExchangeFuncs){.on_written = ignore, .on_over = ignore};
    answer_rest(exchange);
    set_pending(exchange, 0);
    set_size(exchange, 0);
    ipb_timer_free(exchange->write_timer);
    ipb_timer_free(exchange->idle_timer);
    g_queue_clear_full(&exchange->events, (GDestroyNotify) free_event);
    g_free(exchange);
}
