/* SPDX-License-Identifier: Apache-2.0
 *
 * What websocket.c (life, queue, deadlines), websocket-receive.c (what comes), websocket-accept.c (server) and websocket-connect.c (client) share.
 */
#pragma once

#include "base/buffer.h"
#include "http/frames.h"
#include "http/websocket.h"

/* Read by one wake-up; the rest comes with the next. */
#define IPB_WEBSOCKET_MAX_READ (1024 * 1024)

/* See websocket.c. */
typedef enum {
    IPB_WEBSOCKET_CONNECTING,
    IPB_WEBSOCKET_OPEN,
    IPB_WEBSOCKET_CLOSING,
    IPB_WEBSOCKET_DRAIN,
    IPB_WEBSOCKET_ENDED,
} IpbWebSocketState;

struct IpbWebSocket {
    IpbLoop *loop;
    IpbWebSocketOptions options;
    IpbWebSocketFuncs funcs;
    void *data;
    bool is_freed;
    IpbWebSocketState state;
    int fd;
    IpbWatch *watch;
    IpbHttpPlace *place;
    void *dial;
    GDestroyNotify free_dial;
    char *protocol;
    IpbFrames frames;
    IpbBuffer in;  /* what was read and not taken apart yet */
    IpbBuffer out; /* what is to be sent */
    bool is_client;
    bool is_paused;
    bool has_sent_close; /* it is the last in @out, or out */
    bool reads_no_more;  /* a close came, or something that cannot be */
    bool was_queued;
    unsigned n_pongs; /* queued since the queue was empty */
    size_t n_drained;
    /* How it ends. */
    unsigned code;
    char *reason;
    bool is_told;
    /* Monotonic time; 0: none. */
    int64_t read_at, written_at, pinged_at, deadline;
    int64_t timer_at;
    IpbTimer *timer;
};

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

/* Queues a frame; false if there is no room, or a close was queued. */
bool ipb_websocket_queue(IpbWebSocket *socket, IpbFrameKind kind, const void *payload, size_t size);
/* The last thing that is sent. NO_CODE: without a code. */
void ipb_websocket_queue_close(IpbWebSocket *socket, unsigned code, const char *reason);
/* Is anything of the peer wanted now? */
bool ipb_websocket_may_take(const IpbWebSocket *socket);
/* Reads what there is, and tells the messages in it. */
void ipb_websocket_receive(IpbWebSocket *socket);
