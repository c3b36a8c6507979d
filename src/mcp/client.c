/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection to an MCP server, from the handshake to the end; see the header and
 * docs/internals/mcp-client.md. Lists and calls are in client-call.c.
 *
 * Every function of the owner is called from the loop: what goes wrong within a call of ours is kept
 * and told by a timer (on_later). The client is reference-counted inside, so that those functions may
 * free it.
 */
#include "mcp/client-private.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "mcp/messages.h"
#include "mcp/sse-transport.h"
#include "mcp/stdio-transport.h"
#include "mcp/streamable-http-transport.h"

/* What a server may send between two messages, such as what it prints on its stdout. */
#define MAX_GARBAGE (1024 * 1024)
/* Stray output, in the log. */
#define MAX_GARBAGE_SHOWN 500
/* Several changes of the tools at once are told as one; and they are told so often at most. */
#define TOOLS_CHANGED_DELAY_MS 100
#define TOOLS_CHANGED_PAUSE_MS 10000

typedef struct {
    void (*func)(void *data);
    void *data;
} Done;

static void
on_log(const char *level, const char *text, void *data)
{
    IpbMcpClient *client = data;
    if (client->funcs.on_log != NULL)
        client->funcs.on_log(level, text, client->data);
}

IpbMcpClient *
ipb_mcp_client_new(IpbLoop *loop, const IpbMcpClientOptions *options,
                   const IpbMcpClientFuncs *funcs, void *data)
{
    IpbMcpClient *client = g_new0(IpbMcpClient, 1);
    client->refs = 1;
    client->loop = ipb_loop_ref(loop);
    client->name = g_strdup(options->name);
    client->params = ipb_server_params_copy(options->params);
    client->kind = options->params->kind;
    client->cwd = g_strdup(options->cwd);
    client->base_env = g_strdupv((char **) options->base_env);
    client->state_dir = g_strdup(options->state_dir);
    client->keep_out = g_strdupv((char **) options->keep_out);
    client->limits = options->params->limits;
    if (client->limits.connect_timeout_ms == 0)
        client->limits.connect_timeout_ms = options->connect_timeout_ms;
    if (client->limits.call_timeout_ms == 0)
        client->limits.call_timeout_ms = options->call_timeout_ms;
    ipb_mcp_limits_fill(&client->limits);
    client->eras = options->eras != NULL ? ipb_mcp_eras_ref(options->eras) : NULL;
    client->era_key = ipb_mcp_eras_make_key(options->params);
    if (funcs != NULL)
        client->funcs = *funcs;
    client->data = data;
    client->log = ipb_server_log_new(loop, on_log, client);
    client->calls = g_hash_table_new(g_int64_hash, g_int64_equal);
    client->dones = g_array_new(false, false, sizeof(Done));
    return client;
}

IpbMcpClient *
ipb_mcp_client_hold(IpbMcpClient *client)
{
    client->refs++;
    return client;
}

void
ipb_mcp_client_unhold(IpbMcpClient *client)
{
    if (--client->refs > 0)
        return;
    ipb_rpc_peer_free(client->peer);
    ipb_server_log_unref(client->log);
    g_hash_table_unref(client->calls);
    g_array_unref(client->dones);
    g_clear_error(&client->why);
    g_clear_error(&client->handshake.refusal);
    g_clear_pointer(&client->tool_headers, g_hash_table_unref);
    g_clear_error(&client->handshake.first_failure);
    ipb_mcp_eras_unref(client->eras);
    g_free(client->era_key);
    ipb_server_params_free(client->params);
    g_strfreev(client->base_env);
    g_free(client->state_dir);
    g_strfreev(client->keep_out);
    g_free(client->cwd);
    g_free(client->name);
    ipb_loop_unref(client->loop);
    g_free(client);
}

static void
tell_dones(IpbMcpClient *client)
{
    while (!client->is_freed && client->dones->len > 0) {
        Done done = g_array_index(client->dones, Done, 0);
        g_array_remove_index(client->dones, 0);
        done.func(done.data);
    }
}

