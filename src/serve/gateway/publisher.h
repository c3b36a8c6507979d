/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayPublisher: makes the messages of a kernel and hands them to its clients: to all of them
 * on iopub, or to one as the reply to its request.
 *
 * Ownership: the kernel owns its publisher.
 */
#pragma once

#include "json/writer.h"
#include "kernel/comm.h"
#include "serve/gateway/message.h"

/* One connection to a kernel; see kernel.h. */
typedef struct IpbGatewayClient IpbGatewayClient;

typedef struct {
    IpbGatewayClient *client; /* who sent it; NULL: has gone */
    IpbGatewayMessage message;
    size_t size;
} IpbGatewayRequest;

typedef struct {
    /* @client: NULL is all clients. @outgoing is borrowed. */
    void (*send)(IpbGatewayOutgoing *outgoing, IpbGatewayClient *client, void *data);
    bool (*has_clients)(void *data);
} IpbGatewayPublisherFuncs;

typedef struct IpbGatewayPublisher IpbGatewayPublisher;

/* @kernel_id: borrowed. @funcs: static. */
IpbGatewayPublisher *ipb_gateway_publisher_new(const char *kernel_id,
                                               const IpbGatewayPublisherFuncs *funcs, void *data);
void ipb_gateway_publisher_free(IpbGatewayPublisher *publisher);
bool ipb_gateway_publisher_has_clients(const IpbGatewayPublisher *publisher);

/* @writer is an object that is not ended yet; these end and free it. */

/* To all clients. @parent: the header of the request that this belongs to, or NULL. */
void ipb_gateway_publisher_broadcast(IpbGatewayPublisher *publisher, const char *msg_type,
                                     const IpbJson *parent, IpbJsonWriter *writer);
/* The same with metadata: JSON of an object. */
void ipb_gateway_publisher_broadcast_with(IpbGatewayPublisher *publisher, const char *msg_type,
                                          const IpbJson *parent, const char *metadata,
                                          IpbJsonWriter *writer);
/* A message of a comm to all clients. */
void ipb_gateway_publisher_send_comm(IpbGatewayPublisher *publisher, const IpbComm *comm,
                                     const IpbJson *parent);
/* The message "status" to all clients. @state: "busy", "idle", … */
void ipb_gateway_publisher_send_status(IpbGatewayPublisher *publisher, const char *state,
                                       const IpbJson *parent);
/* To the client that sent @request, which is there, on the stdin channel. */
void ipb_gateway_publisher_ask(IpbGatewayPublisher *publisher, const IpbGatewayRequest *request,
                               const char *msg_type, IpbJsonWriter *writer);
/* To the client that sent @request, if it is still there. */
void ipb_gateway_publisher_reply(IpbGatewayPublisher *publisher, const IpbGatewayRequest *request,
                                 const char *msg_type, IpbJsonWriter *writer);
