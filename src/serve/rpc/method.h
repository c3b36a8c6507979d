/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcMethod: a method of `ipybox rpc`, and how it replies. A group of methods is a table of
 * these, with the object that has them: sessions, connections, WebSockets. The groups do not know
 * the server, which finds a method by its name and calls it.
 */
#pragma once

#include "json/rpc-peer.h"
#include "serve/rpc/params.h"

/* The code of all errors but those of JSON-RPC itself and of parameters; they have a "kind". */
#define IPB_RPC_FAILED (-32000)

/* What session.cancel does to a request that has not begun, because the client reads too slowly. */
typedef enum {
    IPB_RPC_CANCEL_DROPS,  /* replies with an error of the kind "cancelled" */
    IPB_RPC_CANCEL_BEGINS, /* begins it and cancels it then: its reply says what became of it */
    IPB_RPC_CANCEL_NEVER,  /* nothing: such a request cannot be taken back */
} IpbRpcCancelMode;

typedef struct {
    const char *name;
    /* @group: the object that has the method. It reads its parameters from @params, then calls
     * ipb_rpc_params_check. It replies at once, or later with an IpbRpcPending. @request is NULL
     * for a notification. */
    void (*func)(void *group, IpbRpcRequest *request, IpbRpcParams *params);
    IpbRpcCancelMode cancel_mode;
    bool takes_notifications; /* saves the client a reply that it would ignore */
} IpbRpcMethod;

/* After a method has read its parameters: false if they are wrong, and the reply says so. */
bool ipb_rpc_params_check(IpbRpcParams *params, IpbRpcRequest *request);

/* Replies with @writer's text and frees @writer. */
void ipb_rpc_reply(IpbRpcRequest *request, IpbJsonWriter *writer);
/* Replies {}; does nothing for a notification. */
void ipb_rpc_reply_empty(IpbRpcRequest *request);
/* Replies with the error, and with its code as "kind". */
void ipb_rpc_reply_error(IpbRpcRequest *request, const GError *error);
