/* SPDX-License-Identifier: Apache-2.0
 *
 * What a caller of an MCP client waits for: its requests, progress, time limits, cancellation and end. What
 * is asked for is in handshake.c, client-list.c and client-tool.c.
 *
 * A call is in the client's table until its func is called, once. A request that the peer still has
 * then holds the call only to be told of, and dropped.
 */
#include "mcp/client-private.h"

#include <string.h>

#include "base/error.h"
#include "mcp/messages.h"

/* Calls that wait for an answer. */
#define MAX_PENDING 4096
/* A resultType that is not ours, in a message. */
#define MAX_TYPE_SHOWN 100
/* Of a progress message; and how often progress of one call is told. */
#define MAX_PROGRESS_TEXT 4096
#define MAX_PROGRESS_PER_WINDOW 100
#define PROGRESS_WINDOW_MS 1000

IpbMcpCall *
ipb_mcp_call_new(IpbMcpClient *client, const char *what, IpbMcpResultFunc func, void *data)
{
    IpbMcpCall *call = g_new0(IpbMcpCall, 1);
    call->refs = 1;
    call->client = client;
    call->id = ++client->last_id;
    call->what = g_strdup(what);
    call->func = func;
    call->data = data;
    g_hash_table_insert(client->calls, &call->id, call);
    return call;
}

void
ipb_mcp_call_unref(IpbMcpCall *call)
{
    if (call == NULL || --call->refs > 0)
        return;
    ipb_tool_list_free(call->list);
    ipb_json_doc_free(call->arguments);
    g_free(call->tool);
    g_free(call->state);
    g_free(call->responses);
    g_strfreev(call->param_headers);
    g_clear_error(&call->error);
    g_free(call->what);
    g_free(call);
}

void
ipb_mcp_call_end(IpbMcpCall *call, const IpbJson *result, IpbJsonDoc **document,
                 const GError *error)
{
    g_autoptr(IpbMcpCall) owned = call;
    g_hash_table_remove(call->client->calls, &call->id);
    g_clear_pointer(&call->duration_timer, ipb_timer_free);
    call->client = NULL;
    IpbJsonDoc *none = NULL;
    call->func(result, document != NULL ? document : &none, error, call->data);
}

void
ipb_mcp_call_end_later(IpbMcpCall *call, GError *error)
{
    if (call->error != NULL) {
        g_error_free(error);
        return;
    }
    call->error = error;
    g_clear_pointer(&call->duration_timer, ipb_timer_free);
    g_queue_push_tail(&call->client->later, call);
    ipb_mcp_client_schedule(call->client);
}

void
ipb_mcp_call_end_all_later(IpbMcpClient *client, const GError *why)
{
    g_autoptr(GList) calls = g_hash_table_get_values(client->calls);
    for (GList *item = calls; item != NULL; item = item->next)
        ipb_mcp_call_end_later(item->data, g_error_copy(why));
}

/* The transport need not wait for the answer any more. True: the server knows by that. */
static bool
release(IpbMcpClient *client, int64_t rpc_id)
{
    IpbTransport *transport = client->is_transport_closing ? NULL : client->transport;
    return transport != NULL && transport->ops->cancel != NULL &&
           transport->ops->cancel(transport, rpc_id);
}

/* Nobody waits for the answer any more. */
static void
withdraw(const IpbMcpCall *call, int64_t rpc_id, const char *reason)
{
    if (release(call->client, rpc_id) || call->is_uncancellable)
        return;
    g_autofree char *params = ipb_message_cancelled(rpc_id, reason);
    ipb_mcp_client_notify(call->client, "notifications/cancelled", params);
}

static void
on_rpc_answer(const IpbRpcAnswer *answer, void *data)
{
    g_autoptr(IpbMcpCall) call = data;
    IpbMcpClient *client = call->client;
    int64_t rpc_id = call->rpc_id;
    call->rpc_id = 0;
    /* Has it ended, or is it known how it will? */
    if (client == NULL || call->error != NULL)
        return;
    ipb_mcp_client_hold(client);
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT))
        withdraw(call, rpc_id, "timeout");
    else if (answer->failure == NULL)
        release(client, rpc_id); /* it may have come by another way, as in a batch */
    call->on_answer(call, answer);
    ipb_mcp_client_unhold(client);
}

void
ipb_mcp_call_send(IpbMcpCall *call, const char *method, char *params_json)
{
    g_autofree char *params = params_json;
    IpbMcpClient *client = call->client;
    bool is_call = strcmp(method, "tools/call") == 0;
    const IpbTransportMessage message = {
        .id = ipb_rpc_peer_next_id(client->peer),
        .method = method,
        .name = is_call ? call->tool : NULL,
        .param_headers = is_call ? (const char *const *) call->param_headers : NULL,
    };
    call->refs++;
    client->outgoing = &message;
    call->rpc_id =
        ipb_rpc_peer_call(client->peer, method, params, call->timeout_ms, on_rpc_answer, call);
    client->outgoing = NULL;
}

GError *
ipb_mcp_call_error(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    const char *name = call->client->name;
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT))
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                           "MCP server %s: %s: no answer and no progress within %g s%s", name,
                           call->what, call->timeout_ms / 1000.0,
                           call->tool != NULL
                               ? " (\"timeout\" in its server_params is this limit, in seconds)"
                               : IPB_MCP_LIMIT_HINT("connect_timeout"));
    if (answer->failure != NULL)
        return g_error_new(answer->failure->domain, answer->failure->code, "MCP server %s: %s: %s",
                           name, call->what, answer->failure->message);
    if (answer->rpc_error != NULL) {
        g_autofree char *text = ipb_message_describe_error(answer->rpc_error);
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "MCP server %s: %s: %s", name,
                           call->what, text);
    }
    return NULL;
}