static void
on_later(void *data)
{
    IpbMcpClient *client = ipb_mcp_client_hold(data);
    g_clear_pointer(&client->later_timer, ipb_timer_free);
    /* Only those that are there now: what a callback adds waits for the next turn. */
    for (guint n = client->later.length; n > 0 && !client->is_freed; n--) {
        IpbMcpCall *call = g_queue_pop_head(&client->later);
        if (call == NULL)
            break;
        g_autoptr(GError) error = g_steal_pointer(&call->error);
        ipb_mcp_call_end(call, NULL, NULL, error);
    }
    if (!client->is_freed && client->must_tell_closed) {
        client->must_tell_closed = false;
        if (client->funcs.on_closed != NULL)
            client->funcs.on_closed(client->why, client->data);
    }
    if (client->transport == NULL || client->is_transport_gone)
        tell_dones(client);
    if (!client->is_freed && client->later.length > 0)
        ipb_mcp_client_schedule(client);
    ipb_mcp_client_unhold(client);
}

void
ipb_mcp_client_schedule(IpbMcpClient *client)
{
    /* What is told of the end of its call may still close a client that is being freed. */
    if (client->later_timer == NULL && !client->is_freed)
        client->later_timer = ipb_timer_new(client->loop, 0, on_later, client);
}

static void
on_transport_gone(void *data)
{
    IpbMcpClient *client = data;
    client->is_transport_gone = true;
    ipb_mcp_client_schedule(client);
}

/* The way out of every state: no message is taken any more, the server is shut down. */
static void
end_connection(IpbMcpClient *client, const GError *why)
{
    client->state = IPB_MCP_STATE_CLOSED;
    if (client->why == NULL)
        client->why = g_error_copy(why);
    g_clear_pointer(&client->connect_timer, ipb_timer_free);
    g_clear_pointer(&client->changed_timer, ipb_timer_free);
    ipb_mcp_call_end_all_later(client, why);
    if (client->transport != NULL && !client->is_transport_closing) {
        client->is_transport_closing = true;
        client->transport->ops->close(client->transport, on_transport_gone, client);
    }
    ipb_mcp_client_schedule(client);
}

void
ipb_mcp_client_lose(IpbMcpClient *client, const GError *why)
{
    if (client->state == IPB_MCP_STATE_CLOSED)
        return;
    client->must_tell_closed = client->state == IPB_MCP_STATE_READY;
    end_connection(client, why);
}

/* As lose, with a message that begins with the server's name and ends in its last words. */
static void
lose_with(IpbMcpClient *client, int code, const char *text)
{
    g_autofree char *words = client->transport->ops->last_words(client->transport);
    g_autoptr(GError) error =
        words == NULL ? g_error_new(IPYBOX_ERROR, code, "MCP server %s: %s", client->name, text)
                      : g_error_new(IPYBOX_ERROR, code,
                                    "MCP server %s: %s. The end of its standard error:\n%s",
                                    client->name, text, words);
    ipb_mcp_client_lose(client, error);
}

static void
on_transport_closed(const GError *why, void *data)
{
    IpbMcpClient *client = ipb_mcp_client_hold(data);
    if (!ipb_mcp_handshake_restart(client, why))
        ipb_mcp_client_lose(client, why);
    ipb_mcp_client_unhold(client);
}

/* A batch, which revision 2025-03-26 has: its messages one by one. */
static void
receive_batch(IpbMcpClient *client, const char *text, size_t size)
{
    g_autoptr(IpbJsonDoc) batch = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, NULL);
    if (batch == NULL) {
        ipb_rpc_peer_receive(client->peer, text, size); /* it says what is wrong */
        return;
    }
    IPB_JSON_FOREACH (item, ipb_json_root(batch)) {
        IpbSpan raw = ipb_json_raw(item);
        if (client->state != IPB_MCP_STATE_CLOSED)
            ipb_rpc_peer_receive(client->peer, raw.start, raw.size);
    }
}

