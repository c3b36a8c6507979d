/* SPDX-License-Identifier: Apache-2.0
 *
 * The conversation of `ipybox rpc`: handshake, dispatch, answers, what the client is told; the end of all. What the methods do is
 * in the other rpc-….c.
 */
#include "serve/rpc/server.h"

#include <string.h>
#include <unistd.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "serve/rpc/private.h"

#define PROTOCOL 1
#define FLUSH_TIMEOUT_MS 1000
#define RPC_FAILED (-32000)

/* --- answers ----------------------------------------------------------------------------------- */

/* The word for it in the error's data. */
static const char *
error_kind(const GError *error)
{
    static const char *const KINDS[] = {
        [IPYBOX_ERROR_INVALID] = "invalid",
        [IPYBOX_ERROR_NOT_FOUND] = "not_found",
        [IPYBOX_ERROR_TIMEOUT] = "timeout",
        [IPYBOX_ERROR_CANCELLED] = "cancelled",
        [IPYBOX_ERROR_REFUSED] = "refused",
        [IPYBOX_ERROR_KERNEL_DIED] = "kernel_died",
        [IPYBOX_ERROR_SERVER] = "server",
        [IPYBOX_ERROR_PROTOCOL] = "protocol",
        [IPYBOX_ERROR_LIMIT] = "limit",
        [IPYBOX_ERROR_BUSY] = "busy",
        [IPYBOX_ERROR_UNAVAILABLE] = "unavailable",
        [IPYBOX_ERROR_SYSTEM] = "system",
        [IPYBOX_ERROR_CODE] = "code",
    };
    bool is_ours = error->domain == IPYBOX_ERROR && error->code >= 0 &&
                   error->code < (int) G_N_ELEMENTS(KINDS);
    return is_ours ? KINDS[error->code] : "system";
}

void
ipb_rpc_server_reply(IpbRpcRequest *request, IpbJsonWriter *writer)
{
    size_t size;
    g_autofree char *text = ipb_json_writer_finish(writer, &size);
    ipb_rpc_request_reply(request, text, size);
}

void
ipb_rpc_server_reply_nothing(IpbRpcRequest *request)
{
    ipb_rpc_request_reply(request, "{}", 2);
}

static void
fail_with_code(IpbRpcRequest *request, int code, const GError *error)
{
    g_autofree char *data = g_strdup_printf("{\"kind\":\"%s\"}", error_kind(error));
    ipb_rpc_request_fail(request, code, error->message, data);
}

void
ipb_rpc_server_fail(IpbRpcRequest *request, const GError *error)
{
    fail_with_code(request, RPC_FAILED, error);
}

bool
ipb_rpc_server_check(IpbRpcRequest *request, IpbRpcParams *params)
{
    g_autoptr(GError) error = NULL;
    if (ipb_rpc_params_finish(params, &error))
        return true;
    if (request == NULL)
        return false;
    bool is_params = error->code == IPYBOX_ERROR_INVALID;
    fail_with_code(request, is_params ? IPB_RPC_INVALID_PARAMS : RPC_FAILED, error);
    return false;
}

void
ipb_rpc_server_notify(IpbRpcServer *server, const char *method, IpbJsonWriter *writer)
{
    g_autofree char *params = ipb_json_writer_finish(writer, NULL);
    ipb_rpc_notify(server->peer, method, params);
}

IpbJsonWriter *
ipb_rpc_server_begin_event(const char *request, const char *type)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "request");
    ipb_json_write_raw(writer, request, strlen(request));
    ipb_json_key(writer, "event");
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "type", type);
    return writer;
}

void
ipb_rpc_server_send_event(IpbRpcServer *server, IpbJsonWriter *writer)
{
    ipb_json_end_object(writer);
    ipb_json_end_object(writer);
    ipb_rpc_server_notify(server, "session.event", writer);
}

void
ipb_rpc_server_log(IpbRpcServer *server, const char *level, const char *text, const char *session)
{
    if (server->peer == NULL)
        return;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "level", level);
    ipb_json_member_string(writer, "text", text);
    ipb_json_member_string(writer, "session", session);
    ipb_json_end_object(writer);
    ipb_rpc_server_notify(server, "log", writer);
}

void
ipb_rpc_server_log_warning(const char *text, void *data)
{
    ipb_rpc_server_log(data, "warning", text, NULL);
}

char *
ipb_rpc_server_make_id(IpbRpcServer *server, char letter)
{
    return g_strdup_printf("%c%" G_GUINT64_FORMAT, letter, (guint64) ++server->last_id);
}

/* --- dispatch ---------------------------------------------------------------------------------- */

