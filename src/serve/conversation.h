/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbConversation: JSON-RPC with one client over a message channel. It handles clients that read
 * slowly and messages that are too long. The owner implements the methods.
 *
 * While more than 8 MiB wait for the client to read, the conversation is congested. The owner is
 * notified, so that it produces no more, and requests of the client are held. Notifications and
 * responses are not held, so a running request can be cancelled. When more than 64 MiB of requests
 * are held, the channel is paused and further ones stay with the client. So memory is bounded and
 * nothing is lost.
 *
 * Ownership: it owns the channel and the peer. Callbacks may do anything but free it, except
 * on_end.
 */
#pragma once

#include "serve/message-channel.h"

typedef struct IpbConversation IpbConversation;

typedef struct {
    void (*on_request)(IpbRpcRequest *request, void *data);
    void (*on_notification)(const char *method, const IpbJson *params, void *data);
    void (*on_invalid)(const GError *why, void *data);
    /* Does the protocol have batches? NULL: no. The messages of a batch are handled, and answered,
     * one by one. */
    bool (*takes_batches)(void *data);
    void (*on_congested)(bool is_congested, void *data);
    /* The client closed the channel (@why NULL), or the channel failed. Called once. */
    void (*on_end)(const GError *why, void *data);
} IpbConversationFuncs;

/* Takes @channel. */
IpbConversation *ipb_conversation_new(IpbLoop *loop, IpbMessageChannel *channel,
                                      const IpbConversationFuncs *funcs, void *data);
/* Borrowed, for requests and notifications to the client. */
IpbRpcPeer *ipb_conversation_peer(const IpbConversation *conversation);
bool ipb_conversation_is_congested(const IpbConversation *conversation);
/* The method of a held request, which the owner has not seen yet; borrowed. NULL if no request with
 * this id (JSON text) is held. */
const char *ipb_conversation_held_method(const IpbConversation *conversation, const char *id_json);
/* Begins the held request with this id now, before older held requests. */
void ipb_conversation_begin(IpbConversation *conversation, const char *id_json);
/* Drops the held request with this id, which gets no response; false if there is none. */
bool ipb_conversation_drop(IpbConversation *conversation, const char *id_json);
/* Answers the held request with this id with an error; false if there is none. */
bool ipb_conversation_refuse(IpbConversation *conversation, const char *id_json, int code,
                             const char *message, const char *data_json);
/* Stops receiving, and writes what waits, for at most @timeout_ms. Not from within the loop, unless
 * @timeout_ms is 0. */
void ipb_conversation_finish(IpbConversation *conversation, unsigned timeout_ms);
void ipb_conversation_free(IpbConversation *conversation);
