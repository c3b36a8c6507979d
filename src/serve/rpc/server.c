/* SPDX-License-Identifier: Apache-2.0
 *
 * The conversation of `ipybox rpc`: handshake, dispatch, cancellation, end. The methods are
 * implemented elsewhere, in groups. The server looks a method up in the tables of the groups.
 */
#include "serve/rpc/server.h"

#include <string.h>
#include <unistd.h>

#include <ipybox/version.h>

#include "base/error.h"
#include "serve/conversation.h"
#include "serve/rpc/commands.h"
#include "serve/rpc/mcp-connections.h"
#include "serve/rpc/package-generator.h"
#include "serve/rpc/sessions.h"
#include "serve/rpc/websockets.h"

#define PROTOCOL 1
#define FLUSH_TIMEOUT_MS 1000
#define MAX_GROUPS 6
#define BUSY_ERROR "{\"kind\":\"busy\"}"
#define CANCELLED_ERROR "{\"kind\":\"cancelled\"}"

/* Methods, and the object that has them. */
typedef struct {
    const IpbRpcMethod *methods;
    size_t n_methods;
    void *object;
} Group;

struct IpbRpcServer {
    IpbRpcServerOptions options;
    IpbLoop *loop;
    IpbConversation *conversation;
    IpbRpcClient *client;
    IpbLegacyServers *legacy_servers;
    IpbRuntimes *runtimes;
    IpbRpcSessions *sessions;
    IpbRpcPackageGenerator *generator;
    IpbRpcMcpConnections *connections;
    IpbRpcWebSockets *sockets;
    Group groups[MAX_GROUPS];
    bool is_initialized;
    bool is_closing;
    unsigned n_closing; /* parts that are not closed yet */
    void (*closed)(void *data);
    void *closed_data;
};

/* --- methods --------------------------------------------------------------------------------- */

/* NULL: there is none. */
static const IpbRpcMethod *
find_method(const IpbRpcServer *server, const char *name, void **ret_object)
{
    for (size_t i = 0; i < MAX_GROUPS; i++) {
        const Group *group = &server->groups[i];
        for (size_t j = 0; j < group->n_methods; j++) {
            if (!g_str_equal(group->methods[j].name, name))
                continue;
            *ret_object = group->object;
            return &group->methods[j];
        }
    }
    return NULL;
}

static void
initialize(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcServer *server = group;
    ipb_rpc_params_int(params, "protocol", 0, PROTOCOL, PROTOCOL);
    if (ipb_rpc_params_get(params, "protocol") == NULL)
        ipb_rpc_params_refuse(params, "protocol", G_STRINGIFY(PROTOCOL));
    ipb_rpc_params_object(params, "client");
    if (!ipb_rpc_params_check(params, request))
        return;
    server->is_initialized = true;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_int(writer, "protocol", PROTOCOL);
    ipb_json_member_string(writer, "version", IPYBOX_VERSION);
    ipb_json_member_int(writer, "pid", getpid());
    ipb_json_end_object(writer);
    ipb_rpc_reply(request, writer);
}

/* Cancels a request that the conversation holds because the client reads slowly. False: no such
 * request is held, or it was begun and can be cancelled now. */
static bool
cancel_held(IpbRpcServer *server, const char *id)
{
    void *object;
    const char *name = ipb_conversation_held_method(server->conversation, id);
    const IpbRpcMethod *method = name != NULL ? find_method(server, name, &object) : NULL;
    if (method == NULL)
        return false;
    switch (method->cancel_mode) {
    case IPB_RPC_CANCEL_BEGINS:
        ipb_conversation_begin(server->conversation, id);
        return false;
    case IPB_RPC_CANCEL_NEVER:
        break;
    case IPB_RPC_CANCEL_DROPS:
        ipb_conversation_refuse(server->conversation, id, IPB_RPC_FAILED,
                                "it was cancelled before it began", CANCELLED_ERROR);
        break;
    }
    return true;
}

static void
session_cancel(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcServer *server = group;
    g_autofree char *id = ipb_rpc_params_need_id(params, "request");
    if (!ipb_rpc_params_check(params, request))
        return;
    if (!cancel_held(server, id))
        ipb_rpc_client_cancel(server->client, id);
    ipb_rpc_reply_empty(request);
}

static const IpbRpcMethod METHODS[] = {
    {"initialize", initialize},
    {"session.cancel", session_cancel, .takes_notifications = true},
};

/* --- dispatch -------------------------------------------------------------------------------- */

static void
on_request(IpbRpcRequest *request, void *data)
{
    IpbRpcServer *server = data;
    void *object;
    const char *name = ipb_rpc_request_method(request);
    const IpbRpcMethod *method = find_method(server, name, &object);
    if (method == NULL) {
        g_autofree char *message = g_strdup_printf("there is no method \"%s\"", name);
        ipb_rpc_request_fail(request, IPB_RPC_METHOD_NOT_FOUND, message, NULL);
    } else if (!server->is_initialized && method->func != initialize) {
        ipb_rpc_request_fail(request, IPB_RPC_INVALID_REQUEST, "initialize must come first", NULL);
    } else if (server->is_closing) {
        ipb_rpc_request_fail(request, IPB_RPC_FAILED, "the core is ending", BUSY_ERROR);
    } else if (ipb_rpc_client_find(server->client, ipb_rpc_request_id(request)) != NULL) {
        ipb_rpc_request_fail(request, IPB_RPC_INVALID_REQUEST,
                             "a request with this id is under way", NULL);
    } else {
        g_auto(IpbRpcParams) params;
        ipb_rpc_params_init(&params, ipb_rpc_request_params(request));
        method->func(object, request, &params);
    }
}

