/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbWebSocket: one end of a WebSocket (RFC 6455), as the server behind a request of our HTTP server or as a client; without extensions.
 * The peer is hostile: what a message and the queue of what is to be sent may hold is bounded, a
 * peer that does not answer pings, does not read or does not close is cut off.
 *
 * Ownership: the owner frees it, also after on_closed; also from within its functions. After that none of them is called.
 */
#pragma once

#include "http/server.h"

typedef struct IpbWebSocket IpbWebSocket;

/* What became of it; from the loop, never from within a call of ours but ipb_websocket_accept's on_open. NULL where of no interest. */
typedef struct {
    /* The handshake is done. */
    void (*on_open)(IpbWebSocket *socket, void *data);
    /* A whole message; text is valid UTF-8. @bytes until it returns. */
    void (*on_message)(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text,
                       void *data);
    /* Everything that was sent is out, after it was not. */
    void (*on_drained)(IpbWebSocket *socket, void *data);
    /* It is over, once. @code and @reason (UTF-8) are the peer's, or ours if we closed it because of the peer; 1005: closed without a code;
     * 1006: there was no close, and the reason says what happened. */
    void (*on_closed)(IpbWebSocket *socket, unsigned code, const char *reason, void *data);
} IpbWebSocketFuncs;

typedef struct {
    size_t max_message; /* received; beyond it the socket is closed with 1009 */
    size_t max_queue;   /* of what is to be sent */
    unsigned ping_ms;   /* a ping after so much silence, and the end after so much more; 0: never */
    /* The end when nothing could be written for so long though there was something */
    unsigned write_ms;
    unsigned handshake_ms;
    unsigned close_ms; /* for the peer's answer to our close, and to go then */
} IpbWebSocketOptions;

/* 16 MiB for messages, 64 MiB for the queue; pings after 30 s; 60 s, 10 s and 5 s. */
extern const IpbWebSocketOptions IPB_WEBSOCKET_OPTIONS;

/* Server: answers the handshake in @request, which is ended. @protocols: see http/handshake.h; static. NULL: it is no handshake, and
 * that was answered. The socket keeps its place among the connections of the server. on_open is not called: it is open. */
IpbWebSocket *ipb_websocket_accept(IpbLoop *loop, IpbHttpRequest *request,
                                   const char *const *protocols, const IpbWebSocketOptions *options,
                                   const IpbWebSocketFuncs *funcs, void *data);

/* Where a client goes; everything is copied. */
typedef struct {
    const char *host;
    unsigned port;
    const char *path;             /* with the query; "/…" */
    const char *const *protocols; /* offered; NULL-terminated, or NULL */
    const char *const *headers;   /* name, value, name, value, …, NULL; or NULL */
} IpbWebSocketTarget;

/* Client, over plain TCP. INVALID: the target cannot be one. What goes wrong later is told by on_closed with 1006. */
IpbWebSocket *ipb_websocket_connect(IpbLoop *loop, const IpbWebSocketTarget *target,
                                    const IpbWebSocketOptions *options,
                                    const IpbWebSocketFuncs *funcs, void *data, GError **error);

/* The subprotocol that was chosen; "": none. */
const char *ipb_websocket_protocol(const IpbWebSocket *socket);
/* LIMIT: the queue would exceed its maximum, and nothing was queued. INVALID: text that is no UTF-8. BUSY: it is not open, or closing. */
bool ipb_websocket_send(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text,
                        GError **error);
/* Bytes that wait to be sent. */
size_t ipb_websocket_queued(const IpbWebSocket *socket);
/* While paused no message is received, and the peer must wait. */
void ipb_websocket_pause(IpbWebSocket *socket, bool is_paused);
/* Closes after what is queued: on_closed follows, after close_ms at the latest. @reason: at most 123 bytes are sent. Nothing if it is
 * closing. */
void ipb_websocket_close(IpbWebSocket *socket, unsigned code, const char *reason);
/* At once, without a close. */
void ipb_websocket_free(IpbWebSocket *socket);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbWebSocket, ipb_websocket_free)
