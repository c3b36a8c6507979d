/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayKernel: a session as a Jupyter kernel: clients give it messages, requests are served one after the other, and what happens is
 * told to all clients (docs/internals/gateway.md). Knows nothing of WebSockets.
 *
 * Ownership: the owner frees the kernel, after _close if it wants an orderly end; its clients are freed before.
 */
#pragma once

#include "json/writer.h"
#include "serve/gateway/message.h"
#include "session/session.h"

typedef struct IpbGatewayKernel IpbGatewayKernel;
/* One connection to a kernel. */
typedef struct IpbGatewayClient IpbGatewayClient;

typedef enum {
    IPB_GATEWAY_END_IDLE,     /* nobody has used it for so long */
    IPB_GATEWAY_END_SHUTDOWN, /* a client asked for it */
} IpbGatewayEnd;

typedef struct {
    const IpbSessionOptions *session; /* its on_log and data as well */
    const char *id;
    const char *name;     /* of the kernelspec */
    unsigned idle_s;      /* it is to end after so many seconds of idling; 0: never */
    bool culls_connected; /* even while clients are connected */
    /* It should end now: close it. Once, from the loop. */
    void (*on_end)(IpbGatewayKernel *kernel, IpbGatewayEnd why, void *data);
    void *data;
} IpbGatewayKernelOptions;

IpbGatewayKernel *ipb_gateway_kernel_new(IpbRuntime *runtime,
                                         const IpbGatewayKernelOptions *options, GError **error);
const char *ipb_gateway_kernel_id(const IpbGatewayKernel *kernel);
/* {"id", "name", "last_activity", "execution_state", "connections"}, and "working_dir" if it has one. */
void ipb_gateway_kernel_describe(const IpbGatewayKernel *kernel, IpbJsonWriter *writer);
/* Nothing if no cell runs. */
void ipb_gateway_kernel_interrupt(IpbGatewayKernel *kernel);
/* A fresh process; requests that wait are aborted. @done when the old one's tools are gone. */
void ipb_gateway_kernel_restart(IpbGatewayKernel *kernel, void (*done)(void *data), void *data);
/* Tells its clients to go, and ends the session; @done from the loop. */
void ipb_gateway_kernel_close(IpbGatewayKernel *kernel, void (*done)(void *data), void *data);
bool ipb_gateway_kernel_is_closing(const IpbGatewayKernel *kernel);
void ipb_gateway_kernel_free(IpbGatewayKernel *kernel);

typedef struct {
    /* @outgoing is borrowed. Frees no client. */
    void (*send)(IpbGatewayOutgoing *outgoing, void *data);
    void (*on_kernel_end)(void *data); /* frees the client */
} IpbGatewayClientFuncs;

IpbGatewayClient *ipb_gateway_client_new(IpbGatewayKernel *kernel,
                                         const IpbGatewayClientFuncs *funcs, void *data);
/* Takes what @message owns. @size: of what came, for the bound on what waits. */
void ipb_gateway_client_receive(IpbGatewayClient *client, IpbGatewayMessage *message, size_t size);
/* What it is sent is not read: the kernel's output waits meanwhile. */
void ipb_gateway_client_set_slow(IpbGatewayClient *client, bool is_slow);
void ipb_gateway_client_free(IpbGatewayClient *client);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGatewayKernel, ipb_gateway_kernel_free)
