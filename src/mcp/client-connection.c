/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON-RPC with one MCP server; see the header.
 *
 * The connection is reference-counted inside, so that a callback may free it: each function that
 * calls back holds a reference.
 */
#include "mcp/client-connection.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "mcp/messages.h"
#include "mcp/sse-transport.h"
#include "mcp/stdio-transport.h"
#include "mcp/streamable-http-transport.h"

/* What a server may send between two messages that is not a message, such as prints to stdout. */
#define MAX_GARBAGE (1024 * 1024)
/* Part of it that the log shows. */
#define MAX_GARBAGE_SHOWN 500
/* Part of a method's name that an error shows. */
#define MAX_METHOD_SHOWN 100

struct IpbMcpClientConnection {
    unsigned refs; /* one of the owner, and one for each running callback */
    IpbLoop *loop;
    IpbMcpClientConnectionOptions options;
    IpbMcpClientConnectionFuncs funcs;
    void *data;
    IpbTransport *transport;
    IpbRpcPeer *peer;
    bool is_closing; /* or freed: no message is sent or received */
    bool is_lost;
    const char *revision; /* NULL: not agreed yet */
    bool is_modern;
    /* While a message is being sent: its description for the transport. */
    const IpbTransportMessage *outgoing;
    unsigned failed_status; /* while a request fails: its HTTP status, or 0 */
    size_t garbage;         /* bytes since the last message */
};

typedef struct {
    IpbMcpClientConnection *connection;
    int64_t id;
    bool is_cancellable;
    IpbMcpClientConnectionAnswerFunc func;
    void *data;
} Request;

static IpbMcpClientConnection *
hold(IpbMcpClientConnection *connection)
{
    connection->refs++;
    return connection;
}

static void
unhold(IpbMcpClientConnection *connection)
{
    if (--connection->refs > 0)
        return;
    ipb_server_log_unref(connection->options.log);
    ipb_loop_unref(connection->loop);
    g_free(connection);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpClientConnection, unhold)

/* --- losing the connection --- */

GError *
ipb_mcp_client_connection_make_error(const IpbMcpClientConnection *connection, int code,
                                     const char *text)
{
    g_autofree char *words = connection->transport->ops->last_stderr(connection->transport);
    return words == NULL ? g_error_new(IPYBOX_ERROR, code, "MCP server %s: %s",
                                       connection->options.name, text)
                         : g_error_new(IPYBOX_ERROR, code,
                                       "MCP server %s: %s. The end of its standard error:\n%s",
                                       connection->options.name, text, words);
}

static void
lose(IpbMcpClientConnection *connection, const GError *why)
{
    if (connection->is_closing || connection->is_lost)
        return;
    connection->is_lost = true;
    connection->funcs.on_lost(why, connection->data);
}

static void
lose_with(IpbMcpClientConnection *connection, int code, const char *text)
{
    if (connection->is_closing)
        return;
    g_autoptr(GError) error = ipb_mcp_client_connection_make_error(connection, code, text);
    lose(connection, error);
}

static void
on_transport_closed(const GError *why, void *data)
{
    g_autoptr(IpbMcpClientConnection) connection = hold(data);
    lose(connection, why);
}

/* --- receiving --- */

/* Revision 2025-03-26 has batches: arrays of messages. */
static void
receive_batch(IpbMcpClientConnection *connection, const char *text, size_t size)
{
    g_autoptr(IpbJsonDoc) batch = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    if (batch == NULL) {
        ipb_rpc_peer_receive(connection->peer, text, size); /* it reports what is wrong */
        return;
    }
    IPB_JSON_FOREACH (item, ipb_json_root(batch)) {
        IpbSpan raw = ipb_json_raw(item);
        if (!connection->is_closing)
            ipb_rpc_peer_receive(connection->peer, raw.start, raw.size);
    }
}

