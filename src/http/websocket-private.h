/* SPDX-License-Identifier: Apache-2.0
 *
 * What websocket.c (frames, queue, deadlines), websocket-accept.c (server) and websocket-connect.c (client) share.
 */
#pragma once

#include "http/websocket.h"

/* A socket without a connection. */
IpbWebSocket *ipb_websocket_new(IpbLoop *loop, const IpbWebSocketOptions *options,
                                const IpbWebSocketFuncs *funcs, void *data);
/* The handshake is done: @fd (taken) carries frames from now on; @unread came already. @protocol: or NULL. False: it cannot be watched. */
bool ipb_websocket_start(IpbWebSocket *socket, int fd, bool is_server, const char *unread,
                         size_t unread_size, const char *protocol, GError **error);
void ipb_websocket_set_place(IpbWebSocket *socket, IpbHttpPlace *place);
/* The connecting of a client, freed with the socket or when it is open. */
void ipb_websocket_set_dial(IpbWebSocket *socket, void *dial, GDestroyNotify free_dial);
IpbLoop *ipb_websocket_loop(IpbWebSocket *socket);
/* For dials: the handshake is done, or failed; the dial is freed. */
void ipb_websocket_tell_open(IpbWebSocket *socket);
void ipb_websocket_fail(IpbWebSocket *socket, const char *reason);
