/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the peer share: calls to the other side (rpc-peer.c) and messages from
 * it (rpc-receive.c).
 *
 * Any callback may free the peer. Its structure is counted, by its owner, by requests, and by each
 * function that goes on after a callback; after the free it is an empty shell with @is_freed.
 */
#pragma once

#include "json/rpc-outline.h"
#include "json/rpc-peer.h"

struct IpbRpcPeer {
    int references;
    bool is_freed;
    IpbLoop *loop;
    IpbRpcPeerOptions options;
    IpbRpcPeerFuncs funcs;
    void *data;

    int64_t last_id;
    GHashTable *calls;     /* id → IpbRpcCall that waits for its answer */
    GQueue ended;          /* IpbRpcCall whose answer is still to be told */
    IpbTimer *ended_timer; /* tells them from the loop */
    unsigned calling;      /* ipb_rpc_call is being run, this many times: no answer is told */

    unsigned open_requests; /* from the other side, not answered yet */
    IpbRpcOutline skipped;  /* of the message that is being skipped */
};

typedef struct IpbRpcCall IpbRpcCall;

IpbRpcPeer *ipb_rpc_peer_ref(IpbRpcPeer *peer);
void ipb_rpc_peer_unref(IpbRpcPeer *peer);

/* Sends the message that @writer holds, and frees it; drops it when the peer was freed. */
void ipb_rpc_peer_send(IpbRpcPeer *peer, IpbJsonWriter *writer);
/* A writer in which the message has begun: {"jsonrpc":"2.0" */
IpbJsonWriter *ipb_rpc_peer_begin_message(void);

IpbRpcCall *ipb_rpc_peer_find_call(IpbRpcPeer *peer, int64_t id);
/* Ends a waiting call with an answer of the other side, in which one of @result and @rpc_error is
 * set, or with @failure; takes @doc and @failure. May run callbacks. */
void ipb_rpc_peer_end_call(IpbRpcPeer *peer, IpbRpcCall *call, IpbJsonDoc *doc,
                           const IpbJson *result, const IpbJson *rpc_error, GError *failure);
