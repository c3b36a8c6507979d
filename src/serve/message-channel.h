/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMessageChannel: carries JSON-RPC messages between one client and its conversation
 * (serve/conversation.h). The implementation decides what a message travels on: lines of stdio, or
 * requests and event streams of HTTP. The channel knows framing and nothing of methods; the
 * conversation knows methods and nothing of framing.
 *
 * A channel may have several outgoing streams. Each outgoing message therefore names the client's
 * request that it answers or belongs to (IpbRpcMessage.request_id), and the channel is notified
 * when a request ends without a response. So an HTTP channel can send progress and questions on
 * the stream of the request they belong to, end that stream, and keep what a client may ask for
 * again after it lost the connection. A channel that carries one request only, as a stateless
 * protocol needs, has the same interface: it reports its end when the client closes the stream.
 *
 * Ownership: the conversation owns its channel. The channel calls the functions from the loop only,
 * never from within one of its operations, and reports its end once.
 */
#pragma once

#include "json/rpc-peer.h"

/* Bytes of a message that is delivered whole. */
#define IPB_MESSAGE_CHANNEL_MAX_SIZE (64u * 1024 * 1024)

typedef struct IpbMessageChannel IpbMessageChannel;

typedef struct {
    /* One message; @text is borrowed. */
    void (*on_message)(const char *text, size_t size, void *data);
    /* One piece of a message longer than IPB_MESSAGE_CHANNEL_MAX_SIZE. The last piece may be empty.
     */
    void (*on_long_message)(const char *piece, size_t size, bool is_last, void *data);
    /* The client closed the channel (@why NULL), or the channel failed. May free the channel. */
    void (*on_end)(const GError *why, void *data);
    /* Everything that waited was written. */
    void (*on_drained)(void *data);
} IpbMessageChannelFuncs;

typedef struct {
    /* Sends a message. If the client is so slow that more than the channel's maximum waits, the
     * channel ends; the caller checks @pending to stop before. */
    void (*send)(IpbMessageChannel *channel, const IpbRpcMessage *message);
    /* The client's request with this id gets no response. NULL: no stream waits for one. */
    void (*drop)(IpbMessageChannel *channel, const char *request_id);
    /* While paused, no message is delivered and the client has to wait. When the client is gone,
     * what it sent before is delivered all the same, then the end. */
    void (*set_paused)(IpbMessageChannel *channel, bool is_paused);
    /* Bytes that wait because the client reads slowly. */
    size_t (*pending)(const IpbMessageChannel *channel);
    /* Blocks until everything is written, for at most @timeout_ms: for a program that ends. Not
     * from within the loop. */
    void (*flush)(IpbMessageChannel *channel, unsigned timeout_ms);
    void (*free)(IpbMessageChannel *channel);
} IpbMessageChannelOps;

/* The first member of each implementation. */
struct IpbMessageChannel {
    const IpbMessageChannelOps *ops;
    /* The conversation sets these before the loop runs again. */
    IpbMessageChannelFuncs funcs;
    void *data;
};