static void
on_message(const char *text, size_t size, void *data)
{
    IpbMcpClient *client = ipb_mcp_client_hold(data);
    size_t garbage = client->garbage;
    ipb_utf8_skip_mark(&text, &size); /* some write one first */
    if (*text == '[' && ipb_message_has_batches(client->revision))
        receive_batch(client, text, size);
    else
        ipb_rpc_peer_receive(client->peer, text, size);
    if (client->garbage == garbage)
        client->garbage = 0;
    else if (client->garbage > MAX_GARBAGE && client->state != IPB_MCP_STATE_CLOSED)
        lose_with(client, IPYBOX_ERROR_PROTOCOL,
                  client->kind == IPB_SERVER_STDIO
                      ? "it printed more than 1 MiB on its standard output that is no MCP message"
                      : "it sent more than 1 MiB that is no MCP message");
    ipb_mcp_client_unhold(client);
}

/* A message that is too large, too deep or of too many values: whatever it was the answer to would wait in vain. */
static void
lose_at_limit(IpbMcpClient *client, const GError *why)
{
    g_autofree char *text =
        g_strdup_printf("it sent a message beyond a limit: %s (\"limits.message_size\" and "
                        "\"limits.depth\" in its server_params set such limits)",
                        why->message);
    lose_with(client, IPYBOX_ERROR_LIMIT, text);
}

/* The call that an answer which cannot be read is for, if it can still be seen, need not wait for its timeout. */
static void
fail_call_of(IpbMcpClient *client, IpbSpan message, const GError *why)
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
        ipb_rpc_peer_fail_call(client->peer, number, error);
}

static void
on_invalid(const GError *why, const char *text, size_t size, void *data)
{
    IpbMcpClient *client = data;
    IpbSpan version;
    if (size > 0 && *text == '{' && g_error_matches(why, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT)) {
        lose_at_limit(client, why);
        return;
    }
    /* A message that means nothing to us (an error that names no call) is told, but is no garbage. */
    bool is_message = size > 0 && *text == '{' &&
                      ipb_json_scan_member((IpbSpan){text, size}, "jsonrpc", &version);
    if (!is_message)
        client->garbage += size + 1;
    g_autofree char *shown = ipb_server_log_clean(text, size, MAX_GARBAGE_SHOWN);
    const char *what = is_message                         ? why->message
                       : client->kind == IPB_SERVER_STDIO ? "not a message, on its standard output"
                                                          : "not a message";
    g_autofree char *line = g_strdup_printf("%s: %s", what, shown);
    ipb_server_log_tell(client->log, is_message ? "debug" : "warning", line, strlen(line));
    if (is_message)
        fail_call_of(client, (IpbSpan){text, size}, why);
}

static void
on_request(IpbRpcRequest *request, void *data)
{
    /* Nothing but ping may be asked: we declare no capabilities. */
    const IpbMcpClient *client = data;
    const char *method = ipb_rpc_request_method(request);
    if (client->is_modern) { /* such a server may ask nothing, and a client writes no answers */
        ipb_rpc_request_drop(request);
        return;
    }
    if (strcmp(method, "ping") == 0) {
        ipb_rpc_request_reply(request, "{}", 2);
        return;
    }
    g_autofree char *clean = ipb_server_log_clean(method, strlen(method), 100);
    g_autofree char *text = g_strdup_printf("ipybox does not offer %s", clean);
    ipb_rpc_request_fail(request, IPB_RPC_METHOD_NOT_FOUND, text, /* data_json= */ NULL);
}

static void
on_changed_timer(void *data)
{
    IpbMcpClient *client = data;
    g_clear_pointer(&client->changed_timer, ipb_timer_free);
    client->next_change = g_get_monotonic_time() + TOOLS_CHANGED_PAUSE_MS * 1000;
    client->funcs.on_tools_changed(client->data);
}