static void
on_notification(const char *name, const IpbJson *members, void *data)
{
    IpbRpcServer *server = data;
    void *object;
    const IpbRpcMethod *method = find_method(server, name, &object);
    if (!server->is_initialized || server->is_closing || method == NULL ||
        !method->takes_notifications)
        return;
    g_auto(IpbRpcParams) params;
    ipb_rpc_params_init(&params, members);
    method->func(object, NULL, &params);
}

static void
on_invalid(const GError *why, void *data)
{
    IpbRpcServer *server = data;
    g_autofree char *line = g_strdup_printf("the client sent an invalid message: %s", why->message);
    server->options.on_log("warning", line, server->options.data);
}

static void
on_congested(bool is_congested, void *data)
{
    IpbRpcServer *server = data;
    if (server->is_closing)
        return;
    ipb_rpc_sessions_set_congested(server->sessions, is_congested);
    ipb_rpc_websockets_set_congested(server->sockets, is_congested);
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

/* --- life ------------------------------------------------------------------------------------ */

static void
on_generated(const IpbRegistration *registration, void *data)
{
    IpbRpcServer *server = data;
    ipb_rpc_sessions_allow(server->sessions, registration);
}

static void
make_groups(IpbRpcServer *server)
{
    server->sessions = ipb_rpc_sessions_new(server->client, server->runtimes);
    server->generator = ipb_rpc_package_generator_new(&(IpbRpcPackageGeneratorOptions){
        .loop = server->loop,
        .client = server->client,
        .legacy_servers = server->legacy_servers,
        .on_generated = on_generated,
        .data = server,
    });
    server->connections =
        ipb_rpc_mcp_connections_new(server->loop, server->client, server->legacy_servers);
    server->sockets = ipb_rpc_websockets_new(server->loop, server->client);
    const Group groups[MAX_GROUPS] = {
        {METHODS, G_N_ELEMENTS(METHODS), server},
        {IPB_RPC_SESSION_METHODS, IPB_RPC_N_SESSION_METHODS, server->sessions},
        {IPB_RPC_COMMAND_METHODS, IPB_RPC_N_COMMAND_METHODS, server->client},
        {IPB_RPC_PACKAGE_METHODS, IPB_RPC_N_PACKAGE_METHODS, server->generator},
        {IPB_RPC_MCP_METHODS, IPB_RPC_N_MCP_METHODS, server->connections},
        {IPB_RPC_WEBSOCKET_METHODS, IPB_RPC_N_WEBSOCKET_METHODS, server->sockets},
    };
    memcpy(server->groups, groups, sizeof(groups));
}

IpbRpcServer *
ipb_rpc_server_new(IpbLoop *loop, const IpbRpcServerOptions *options)
{
    IpbRpcServer *server = g_new0(IpbRpcServer, 1);
    server->options = *options;
    server->conversation = ipb_conversation_new(loop, options->channel, &FUNCS, server);
    server->loop = ipb_loop_ref(loop);
    server->client = ipb_rpc_client_new(ipb_conversation_peer(server->conversation));
    server->legacy_servers = ipb_legacy_servers_new();
    server->runtimes = ipb_runtimes_new();
    make_groups(server);
    return server;
}

static void
on_runtimes_stopped(void *data)
{
    IpbRpcServer *server = data;
    server->closed(server->closed_data); /* may free it */
}

static void
on_part_closed(void *data)
{
    IpbRpcServer *server = data;
    if (--server->n_closing == 0)
        ipb_runtimes_stop(server->runtimes, on_runtimes_stopped, server);
}

void
ipb_rpc_server_close(IpbRpcServer *server, void (*done)(void *data), void *data)
{
    server->is_closing = true;
    server->closed = done;
    server->closed_data = data;
    server->n_closing = 4;
    ipb_rpc_package_generator_close(server->generator, on_part_closed, server);
    ipb_rpc_mcp_connections_close(server->connections, on_part_closed, server);
    ipb_rpc_websockets_close(server->sockets, on_part_closed, server);
    ipb_rpc_sessions_close(server->sessions, on_part_closed, server);
}

void
ipb_rpc_server_free(IpbRpcServer *server)
{
    if (server == NULL)
        return;
    server->is_closing = true;
    ipb_conversation_finish(server->conversation, FLUSH_TIMEOUT_MS);
    ipb_rpc_sessions_free(server->sessions);
    ipb_rpc_mcp_connections_free(server->connections);
    ipb_rpc_websockets_free(server->sockets);
    ipb_rpc_package_generator_free(server->generator);
    ipb_legacy_servers_unref(server->legacy_servers);
    ipb_rpc_client_free(server->client);
    ipb_conversation_free(server->conversation);
    ipb_runtimes_free(server->runtimes);
    ipb_loop_unref(server->loop);
    g_free(server);
}
