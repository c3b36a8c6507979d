/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels; see the header.
 */
#include "serve/gateway/channel.h"

#include <string.h>

#include "base/error.h"
#include "http/websocket.h"

/* Bytes that wait to be sent to one client. Beyond SLOW_SIZE the kernel is paused, so only messages
 * that are on their way are added. A display may have 64 MiB, and more when it is escaped. */
#define MAX_QUEUE (512u * 1024 * 1024)
#define SLOW_SIZE (4u * 1024 * 1024)
#define CLOSE_GOING_AWAY 1001
#define CLOSE_BAD_MESSAGE 1008
#define CLOSE_LIMIT 1009

struct IpbGatewayChannel {
    const IpbGatewayChannelFuncs *funcs;
    void *data;
    IpbWebSocket *socket;
    IpbGatewayClient *client; /* NULL: the kernel has ended, or the socket is closing */
    IpbGatewayFraming framing;
};

/* Closes the socket after what is queued; on_closed follows. */
static void
hang_up(IpbGatewayChannel *channel, unsigned code, const char *reason)
{
    g_clear_pointer(&channel->client, ipb_gateway_client_free);
    ipb_websocket_close(channel->socket, code, reason);
}

/* --- the kernel's side ----------------------------------------------------------------------- */

static void
on_send(IpbGatewayOutgoing *outgoing, void *data)
{
    IpbGatewayChannel *channel = data;
    gsize size;
    const char *bytes =
        g_bytes_get_data(ipb_gateway_outgoing_frame(outgoing, channel->framing), &size);
    bool is_text = ipb_gateway_outgoing_is_text(outgoing, channel->framing);
    g_autoptr(GError) error = NULL;
    if (!ipb_websocket_send(channel->socket, bytes, size, is_text, &error)) {
        /* The client is freed when the socket has closed, not here. */
        ipb_websocket_close(channel->socket, CLOSE_LIMIT, error->message);
        return;
    }
    if (ipb_websocket_queued(channel->socket) > SLOW_SIZE)
        ipb_gateway_client_set_slow(channel->client, true);
}

static void
on_kernel_end(void *data)
{
    hang_up(data, CLOSE_GOING_AWAY, "the kernel has ended");
}

/* --- the socket's side ----------------------------------------------------------------------- */

static void
on_message(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text, void *data)
{
    IpbGatewayChannel *channel = data;
    IpbGatewayMessage message;
    g_autoptr(GError) error = NULL;
    if (channel->client == NULL)
        return;
    if (!ipb_gateway_message_parse(channel->framing, !is_text, bytes, size, &message, &error)) {
        g_autofree char *text = g_strdup_printf("a client is closed: %s", error->message);
        channel->funcs->on_log("warning", text, channel->data);
        hang_up(channel, CLOSE_BAD_MESSAGE, error->message);
        return;
    }
    ipb_gateway_client_receive(channel->client, &message, size);
}

static void
on_drained(IpbWebSocket *socket, void *data)
{
    IpbGatewayChannel *channel = data;
    if (channel->client != NULL)
        ipb_gateway_client_set_slow(channel->client, false);
}

static void
on_closed(IpbWebSocket *socket, unsigned code, const char *reason, void *data)
{
    IpbGatewayChannel *channel = data;
    g_autofree char *text = g_strdup_printf("a client has gone (%u %s)", code, reason);
    channel->funcs->on_log("debug", text, channel->data);
    channel->funcs->on_closed(channel, channel->data);
}

/* --- life ------------------------------------------------------------------------------------ */

IpbGatewayChannel *
ipb_gateway_channel_new(IpbLoop *loop, IpbGatewayKernel *kernel, IpbHttpRequest *request,
                        const IpbGatewayChannelFuncs *funcs, void *data)
{
    static const char *const PROTOCOLS[] = {IPB_GATEWAY_SUBPROTOCOL_V1, NULL};
    static const IpbWebSocketFuncs SOCKET_FUNCS = {
        .on_message = on_message, .on_drained = on_drained, .on_closed = on_closed};
    static const IpbGatewayClientFuncs CLIENT_FUNCS = {.send = on_send,
                                                       .on_kernel_end = on_kernel_end};
    IpbWebSocketOptions options = IPB_WEBSOCKET_OPTIONS;
    options.max_message = IPB_GATEWAY_MAX_MESSAGE;
    options.max_queue = MAX_QUEUE;
    IpbGatewayChannel *channel = g_new0(IpbGatewayChannel, 1);
    channel->funcs = funcs;
    channel->data = data;
    channel->socket =
        ipb_websocket_accept(loop, request, PROTOCOLS, &options, &SOCKET_FUNCS, channel);
    if (channel->socket == NULL) {
        g_free(channel);
        return NULL;
    }
    if (strcmp(ipb_websocket_protocol(channel->socket), IPB_GATEWAY_SUBPROTOCOL_V1) == 0)
        channel->framing = IPB_GATEWAY_FRAMING_V1;
    channel->client = ipb_gateway_client_new(kernel, &CLIENT_FUNCS, channel);
    return channel;
}

void
ipb_gateway_channel_free(IpbGatewayChannel *channel)
{
    ipb_gateway_client_free(channel->client);
    ipb_websocket_free(channel->socket);
    g_free(channel);
}