bool
ipb_mcp_call_check_complete(IpbMcpCall *call, const IpbRpcAnswer *answer, GError **error)
{
    if (!call->client->is_modern || ipb_message_result_type(answer->result) == IPB_RESULT_COMPLETE)
        return true;
    IpbSpan raw = ipb_json_raw(ipb_json_get(answer->result, "resultType"));
    g_autofree char *type = ipb_server_log_clean(raw.start, raw.size, MAX_TYPE_SHOWN);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                "its result has the resultType %s, which is not possible here", type);
    return false;
}

void
ipb_mcp_call_end_with(IpbMcpCall *call, GError *error)
{
    g_autoptr(GError) owned = error;
    g_prefix_error(&owned, "MCP server %s: %s: ", call->client->name, call->what);
    ipb_mcp_call_end(call, NULL, NULL, owned);
}

GError *
ipb_mcp_call_refuse(IpbMcpClient *client, size_t size)
{
    if (client->state == IPB_MCP_STATE_CLOSED)
        return g_error_copy(client->why);
    if (client->state != IPB_MCP_STATE_READY)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "MCP server %s is not connected%s",
                           client->name, client->state == IPB_MCP_STATE_CONNECTING ? " yet" : "");
    if (g_hash_table_size(client->calls) > MAX_PENDING)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                           "MCP server %s: more than %d calls wait for an answer", client->name,
                           MAX_PENDING);
    if (!client->transport->ops->has_room(client->transport, size))
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                           "MCP server %s does not read fast enough: the call does not fit into "
                           "what waits to be sent",
                           client->name);
    return NULL;
}

static void
on_duration(void *data)
{
    IpbMcpCall *call = data;
    g_clear_pointer(&call->duration_timer, ipb_timer_free);
    ipb_mcp_call_withdraw(call, "timeout");
    ipb_mcp_call_end_later(call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                                             "MCP server %s: %s: no answer within %g s%s",
                                             call->client->name, call->what,
                                             call->duration_ms / 1000.0, call->duration_note));
}

void
ipb_mcp_call_limit(IpbMcpCall *call, unsigned duration_ms, const char *note)
{
    call->duration_ms = duration_ms;
    call->duration_note = note;
    call->duration_timer = ipb_timer_new(call->client->loop, duration_ms, on_duration, call);
}

IpbMessageMeta
ipb_mcp_call_meta(const IpbMcpCall *call)
{
    const IpbMcpClient *client = call->client;
    return (IpbMessageMeta){
        .revision = client->is_modern ? client->revision : NULL,
        .wants_log = call->tool != NULL && client->has_logging,
        .progress_token = call->tool != NULL ? call->id : 0,
    };
}

void
ipb_mcp_call_withdraw(IpbMcpCall *call, const char *reason)
{
    if (call->rpc_id == 0)
        return;
    withdraw(call, call->rpc_id, reason);
    ipb_rpc_peer_cancel_call(call->client->peer, call->rpc_id);
}

void
ipb_mcp_client_cancel(IpbMcpClient *client, int64_t id)
{
    IpbMcpCall *call = g_hash_table_lookup(client->calls, &id);
    if (call == NULL || call->error != NULL)
        return;
    ipb_mcp_call_withdraw(call, "cancelled by the caller");
    ipb_mcp_call_end_later(call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                             "MCP server %s: %s was cancelled", client->name,
                                             call->what));
}

/* Our tokens are integers; a server that answers them as strings is tolerated. */
static bool
read_token(const IpbJson *params, int64_t *ret_token)
{
    const char *text = ipb_json_get_string(params, "progressToken");
    if (text != NULL)
        return g_ascii_string_to_signed(text, 10, 1, INT64_MAX, ret_token, NULL);
    return ipb_json_get_int64(params, "progressToken", ret_token);
}

/* May progress be told once more now? */
static bool
pass_gate(IpbMcpCall *call)
{
    int64_t now = g_get_monotonic_time();
    if (call->n_progress == 0 || now - call->progress_window >= PROGRESS_WINDOW_MS * 1000) {
        call->progress_window = now;
        call->n_progress = 0;
    }
    if (call->n_progress == MAX_PROGRESS_PER_WINDOW)
        return false;
    call->n_progress++;
    return true;
}

void
ipb_mcp_call_progress(IpbMcpClient *client, const IpbJson *params)
{
    int64_t id;
    IpbMcpProgress progress = {0};
    if (!read_token(params, &id) ||
        !ipb_json_double(ipb_json_get(params, "progress"), &progress.progress))
        return;
    IpbMcpCall *call = g_hash_table_lookup(client->calls, &id);
    if (call == NULL || call->rpc_id == 0 || call->error != NULL)
        return;
    ipb_rpc_peer_touch_call(client->peer, call->rpc_id);
    if (call->on_progress == NULL || !pass_gate(call))
        return;
    ipb_json_double(ipb_json_get(params, "total"), &progress.total);
    const char *text = ipb_json_get_string(params, "message");
    g_autofree char *message =
        text != NULL ? ipb_server_log_clean(text, strlen(text), MAX_PROGRESS_TEXT) : NULL;
    progress.message = message;
    call->on_progress(&progress, call->data);
}
