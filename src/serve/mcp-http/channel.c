/* SPDX-License-Identifier: Apache-2.0
 *
 * The channel of a session over HTTP; see the header.
 *
 * Invariant: `by_request` has the requests that have no response yet, each with the exchange that
 * waits for it. `exchanges` has these exchanges, and those that are still written. `kept` has those
 * that are over and can be resumed. In both, the oldest is the first. What is counted for each
 * message is a sum that the exchanges keep up to date: a client can have a thousand of them.
 */
#include "serve/mcp-http/channel.h"

#include <string.h>

#include "base/error.h"
#include "mcp/messages.h"
#include "serve/mcp-http/exchange.h"
#include "serve/mcp-http/refusal.h"

/* Bytes that wait for a client that reads slowly. The conversation stops long before. */
#define MAX_PENDING (64u * 1024 * 1024)
/* Bytes of events that are kept so that a stream can be resumed, and streams. */
#define MAX_REPLAY (4u * 1024 * 1024)
#define MAX_EXCHANGES 1000
#define MAX_KEPT_EXCHANGES 100
/* Messages of a batch. */
#define MAX_BATCH 100
/* Messages that belong to no request and wait for the next one. */
#define MAX_UNPLACED 64
#define PRIMED_REVISION "2025-11-25"

struct IpbMcpHttpChannel {
    IpbMessageChannel channel;
    IpbMcpHttpChannelOptions options;
    char *session_header;
    bool is_stateless;
    /* Id (JSON text) → IpbMcpExchange, which has the request */
    GHashTable *by_request;
    /* IpbMcpExchange, owned */
    GQueue exchanges, kept;
    IpbMcpExchangeSums sums;
    /* Texts of messages */
    GQueue unplaced;
    unsigned last_number;
    /* Of the budget */
    size_t held;
    bool is_paused;
    /* Something waited for the client. */
    bool was_pending;
    bool has_ended;
    IpbTimer *end_timer;
    GError *why;
};

/* --- the end ---------------------------------------------------------------------------------- */

static void
on_end_timer(void *data)
{
    IpbMcpHttpChannel *http = data;
    g_clear_pointer(&http->end_timer, ipb_timer_free);
    http->channel.funcs.on_end(http->why, http->channel.data); /* may free */
}

/* Takes @why. Reported from the loop, so that sending never calls back. */
static void
end(IpbMcpHttpChannel *http, GError *why)
{
    if (http->has_ended) {
        g_clear_error(&why);
        return;
    }
    http->has_ended = true;
    http->why = why;
    http->end_timer = ipb_timer_new(http->options.loop, 0, on_end_timer, http);
}

/* --- what is kept ----------------------------------------------------------------------------- */

static size_t
get_pending(const IpbMessageChannel *channel)
{
    return ((const IpbMcpHttpChannel *) channel)->sums.pending;
}

static void
forget_exchange(GQueue *queue, IpbMcpExchange *exchange)
{
    g_queue_unlink(queue, ipb_mcp_exchange_link(exchange));
    ipb_mcp_exchange_free(exchange);
}

static void
move_exchange(GQueue *from, GQueue *to, IpbMcpExchange *exchange)
{
    GList *link = ipb_mcp_exchange_link(exchange);
    g_queue_unlink(from, link);
    g_queue_push_tail_link(to, link);
}

static bool
is_too_large(const IpbMcpHttpChannel *http)
{
    const IpbMcpExchangeSums *sums = &http->sums;
    const IpbMcpHttpBudget *budget = http->options.budget;
    size_t others = budget->held - http->held;
    return sums->size > 0 && (sums->size - MIN(sums->size, sums->pending) > MAX_REPLAY ||
                              others + sums->size > budget->max_held);
}

/* Forgets events of @exchange that do not wait for the client, the oldest first, while all
 * exchanges together are too large. */
static void
shrink(IpbMcpHttpChannel *http, IpbMcpExchange *exchange)
{
    while (is_too_large(http) && ipb_mcp_exchange_forget(exchange))
        ;
}

/* Keeps the limits of what is kept, and the account of the budget. */
static void
trim(IpbMcpHttpChannel *http)
{
    IpbMcpHttpBudget *budget = http->options.budget;
    while (g_queue_get_length(&http->kept) > MAX_KEPT_EXCHANGES)
        forget_exchange(&http->kept, http->kept.head->data);
    while (is_too_large(http) && http->kept.head != NULL) {
        shrink(http, http->kept.head->data);
        if (ipb_mcp_exchange_size(http->kept.head->data) == 0)
            forget_exchange(&http->kept, http->kept.head->data);
    }
    for (const GList *link = http->exchanges.head; link != NULL && is_too_large(http);
         link = link->next)
        shrink(http, link->data);
    budget->held = budget->held - http->held + http->sums.size;
    http->held = http->sums.size;
    if (http->sums.pending > MAX_PENDING || budget->held > budget->max_held)
        end(http,
            g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                        "too much waits for a client that does not read: %zu bytes for this one, "
                        "%zu for all; a session may keep %u, all together %zu",
                        http->sums.pending, budget->held, MAX_PENDING, budget->max_held));
}