static void
on_message(const char *text, size_t size, void *data)
{
    g_autoptr(IpbMcpClientConnection) connection = hold(data);
    size_t garbage = connection->garbage;
    if (connection->is_closing)
        return;
    ipb_utf8_skip_mark(&text, &size); /* some servers begin with a byte order mark */
    if (*text == '[' && ipb_mcp_message_has_batches(connection->revision))
        receive_batch(connection, text, size);
    else
        ipb_rpc_peer_receive(connection->peer, text, size);
    if (connection->garbage == garbage)
        connection->garbage = 0;
    else if (connection->garbage > MAX_GARBAGE)
        lose_with(connection, IPYBOX_ERROR_PROTOCOL,
                  connection->options.kind == IPB_SERVER_STDIO
                      ? "it printed more than 1 MiB on its standard output that is not an MCP "
                        "message"
                      : "it sent more than 1 MiB that is not an MCP message");
}

/* The message is too large, too deep or has too many values. If it was an answer, its request would
 * never end, so the connection ends. */
static void
lose_at_limit(IpbMcpClientConnection *connection, const GError *why)
{
    g_autofree char *text =
        g_strdup_printf("it sent a message beyond a limit: %s (\"limits.message_size\" and "
                        "\"limits.depth\" in its server_params set such limits)",
                        why->message);
    lose_with(connection, IPYBOX_ERROR_LIMIT, text);
}

/* If the id of an unreadable answer can still be found, its request fails now, not at its
 * timeout. */
static void
fail_request_of(IpbMcpClientConnection *connection, IpbSpan message, const GError *why)
{
    IpbSpan method, id;
    if (ipb_json_scan_member(message, "method", &method) ||
        !ipb_json_scan_member(message, "id", &id))
        return;
    g_autofree char *text = g_strndup(id.start, id.size);
    gint64 number;
    g_autoptr(GError) error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                                          "its answer cannot be read: %s", why->message);
    if (g_ascii_string_to_signed(text, 10, 1, INT64_MAX, &number, NULL))
        ipb_rpc_peer_fail_call(connection->peer, number, error);
}

static void
on_invalid(const GError *why, const char *text, size_t size, void *data)
{
    g_autoptr(IpbMcpClientConnection) connection = hold(data);
    IpbSpan version;
    if (size > 0 && *text == '{' && g_error_matches(why, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT)) {
        lose_at_limit(connection, why);
        return;
    }
    /* A JSON-RPC message that we cannot use, such as an error without an id, is logged, but does
     * not count as garbage. */
    bool is_message = size > 0 && *text == '{' &&
                      ipb_json_scan_member((IpbSpan){text, size}, "jsonrpc", &version);
    if (!is_message)
        connection->garbage += size + 1;
    g_autofree char *shown = ipb_server_log_clean(text, size, MAX_GARBAGE_SHOWN);
    const char *what = is_message ? why->message
                       : connection->options.kind == IPB_SERVER_STDIO
                           ? "not a message, on its standard output"
                           : "not a message";
    g_autofree char *line = g_strdup_printf("%s: %s", what, shown);
    ipb_server_log_write(connection->options.log, is_message ? "debug" : "warning", line,
                         strlen(line));
    if (is_message && !connection->is_closing)
        fail_request_of(connection, (IpbSpan){text, size}, why);
}

/* We declare no capabilities, so a server may send no request but ping. */
static void
on_request(IpbRpcRequest *request, void *data)
{
    const IpbMcpClientConnection *connection = data;
    const char *method = ipb_rpc_request_method(request);
    if (connection->is_modern) { /* in modern revisions clients write no answers */
        ipb_rpc_request_drop(request);
        return;
    }
    if (strcmp(method, "ping") == 0) {
        ipb_rpc_request_reply(request, "{}", 2);
        return;
    }
    g_autofree char *clean = ipb_server_log_clean(method, strlen(method), MAX_METHOD_SHOWN);
    g_autofree char *text = g_strdup_printf("ipybox does not offer %s", clean);
    ipb_rpc_request_fail(request, IPB_RPC_METHOD_NOT_FOUND, text, /* data_json= */ NULL);
}

