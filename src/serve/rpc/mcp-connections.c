/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections to MCP servers; see the header.
 */
#include "serve/rpc/mcp-connections.h"

#include <string.h>

#include "base/error.h"
#include "session/environment.h"
#include "session/installation-paths.h"
#include "tools/tool-result.h"

/* Each may be a child process. */
#define MAX_CONNECTIONS 256
/* The server's name in messages. */
#define NAME "server"

struct IpbRpcMcpConnections {
    IpbLoop *loop;
    IpbRpcClient *client;
    IpbLegacyServers *legacy_servers;
    GHashTable *connections;    /* id → Connection */
    void (*closed)(void *data); /* NULL: not closing */
    void *closed_data;
};

typedef struct {
    IpbRpcMcpConnections *owner;
    char *id;
    IpbMcpClient *mcp;
    IpbRpcPending *connect_request, *close_request; /* or NULL */
    bool is_closing;
} Connection;

static void
free_connection(void *data)
{
    Connection *connection = data;
    connection->is_closing = true;
    ipb_mcp_client_free(connection->mcp); /* calls under way fail */
    g_free(connection->id);
    g_free(connection);
}

static void
report_if_closed(IpbRpcMcpConnections *connections)
{
    if (connections->closed != NULL && g_hash_table_size(connections->connections) == 0)
        g_steal_pointer (&connections->closed)(connections->closed_data);
}

static void
on_ended(void *data)
{
    Connection *connection = data;
    IpbRpcMcpConnections *connections = connection->owner;
    IpbRpcPending *close_request = g_steal_pointer(&connection->close_request);
    g_hash_table_remove(connections->connections, connection->id); /* frees it */
    if (close_request != NULL)
        ipb_rpc_pending_reply_empty(close_request);
    report_if_closed(connections);
}

static void
close_connection(Connection *connection)
{
    if (connection->is_closing)
        return;
    connection->is_closing = true;
    ipb_mcp_client_close(connection->mcp, on_ended, connection);
}

static void
on_closed(const GError *why, void *data)
{
    const Connection *connection = data;
    g_autofree char *line = g_strdup_printf("%s: %s", connection->id, why->message);
    ipb_rpc_client_log(connection->owner->client, "warning", line, NULL);
}

static void
on_log(const char *level, const char *text, void *data)
{
    const Connection *connection = data;
    g_autofree char *line = g_strdup_printf("%s: %s", connection->id, text);
    ipb_rpc_client_log(connection->owner->client, level, line, NULL);
}

/* --- mcp.connect ----------------------------------------------------------------------------- */

static void
on_connected(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    Connection *connection = data;
    IpbRpcPending *pending = g_steal_pointer(&connection->connect_request);
    if (error != NULL) {
        if (pending != NULL)
            ipb_rpc_pending_fail(pending, error);
        close_connection(connection);
        return;
    }
    if (pending == NULL)
        return;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "client", connection->id);
    ipb_json_end_object(writer);
    ipb_rpc_pending_reply(pending, writer);
}

static void
cancel_connect(IpbRpcPending *pending)
{
    close_connection(pending->data); /* on_connected gets an error */
}

static void
open_connection(IpbRpcMcpConnections *connections, IpbRpcRequest *request,
                const IpbMcpClientOptions *options)
{
    static const IpbMcpClientFuncs FUNCS = {.on_closed = on_closed, .on_log = on_log};
    Connection *connection = g_new0(Connection, 1);
    connection->owner = connections;
    connection->id = ipb_rpc_client_make_id(connections->client, 'c');
    connection->mcp = ipb_mcp_client_new(connections->loop, options, &FUNCS, connection);
    connection->connect_request = ipb_rpc_pending_new(connections->client, NULL, request);
    connection->connect_request->data = connection;
    connection->connect_request->cancel = cancel_connect;
    g_hash_table_insert(connections->connections, connection->id, connection);
    ipb_mcp_client_connect(connection->mcp, on_connected, connection);
}

static IpbServerParams *
read_server_params(const IpbJson *object, const char *const *env, GError **error)
{
    g_autoptr(IpbServerParams) params = ipb_server_params_parse(object, error);
    return params != NULL ? ipb_server_params_expand(params, env, error) : NULL;
}

static void
mcp_connect(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcMcpConnections *connections = group;
    g_autofree char *current_dir = g_get_current_dir();
    g_auto(GStrv) given = ipb_rpc_params_environment(params, "env");
    const char *workspace = ipb_rpc_params_path(params, "workspace");
    const char *python = ipb_rpc_params_string(params, "python");
    const IpbJson *object = ipb_rpc_params_need_object(params, "server_params");
    IpbMcpClientOptions options = {
        .name = NAME,
        .cwd = workspace != NULL ? workspace : current_dir,
        .connect_timeout_ms = (unsigned) ipb_rpc_params_ms(params, "connect_timeout", 0),
        .legacy_servers = connections->legacy_servers,
    };
    if (!ipb_rpc_params_check(params, request))
        return;
    g_auto(GStrv) env = ipb_environment_application(
        (const char *const *) given, options.cwd, /* is_sandboxed= */ false,
        ipb_rpc_client_log_warning, connections->client);
    g_auto(GStrv) keep_out =
        ipb_installation_paths_protected_from_servers(python, NULL, NULL, NULL);
    options.base_env = (const char *const *) env;
    options.keep_out = (const char *const *) keep_out;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbServerParams) expanded = NULL;
    if (g_hash_table_size(connections->connections) >= MAX_CONNECTIONS)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%d connections to MCP servers are open: close some", MAX_CONNECTIONS);
    else
        expanded = read_server_params(object, options.base_env, &error);
    options.params = expanded;
    if (error != NULL)
        ipb_rpc_reply_error(request, error);
    else
        open_connection(connections, request, &options);
}