static void
handle_initialize(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    ipb_rpc_params_int(params, "protocol", 0, PROTOCOL, PROTOCOL);
    if (ipb_rpc_params_get(params, "protocol") == NULL)
        ipb_rpc_params_refuse(params, "protocol", G_STRINGIFY(PROTOCOL));
    ipb_rpc_params_object(params, "client");
    if (!ipb_rpc_server_check(request, params))
        return;
    server->is_initialized = true;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "protocol", PROTOCOL);
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_member_int(writer, "pid", getpid());
    ipb_json_end_object(writer);
    ipb_rpc_server_reply(request, writer);
}

static const struct {
    const char *name;
    IpbRpcMethodFunc func;
} METHODS[] = {
    {"initialize", handle_initialize},
    {"session.open", ipb_rpc_session_open},
    {"session.start", ipb_rpc_session_start},
    {"session.execute", ipb_rpc_session_execute},
    {"session.interrupt", ipb_rpc_session_interrupt},
    {"session.cancel", ipb_rpc_session_cancel},
    {"session.pause", ipb_rpc_session_pause},
    {"session.resume", ipb_rpc_session_resume},
    {"session.reset", ipb_rpc_session_reset},
    {"session.close", ipb_rpc_session_close_method},
    {"session.register", ipb_rpc_session_register},
    {"session.install", ipb_rpc_session_install},
    {"sources.generate", ipb_rpc_sources_generate},
    {"mcp.connect", ipb_rpc_mcp_connect},
    {"mcp.list_tools", ipb_rpc_mcp_list_tools},
    {"mcp.call", ipb_rpc_mcp_call},
    {"mcp.close", ipb_rpc_mcp_close},
    {"websocket.open", ipb_rpc_websocket_open},
    {"websocket.send", ipb_rpc_websocket_send},
    {"websocket.pause", ipb_rpc_websocket_pause},
    {"websocket.resume", ipb_rpc_websocket_resume},
    {"websocket.close", ipb_rpc_websocket_close},
};

static IpbRpcMethodFunc
find_method(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(METHODS); i++)
        if (g_str_equal(METHODS[i].name, name))
            return METHODS[i].func;
    return NULL;
}

static void
on_request(IpbRpcRequest *request, void *data)
{
    IpbRpcServer *server = data;
    const char *name = ipb_rpc_request_method(request);
    IpbRpcMethodFunc method = find_method(name);
    if (method == NULL) {
        g_autofree char *message = g_strdup_printf("there is no method \"%s\"", name);
        ipb_rpc_request_fail(request, IPB_RPC_METHOD_NOT_FOUND, message, NULL);
    } else if (!server->is_initialized && method != handle_initialize) {
        ipb_rpc_request_fail(request, IPB_RPC_INVALID_REQUEST, "initialize must come first", NULL);
    } else if (server->is_closing) {
        ipb_rpc_request_fail(request, RPC_FAILED, "the core is ending", "{\"kind\":\"busy\"}");
    } else if (g_hash_table_contains(server->works, ipb_rpc_request_id(request))) {
        ipb_rpc_request_fail(request, IPB_RPC_INVALID_REQUEST,
                             "a request with this id is under way", NULL);
    } else {
        g_auto(IpbRpcParams) params;
        ipb_rpc_params_init(&params, ipb_rpc_request_params(request));
        method(server, request, &params);
    }
}

/* A notification of these saves the client an answer that it would throw away. */
static bool
may_be_notification(IpbRpcMethodFunc func)
{
    return func == ipb_rpc_session_cancel || func == ipb_rpc_session_pause ||
           func == ipb_rpc_session_resume || func == ipb_rpc_websocket_pause ||
           func == ipb_rpc_websocket_resume;
}

static void
on_notification(const char *method, const IpbJson *object, void *data)
{
    IpbRpcServer *server = data;
    IpbRpcMethodFunc func = find_method(method);
    if (!server->is_initialized || server->is_closing || !may_be_notification(func))
        return;
    g_auto(IpbRpcParams) params;
    ipb_rpc_params_init(&params, object);
    func(server, NULL, &params);
}

static void
on_invalid(const GError *why, void *data)
{
    IpbRpcServer *server = data;
    g_autofree char *line = g_strdup_printf("the client sent no valid message: %s", why->message);
    server->options.on_log("warning", line, server->options.data);
}

/* --- the conversation -------------------------------------------------------------------------- */