static void
on_notification(const char *method, const IpbJson *params, void *data)
{
    g_autoptr(IpbMcpClientConnection) connection = hold(data);
    if (!connection->is_closing)
        connection->funcs.on_notification(method, params, connection->data);
}

/* --- sending --- */

static void
send_message(const IpbRpcMessage *rpc_message, void *data)
{
    IpbMcpClientConnection *connection = data;
    IpbTransportMessage message = {0};
    if (connection->is_closing)
        return;
    if (connection->outgoing != NULL)
        message = *connection->outgoing;
    message.text = rpc_message->text;
    message.size = rpc_message->size;
    message.is_modern = message.is_modern || connection->is_modern;
    message.revision = message.is_modern ? IPB_MCP_MODERN_REVISION : connection->revision;
    connection->transport->ops->send(connection->transport, &message);
}

void
ipb_mcp_client_connection_notify(IpbMcpClientConnection *connection, const char *method,
                                 const char *params_json)
{
    const IpbTransportMessage message = {.method = method}, *before = connection->outgoing;
    connection->outgoing = &message;
    ipb_rpc_peer_notify(connection->peer, method, params_json);
    connection->outgoing = before;
}

/* The transport need not wait for the answer any more. True: the server notices that by itself. */
static bool
release(IpbMcpClientConnection *connection, int64_t id)
{
    IpbTransport *transport = connection->is_closing ? NULL : connection->transport;
    return transport != NULL && transport->ops->cancel != NULL &&
           transport->ops->cancel(transport, id);
}

static void
notify_cancelled(IpbMcpClientConnection *connection, int64_t id, const char *reason)
{
    g_autofree char *params = ipb_mcp_message_cancelled(id, reason);
    ipb_mcp_client_connection_notify(connection, "notifications/cancelled", params);
}

static void
on_answer(const IpbRpcAnswer *answer, void *data)
{
    g_autofree Request *request = data;
    g_autoptr(IpbMcpClientConnection) connection = hold(request->connection);
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT)) {
        if (!release(connection, request->id) && request->is_cancellable)
            notify_cancelled(connection, request->id, "timeout");
    } else if (answer->failure == NULL) {
        release(connection, request->id); /* the answer may have come in a batch */
    }
    request->func(answer, connection->failed_status, request->data);
}

int64_t
ipb_mcp_client_connection_request(IpbMcpClientConnection *connection,
                                  const IpbMcpClientConnectionRequest *request,
                                  IpbMcpClientConnectionAnswerFunc func, void *data)
{
    Request *own = g_new0(Request, 1);
    *own = (Request){
        .connection = connection,
        .id = ipb_rpc_peer_next_id(connection->peer),
        .is_cancellable = request->is_cancellable,
        .func = func,
        .data = data,
    };
    const IpbTransportMessage message = {
        .id = own->id,
        .method = request->method,
        .name = request->tool,
        .is_modern = request->is_probe,
        .param_headers = request->param_headers,
    };
    connection->outgoing = &message;
    int64_t id = ipb_rpc_peer_call(connection->peer, request->method, request->params_json,
                                   request->timeout_ms, on_answer, own);
    connection->outgoing = NULL;
    return id;
}

void
ipb_mcp_client_connection_touch(IpbMcpClientConnection *connection, int64_t id)
{
    ipb_rpc_peer_touch_call(connection->peer, id);
}

void
ipb_mcp_client_connection_cancel(IpbMcpClientConnection *connection, int64_t id, const char *reason)
{
    if (!release(connection, id))
        notify_cancelled(connection, id, reason);
    ipb_rpc_peer_cancel_call(connection->peer, id);
}

void
ipb_mcp_client_connection_forget(IpbMcpClientConnection *connection, int64_t id)
{
    ipb_rpc_peer_cancel_call(connection->peer, id);
}

static void
on_request_failed(int64_t id, unsigned status, const GError *why, void *data)
{
    g_autoptr(IpbMcpClientConnection) connection = hold(data);
    if (connection->is_closing)
        return;
    connection->failed_status = status;
    ipb_rpc_peer_fail_call(connection->peer, id, why);
    connection->failed_status = 0;
}

