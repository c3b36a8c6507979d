/* SPDX-License-Identifier: Apache-2.0
 *
 * mcp.connect and what follows: connections of the client's own to MCP servers, without a kernel. Nobody is asked for approval:
 * the client is the one who calls.
 *
 * Ownership: the server owns the connections; each is gone when its MCP server is.
 */
#include <string.h>

#include "base/error.h"
#include "mcp/client.h"
#include "serve/rpc/private.h"
#include "session/environment.h"
#include "session/sandbox-paths.h"
#include "tools/tool-result.h"

/* Each may be a child process. */
#define MAX_CLIENTS 256
/* How the connection is called in messages. */
#define NAME "server"

struct IpbRpcClient {
    IpbRpcServer *server;
    char *id;
    IpbMcpClient *client;
    IpbRpcWork *connecting, *closing; /* requests that wait, or NULL */
    bool is_closing;
};

void
ipb_rpc_client_free(IpbRpcClient *client)
{
    client->is_closing = true;
    ipb_mcp_client_free(client->client); /* calls under way are told that it ends */
    g_free(client->id);
    g_free(client);
}

static void
on_gone(void *data)
{
    IpbRpcClient *client = data;
    IpbRpcServer *server = client->server;
    IpbRpcWork *closing = g_steal_pointer(&client->closing);
    g_hash_table_remove(server->clients, client->id); /* frees it */
    if (closing != NULL)
        ipb_rpc_work_reply_nothing(closing);
    ipb_rpc_server_part_closed(server);
}

void
ipb_rpc_client_close(IpbRpcClient *client)
{
    if (client->is_closing)
        return;
    client->is_closing = true;
    ipb_mcp_client_close(client->client, on_gone, client);
}

static void
on_closed(const GError *why, void *data)
{
    IpbRpcClient *client = data;
    g_autofree char *line = g_strdup_printf("%s: %s", client->id, why->message);
    ipb_rpc_server_log(client->server, "warning", line, NULL);
}

static void
on_log(const char *level, const char *text, void *data)
{
    const IpbRpcClient *client = data;
    g_autofree char *line = g_strdup_printf("%s: %s", client->id, text);
    ipb_rpc_server_log(client->server, level, line, NULL);
}

/* --- connecting -------------------------------------------------------------------------------- */

static void
on_connected(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    IpbRpcClient *client = data;
    IpbRpcWork *work = g_steal_pointer(&client->connecting);
    if (error != NULL) {
        if (work != NULL)
            ipb_rpc_work_fail(work, error);
        ipb_rpc_client_close(client);
        return;
    }
    if (work == NULL)
        return;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "client", client->id);
    ipb_json_end_object(writer);
    ipb_rpc_work_reply(work, writer);
}

static void
cancel_connect(IpbRpcWork *work)
{
    ipb_rpc_client_close(work->data); /* which tells the one who waits */
}

static void
connect_client(IpbRpcServer *server, IpbRpcRequest *request, const IpbMcpClientOptions *options)
{
    static const IpbMcpClientFuncs FUNCS = {.on_closed = on_closed, .on_log = on_log};
    IpbRpcClient *client = g_new0(IpbRpcClient, 1);
    client->server = server;
    client->id = ipb_rpc_server_make_id(server, 'c');
    client->client = ipb_mcp_client_new(server->loop, options, &FUNCS, client);
    client->connecting = ipb_rpc_work_new(server, NULL, request);
    client->connecting->data = client;
    client->connecting->cancel = cancel_connect;
    g_hash_table_insert(server->clients, client->id, client);
    ipb_mcp_client_connect(client->client, on_connected, client);
}

static IpbServerParams *
read_server_params(const IpbJson *object, const char *const *env, GError **error)
{
    g_autoptr(IpbServerParams) params = ipb_server_params_parse(object, error);
    return params != NULL ? ipb_server_params_expand(params, env, error) : NULL;
}

