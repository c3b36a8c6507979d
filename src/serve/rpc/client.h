/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcClient: the program at the other end of `ipybox rpc`, as the methods see it. It is notified
 * and asked, and its requests may stay pending. What it sends is received by the server (server.h).
 *
 * Ownership: the server owns the client, which owns its pending requests.
 */
#pragma once

#include "serve/rpc/method.h"

typedef struct IpbRpcClient IpbRpcClient;

/* @peer is borrowed and outlives the client. */
IpbRpcClient *ipb_rpc_client_new(IpbRpcPeer *peer);
void ipb_rpc_client_free(IpbRpcClient *client);
/* For requests to the client. */
IpbRpcPeer *ipb_rpc_client_peer(const IpbRpcClient *client);

/* An id such as "s1" or "c2", which is never used again. The caller frees it. */
char *ipb_rpc_client_make_id(IpbRpcClient *client, char letter);

/* --- notifications --- */

/* @writer: the finished params, freed here. */
void ipb_rpc_client_notify(IpbRpcClient *client, const char *method, IpbJsonWriter *writer);
/* The notification "log". @session: an id, or NULL. */
void ipb_rpc_client_log(IpbRpcClient *client, const char *level, const char *text,
                        const char *session);
/* The same for functions that report only warnings. @client: the IpbRpcClient. */
void ipb_rpc_client_log_warning(const char *text, void *client);
/* The notification "session.event" of the request with that id (JSON text). Write the members of
 * the event between these two. */
IpbJsonWriter *ipb_rpc_client_begin_event(const char *request_id, const char *type);
void ipb_rpc_client_send_event(IpbRpcClient *client, IpbJsonWriter *writer);

/* --- pending requests --- */

/* A request that is answered later. The method that makes one may set the members from `cancel` on.
 * Replying frees it. */
typedef struct IpbRpcPending IpbRpcPending;
struct IpbRpcPending {
    IpbRpcClient *client;
    IpbRpcRequest *request;
    void *owner; /* the session that it belongs to; NULL: none */
    /* Makes the request end soon, with a reply. NULL: it cannot be cancelled. */
    void (*cancel)(IpbRpcPending *pending);
    bool is_cancelled; /* cancel was called */
    uint64_t number;   /* for cancel: of the cell, the registration or the call */
    void *data;        /* the method's own; freed with free_data */
    void (*free_data)(void *data);
};

IpbRpcPending *ipb_rpc_pending_new(IpbRpcClient *client, void *owner, IpbRpcRequest *request);
void ipb_rpc_pending_reply(IpbRpcPending *pending, IpbJsonWriter *writer);
void ipb_rpc_pending_reply_empty(IpbRpcPending *pending);
/* Replies {"tools": […]} with the names of generated modules, NULL-terminated. */
void ipb_rpc_pending_reply_tools(IpbRpcPending *pending, const char *const *modules);
void ipb_rpc_pending_fail(IpbRpcPending *pending, const GError *error);

/* The pending request with this id (JSON text); NULL: there is none. */
IpbRpcPending *ipb_rpc_client_find(const IpbRpcClient *client, const char *id);
/* Does nothing if no such request is pending. */
void ipb_rpc_client_cancel(IpbRpcClient *client, const char *id);
/* All pending requests of @owner fail with @why. */
void ipb_rpc_client_fail_all(IpbRpcClient *client, const void *owner, const GError *why);