void
ipb_mcp_client_connection_set_revision(IpbMcpClientConnection *connection, const char *revision,
                                       bool is_modern)
{
    connection->revision = revision;
    connection->is_modern = is_modern;
}

bool
ipb_mcp_client_connection_has_room(const IpbMcpClientConnection *connection, size_t size)
{
    return connection->transport->ops->has_room(connection->transport, size);
}

void
ipb_mcp_client_connection_listen(IpbMcpClientConnection *connection)
{
    IpbTransport *transport = connection->transport;
    if (!connection->is_closing && transport->ops->listen != NULL)
        transport->ops->listen(transport);
}

/* --- life --- */

static bool
start_transport(IpbMcpClientConnection *connection, GError **error)
{
    static const IpbTransportFuncs FUNCS = {
        .on_message = on_message,
        .on_closed = on_transport_closed,
        .on_failed = on_request_failed,
    };
    const IpbMcpClientConnectionOptions *options = &connection->options;
    const IpbEndpointOptions endpoint = {
        .name = options->name,
        .params = options->params,
        .base_env = options->base_env,
        .state_dir = options->state_dir,
        .limits = options->limits,
        .log = options->log,
    };
    const IpbStdioTransportOptions stdio = {
        .name = options->name,
        .params = options->params,
        .cwd = options->cwd,
        .base_env = options->base_env,
        .state_dir = options->state_dir,
        .keep_out = options->keep_out,
        .log = options->log,
        .max_message = options->limits->message_size,
    };
    IpbLoop *loop = connection->loop;
    switch (options->kind) {
    case IPB_SERVER_STDIO:
        connection->transport = ipb_transport_new_stdio(loop, &stdio, &FUNCS, connection, error);
        break;
    case IPB_SERVER_STREAMABLE_HTTP:
        connection->transport =
            ipb_transport_new_streamable_http(loop, &endpoint, &FUNCS, connection, error);
        break;
    case IPB_SERVER_SSE:
        connection->transport = ipb_transport_new_sse(loop, &endpoint, &FUNCS, connection, error);
        break;
    }
    return connection->transport != NULL;
}

static void
start_peer(IpbMcpClientConnection *connection)
{
    static const IpbRpcPeerFuncs FUNCS = {
        .send = send_message,
        .on_request = on_request,
        .on_notification = on_notification,
        .on_invalid = on_invalid,
    };
    IpbRpcPeerOptions options = {.limits = IPB_JSON_LIMITS_MESSAGE};
    options.limits.max_size = connection->options.limits->message_size;
    options.limits.max_depth = connection->options.limits->depth;
    connection->peer = ipb_rpc_peer_new(connection->loop, &options, &FUNCS, connection);
}

IpbMcpClientConnection *
ipb_mcp_client_connection_new(IpbLoop *loop, const IpbMcpClientConnectionOptions *options,
                              const IpbMcpClientConnectionFuncs *funcs, void *data, GError **error)
{
    g_autoptr(IpbMcpClientConnection) connection = g_new0(IpbMcpClientConnection, 1);
    connection->refs = 1;
    connection->loop = ipb_loop_ref(loop);
    connection->options = *options;
    ipb_server_log_ref(options->log);
    connection->funcs = *funcs;
    connection->data = data;
    if (!start_transport(connection, error))
        return NULL;
    start_peer(connection);
    return g_steal_pointer(&connection);
}

void
ipb_mcp_client_connection_close(IpbMcpClientConnection *connection, void (*done)(void *data),
                                void *data)
{
    connection->is_closing = true;
    connection->transport->ops->close(connection->transport, done, data);
}

void
ipb_mcp_client_connection_free(IpbMcpClientConnection *connection)
{
    if (connection == NULL)
        return;
    connection->is_closing = true;
    connection->transport->ops->free(connection->transport);
    connection->transport = NULL;
    ipb_rpc_peer_free(connection->peer);
    unhold(connection);
}
