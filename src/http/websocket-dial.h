/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbWebSocketDial: connects a WebSocket's client over plain TCP. A thread resolves the name and
 * connects; then the request of the handshake is written and the answer's head is read.
 *
 * Ownership: the owner may free it at any time, even from within on_open or on_failed. After that
 * neither is called.
 */
#pragma once

#include "base/loop.h"
#include "http/websocket.h"

typedef struct IpbWebSocketDial IpbWebSocketDial;

/* One of them is called, once, from the loop. */
typedef struct {
    /* The handshake is done. @fd becomes the owner's. @protocol: the chosen one, or NULL. @unread
     * has the frames that came with the answer. */
    void (*on_open)(int fd, const char *protocol, IpbSpan unread, void *data);
    void (*on_failed)(const char *reason, void *data);
} IpbWebSocketDialFuncs;

/* INVALID: the target cannot be one. */
IpbWebSocketDial *ipb_websocket_dial_new(IpbLoop *loop, const IpbWebSocketTarget *target,
                                         const IpbWebSocketDialFuncs *funcs, void *data,
                                         GError **error);
void ipb_websocket_dial_free(IpbWebSocketDial *dial);
