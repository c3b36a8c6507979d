/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbConversation: JSON-RPC with a client on a pair of fds, one message a line. It copes with clients that read slowly and with
 * messages that are too long; what the methods do is its owner's.
 *
 * While more than 8 MiB wait to be read the conversation is congested: the owner is told, so that it makes no more, and the client's
 * requests are held. Notifications and answers are not: what is running can be cancelled. If the client sends more than 64 MiB of
 * requests meanwhile, they are left in its pipe. So all that waits is bounded and nothing is lost.
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
/* The method of a request that is held, which nobody has seen; borrowed. NULL if there is none with this id (JSON text). */
const char *ipb_conversation_held_method(const IpbConversation *conversation, const char *id_json);
/* Begins the held request with this id now, before those that are held longer. */
void ipb_conversation_begin(IpbConversation *conversation, const char *id_json);
/* Drops it; false if there is none. */
bool ipb_conversation_drop(IpbConversation *conversation, const char *id_json);
/* Nothing is received any more; what waits is written, for at most @timeout_ms. */
void ipb_conversation_finish(IpbConversation *conversation, unsigned timeout_ms);
void ipb_conversation_free(IpbConversation *conversation);