static void
on_congested(bool is_congested, void *data)
{
    IpbRpcServer *server = data;
    if (server->is_closing)
        return;
    server->is_congested = is_congested;
    GHashTableIter iter;
    void *session;
    g_hash_table_iter_init(&iter, server->sessions);
    while (g_hash_table_iter_next(&iter, NULL, &session))
        ipb_rpc_session_apply_pause(session);
    void *socket;
    g_hash_table_iter_init(&iter, server->sockets);
    while (g_hash_table_iter_next(&iter, NULL, &socket))
        ipb_rpc_socket_apply_pause(socket);
}

static void
on_end(const GError *why, void *data)
{
    IpbRpcServer *server = data;
    server->options.on_end(why, server->options.data);
}

static const IpbConversationFuncs FUNCS = {
    .on_request = on_request,
    .on_notification = on_notification,
    .on_invalid = on_invalid,
    .on_congested = on_congested,
    .on_end = on_end,
};

bool
ipb_rpc_server_cancel_held(IpbRpcServer *server, const char *id_json)
{
    const char *name = ipb_conversation_held_method(server->conversation, id_json);
    IpbRpcMethodFunc method = name != NULL ? find_method(name) : NULL;
    if (method == NULL)
        return false;
    if (method ==
        ipb_rpc_session_execute) { /* as a cell that waits, which has an answer of its own */
        ipb_conversation_begin(server->conversation, id_json);
        return false;
    }
    if (method == ipb_rpc_session_reset || method == ipb_rpc_session_close_method)
        return true; /* they cannot be taken back */
    ipb_conversation_drop(server->conversation, id_json);
    ipb_rpc_peer_refuse(server->peer, id_json, RPC_FAILED, "it was cancelled before it began",
                        "{\"kind\":\"cancelled\"}");
    return true;
}

/* --- life -------------------------------------------------------------------------------------- */

IpbRpcServer *
ipb_rpc_server_new(IpbLoop *loop, const IpbRpcServerOptions *options, GError **error)
{
    IpbRpcServer *server = g_new0(IpbRpcServer, 1);
    server->options = *options;
    server->conversation =
        ipb_conversation_new(loop, options->in, options->out, &FUNCS, server, error);
    if (server->conversation == NULL) {
        g_free(server);
        return NULL;
    }
    server->loop = ipb_loop_ref(loop);
    server->peer = ipb_conversation_peer(server->conversation);
    server->runtimes = ipb_rpc_runtimes_new();
    server->sources = ipb_rpc_sources_new(server);
    server->clients =
        g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify) ipb_rpc_client_free);
    server->sockets =
        g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify) ipb_rpc_socket_free);
    server->sessions =
        g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify) ipb_rpc_session_free);
    server->works =
        g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify) ipb_rpc_work_free);
    return server;
}

static void
on_runtimes_stopped(void *data)
{
    IpbRpcServer *server = data;
    server->closed(server->closed_data); /* may free it */
}

void
ipb_rpc_server_part_closed(IpbRpcServer *server)
{
    if (server->is_closing && --server->n_closing == 0)
        ipb_rpc_runtimes_stop(server->runtimes, on_runtimes_stopped, server);
}

void
ipb_rpc_server_close(IpbRpcServer *server, void (*done)(void *data), void *data)
{
    server->is_closing = true;
    server->closed = done;
    server->closed_data = data;
    g_autoptr(GList) sessions = g_hash_table_get_values(server->sessions);
    g_autoptr(GList) clients = g_hash_table_get_values(server->clients);
    g_autoptr(GList) sockets = g_hash_table_get_values(server->sockets);
    server->n_closing =
        1 + g_list_length(sessions) + g_list_length(clients) + g_list_length(sockets);
    server->n_closing += ipb_rpc_sources_close(server->sources);
    for (GList *item = clients; item != NULL; item = item->next)
        ipb_rpc_client_close(item->data);
    for (GList *item = sockets; item != NULL; item = item->next)
        ipb_rpc_socket_close(item->data);
    for (GList *item = sessions; item != NULL; item = item->next)
        ipb_rpc_session_close(item->data, NULL);
    ipb_rpc_server_part_closed(server); /* our own one */
}

void
ipb_rpc_server_free(IpbRpcServer *server)
{
    if (server == NULL)
        return;
    server->is_closing = true;
    ipb_conversation_finish(server->conversation, FLUSH_TIMEOUT_MS);
    g_hash_table_unref(server->sessions);
    g_hash_table_unref(server->clients);
    g_hash_table_unref(server->sockets);
    ipb_rpc_sources_free(server->sources);
    g_hash_table_unref(server->works);
    ipb_conversation_free(server->conversation);
    ipb_rpc_runtimes_free(server->runtimes);
    ipb_loop_unref(server->loop);
    g_free(server);
}
