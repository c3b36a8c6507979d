/* SPDX-License-Identifier: Apache-2.0
 *
 * tools/call; see client.h. A modern server may answer that it needs something first ("input_required"); then the
 * call is made again with what it asked for, in as many rounds as the limit allows. All rounds are one call: one
 * progress token, one duration.
 */
#include "mcp/client-private.h"

#include <string.h>

#include "base/error.h"
#include "mcp/input.h"
#include "mcp/param-headers.h"

/* What a request adds to its parameters: jsonrpc, id, method. */
#define MAX_ENVELOPE 256

bool
ipb_mcp_client_has_headers(const IpbMcpClient *client)
{
    return client->is_modern && client->kind != IPB_SERVER_STDIO;
}

/* The headers of the call, if its server wants arguments in them. */
static bool
make_headers(IpbMcpCall *call, GError **error)
{
    GHashTable *all = call->client->tool_headers;
    void *headers = NULL;
    g_clear_pointer(&call->param_headers, g_strfreev);
    if (all == NULL || !g_hash_table_lookup_extended(all, call->tool, NULL, &headers))
        return true;
    if (headers == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "the tool's inputSchema has an invalid x-mcp-header, so it cannot be called");
        return false;
    }
    call->param_headers = ipb_param_headers_make(headers, ipb_json_root(call->arguments), error);
    return call->param_headers != NULL;
}

/* Sends the call, or has it end with an error. */
static void
send_round(IpbMcpCall *call)
{
    GError *error = NULL;
    if (!make_headers(call, &error)) {
        g_prefix_error(&error, "MCP server %s: %s: ", call->client->name, call->what);
        ipb_mcp_call_end_later(call, error);
        return;
    }
    IpbMessageMeta meta = ipb_mcp_call_meta(call);
    char *params = ipb_message_call(call->tool, ipb_json_root(call->arguments), call->state,
                                    call->responses, &meta);
    error = ipb_mcp_call_refuse(call->client, strlen(params) + MAX_ENVELOPE);
    if (error != NULL) {
        g_free(params);
        ipb_mcp_call_end_later(call, error);
        return;
    }
    ipb_mcp_call_send(call, "tools/call", params);
}

static void
on_listed(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    g_autoptr(IpbMcpCall) call = data;
    if (call->client == NULL || call->error != NULL) /* ended meanwhile */
        return;
    if (error != NULL)
        ipb_mcp_call_end_later(call, g_error_copy(error));
    else
        send_round(call);
}

/* Which arguments go into headers is in the list of tools: the call waits for it. */
static void
list_first(IpbMcpCall *call)
{
    call->refs++;
    ipb_mcp_client_list_tools(call->client, on_listed, call);
}

/* The call again, with what the server wants to see in it. */
static void
start_next_round(IpbMcpCall *call, const IpbJson *result)
{
    GError *error = NULL;
    g_clear_pointer(&call->state, g_free);
    g_clear_pointer(&call->responses, g_free);
    if (++call->rounds > call->client->limits.rounds)
        error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                            "the server asked for more input %u times and never gave a "
                            "result" IPB_MCP_LIMIT_HINT("rounds"),
                            call->rounds);
    else
        ipb_mcp_input_answer(result, &call->state, &call->responses, &error);
    if (error != NULL)
        ipb_mcp_call_end_with(call, error);
    else
        send_round(call);
}

/* The headers did not fit: the tool's schema changed since it was listed. */
static bool
is_header_mismatch(const IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    return ipb_mcp_client_has_headers(call->client) && !call->has_relisted &&
           ipb_message_error_code(answer->rpc_error) == IPB_MCP_HEADER_MISMATCH;
}

static void
on_called(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    if (is_header_mismatch(call, answer)) {
        call->has_relisted = true;
        list_first(call);
        return;
    }
    g_autoptr(GError) failure = ipb_mcp_call_error(call, answer);
    GError *error = NULL;
    if (failure != NULL)
        ipb_mcp_call_end(call, NULL, NULL, failure);
    else if (call->client->is_modern &&
             ipb_message_result_type(answer->result) == IPB_RESULT_INPUT_REQUIRED)
        start_next_round(call, answer->result);
    else if (!ipb_mcp_call_check_complete(call, answer, &error) ||
             !ipb_message_check_call(answer->result, &error))
        ipb_mcp_call_end_with(call, error);
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
    int64_t id = call->id;
    call->on_answer = on_called;
    call->on_progress = on_progress;
    call->timeout_ms = client->limits.call_timeout_ms;
    call->tool = g_strdup(tool);
    g_autoptr(GError) error = NULL;
    call->arguments = parse_arguments(arguments_json, size, &error);
    if (call->arguments == NULL) {
        ipb_mcp_call_end_later(call, g_steal_pointer(&error));
        return id;
    }
    ipb_mcp_call_limit(call, client->limits.call_duration_ms,
                       ", in spite of its progress" IPB_MCP_LIMIT_HINT("call_duration"));
    if (ipb_mcp_client_has_headers(client) && client->tool_headers == NULL)
        list_first(call);
    else
        send_round(call);
    if (!client->is_modern)
        g_clear_pointer(&call->arguments, ipb_json_doc_free); /* there will be no other round */
    return id;
}