/* --- using a connection ---------------------------------------------------------------------- */

/* NULL, with an error in @params: no connection with the id in the parameter "client" is open. */
static Connection *
find_connection(IpbRpcMcpConnections *connections, IpbRpcParams *params)
{
    const char *id = ipb_rpc_params_need_string(params, "client");
    Connection *connection = id != NULL ? g_hash_table_lookup(connections->connections, id) : NULL;
    if (connection != NULL && !connection->is_closing && connection->connect_request == NULL)
        return connection;
    if (params->error == NULL)
        g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no connection \"%.*s\" is open", 20, id);
    return NULL;
}

static void
on_tools(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    if (error != NULL) {
        ipb_rpc_pending_fail(data, error);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_value(writer, "tools", ipb_json_get(result, "tools"));
    ipb_json_end_object(writer);
    ipb_rpc_pending_reply(data, writer);
}

static void
mcp_list_tools(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcMcpConnections *connections = group;
    Connection *connection = find_connection(connections, params);
    if (ipb_rpc_params_check(params, request))
        ipb_mcp_client_list_tools(connection->mcp, on_tools,
                                  ipb_rpc_pending_new(connections->client, NULL, request));
}

/* Data of the pending request of a call. */
typedef struct {
    IpbRpcMcpConnections *connections;
    char *connection; /* id */
    char *tool;
} Call;

static void
free_call(void *data)
{
    Call *call = data;
    g_free(call->connection);
    g_free(call->tool);
    g_free(call);
}

/* The error is the tool's own text, without the prefix "server.tool: ": the client knows which tool
 * it called. */
static void
fail_call(IpbRpcPending *pending, const GError *error)
{
    const Call *call = pending->data;
    g_autofree char *prefix = g_strdup_printf(NAME ".%s: ", call->tool);
    const char *message = error->message;
    if (g_str_has_prefix(message, prefix))
        message += strlen(prefix);
    g_autoptr(GError) own = g_error_new_literal(error->domain, error->code, message);
    ipb_rpc_pending_fail(pending, own);
}

static void
on_result(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    IpbRpcPending *pending = data;
    const Call *call = pending->data;
    g_autoptr(GError) failure = error != NULL ? g_error_copy(error) : NULL;
    g_autoptr(GBytes) bytes = failure == NULL
                                  ? ipb_tool_result_map(result, document, IPB_TOOL_RESULT_VALUE,
                                                        NAME, call->tool, &failure)
                                  : NULL;
    if (bytes == NULL) {
        fail_call(pending, failure);
        return;
    }
    gsize size;
    const char *text = g_bytes_get_data(bytes, &size);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "result");
    ipb_json_write_raw(writer, text, size);
    ipb_json_end_object(writer);
    ipb_rpc_pending_reply(pending, writer);
}

static void
cancel_call(IpbRpcPending *pending)
{
    const Call *call = pending->data;
    Connection *connection = g_hash_table_lookup(call->connections->connections, call->connection);
    if (connection != NULL)
        ipb_mcp_client_cancel(connection->mcp, (int64_t) pending->number);
}

static void
mcp_call(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcMcpConnections *connections = group;
    Connection *connection = find_connection(connections, params);
    const char *tool = ipb_rpc_params_need_string(params, "tool_name");
    const IpbJson *arguments = ipb_rpc_params_object(params, "tool_args");
    if (!ipb_rpc_params_check(params, request))
        return;
    IpbSpan raw = arguments != NULL ? ipb_json_raw(arguments) : (IpbSpan){"{}", 2};
    Call *call = g_new(Call, 1);
    *call = (Call){connections, g_strdup(connection->id), g_strdup(tool)};
    IpbRpcPending *pending = ipb_rpc_pending_new(connections->client, NULL, request);
    pending->data = call;
    pending->free_data = free_call;
    pending->cancel = cancel_call;
    pending->number = (uint64_t) ipb_mcp_client_call_tool(connection->mcp, tool, raw.start,
                                                          raw.size, NULL, on_result, pending);
}

static void
mcp_close(void *group, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcMcpConnections *connections = group;
    Connection *connection = find_connection(connections, params);
    if (!ipb_rpc_params_check(params, request))
        return;
    connection->close_request = ipb_rpc_pending_new(connections->client, NULL, request);
    close_connection(connection);
}

const IpbRpcMethod IPB_RPC_MCP_METHODS[] = {
    {"mcp.connect", mcp_connect},
    {"mcp.list_tools", mcp_list_tools},
    {"mcp.call", mcp_call},
    {"mcp.close", mcp_close},
};
const size_t IPB_RPC_N_MCP_METHODS = G_N_ELEMENTS(IPB_RPC_MCP_METHODS);

/* --- all connections ------------------------------------------------------------------------- */

IpbRpcMcpConnections *
ipb_rpc_mcp_connections_new(IpbLoop *loop, IpbRpcClient *client, IpbLegacyServers *legacy_servers)
{
    IpbRpcMcpConnections *connections = g_new0(IpbRpcMcpConnections, 1);
    connections->loop = loop;
    connections->client = client;
    connections->legacy_servers = legacy_servers;
    connections->connections =
        g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_connection);
    return connections;
}

void
ipb_rpc_mcp_connections_close(IpbRpcMcpConnections *connections, void (*done)(void *data),
                              void *data)
{
    connections->closed = done;
    connections->closed_data = data;
    g_autoptr(GList) open = g_hash_table_get_values(connections->connections);
    for (GList *item = open; item != NULL; item = item->next)
        close_connection(item->data);
    report_if_closed(connections);
}

void
ipb_rpc_mcp_connections_free(IpbRpcMcpConnections *connections)
{
    g_hash_table_unref(connections->connections);
    g_free(connections);
}
