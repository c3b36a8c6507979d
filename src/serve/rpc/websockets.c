/* SPDX-License-Identifier: Apache-2.0
 *
 * WebSockets of the client; see the header.
 */
#include "serve/rpc/websockets.h"

#include <string.h>

#include "base/error.h"
#include "http/websocket.h"

#define MAX_SOCKETS 1000
#define MAX_MESSAGE (32 * 1024 * 1024)
/* How long a socket waits for a peer that does not answer a close. */
#define CLOSE_TIMEOUT_MS 2000
#define GOING_AWAY 1001

struct IpbRpcWebSockets {
    IpbLoop *loop;
    IpbRpcClient *client;
    GHashTable *sockets; /* id → Socket */
    bool is_congested;
    void (*closed)(void *data); /* NULL: not closing */
    void *closed_data;
};

typedef struct {
    IpbRpcWebSockets *owner;
    IpbRpcClient *client;
    char *id;
    IpbWebSocket *socket;
    IpbRpcPending *open_request, *close_request; /* or NULL */
    GQueue send_requests;                        /* IpbRpcPending: answered when all is sent */
    bool is_paused;                              /* by the client */
} Socket;

static void
free_socket(void *data)
{
    Socket *socket = data;
    ipb_websocket_free(socket->socket);
    g_queue_clear(&socket->send_requests); /* the client owns the requests */
    g_free(socket->id);
    g_free(socket);
}

static void
apply_pause(Socket *socket)
{
    if (socket->open_request == NULL)
        ipb_websocket_pause(socket->socket, socket->is_paused || socket->owner->is_congested);
}

/* --- what happens to a socket ---------------------------------------------------------------- */

static void
answer_sends(Socket *socket)
{
    IpbRpcPending *pending;
    while ((pending = g_queue_pop_head(&socket->send_requests)) != NULL)
        ipb_rpc_pending_reply_empty(pending);
}

static void
on_open(IpbWebSocket *websocket, void *data)
{
    Socket *socket = data;
    IpbRpcPending *pending = g_steal_pointer(&socket->open_request);
    const char *protocol = ipb_websocket_protocol(websocket);
    apply_pause(socket);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "socket", socket->id);
    ipb_json_member_string(writer, "subprotocol", *protocol != '\0' ? protocol : NULL);
    ipb_json_end_object(writer);
    ipb_rpc_pending_reply(pending, writer);
}

static void
on_message(IpbWebSocket *websocket, const char *bytes, size_t size, bool is_text, void *data)
{
    Socket *socket = data;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "socket", socket->id);
    if (is_text) {
        ipb_json_key(writer, "text");
        ipb_json_write_string_n(writer, bytes, size);
    } else {
        g_autofree char *base64 = g_base64_encode((const guchar *) bytes, size);
        ipb_json_member_string(writer, "base64", base64);
    }
    ipb_json_end_object(writer);
    ipb_rpc_client_notify(socket->client, "websocket.message", writer);
}

static void
on_drained(IpbWebSocket *websocket, void *data)
{
    answer_sends(data);
}

static void
fail_sends(Socket *socket, const GError *error)
{
    IpbRpcPending *pending;
    while ((pending = g_queue_pop_head(&socket->send_requests)) != NULL)
        ipb_rpc_pending_fail(pending, error);
}

static void
notify_closed(const Socket *socket, unsigned code, const char *reason)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "socket", socket->id);
    ipb_json_member_int(writer, "code", code);
    ipb_json_member_string(writer, "reason", reason);
    ipb_json_end_object(writer);
    ipb_rpc_client_notify(socket->client, "websocket.closed", writer);
}

static void
report_if_closed(IpbRpcWebSockets *sockets)
{
    if (sockets->closed != NULL && g_hash_table_size(sockets->sockets) == 0)
        g_steal_pointer (&sockets->closed)(sockets->closed_data);
}

/* Answers the requests that wait for the socket, and frees it. */
static void
end_socket(Socket *socket, const GError *error)
{
    IpbRpcWebSockets *sockets = socket->owner;
    IpbRpcPending *opening = g_steal_pointer(&socket->open_request);
    IpbRpcPending *closing = g_steal_pointer(&socket->close_request);
    fail_sends(socket, error);
    g_hash_table_remove(sockets->sockets, socket->id); /* frees it */
    if (opening != NULL)
        ipb_rpc_pending_fail(opening, error);
    if (closing != NULL)
        ipb_rpc_pending_reply_empty(closing);
    report_if_closed(sockets);
}

