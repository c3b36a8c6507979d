/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP with server-sent events; see the header.
 */
#include "serve/mcp-http/sse.h"

#include <string.h>

#include "base/error.h"
#include "mcp/messages.h"
#include "serve/mcp-http/refusal.h"

/* Bytes that wait for a client that reads slowly. The conversation stops long before. */
#define MAX_PENDING (64u * 1024 * 1024)
#define MAX_OPEN_REQUESTS 1000
/* While nothing else is sent, a comment keeps proxies and clients from giving up. */
#define PING_INTERVAL_MS 15000

static const char PING[] = ": ping\n\n";

/* A session, and the channel of its conversation, which owns it. */
typedef struct {
    IpbMessageChannel channel;
    IpbMcpSse *sse;
    void *owner;
    IpbMcpService *service;
    IpbMcpConnection *connection;
    char *id;
    /* NULL: the client is gone */
    IpbHttpStream *stream;
    /* What waits for the client, from `written` on */
    GByteArray *waiting;
    size_t written;
    unsigned n_open;
    bool is_paused;
    bool is_over;
    IpbTimer *ping_timer;
    /* Reports from the loop that the channel has failed */
    IpbTimer *end_timer;
} Session;

struct IpbMcpSse {
    IpbLoop *loop;
    void (*on_closed)(void *owner, void *data);
    void *data;
    /* Id → Session */
    GHashTable *sessions;
    /* Ending: sessions that are not in the table any more, and not freed yet */
    GPtrArray *endings;
};

typedef struct {
    IpbMcpSse *sse;
    void *owner;
} Ending;

