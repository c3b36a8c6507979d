/* SPDX-License-Identifier: Apache-2.0
 *
 * Sockets of ZeroMQ in the loop. libzmq is loaded when it is needed, as libcurl is. IpbZmq is its
 * context; an IpbZmqSocket is bound to one address, and passes each message on with all its parts.
 *
 * Ownership: the owner frees the sockets before the context. Thread: that of the loop; libzmq has
 * threads of its own, which call nothing of ours.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/loop.h"
#include "base/span.h"

/* The largest part of a message, and the most parts and bytes of one. What has more is dropped. */
#define IPB_ZMQ_MAX_PART (64u * 1024 * 1024)
#define IPB_ZMQ_MAX_PARTS 1024
#define IPB_ZMQ_MAX_MESSAGE (128u * 1024 * 1024)

typedef struct IpbZmq IpbZmq;
typedef struct IpbZmqSocket IpbZmqSocket;

typedef enum {
    IPB_ZMQ_REPLY,   /* answers each message before the next one */
    IPB_ZMQ_ROUTER,  /* the first part of a message is the peer's identity */
    IPB_ZMQ_PUBLISH, /* to all subscribers; messages of subscribers are ignored */
} IpbZmqType;

/* A message of a peer. @parts: of IpbSpan, borrowed for the callback, which may send, but not free
 * the socket. */
typedef void (*IpbZmqFunc)(const IpbSpan *parts, size_t n_parts, void *data);

/* Errors: UNAVAILABLE, with how to install libzmq. */
IpbZmq *ipb_zmq_new(GError **error);
/* The version of libzmq, for people. The caller frees it. */
char *ipb_zmq_version(const IpbZmq *zmq);
/* Waits for messages that are on their way, for a second at most. */
void ipb_zmq_free(IpbZmq *zmq);

/* @address: "tcp://127.0.0.1:5555" or "ipc:///path". @func: may be NULL for PUBLISH. Errors:
 * SYSTEM. */
IpbZmqSocket *ipb_zmq_socket_new(IpbZmq *zmq, IpbLoop *loop, IpbZmqType type, const char *address,
                                 IpbZmqFunc func, void *data, GError **error);
/* Sends all parts, or nothing. False: a subscriber reads too slowly; try again later. A message for
 * a peer that has gone is dropped. */
bool ipb_zmq_socket_send(IpbZmqSocket *socket, const IpbSpan *parts, size_t n_parts);
/* PUBLISH: from now on, subscribers that read too slowly lose messages (or no longer). */
void ipb_zmq_socket_set_lossy(IpbZmqSocket *socket, bool is_lossy);
void ipb_zmq_socket_free(IpbZmqSocket *socket);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbZmq, ipb_zmq_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbZmqSocket, ipb_zmq_socket_free)