static void
on_closed(IpbWebSocket *websocket, unsigned code, const char *reason, void *data)
{
    Socket *socket = data;
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "the WebSocket was closed (%u): %s", code,
                    reason != NULL && *reason != '\0' ? reason : "no reason was given");
    if (socket->open_request == NULL)
        notify_closed(socket, code, reason);
    end_socket(socket, error);
}

/* --- methods --------------------------------------------------------------------------------- */

static void
cancel_open(IpbRpcPending *pending)
{
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "opening the WebSocket was cancelled");
    end_socket(pending->data, error);
}

static void
open_socket(IpbRpcWebSockets *sockets, IpbRpcRequest *request, const IpbWebSocketTarget *target,
            const IpbWebSocketOptions *options)
{
    static const IpbWebSocketFuncs FUNCS = {on_open, on_message, on_drained, on_closed};
    g_autoptr(GError) error = NULL;
    Socket *socket = g_new0(Socket, 1);
    socket->owner = sockets;
    socket->client = sockets->client;
    g_queue_init(&socket->send_requests);
    if (g_hash_table_size(sockets->sockets) >= MAX_SOCKETS)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%d WebSockets are open: close some",
                    MAX_SOCKETS);
    else
        socket->socket =
            ipb_websocket_connect(sockets->loop, target, options, &FUNCS, socket, &error);
    if (socket->socket == NULL) {
        free_socket(socket);
        ipb_rpc_reply_error(request, error);
        return;
    }
    socket->id = ipb_rpc_client_make_id(sockets->client, 'w');
    g_hash_table_insert(sockets->sockets, socket->id, socket);
    socket->open_request = ipb_rpc_pending_new(sockets->client, NULL, request);
    socket->open_request->data = socket;
    socket->open_request->cancel = cancel_open;
}

static void
websocket_open(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    g_auto(GStrv) protocols = ipb_rpc_params_strings(params, "subprotocols");
    g_auto(GStrv) headers = ipb_rpc_params_pairs(params, "headers");
    IpbWebSocketOptions options = IPB_WEBSOCKET_OPTIONS;
    options.close_ms = CLOSE_TIMEOUT_MS;
    options.ping_ms = (unsigned) ipb_rpc_params_ms(params, "ping_interval", options.ping_ms);
    options.handshake_ms =
        (unsigned) ipb_rpc_params_ms(params, "connect_timeout", options.handshake_ms);
    options.max_message = (size_t) ipb_rpc_params_int(
        params, "max_message", (int64_t) options.max_message, 1, MAX_MESSAGE);
    IpbWebSocketTarget target = {
        .host = ipb_rpc_params_need_string(params, "host"),
        .port = (unsigned) ipb_rpc_params_int(params, "port", 0, 1, 65535),
        .path = ipb_rpc_params_string(params, "path"),
        .protocols = (const char *const *) protocols,
        .headers = (const char *const *) headers,
    };
    if (target.port == 0)
        ipb_rpc_params_refuse(params, "port", "an integer from 1 to 65535");
    if (target.path == NULL)
        target.path = "/";
    if (ipb_rpc_params_check(params, request))
        open_socket(group, request, &target, &options);
}

static Socket *
find_socket(IpbRpcWebSockets *sockets, IpbRpcParams *params)
{
    const char *id = ipb_rpc_params_need_string(params, "socket");
    Socket *socket = id != NULL ? g_hash_table_lookup(sockets->sockets, id) : NULL;
    if (socket != NULL && socket->open_request == NULL && socket->close_request == NULL)
        return socket;
    if (params->error == NULL)
        g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no WebSocket \"%.*s\" is open", 20, id);
    return NULL;
}

