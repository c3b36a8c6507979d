/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbWebSocket: one end of a WebSocket (RFC 6455) without extensions. It is the server's end, made
 * from a request to our HTTP server, or the client's end. The peer is hostile: messages and the
 * queue of bytes to be sent are bounded, and a peer that does not answer pings, does not read or
 * does not close is disconnected.
 *
 * Ownership: the owner must free it, after on_closed as well. A function of IpbWebSocketFuncs may
 * free it. None of these functions is called after that.
 */
#pragma once

#include "http/server.h"

typedef struct IpbWebSocket IpbWebSocket;

/* Called from the loop, never from within a function of the socket. Each may be NULL. */
typedef struct {
    /* The handshake is done. */
    void (*on_open)(IpbWebSocket *socket, void *data);
    /* A complete message; text is valid UTF-8. @bytes is borrowed. */
    void (*on_message)(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text,
                       void *data);
    /* Everything that was queued was written. */
    void (*on_drained)(IpbWebSocket *socket, void *data);
    /* The end, once. @code and @reason (UTF-8) are the peer's, or ours if we closed it because of
     * the peer. 1005: it was closed without a code. 1006: there was no close, and the reason says
     * what happened. */
    void (*on_closed)(IpbWebSocket *socket, unsigned code, const char *reason, void *data);
} IpbWebSocketFuncs;

typedef struct {
    /* Bytes of a received message; a larger one closes the socket with 1009 */
    size_t max_message;
    /* Bytes that wait to be sent */
    size_t max_queue;
    /* A ping is sent after so much silence, and the socket ends after so much more; 0: never */
    unsigned ping_ms;
    /* The socket ends if bytes wait and none was accepted for so long */
    unsigned write_ms;
    unsigned handshake_ms;
    /* For the peer's answer to our close, and to close the connection then */
    unsigned close_ms;
} IpbWebSocketOptions;

/* Defaults: 16 MiB for messages, 64 MiB for the queue; pings after 30 s; 60 s to write, 10 s for
 * the handshake, 5 s to close. */
extern const IpbWebSocketOptions IPB_WEBSOCKET_OPTIONS;

/* Server: answers the handshake in @request, and ends the request. @protocols: see
 * http/handshake.h; static. NULL: it was no handshake, and an error was sent. The socket counts as
 * one of the server's connections. It is open at once, so on_open is not called. */
IpbWebSocket *ipb_websocket_accept(IpbLoop *loop, IpbHttpRequest *request,
                                   const char *const *protocols, const IpbWebSocketOptions *options,
                                   const IpbWebSocketFuncs *funcs, void *data);

/* The server that a client connects to; everything is copied. */
typedef struct {
    const char *host;
    unsigned port;
    /* With the query; "/…" */
    const char *path;
    /* Offered; NULL-terminated, or NULL */
    const char *const *protocols;
    /* Name, value, name, value, …, NULL; or NULL */
    const char *const *headers;
} IpbWebSocketTarget;

/* Client, over plain TCP. INVALID: the target is malformed. Later failures are reported by
 * on_closed with 1006. */
IpbWebSocket *ipb_websocket_connect(IpbLoop *loop, const IpbWebSocketTarget *target,
                                    const IpbWebSocketOptions *options,
                                    const IpbWebSocketFuncs *funcs, void *data, GError **error);

/* The chosen subprotocol; "": none. */
const char *ipb_websocket_protocol(const IpbWebSocket *socket);
/* LIMIT: the queue would exceed its maximum, and nothing was queued. INVALID: the text is no UTF-8.
 * BUSY: the socket is not open. */
bool ipb_websocket_send(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text,
                        GError **error);
/* Bytes that wait to be sent. */
size_t ipb_websocket_queued(const IpbWebSocket *socket);
/* While paused, no message is received, and the peer has to wait. */
void ipb_websocket_pause(IpbWebSocket *socket, bool is_paused);
/* Sends what is queued, then a close; on_closed follows after close_ms at the latest. At most 123
 * bytes of @reason are sent. No effect if it is closing already. */
void ipb_websocket_close(IpbWebSocket *socket, unsigned code, const char *reason);
/* At once, without a close. */
void ipb_websocket_free(IpbWebSocket *socket);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbWebSocket, ipb_websocket_free)
