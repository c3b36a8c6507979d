/* SPDX-License-Identifier: Apache-2.0
 *
 * websocket.open and what follows: WebSockets of the client, over plain TCP, for SDKs whose language has none. While the client reads
 * slower than messages come, they are not received.
 *
 * Ownership: the server owns the sockets; each is gone when it is closed.
 */
#include <string.h>

#include "base/error.h"
#include "http/websocket.h"
#include "serve/rpc/private.h"

#define MAX_SOCKETS 1000
#define MAX_MESSAGE (32 * 1024 * 1024)
/* So long the end waits for peers that do not answer a close. */
#define CLOSE_TIMEOUT_MS 2000
#define GOING_AWAY 1001
#define BASE64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

struct IpbRpcSocket {
    IpbRpcServer *server;
    char *id;
    IpbWebSocket *socket;
    IpbRpcWork *opening, *closing; /* requests that wait, or NULL */
    GQueue sending;                /* IpbRpcWork: answered when all is out */
    bool is_paused;                /* by the client */
};

void
ipb_rpc_socket_free(IpbRpcSocket *socket)
{
    ipb_websocket_free(socket->socket);
    g_queue_clear(&socket->sending); /* the requests are the server's */
    g_free(socket->id);
    g_free(socket);
}

void
ipb_rpc_socket_apply_pause(IpbRpcSocket *socket)
{
    if (socket->opening == NULL)
        ipb_websocket_pause(socket->socket, socket->is_paused || socket->server->is_congested);
}

/* --- what it tells ----------------------------------------------------------------------------- */

static void
answer_sends(IpbRpcSocket *socket)
{
    IpbRpcWork *work;
    while ((work = g_queue_pop_head(&socket->sending)) != NULL)
        ipb_rpc_work_reply_nothing(work);
}

static void
on_open(IpbWebSocket *websocket, void *data)
{
    IpbRpcSocket *socket = data;
    IpbRpcWork *work = g_steal_pointer(&socket->opening);
    const char *protocol = ipb_websocket_protocol(websocket);
    ipb_rpc_socket_apply_pause(socket);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "socket", socket->id);
    ipb_json_member_string(writer, "subprotocol", *protocol != '\0' ? protocol : NULL);
    ipb_json_end_object(writer);
    ipb_rpc_work_reply(work, writer);
}

static void
on_message(IpbWebSocket *websocket, const char *bytes, size_t size, bool is_text, void *data)
{
    IpbRpcSocket *socket = data;
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
    ipb_rpc_server_notify(socket->server, "websocket.message", writer);
}

static void
on_drained(IpbWebSocket *websocket, void *data)
{
    answer_sends(data);
}

static void
fail_sends(IpbRpcSocket *socket, const GError *error)
{
    IpbRpcWork *work;
    while ((work = g_queue_pop_head(&socket->sending)) != NULL)
        ipb_rpc_work_fail(work, error);
}

static void
tell_closed(const IpbRpcSocket *socket, unsigned code, const char *reason)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "socket", socket->id);
    ipb_json_member_int(writer, "code", code);
    ipb_json_member_string(writer, "reason", reason);
    ipb_json_end_object(writer);
    ipb_rpc_server_notify(socket->server, "websocket.closed", writer);
}

/* Those who wait get their answers, then it is gone. */
static void
end_socket(IpbRpcSocket *socket, const GError *error)
{
    IpbRpcServer *server = socket->server;
    IpbRpcWork *opening = g_steal_pointer(&socket->opening);
    IpbRpcWork *closing = g_steal_pointer(&socket->closing);
    fail_sends(socket, error);
    g_hash_table_remove(server->sockets, socket->id); /* frees it */
    if (opening != NULL)
        ipb_rpc_work_fail(opening, error);
    if (closing != NULL)
        ipb_rpc_work_reply_nothing(closing);
    ipb_rpc_server_part_closed(server);
}

static void
on_closed(IpbWebSocket *websocket, unsigned code, const char *reason, void *data)
{
    IpbRpcSocket *socket = data;
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "the WebSocket was closed (%u): %s", code,
                    reason != NULL && *reason != '\0' ? reason : "no reason was given");
    if (socket->opening == NULL)
        tell_closed(socket, code, reason);
    end_socket(socket, error);
}

/* --- methods ----------------------------------------------------------------------------------- */

static void
cancel_open(IpbRpcWork *work)
{
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the WebSocket was not waited for");
    end_socket(work->data, error);
}