static void
report_if_drained(IpbMcpHttpChannel *http)
{
    if (!http->was_pending || get_pending(&http->channel) > 0)
        return;
    http->was_pending = false;
    http->channel.funcs.on_drained(http->channel.data);
}

static void
on_written(IpbMcpExchange *exchange, void *data)
{
    IpbMcpHttpChannel *http = data;
    trim(http);
    report_if_drained(http);
    if (http->is_stateless && !ipb_mcp_exchange_is_attached(exchange))
        end(http, NULL);
}

static void
on_over(IpbMcpExchange *exchange, void *data)
{
    IpbMcpHttpChannel *http = data;
    if (ipb_mcp_exchange_can_resume(exchange))
        move_exchange(&http->exchanges, &http->kept, exchange);
    else
        forget_exchange(&http->exchanges, exchange);
    trim(http);
    report_if_drained(http);
    if (http->options.on_answered != NULL)
        http->options.on_answered(http->options.data);
}

/* --- messages to the client ------------------------------------------------------------------- */

/* The newest one whose client is there; NULL: there is none. */
static IpbMcpExchange *
find_newest(const IpbMcpHttpChannel *http)
{
    for (const GList *link = http->exchanges.tail; link != NULL; link = link->prev)
        if (ipb_mcp_exchange_is_open(link->data) && ipb_mcp_exchange_is_attached(link->data))
            return link->data;
    return NULL;
}

/* The oldest is dropped if there are too many; a question then waits for its timeout. */
static void
keep_unplaced(IpbMcpHttpChannel *http, const IpbRpcMessage *message)
{
    if (g_queue_get_length(&http->unplaced) >= MAX_UNPLACED)
        g_free(g_queue_pop_head(&http->unplaced));
    g_queue_push_tail(&http->unplaced, g_strndup(message->text, message->size));
}

static void
send_message(IpbMessageChannel *channel, const IpbRpcMessage *message)
{
    IpbMcpHttpChannel *http = (IpbMcpHttpChannel *) channel;
    bool is_response = message->kind == IPB_RPC_RESPONSE;
    IpbMcpExchange *exchange = message->request_id != NULL
                                   ? g_hash_table_lookup(http->by_request, message->request_id)
                                   : NULL;
    if (http->has_ended || (is_response && exchange == NULL))
        return;
    if (exchange == NULL)
        exchange = find_newest(http);
    if (exchange == NULL) {
        keep_unplaced(http, message);
        return;
    }
    if (is_response)
        g_hash_table_remove(http->by_request, message->request_id);
    ipb_mcp_exchange_add(exchange, message->text, message->size, is_response, message->error_code);
    http->was_pending = true;
    trim(http);
}

/* A request that was cancelled: its stream ends without a response. */
static void
drop(IpbMessageChannel *channel, const char *request_id)
{
    IpbMcpHttpChannel *http = (IpbMcpHttpChannel *) channel;
    IpbMcpExchange *exchange = g_hash_table_lookup(http->by_request, request_id);
    if (exchange == NULL)
        return;
    g_hash_table_remove(http->by_request, request_id);
    ipb_mcp_exchange_drop(exchange);
}

static void
set_paused(IpbMessageChannel *channel, bool is_paused)
{
    ((IpbMcpHttpChannel *) channel)->is_paused = is_paused;
}

/* The server drains before it ends; here nothing may block. */
static void
flush(IpbMessageChannel *channel, unsigned timeout_ms)
{
}

/* --- messages of the client ------------------------------------------------------------------- */

typedef enum { KIND_BAD, KIND_REQUEST, KIND_OTHER } Kind;

bool
ipb_mcp_http_channel_takes_id(const IpbJson *id)
{
    return (ipb_json_is(id, IPB_JSON_STRING) || ipb_json_is(id, IPB_JSON_NUMBER)) &&
           ipb_json_raw(id).size <= IPB_MCP_HTTP_MAX_ID;
}

