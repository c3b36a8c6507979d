/* SPDX-License-Identifier: Apache-2.0
 *
 * tools/list over all its pages; see client.h. How long a server lets its list be kept (ttlMs, cacheScope) is not
 * looked at: nothing is kept.
 */
#include "mcp/client-private.h"

#include "base/error.h"

/* A server of prompts or resources only did not promise tools: it has none. */
static bool
is_without_tools(const IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    return answer->rpc_error != NULL && !call->client->has_tools &&
           ipb_message_error_code(answer->rpc_error) == IPB_RPC_METHOD_NOT_FOUND;
}

/* @cursor: JSON text, or NULL. */
static void
ask_for_page(IpbMcpCall *call, const char *cursor)
{
    IpbMessageMeta meta = ipb_mcp_call_meta(call);
    ipb_mcp_call_send(call, "tools/list", ipb_message_list(cursor, &meta));
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
        if (!ipb_mcp_call_check_complete(call, answer, &error) ||
            !ipb_tool_list_add(call->list, answer->result, &next, &error)) {
            ipb_mcp_call_end_with(call, error);
            return;
        }
    }
    if (call->client == NULL) /* who was told of a tool that was left out has freed the client */
        return;
    if (next != NULL) {
        ask_for_page(call, next);
        return;
    }
    g_clear_pointer(&call->client->tool_headers, g_hash_table_unref);
    call->client->tool_headers = ipb_tool_list_steal_headers(call->list);
    g_autoptr(IpbJsonDoc) document = ipb_tool_list_finish(call->list, &error);
    if (document == NULL)
        ipb_mcp_call_end_with(call, error);
    else
        ipb_mcp_call_end(call, ipb_json_root(document), &document, NULL);
}

void
ipb_mcp_client_list_tools(IpbMcpClient *client, IpbMcpResultFunc func, void *data)
{
    IpbMcpCall *call = ipb_mcp_call_new(client, "tools/list", func, data);
    GError *error = ipb_mcp_call_refuse(client, 0);
    if (error != NULL) {
        ipb_mcp_call_end_later(call, error);
        return;
    }
    call->list = ipb_tool_list_new(client->limits.pages, client->limits.tools,
                                   ipb_mcp_client_has_headers(client) ? client->log : NULL);
    call->on_answer = on_page;
    call->timeout_ms = client->limits.connect_timeout_ms;
    ipb_mcp_call_limit(call, client->limits.list_duration_ms,
                       " over all its pages" IPB_MCP_LIMIT_HINT("list_duration"));
    ask_for_page(call, NULL);
}