static void
on_tools_changed(IpbMcpClient *client)
{
    g_clear_pointer(&client->tool_headers, g_hash_table_unref);
    if (client->changed_timer != NULL || client->funcs.on_tools_changed == NULL)
        return;
    int64_t pause_ms = (client->next_change - g_get_monotonic_time()) / 1000;
    unsigned delay_ms = (unsigned) MAX(TOOLS_CHANGED_DELAY_MS, pause_ms);
    client->changed_timer = ipb_timer_new(client->loop, delay_ms, on_changed_timer, client);
}

static void
on_notification(const char *method, const IpbJson *params, void *data)
{
    IpbMcpClient *client = data;
    if (client->state == IPB_MCP_STATE_CLOSED)
        return;
    if (strcmp(method, "notifications/progress") == 0) {
        ipb_mcp_call_progress(client, params);
    } else if (strcmp(method, "notifications/message") == 0) {
        const char *level;
        g_autofree char *text = ipb_message_describe_log(params, &level);
        ipb_server_log_tell(client->log, level, text, strlen(text));
    } else if (strcmp(method, "notifications/tools/list_changed") == 0) {
        if (ipb_mcp_client_is_subscribed(client, params))
            on_tools_changed(client);
    } else if (strcmp(method, "notifications/cancelled") == 0) {
        ipb_mcp_client_unsubscribed(client, params);
    }
}

static void
send_message(const IpbRpcMessage *rpc_message, void *data)
{
    IpbMcpClient *client = data;
    IpbTransportMessage message = {0};
    if (client->transport == NULL || client->is_transport_closing)
        return;
    if (client->outgoing != NULL)
        message = *client->outgoing;
    message.text = rpc_message->text;
    message.size = rpc_message->size;
    message.is_modern = client->is_modern || client->handshake.is_probing;
    message.revision = message.is_modern ? IPB_MODERN_REVISION : client->revision;
    client->transport->ops->send(client->transport, &message);
}

void
ipb_mcp_client_notify(IpbMcpClient *client, const char *method, const char *params_json)
{
    const IpbTransportMessage message = {.method = method}, *before = client->outgoing;
    client->outgoing = &message;
    ipb_rpc_peer_notify(client->peer, method, params_json);
    client->outgoing = before;
}

static void
on_request_failed(int64_t id, unsigned status, const GError *why, void *data)
{
    IpbMcpClient *client = ipb_mcp_client_hold(data);
    client->failed_status = status;
    ipb_rpc_peer_fail_call(client->peer, id, why);
    client->failed_status = 0;
    ipb_mcp_client_unhold(client);
}

static void
on_connect_timer(void *data)
{
    IpbMcpClient *client = data;
    g_clear_pointer(&client->connect_timer, ipb_timer_free);
    g_autofree char *text = g_strdup_printf(
        "it did not answer initialize within %g s" IPB_MCP_LIMIT_HINT("connect_timeout") "%s",
        client->limits.connect_timeout_ms / 1000.0,
        client->params->sandbox != NULL
            ? ". It runs in a sandbox: what it fetches at its start must be allowed there"
            : "");
    lose_with(client, IPYBOX_ERROR_TIMEOUT, text);
}

void
ipb_mcp_client_become_ready(IpbMcpClient *client)
{
    g_clear_pointer(&client->connect_timer, ipb_timer_free);
    client->state = IPB_MCP_STATE_READY;
    if (!client->is_modern)
        ipb_mcp_client_notify(client, "notifications/initialized", NULL);
}