/* The message to send: the parameter "text" or "base64". *ret_decoded: its bytes, or NULL. */
static const char *
read_message(IpbRpcParams *params, size_t *ret_size, bool *ret_is_text, GBytes **ret_decoded)
{
    const IpbJson *text = ipb_rpc_params_get(params, "text");
    *ret_decoded = ipb_rpc_params_bytes(params, "base64");
    *ret_is_text = text != NULL;
    if (params->error != NULL)
        return NULL;
    if ((text != NULL) == (*ret_decoded != NULL)) {
        ipb_rpc_params_refuse(params, "text", "there, or base64, and not both");
        return NULL;
    }
    if (text == NULL)
        return g_bytes_get_data(*ret_decoded, ret_size);
    const char *string = ipb_json_string(text, ret_size);
    if (string == NULL)
        ipb_rpc_params_refuse(params, "text", "a string");
    return string;
}

static void
websocket_send(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Socket *socket = find_socket(group, params);
    size_t size = 0;
    bool is_text;
    g_autoptr(GBytes) decoded = NULL;
    const char *bytes = read_message(params, &size, &is_text, &decoded);
    if (!ipb_rpc_params_check(params, request))
        return;
    g_autoptr(GError) error = NULL;
    if (!ipb_websocket_send(socket->socket, bytes, size, is_text, &error))
        ipb_rpc_reply_error(request, error);
    else if (ipb_websocket_queued(socket->socket) == 0)
        ipb_rpc_reply_empty(request);
    else
        g_queue_push_tail(&socket->send_requests,
                          ipb_rpc_pending_new(socket->client, NULL, request));
}

static void
set_paused(IpbRpcWebSockets *sockets, IpbRpcRequest *request, IpbRpcParams *params, bool is_paused)
{
    Socket *socket = find_socket(sockets, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    socket->is_paused = is_paused;
    apply_pause(socket);
    ipb_rpc_reply_empty(request);
}

static void
websocket_pause(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(group, request, params, true);
}

static void
websocket_resume(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(group, request, params, false);
}

static void
websocket_close(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    Socket *socket = find_socket(group, params);
    unsigned code = (unsigned) ipb_rpc_params_int(params, "code", 1000, 1000, 4999);
    const char *reason = ipb_rpc_params_string(params, "reason");
    if (!ipb_rpc_params_check(params, request))
        return;
    socket->close_request = ipb_rpc_pending_new(socket->client, NULL, request);
    ipb_websocket_close(socket->socket, code, reason != NULL ? reason : "");
}

const IpbRpcMethod IPB_RPC_WEBSOCKET_METHODS[] = {
    {"websocket.open", websocket_open},
    {"websocket.send", websocket_send},
    {"websocket.pause", websocket_pause, .takes_notifications = true},
    {"websocket.resume", websocket_resume, .takes_notifications = true},
    {"websocket.close", websocket_close},
};
const size_t IPB_RPC_N_WEBSOCKET_METHODS = G_N_ELEMENTS(IPB_RPC_WEBSOCKET_METHODS);

/* --- all sockets ----------------------------------------------------------------------------- */

IpbRpcWebSockets *
ipb_rpc_websockets_new(IpbLoop *loop, IpbRpcClient *client)
{
    IpbRpcWebSockets *sockets = g_new0(IpbRpcWebSockets, 1);
    sockets->loop = loop;
    sockets->client = client;
    sockets->sockets = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_socket);
    return sockets;
}

void
ipb_rpc_websockets_set_congested(IpbRpcWebSockets *sockets, bool is_congested)
{
    sockets->is_congested = is_congested;
    GHashTableIter iter;
    void *socket;
    g_hash_table_iter_init(&iter, sockets->sockets);
    while (g_hash_table_iter_next(&iter, NULL, &socket))
        apply_pause(socket);
}

void
ipb_rpc_websockets_close(IpbRpcWebSockets *sockets, void (*done)(void *data), void *data)
{
    sockets->closed = done;
    sockets->closed_data = data;
    g_autoptr(GList) open = g_hash_table_get_values(sockets->sockets);
    for (GList *item = open; item != NULL; item = item->next) {
        const Socket *socket = item->data;
        ipb_websocket_close(socket->socket, GOING_AWAY, "");
    }
    report_if_closed(sockets);
}

void
ipb_rpc_websockets_free(IpbRpcWebSockets *sockets)
{
    g_hash_table_unref(sockets->sockets);
    g_free(sockets);
}
