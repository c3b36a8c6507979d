/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcWebSockets: WebSockets of the client over plain TCP, for SDKs whose language has none, with
 * the methods "websocket.*". Nothing is received from them while the client reads too slowly.
 *
 * Ownership: the server owns this object, which owns the sockets. A socket is freed when it is
 * closed.
 */
#pragma once

#include "serve/rpc/client.h"

typedef struct IpbRpcWebSockets IpbRpcWebSockets;

extern const IpbRpcMethod IPB_RPC_WEBSOCKET_METHODS[];
extern const size_t IPB_RPC_N_WEBSOCKET_METHODS;

/* @client is borrowed. */
IpbRpcWebSockets *ipb_rpc_websockets_new(IpbLoop *loop, IpbRpcClient *client);
void ipb_rpc_websockets_set_congested(IpbRpcWebSockets *sockets, bool is_congested);
/* Closes all in order; @done when none is left, at once if none is open. */
void ipb_rpc_websockets_close(IpbRpcWebSockets *sockets, void (*done)(void *data), void *data);
void ipb_rpc_websockets_free(IpbRpcWebSockets *sockets);
