/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayChannel: a WebSocket at /api/kernels/<id>/channels, which is one client of a kernel.
 *
 * Ownership: the gateway owns its channels. A channel lives until its socket is closed; its kernel
 * may end before that.
 */
#pragma once

#include "http/server.h"
#include "serve/gateway/kernel.h"

typedef struct IpbGatewayChannel IpbGatewayChannel;

typedef struct {
    void (*on_log)(const char *level, const char *text, void *data);
    /* Called once, from the loop: free the channel. */
    void (*on_closed)(IpbGatewayChannel *channel, void *data);
} IpbGatewayChannelFuncs;

/* Upgrades the connection of @request, which this ends. NULL: it is no handshake of a WebSocket,
 * and the peer got an error. @funcs is static. */
IpbGatewayChannel *ipb_gateway_channel_new(IpbLoop *loop, IpbGatewayKernel *kernel,
                                           IpbHttpRequest *request,
                                           const IpbGatewayChannelFuncs *funcs, void *data);
void ipb_gateway_channel_free(IpbGatewayChannel *channel);