static Kind
get_kind(const IpbJson *message)
{
    const IpbJson *id = ipb_json_get(message, "id");
    const IpbJson *method = ipb_json_get(message, "method");
    bool has_answer =
        ipb_json_get(message, "result") != NULL || ipb_json_get(message, "error") != NULL;
    bool has_id = ipb_mcp_http_channel_takes_id(id);
    if (g_strcmp0(ipb_json_get_string(message, "jsonrpc"), "2.0") != 0)
        return KIND_BAD;
    if (method == NULL)
        return has_answer && has_id ? KIND_OTHER : KIND_BAD;
    if (!ipb_json_is(method, IPB_JSON_STRING) || has_answer)
        return KIND_BAD;
    return id == NULL ? KIND_OTHER : has_id ? KIND_REQUEST : KIND_BAD;
}

static char *
copy_id(const IpbJson *message)
{
    IpbSpan raw = ipb_json_raw(ipb_json_get(message, "id"));
    return g_strndup(raw.start, raw.size);
}

/* Adds the ids of the requests among @items to @ids; a text says why that is not possible. Static.
 */
static const char *
collect_ids(const IpbMcpHttpChannel *http, const IpbJson *message, GPtrArray *ids)
{
    Kind kind = get_kind(message);
    if (kind == KIND_BAD)
        return "the body is no JSON-RPC message";
    if (kind == KIND_OTHER)
        return NULL;
    g_autofree char *id = copy_id(message);
    if (g_hash_table_contains(http->by_request, id) ||
        g_ptr_array_find_with_equal_func(ids, id, g_str_equal, NULL))
        return "another request with this id is not answered yet";
    g_ptr_array_add(ids, g_steal_pointer(&id));
    return NULL;
}

static const char *
collect_all_ids(const IpbMcpHttpChannel *http, const IpbJson *message, const char *revision,
                GPtrArray *ids)
{
    if (!ipb_json_is(message, IPB_JSON_ARRAY))
        return collect_ids(http, message, ids);
    if (!ipb_mcp_message_has_batches(revision))
        return "this revision has no batches: send one message in each request";
    if (ipb_json_length(message) == 0 || ipb_json_length(message) > MAX_BATCH)
        return "a batch must have from 1 to 100 messages";
    const char *fault = NULL;
    IPB_JSON_FOREACH (item, message)
        if (fault == NULL)
            fault = collect_ids(http, item, ids);
    return fault;
}

static void
refuse(IpbHttpRequest *request, unsigned status, const char *reason)
{
    ipb_mcp_refuse(request,
                   &(IpbMcpRefusal){.status = status,
                                    .code = IPB_RPC_INVALID_REQUEST,
                                    .message = reason,
                                    .headers = status == 503 ? "Retry-After: 1\r\n" : NULL});
}

static IpbMcpExchange *
add_exchange(IpbMcpHttpChannel *http, IpbHttpRequest *request, const GPtrArray *ids,
             const char *revision)
{
    static const IpbMcpExchangeFuncs FUNCS = {.on_written = on_written, .on_over = on_over};
    const IpbMcpExchangeOptions options = {
        .loop = http->options.loop,
        .sums = &http->sums,
        .number = ++http->last_number,
        .n_requests = ids->len,
        .is_primed =
            !http->is_stateless && revision != NULL && strcmp(revision, PRIMED_REVISION) >= 0,
        .is_stateless = http->is_stateless,
        .headers = revision == NULL ? http->session_header : NULL,
    };
    IpbMcpExchange *exchange = ipb_mcp_exchange_new(&options, request, &FUNCS, http);
    g_queue_push_tail_link(&http->exchanges, ipb_mcp_exchange_link(exchange));
    for (guint i = 0; i < ids->len; i++)
        g_hash_table_insert(http->by_request, g_strdup(g_ptr_array_index(ids, i)), exchange);
    return exchange;
}

static void
place_waiting(IpbMcpHttpChannel *http, IpbMcpExchange *exchange)
{
    char *text;
    while ((text = g_queue_pop_head(&http->unplaced)) != NULL) {
        ipb_mcp_exchange_add(exchange, text, strlen(text), /* is_response= */ false,
                             /* error_code= */ 0);
        g_free(text);
    }
}

