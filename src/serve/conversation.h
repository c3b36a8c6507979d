/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbConversation: JSON-RPC with a client on a pair of fds, one message on each line. It handles
 * clients that read slowly and messages that are too long. The owner implements the methods.
 *
 * While more than 8 MiB wait for the client to read, the conversation is congested. The owner is
 * notified, so that it produces no more, and requests of the client are held. Notifications and
 * answers are not held, so a running request can be cancelled. When more than 64 MiB of requests
 * are held, further ones stay in the client's pipe. So memory is bounded and nothing is lost.
 *
 * Ownership: it owns the fds and the peer. Callbacks may do anything but free it, except on_end.
 */
#pragma once

#include "json/rpc-peer.h"

typedef struct IpbConversation IpbConversation;

typedef struct {
    void (*on_request)(IpbRpcRequest *request, void *data);
    void (*on_notification)(const char *method, const IpbJson *params, void *data);
    void (*on_invalid)(const GError *why, void *data);
    /* Does the protocol have batches? NULL: no. Their messages are taken, and answered, one by one. */
    bool (*takes_batches)(void *data);
    void (*on_congested)(bool is_congested, void *data);
    /* As in IpbStdioFuncs. */
    void (*on_end)(const GError *why, void *data);
} IpbConversationFuncs;

/* @in and @out become the object's. */
IpbConversation *ipb_conversation_new(IpbLoop *loop, int in, int out,
                                      const IpbConversationFuncs *funcs, void *data,
                                      GError **error);
/* Borrowed, for requests and notifications to the client. */
IpbRpcPeer *ipb_conversation_peer(const IpbConversation *conversation);
bool ipb_conversation_is_congested(const IpbConversation *conversation);
/* The method of a held request, which the owner has not seen yet; borrowed. NULL if no request with
 * this id (JSON text) is held. */
const char *ipb_conversation_held_method(const IpbConversation *conversation, const char *id_json);
/* Begins the held request with this id now, before those that are held longer. */
void ipb_conversation_begin(IpbConversation *conversation, const char *id_json);
/* Drops it; false if there is none. */
bool ipb_conversation_drop(IpbConversation *conversation, const char *id_json);
/* Nothing is received any more; what waits is written, for at most @timeout_ms. */
void ipb_conversation_finish(IpbConversation *conversation, unsigned timeout_ms);
void ipb_conversation_free(IpbConversation *conversation);
