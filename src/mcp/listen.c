/* SPDX-License-Identifier: Apache-2.0
 *
 * subscriptions/listen: a request to a modern server that is not answered while the connection lives; the server
 * tells by notifications, which carry its id, that its tools changed. Old servers tell that unasked.
 *
 * A subscription that the server ends is not asked for again: it means it. What comes of it then is nothing worse than a
 * tool that the server does not know any more.
 */
#include "mcp/client-private.h"

#include "base/error.h"

#define SUBSCRIPTION_ID "io.modelcontextprotocol/subscriptionId"

static void
on_listen_ended(const IpbJson *result, IpbJsonDoc **document, const GError *error, void *data)
{
    IpbMcpClient *client = data;
    client->listening = NULL;
    if (error != NULL && client->state == IPB_MCP_STATE_READY)
        ipb_server_log_tell(client->log, "debug", error->message, strlen(error->message));
}

static void
on_listen_answer(IpbMcpCall *call, const IpbRpcAnswer *answer)
{
    g_autoptr(GError) failure = ipb_mcp_call_error(call, answer);
    ipb_mcp_call_end(call, answer->result, answer->document, failure);
}

void
ipb_mcp_client_listen(IpbMcpClient *client)
{
    IpbTransport *transport = client->transport;
    if (client->funcs.on_tools_changed == NULL)
        return;
    if (!client->is_modern) {
        if (transport->ops->listen != NULL)
            transport->ops->listen(transport);
        return;
    }
    IpbMcpCall *call = ipb_mcp_call_new(client, "subscriptions/listen", on_listen_ended, client);
    IpbMessageMeta meta = ipb_mcp_call_meta(call);
    call->on_answer = on_listen_answer;
    client->listening = call;
    ipb_mcp_call_send(call, "subscriptions/listen", ipb_message_listen(&meta));
}

/* Some servers give numbers back as strings. */
static bool
is_id(const IpbJson *value, int64_t id)
{
    int64_t number = 0;
    const char *text = ipb_json_string(value, NULL);
    if (text == NULL)
        return ipb_json_int64(value, &number) && number == id;
    return g_ascii_string_to_signed(text, 10, 1, INT64_MAX, &number, NULL) && number == id;
}

bool
ipb_mcp_client_is_subscribed(const IpbMcpClient *client, const IpbJson *params)
{
    if (!client->is_modern)
        return true;
    const IpbJson *id = ipb_json_get(ipb_json_get(params, "_meta"), SUBSCRIPTION_ID);
    return client->listening != NULL && (id == NULL || is_id(id, client->listening->rpc_id));
}

void
ipb_mcp_client_unsubscribed(IpbMcpClient *client, const IpbJson *params)
{
    IpbMcpCall *call = client->listening;
    if (call == NULL || call->error != NULL ||
        !is_id(ipb_json_get(params, "requestId"), call->rpc_id))
        return;
    ipb_rpc_peer_cancel_call(client->peer, call->rpc_id);
    ipb_mcp_call_end_later(call, g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                             "MCP server %s ended its subscription", client->name));
}
