/* SPDX-License-Identifier: Apache-2.0
 *
 * What a caller of an MCP client waits for: tools/list over all pages, tools/call with its progress
 * and its cancellation; see client.h.
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
/* However much progress there is, a call ends this long after it began, and its timeout. */
#define MAX_CALL_US (24 * 60 * 60 * (int64_t) G_USEC_PER_SEC)
/* What a request adds to its parameters: jsonrpc, id, method. */
#define MAX_ENVELOPE 256

/* JSON-RPC's "method not found", in an answer. */
static bool
is_method_not_found(const IpbJson *rpc_error)
{
    int64_t code = 0;
    return ipb_json_get_int64(rpc_error, "code", &code) && code == IPB_RPC_METHOD_NOT_FOUND;
}

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

static void
notify_cancelled(IpbMcpClient *client, int64_t rpc_id, const char *reason)
{
    g_autofree char *params = ipb_message_cancelled(rpc_id, reason);
    ipb_rpc_notify(client->peer, "notifications/cancelled", params);
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
        notify_cancelled(client, rpc_id, "timeout");
    call->on_answer(call, answer);
    ipb_mcp_client_unhold(client);
}

void
ipb_mcp_call_send(IpbMcpCall *call, const char *method, char *params_json)
{
    g_autofree char *params = params_json;
    call->refs++;
    call->rpc_id =
        ipb_rpc_call(call->client->peer, method, params, call->timeout_ms, on_rpc_answer, call);
}

static void on_called(IpbMcpCall *call, const IpbRpcAnswer *answer);

GError *
ipb_mcp_call_error(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    const char *name = call->client->name;
    if (g_error_matches(answer->failure, IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT))
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                           "MCP server %s: %s: no answer and no progress within %g s%s", name,
                           call->what, call->timeout_ms / 1000.0,
                           call->on_answer == on_called
                               ? " (\"timeout\" in its server_params is this limit, in seconds)"
                               : "");
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

/* The call's result breaks the protocol or a limit; takes @error. */
static void
end_with(IpbMcpCall *call, GError *error)
{
    g_autoptr(GError) owned = error;
    g_prefix_error(&owned, "MCP server %s: %s: ", call->client->name, call->what);
    ipb_mcp_call_end(call, NULL, NULL, owned);
}

/* The error for a request in a state that allows none; NULL if it may go. */
static GError *
check_ready(IpbMcpClient *client, size_t size)
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

/* A server of prompts or resources only did not promise tools: it has none. */
static bool
is_without_tools(const IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    return answer->rpc_error != NULL && !call->client->has_tools &&
           is_method_not_found(answer->rpc_error);
}

static void
on_page(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    g_autofree char *next = NULL;
    GError *error = NULL;
    if (!is_without_tools(call, answer)) {
        g_autoptr(GError) failure = ipb_mcp_call_error(call, answer);
        if (failure != NULL) {
            ipb_mcp_call_end(call, NULL, NULL, failure);
            return;
        }
        if (!ipb_tool_list_add(call->list, answer->result, &next, &error)) {
            end_with(call, error);
            return;
        }
    }
    if (next != NULL) {
        ipb_mcp_call_send(call, "tools/list", g_steal_pointer(&next));
        return;
    }
    g_autoptr(IpbJsonDoc) document = ipb_tool_list_finish(call->list, &error);
    if (document == NULL)
        end_with(call, error);
    else
        ipb_mcp_call_end(call, ipb_json_root(document), &document, NULL);
}

void
ipb_mcp_client_list_tools(IpbMcpClient *client, IpbMcpResultFunc func, void *data)
{
    IpbMcpCall *call = ipb_mcp_call_new(client, "tools/list", func, data);
    GError *error = check_ready(client, 0);
    if (error != NULL) {
        ipb_mcp_call_end_later(call, error);
        return;
    }
    call->list = ipb_tool_list_new();
    call->on_answer = on_page;
    call->timeout_ms = client->connect_timeout_ms;
    ipb_mcp_call_send(call, "tools/list", NULL);
}

static void
on_called(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    g_autoptr(GError) failure = ipb_mcp_call_error(call, answer);
    GError *error = NULL;
    if (failure != NULL)
        ipb_mcp_call_end(call, NULL, NULL, failure);
    else if (!ipb_message_check_call(answer->result, &error))
        end_with(call, error);
    else
        ipb_mcp_call_end(call, answer->result, answer->document, NULL);
}

/* The arguments, known to be an object: foreign text never goes into a message unread. */
static IpbJsonDoc *
parse_arguments(const char *text, size_t size, GError **error)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(text, size, &IPB_JSON_LIMITS_MESSAGE, error);
    if (document == NULL) {
        g_prefix_error(error, "the arguments of the call: ");
        if (g_error_matches(*error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL))
            (*error)->code = IPYBOX_ERROR_INVALID; /* the caller's mistake, not the server's */
        return NULL;
    }
    if (!ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the arguments of the call must be a JSON object");
        return NULL;
    }
    return g_steal_pointer(&document);
}

int64_t
ipb_mcp_client_call_tool(IpbMcpClient *client, const char *tool, const char *arguments_json,
                         size_t size, IpbMcpProgressFunc on_progress, IpbMcpResultFunc func,
                         void *data)
{
    g_autofree char *what = g_strconcat("tool ", tool, NULL);
    IpbMcpCall *call = ipb_mcp_call_new(client, what, func, data);
    call->on_answer = on_called;
    call->on_progress = on_progress;
    call->timeout_ms = client->call_timeout_ms;
    call->deadline = g_get_monotonic_time() + MAX_CALL_US;
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbJsonDoc) arguments = parse_arguments(arguments_json, size, &error);
    if (arguments == NULL) {
        ipb_mcp_call_end_later(call, g_steal_pointer(&error));
        return call->id;
    }
    char *params = ipb_message_call(tool, ipb_json_root(arguments), call->id);
    GError *refusal = check_ready(client, strlen(params) + MAX_ENVELOPE);
    if (refusal != NULL) {
        g_free(params);
        ipb_mcp_call_end_later(call, refusal);
        return call->id;
    }
    ipb_mcp_call_send(call, "tools/call", params);
    return call->id;
}

void
ipb_mcp_client_cancel(IpbMcpClient *client, int64_t id)
{
    IpbMcpCall *call = g_hash_table_lookup(client->calls, &id);
    if (call == NULL || call->error != NULL)
        return;
    if (call->rpc_id != 0) {
        notify_cancelled(client, call->rpc_id, "cancelled by the caller");
        ipb_rpc_cancel(client->peer, call->rpc_id);
    }
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
    if (g_get_monotonic_time() < call->deadline)
        ipb_rpc_call_touch(client->peer, call->rpc_id);
    ipb_json_double(ipb_json_get(params, "total"), &progress.total);
    progress.message = ipb_json_get_string(params, "message");
    if (call->on_progress != NULL)
        call->on_progress(&progress, call->data);
}