static void
open_socket(IpbRpcServer *server, IpbRpcRequest *request, const IpbWebSocketTarget *target,
            const IpbWebSocketOptions *options)
{
    static const IpbWebSocketFuncs FUNCS = {on_open, on_message, on_drained, on_closed};
    g_autoptr(GError) error = NULL;
    IpbRpcSocket *socket = g_new0(IpbRpcSocket, 1);
    socket->server = server;
    g_queue_init(&socket->sending);
    if (g_hash_table_size(server->sockets) >= MAX_SOCKETS)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%d WebSockets are open: close some",
                    MAX_SOCKETS);
    else
        socket->socket =
            ipb_websocket_connect(server->loop, target, options, &FUNCS, socket, &error);
    if (socket->socket == NULL) {
        ipb_rpc_socket_free(socket);
        ipb_rpc_server_fail(request, error);
        return;
    }
    socket->id = ipb_rpc_server_make_id(server, 'w');
    g_hash_table_insert(server->sockets, socket->id, socket);
    socket->opening = ipb_rpc_work_new(server, NULL, request);
    socket->opening->data = socket;
    socket->opening->cancel = cancel_open;
}

void
ipb_rpc_websocket_open(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
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
    if (ipb_rpc_server_check(request, params))
        open_socket(server, request, &target, &options);
}

static IpbRpcSocket *
find_socket(IpbRpcServer *server, IpbRpcParams *params)
{
    const char *id = ipb_rpc_params_need_string(params, "socket");
    IpbRpcSocket *socket = id != NULL ? g_hash_table_lookup(server->sockets, id) : NULL;
    if (socket != NULL && socket->opening == NULL && socket->closing == NULL)
        return socket;
    if (params->error == NULL)
        g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no WebSocket \"%.*s\" is open", 20, id);
    return NULL;
}

/* What is to be sent: the parameter "text" or "base64". Caller frees what is decoded. */
static const char *
read_message(IpbRpcParams *params, size_t *ret_size, bool *ret_is_text, char **ret_decoded)
{
    const IpbJson *text = ipb_rpc_params_get(params, "text");
    const char *base64 = ipb_rpc_params_string(params, "base64");
    *ret_is_text = text != NULL;
    if ((text != NULL) == (base64 != NULL)) {
        ipb_rpc_params_refuse(params, "text", "there, or base64, and not both");
        return NULL;
    }
    if (text != NULL) {
        const char *string = ipb_json_string(text, ret_size);
        if (string == NULL)
            ipb_rpc_params_refuse(params, "text", "a string");
        return string;
    }
    size_t length = strlen(base64), digits = strspn(base64, BASE64);
    if (length % 4 != 0 || length - digits > 2 || strspn(base64 + digits, "=") != length - digits) {
        ipb_rpc_params_refuse(params, "base64", "bytes in Base64");
        return NULL;
    }
    *ret_decoded = (char *) g_base64_decode(base64, ret_size);
    return *ret_decoded;
}

void
ipb_rpc_websocket_send(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSocket *socket = find_socket(server, params);
    size_t size = 0;
    bool is_text;
    g_autofree char *decoded = NULL;
    const char *bytes = read_message(params, &size, &is_text, &decoded);
    if (!ipb_rpc_server_check(request, params))
        return;
    g_autoptr(GError) error = NULL;
    if (!ipb_websocket_send(socket->socket, bytes, size, is_text, &error))
        ipb_rpc_server_fail(request, error);
    else if (ipb_websocket_queued(socket->socket) == 0)
        ipb_rpc_server_reply_nothing(request);
    else
        g_queue_push_tail(&socket->sending, ipb_rpc_work_new(server, NULL, request));
}

static void
set_paused(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params, bool is_paused)
{
    IpbRpcSocket *socket = find_socket(server, params);
    if (!ipb_rpc_server_check(request, params))
        return;
    socket->is_paused = is_paused;
    ipb_rpc_socket_apply_pause(socket);
    if (request != NULL)
        ipb_rpc_server_reply_nothing(request);
}

void
ipb_rpc_websocket_pause(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(server, request, params, true);
}

void
ipb_rpc_websocket_resume(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    set_paused(server, request, params, false);
}

void
ipb_rpc_websocket_close(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcSocket *socket = find_socket(server, params);
    unsigned code = (unsigned) ipb_rpc_params_int(params, "code", 1000, 1000, 4999);
    const char *reason = ipb_rpc_params_string(params, "reason");
    if (!ipb_rpc_server_check(request, params))
        return;
    socket->closing = ipb_rpc_work_new(server, NULL, request);
    ipb_websocket_close(socket->socket, code, reason != NULL ? reason : "");
}

void
ipb_rpc_socket_close(IpbRpcSocket *socket)
{
    ipb_websocket_close(socket->socket, GOING_AWAY, "");
}