void
ipb_mcp_http_channel_post(IpbMcpHttpChannel *http, IpbHttpRequest *request, IpbSpan text,
                          const IpbJson *message, const char *revision)
{
    g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func(g_free);
    const char *fault = collect_all_ids(http, message, revision, ids);
    if (fault != NULL) {
        refuse(request, 400, fault);
        return;
    }
    if (http->has_ended) {
        ipb_mcp_refuse(request, &IPB_MCP_REFUSAL_SESSION_ENDED);
        return;
    }
    if (http->is_paused || g_hash_table_size(http->by_request) + ids->len > MAX_EXCHANGES) {
        refuse(request, 503, "too many requests of this session wait for an answer");
        return;
    }
    IpbMcpExchange *exchange = ids->len > 0 ? add_exchange(http, request, ids, revision) : NULL;
    if (exchange != NULL && revision != NULL)
        place_waiting(http, exchange);
    http->channel.funcs.on_message(text.start, text.size, http->channel.data);
    if (exchange == NULL)
        ipb_http_request_answer_text(request, 202, NULL); /* last: may handle the next request */
}

/* "STREAM-EVENT" */
static bool
parse_event_id(IpbSpan text, unsigned *ret_stream, uint64_t *ret_event)
{
    char copy[48];
    guint64 stream, event;
    if (text.size >= sizeof copy)
        return false;
    memcpy(copy, text.start, text.size);
    copy[text.size] = '\0';
    char *dash = strchr(copy, '-');
    if (dash == NULL)
        return false;
    *dash = '\0';
    if (!g_ascii_string_to_unsigned(copy, 10, 1, G_MAXUINT, &stream, NULL) ||
        !g_ascii_string_to_unsigned(dash + 1, 10, 0, G_MAXUINT64, &event, NULL))
        return false;
    *ret_stream = (unsigned) stream;
    *ret_event = event;
    return true;
}

static IpbMcpExchange *
find_number(const GQueue *queue, unsigned number)
{
    for (const GList *link = queue->head; link != NULL; link = link->next)
        if (ipb_mcp_exchange_number(link->data) == number &&
            ipb_mcp_exchange_can_resume(link->data))
            return link->data;
    return NULL;
}

static IpbMcpExchange *
find_resumable(const IpbMcpHttpChannel *http, unsigned number, bool *ret_is_kept)
{
    IpbMcpExchange *kept = find_number(&http->kept, number);
    *ret_is_kept = kept != NULL;
    return kept != NULL ? kept : find_number(&http->exchanges, number);
}

void
ipb_mcp_http_channel_resume(IpbMcpHttpChannel *http, IpbHttpRequest *request, IpbSpan last_id)
{
    unsigned number;
    uint64_t event;
    if (!parse_event_id(last_id, &number, &event)) {
        refuse(request, 400, "Last-Event-ID is no id of an event of this server");
        return;
    }
    bool is_kept;
    IpbMcpExchange *exchange = find_resumable(http, number, &is_kept);
    if (exchange != NULL) {
        if (is_kept)
            move_exchange(&http->kept, &http->exchanges, exchange);
        ipb_mcp_exchange_resume(exchange, request, event);
        http->was_pending = true;
        return;
    }
    refuse(request, 400, "the stream of this Last-Event-ID is not kept any more");
}

bool
ipb_mcp_http_channel_is_busy(const IpbMcpHttpChannel *http)
{
    return g_hash_table_size(http->by_request) > 0;
}

/* --- life ------------------------------------------------------------------------------------- */

static void
free_channel(IpbMessageChannel *channel)
{
    IpbMcpHttpChannel *http = (IpbMcpHttpChannel *) channel;
    ipb_timer_free(http->end_timer);
    g_clear_error(&http->why);
    g_hash_table_unref(http->by_request);
    while (http->kept.head != NULL)
        forget_exchange(&http->kept, http->kept.head->data);
    while (http->exchanges.head != NULL)
        forget_exchange(&http->exchanges, http->exchanges.head->data);
    g_queue_clear_full(&http->unplaced, g_free);
    http->options.budget->held -= http->held;
    ipb_loop_unref(http->options.loop);
    g_free(http->session_header);
    g_free(http);
}

IpbMcpHttpChannel *
ipb_mcp_http_channel_new(const IpbMcpHttpChannelOptions *options)
{
    static const IpbMessageChannelOps OPS = {
        .send = send_message,
        .drop = drop,
        .set_paused = set_paused,
        .pending = get_pending,
        .flush = flush,
        .free = free_channel,
    };
    IpbMcpHttpChannel *http = g_new0(IpbMcpHttpChannel, 1);
    http->channel.ops = &OPS;
    http->options = *options;
    http->options.loop = ipb_loop_ref(options->loop);
    http->session_header = g_strdup(options->session_header);
    http->is_stateless = options->session_header == NULL;
    http->by_request = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_queue_init(&http->exchanges);
    g_queue_init(&http->kept);
    g_queue_init(&http->unplaced);
    return http;
}

IpbMessageChannel *
ipb_mcp_http_channel_get(IpbMcpHttpChannel *http)
{
    return &http->channel;
}