static size_t
get_pending(const IpbMessageChannel *channel)
{
    const Session *session = (const Session *) channel;
    return session->waiting->len - session->written;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void
on_disconnected(void *data)
{
    Ending *ending = data;
    IpbMcpSse *sse = ending->sse;
    void *owner = ending->owner;
    g_ptr_array_remove_fast(sse->endings, ending); /* frees it */
    sse->on_closed(owner, sse->data);
}

/* Its requests get 404 from now on. */
static void
end(Session *session)
{
    IpbMcpSse *sse = session->sse;
    if (session->is_over)
        return;
    session->is_over = true;
    g_hash_table_steal(sse->sessions, session->id);
    Ending *ending = g_new(Ending, 1);
    *ending = (Ending){.sse = sse, .owner = session->owner};
    g_ptr_array_add(sse->endings, ending);
    ipb_mcp_service_disconnect(session->service, session->connection, on_disconnected, ending);
}

static void
on_end(const GError *why, void *data)
{
    end(data);
}

static void
on_end_timer(void *data)
{
    Session *session = data;
    g_clear_pointer(&session->end_timer, ipb_timer_free);
    end(session);
}

/* --- messages to the client ------------------------------------------------------------------- */

/* Writes what the client accepts now. */
static void
write_waiting(Session *session)
{
    if (session->stream == NULL)
        return;
    size_t left = session->waiting->len - session->written;
    session->written += ipb_http_stream_write(
        session->stream, (const char *) session->waiting->data + session->written, left);
    if (session->written == session->waiting->len) {
        g_byte_array_set_size(session->waiting, 0);
        session->written = 0;
    }
}

static void
on_writable(void *data)
{
    Session *session = data;
    write_waiting(session);
    if (get_pending(&session->channel) == 0)
        session->channel.funcs.on_drained(session->channel.data);
}

static void
on_gone(void *data)
{
    Session *session = data;
    session->stream = NULL;
    if (!session->is_over)
        session->channel.funcs.on_end(NULL, session->channel.data);
}

static void
add(Session *session, const char *text, size_t size)
{
    g_byte_array_append(session->waiting, (const guint8 *) text, (guint) size);
    write_waiting(session);
    if (get_pending(&session->channel) > MAX_PENDING && session->end_timer == NULL)
        session->end_timer = ipb_timer_new(session->sse->loop, 0, on_end_timer, session);
}

static void
send_message(IpbMessageChannel *channel, const IpbRpcMessage *message)
{
    static const char HEAD[] = "event: message\ndata: ";
    Session *session = (Session *) channel;
    if (message->kind == IPB_RPC_RESPONSE && session->n_open > 0)
        session->n_open--;
    if (session->stream == NULL || session->end_timer != NULL)
        return;
    g_byte_array_append(session->waiting, (const guint8 *) HEAD, sizeof HEAD - 1);
    g_byte_array_append(session->waiting, (const guint8 *) message->text, (guint) message->size);
    add(session, "\n\n", 2);
}

static void
drop(IpbMessageChannel *channel, const char *request_id)
{
    Session *session = (Session *) channel;
    if (session->n_open > 0)
        session->n_open--;
}

static void
set_paused(IpbMessageChannel *channel, bool is_paused)
{
    ((Session *) channel)->is_paused = is_paused;
}

/* The server drains before it ends; here nothing may block. */
static void
flush(IpbMessageChannel *channel, unsigned timeout_ms)
{
}

static void
on_ping_timer(void *data)
{
    Session *session = data;
    ipb_timer_free(session->ping_timer);
    session->ping_timer =
        ipb_timer_new(session->sse->loop, PING_INTERVAL_MS, on_ping_timer, session);
    if (session->stream != NULL && get_pending(&session->channel) == 0)
        add(session, PING, sizeof PING - 1);
}

static void
free_channel(IpbMessageChannel *channel)
{
    Session *session = (Session *) channel;
    if (session->stream != NULL)
        ipb_http_stream_end(session->stream);
    if (!session->is_over)
        g_hash_table_steal(session->sse->sessions, session->id);
    ipb_timer_free(session->ping_timer);
    ipb_timer_free(session->end_timer);
    g_byte_array_unref(session->waiting);
    g_free(session->id);
    g_free(session);
}

/* --- requests --------------------------------------------------------------------------------- */

static Session *
new_session(IpbMcpSse *sse, IpbMcpService *service, void *owner, GError **error)
{
    static const IpbMessageChannelOps OPS = {
        .send = send_message,
        .drop = drop,
        .set_paused = set_paused,
        .pending = get_pending,
        .flush = flush,
        .free = free_channel,
    };
    g_autofree char *id = ipb_http_gate_make_token(error);
    if (id == NULL)
        return NULL;
    Session *session = g_new0(Session, 1);
    *session = (Session){
        .channel.ops = &OPS,
        .sse = sse,
        .owner = owner,
        .service = service,
        .id = g_steal_pointer(&id),
        .waiting = g_byte_array_new(),
    };
    g_hash_table_insert(sse->sessions, session->id, session);
    IpbMcpConnection *connection = ipb_mcp_service_connect(
        service, &session->channel, /* is_stateless= */ false, on_end, session, error);
    if (connection == NULL) /* the session is freed */
        return NULL;
    session->connection = connection;
    return session;
}

bool
ipb_mcp_sse_open(IpbMcpSse *sse, IpbMcpService *service, void *owner, const char *path,
                 IpbHttpRequest *request, GError **error)
{
    static const IpbHttpStreamFuncs FUNCS = {.on_writable = on_writable, .on_gone = on_gone};
    Session *session = new_session(sse, service, owner, error);
    if (session == NULL)
        return false;
    session->stream = ipb_http_request_answer_stream(
        request,
        &(IpbHttpAnswer){.status = 200,
                         .content_type = "text/event-stream",
                         .headers = "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"},
        &FUNCS, session);
    g_autofree char *first = g_strdup_printf("event: endpoint\ndata: %s/%s\n\n", path, session->id);
    session->ping_timer = ipb_timer_new(sse->loop, PING_INTERVAL_MS, on_ping_timer, session);
    add(session, first, strlen(first));
    return true;
}

void
ipb_mcp_sse_post(IpbMcpSse *sse, const void *owner, const char *id, IpbHttpRequest *request)
{
    Session *session = g_hash_table_lookup(sse->sessions, id);
    IpbSpan text = ipb_http_request_body(request);
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(text.start, text.size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    IpbMcpRefusal refusal = {.status = 503,
                             .code = IPB_RPC_INVALID_REQUEST,
                             .message = "too many requests of this session wait for an answer",
                             .headers = "Retry-After: 1\r\n"};
    if (session == NULL || session->owner != owner) {
        ipb_mcp_refuse(request, &IPB_MCP_REFUSAL_SESSION_ENDED);
        return;
    }
    if (doc == NULL) {
        refusal = (IpbMcpRefusal){
            .status = 400, .code = IPB_RPC_PARSE_ERROR, .message = "the body is not JSON"};
        ipb_mcp_refuse(request, &refusal);
        return;
    }
    if (session->is_paused || session->n_open >= MAX_OPEN_REQUESTS) {
        ipb_mcp_refuse(request, &refusal);
        return;
    }
    const IpbJson *message = ipb_json_root(doc);
    if (ipb_json_get(message, "id") != NULL && ipb_json_get(message, "method") != NULL)
        session->n_open++;
    session->channel.funcs.on_message(text.start, text.size, session->channel.data);
    ipb_http_request_answer_text(request, 202, NULL); /* last: may handle the next request */
}

size_t
ipb_mcp_sse_count(const IpbMcpSse *sse)
{
    return g_hash_table_size(sse->sessions) + sse->endings->len;
}

bool
ipb_mcp_sse_is_busy(const IpbMcpSse *sse)
{
    GHashTableIter iter;
    void *session;
    g_hash_table_iter_init(&iter, sse->sessions);
    while (g_hash_table_iter_next(&iter, NULL, &session))
        if (((Session *) session)->n_open > 0)
            return true;
    return false;
}

void
ipb_mcp_sse_end_of(IpbMcpSse *sse, const void *owner)
{
    g_autoptr(GList) sessions = g_hash_table_get_values(sse->sessions);
    for (GList *link = sessions; link != NULL; link = link->next)
        if (((const Session *) link->data)->owner == owner)
            end(link->data);
}

void
ipb_mcp_sse_end(IpbMcpSse *sse)
{
    g_autoptr(GList) sessions = g_hash_table_get_values(sse->sessions);
    for (GList *link = sessions; link != NULL; link = link->next)
        end(link->data);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbMcpSse *
ipb_mcp_sse_new(IpbLoop *loop, void (*on_closed)(void *owner, void *data), void *data)
{
    IpbMcpSse *sse = g_new0(IpbMcpSse, 1);
    sse->loop = ipb_loop_ref(loop);
    sse->on_closed = on_closed;
    sse->data = data;
    sse->sessions = g_hash_table_new(g_str_hash, g_str_equal);
    sse->endings = g_ptr_array_new_with_free_func(g_free);
    return sse;
}

void
ipb_mcp_sse_free(IpbMcpSse *sse)
{
    if (sse == NULL)
        return;
    g_hash_table_unref(sse->sessions);
    g_ptr_array_unref(sse->endings);
    ipb_loop_unref(sse->loop);
    g_free(sse);
}