void
ipb_rpc_mcp_connect(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    g_autofree char *here = g_get_current_dir();
    g_auto(GStrv) given = ipb_rpc_params_environment(params, "env");
    const char *workspace = ipb_rpc_params_path(params, "workspace");
    const char *python = ipb_rpc_params_string(params, "python");
    const IpbJson *object = ipb_rpc_params_need_object(params, "server_params");
    IpbMcpClientOptions options = {
        .name = NAME,
        .cwd = workspace != NULL ? workspace : here,
        .connect_timeout_ms = (unsigned) ipb_rpc_params_ms(params, "connect_timeout", 0),
        .eras = ipb_rpc_sources_eras(server->sources),
    };
    if (!ipb_rpc_server_check(request, params))
        return;
    g_auto(GStrv) env = ipb_environment_application((const char *const *) given, options.cwd,
                                                    ipb_rpc_server_log_warning, server);
    g_auto(GStrv) keep_out = ipb_sandbox_paths_kept_out_alone(python, NULL, NULL);
    options.base_env = (const char *const *) env;
    options.keep_out = (const char *const *) keep_out;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbServerParams) expanded = NULL;
    if (g_hash_table_size(server->clients) >= MAX_CLIENTS)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "%d connections to MCP servers are open: close some", MAX_CLIENTS);
    else
        expanded = read_server_params(object, options.base_env, &error);
    options.params = expanded;
    if (error != NULL)
        ipb_rpc_server_fail(request, error);
    else
        connect_client(server, request, &options);
}

/* --- using it ---------------------------------------------------------------------------------- */

static IpbRpcClient *
find_client(IpbRpcServer *server, IpbRpcParams *params)
{
    const char *id = ipb_rpc_params_need_string(params, "client");
    IpbRpcClient *client = id != NULL ? g_hash_table_lookup(server->clients, id) : NULL;
    if (client != NULL && !client->is_closing && client->connecting == NULL)
        return client;
    if (params->error == NULL)
        g_set_error(&params->error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no connection \"%.*s\" is open", 20, id);
    return NULL;
}

static void
on_tools(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    if (error != NULL) {
        ipb_rpc_work_fail(data, error);
        return;
    }
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_value(writer, "tools", ipb_json_get(result, "tools"));
    ipb_json_end_object(writer);
    ipb_rpc_work_reply(data, writer);
}

void
ipb_rpc_mcp_list_tools(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcClient *client = find_client(server, params);
    if (!ipb_rpc_server_check(request, params))
        return;
    ipb_mcp_client_list_tools(client->client, on_tools, ipb_rpc_work_new(server, NULL, request));
}

/* The tool's own words: the client knows which it called. */
static void
fail_call(IpbRpcWork *work, const GError *error)
{
    g_autofree char *prefix = g_strdup_printf(NAME ".%s: ", (const char *) work->data);
    const char *message = error->message;
    if (g_str_has_prefix(message, prefix))
        message += strlen(prefix);
    g_autoptr(GError) own = g_error_new_literal(error->domain, error->code, message);
    ipb_rpc_work_fail(work, own);
}

static void
on_result(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    IpbRpcWork *work = data;
    g_autoptr(GError) failure = error != NULL ? g_error_copy(error) : NULL;
    g_autoptr(GBytes) bytes = failure == NULL
                                  ? ipb_tool_result_map(result, document, IPB_TOOL_RESULT_VALUE,
                                                        NAME, work->data, &failure)
                                  : NULL;
    if (bytes == NULL) {
        fail_call(work, failure);
        return;
    }
    gsize size;
    const char *text = g_bytes_get_data(bytes, &size);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "result");
    ipb_json_write_raw(writer, text, size);
    ipb_json_end_object(writer);
    ipb_rpc_work_reply(work, writer);
}

static void
cancel_call(IpbRpcWork *work)
{
    IpbRpcClient *client = g_hash_table_lookup(work->server->clients, work->client);
    if (client != NULL)
        ipb_mcp_client_cancel(client->client, (int64_t) work->number);
}

void
ipb_rpc_mcp_call(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcClient *client = find_client(server, params);
    const char *tool = ipb_rpc_params_need_string(params, "tool_name");
    const IpbJson *arguments = ipb_rpc_params_object(params, "tool_args");
    if (!ipb_rpc_server_check(request, params))
        return;
    IpbSpan raw = arguments != NULL ? ipb_json_raw(arguments) : (IpbSpan){"{}", 2};
    IpbRpcWork *work = ipb_rpc_work_new(server, NULL, request);
    work->data = g_strdup(tool);
    work->free_data = g_free;
    work->client = g_strdup(client->id);
    work->cancel = cancel_call;
    work->number = (uint64_t) ipb_mcp_client_call_tool(client->client, tool, raw.start, raw.size,
                                                       NULL, on_result, work);
}

void
ipb_rpc_mcp_close(IpbRpcServer *server, IpbRpcRequest *request, IpbRpcParams *params)
{
    IpbRpcClient *client = find_client(server, params);
    if (!ipb_rpc_server_check(request, params))
        return;
    client->closing = ipb_rpc_work_new(server, NULL, request);
    ipb_rpc_client_close(client);
}