static bool
start_transport(IpbMcpClient *client, GError **error)
{
    static const IpbTransportFuncs FUNCS = {
        .on_message = on_message,
        .on_closed = on_transport_closed,
        .on_failed = on_request_failed,
    };
    if (client->kind != IPB_SERVER_STDIO) {
        IpbEndpointOptions endpoint = {
            .name = client->name,
            .params = client->params,
            .base_env = (const char *const *) client->base_env,
            .state_dir = client->state_dir,
            .limits = &client->limits,
            .log = client->log,
        };
        client->transport =
            client->kind == IPB_SERVER_SSE
                ? ipb_sse_transport_new(client->loop, &endpoint, &FUNCS, client, error)
                : ipb_streamable_http_transport_new(client->loop, &endpoint, &FUNCS, client, error);
        return client->transport != NULL;
    }
    IpbStdioTransportOptions options = {
        .name = client->name,
        .params = client->params,
        .cwd = client->cwd,
        .base_env = (const char *const *) client->base_env,
        .state_dir = client->state_dir,
        .keep_out = (const char *const *) client->keep_out,
        .log = client->log,
        .max_message = client->limits.message_size,
    };
    client->transport = ipb_stdio_transport_new(client->loop, &options, &FUNCS, client, error);
    return client->transport != NULL;
}

static void
start_peer(IpbMcpClient *client)
{
    static const IpbRpcPeerFuncs FUNCS = {
        .send = send_message,
        .on_request = on_request,
        .on_notification = on_notification,
        .on_invalid = on_invalid,
    };
    IpbRpcPeerOptions options = {.limits = IPB_JSON_LIMITS_MESSAGE};
    options.limits.max_size = client->limits.message_size;
    options.limits.max_depth = client->limits.depth;
    client->peer = ipb_rpc_peer_new(client->loop, &options, &FUNCS, client);
}

bool
ipb_mcp_client_start(IpbMcpClient *client, GError **error)
{
    if (client->transport != NULL)
        client->transport->ops->free(client->transport);
    client->transport = NULL;
    ipb_rpc_peer_free(g_steal_pointer(&client->peer));
    client->garbage = 0;
    if (!start_transport(client, error))
        return false;
    start_peer(client);
    return true;
}

void
ipb_mcp_client_connect(IpbMcpClient *client, IpbMcpResultFunc func, void *data)
{
    IpbMcpCall *call = ipb_mcp_call_new(client, "initialize", func, data);
    if (client->state != IPB_MCP_STATE_NEW) {
        ipb_mcp_call_end_later(call, client->why != NULL
                                         ? g_error_copy(client->why)
                                         : g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                                                       "MCP server %s is connected already",
                                                       client->name));
        return;
    }
    g_autoptr(GError) error = NULL;
    if (!ipb_mcp_client_start(client, &error)) {
        end_connection(client, error);
        return;
    }
    client->state = IPB_MCP_STATE_CONNECTING;
    client->connect_timer =
        ipb_timer_new(client->loop, client->limits.connect_timeout_ms, on_connect_timer, client);
    ipb_mcp_handshake_start(call);
}

void
ipb_mcp_client_close(IpbMcpClient *client, void (*done)(void *data), void *data)
{
    if (done != NULL) {
        Done entry = {done, data};
        g_array_append_val(client->dones, entry);
    }
    g_autoptr(GError) why = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                        "the connection to MCP server %s was closed", client->name);
    client->must_tell_closed = false;
    end_connection(client, why);
}

void
ipb_mcp_client_free(IpbMcpClient *client)
{
    if (client == NULL || client->is_freed)
        return;
    client->is_freed = true;
    client->state = IPB_MCP_STATE_CLOSED;
    ipb_server_log_mute(client->log);
    g_clear_pointer(&client->connect_timer, ipb_timer_free);
    g_clear_pointer(&client->changed_timer, ipb_timer_free);
    g_clear_pointer(&client->later_timer, ipb_timer_free);
    g_queue_clear(&client->later);
    if (client->transport != NULL)
        client->transport->ops->free(client->transport);
    client->transport = NULL;
    g_autoptr(GError) why = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                        "the connection to MCP server %s was closed", client->name);
    GHashTableIter iter;
    gpointer call;
    while (g_hash_table_iter_init(&iter, client->calls), g_hash_table_iter_next(&iter, NULL, &call))
        ipb_mcp_call_end(call, NULL, NULL, why);
    ipb_mcp_client_unhold(client);
}
