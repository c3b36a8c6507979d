/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcClientRequests: requests of one kind that a session sends to the client, such as questions
 * about tool calls. A request that needs no answer any more is cancelled, and a notification says
 * so.
 *
 * While the client reads slowly, requests are held, so that a cell cannot fill the memory of the
 * core with what it makes and gives up.
 *
 * Ownership: the session owns them. A request that was sent lives until the client has answered or
 * it is cancelled, which may be after the session.
 */
#pragma once

#include "serve/rpc/client.h"

typedef struct IpbRpcClientRequests IpbRpcClientRequests;

typedef struct {
    const char *method;
    const char *cancelled; /* the notification, with the id of the request to the client */
    /* Called once for each request, unless it is cancelled. @id: that of ipb_…_send(). */
    void (*on_answer)(uint64_t id, const IpbRpcAnswer *answer, void *data);
} IpbRpcClientRequestKind;

/* @client and @kind: borrowed. */
IpbRpcClientRequests *ipb_rpc_client_requests_new(IpbRpcClient *client,
                                                  const IpbRpcClientRequestKind *kind, void *data);
/* @id: unique among those that are not answered. @params: taken over. */
void ipb_rpc_client_requests_send(IpbRpcClientRequests *requests, uint64_t id, char *params);
/* Does nothing if there is no such request. */
void ipb_rpc_client_requests_cancel(IpbRpcClientRequests *requests, uint64_t id);
/* Holds requests, or sends those that were held. */
void ipb_rpc_client_requests_hold(IpbRpcClientRequests *requests, bool holds);
/* Cancels all. */
void ipb_rpc_client_requests_free(IpbRpcClientRequests *requests);
