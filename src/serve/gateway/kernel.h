/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayKernel: a session as a Jupyter kernel (docs/internals/gateway.md). Clients send it
 * messages. Requests on the shell channel are served one after the other, in the order in which
 * they came from any client; requests on the control channel are served at once. All clients are
 * notified that the kernel is busy and idle and of what happens; the reply goes to the client that
 * asked. It knows nothing of WebSockets.
 *
 * Ownership: the owner frees the kernel, after _close if it wants an orderly end. Its clients are
 * freed before it.
 */
#pragma once

#include "json/writer.h"
#include "serve/gateway/publisher.h"
#include "session/session.h"

typedef struct IpbGatewayKernel IpbGatewayKernel;

typedef enum {
    IPB_GATEWAY_END_IDLE,     /* it was idle for idle_s */
    IPB_GATEWAY_END_SHUTDOWN, /* a client asked for it */
} IpbGatewayEnd;

typedef struct {
    const IpbSessionOptions *session;
    const char *id;
    const char *name;     /* of the kernelspec */
    unsigned idle_s;      /* how long it may be idle before it ends; 0: for ever */
    bool culls_connected; /* it ends even while clients are connected */
    /* Its first process is the only one: a restart ends the kernel, because the front end starts
     * another one, and a death is not reported as a restart. */
    bool has_one_process;
    /* Cells may call the tools whose packages are in the workspace. The client whose cell runs is
     * asked about calls that need an approval. */
    bool has_own_tools;
    /* Called once, from the loop: close the kernel now. */
    void (*on_end)(IpbGatewayKernel *kernel, IpbGatewayEnd why, void *data);
    void *data;
} IpbGatewayKernelOptions;

IpbGatewayKernel *ipb_gateway_kernel_new(IpbRuntime *runtime,
                                         const IpbGatewayKernelOptions *options, GError **error);
const char *ipb_gateway_kernel_id(const IpbGatewayKernel *kernel);
/* Writes {"id", "name", "last_activity", "execution_state", "connections"}, and "working_dir" if it
 * has one. */
void ipb_gateway_kernel_describe(const IpbGatewayKernel *kernel, IpbJsonWriter *writer);
/* For code that is no client's. */
IpbSession *ipb_gateway_kernel_session(IpbGatewayKernel *kernel);
/* While it runs such code, it does not count as idle. */
void ipb_gateway_kernel_set_seeding(IpbGatewayKernel *kernel, bool is_seeding);
/* Does nothing if no cell runs. */
void ipb_gateway_kernel_interrupt(IpbGatewayKernel *kernel);
/* Gives it a fresh process and aborts requests that wait. @done (may be NULL) when the tools of the
 * old process have ended. */
void ipb_gateway_kernel_restart(IpbGatewayKernel *kernel, void (*done)(void *data), void *data);
/* Calls on_kernel_end of its clients, and ends the session; @done from the loop. */
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
/* Takes the content of @message. @size: its bytes, which count towards the bound on waiting
 * requests. */
void ipb_gateway_client_receive(IpbGatewayClient *client, IpbGatewayMessage *message, size_t size);
/* While a client is slow to read, the kernel's output is paused. */
void ipb_gateway_client_set_slow(IpbGatewayClient *client, bool is_slow);
void ipb_gateway_client_free(IpbGatewayClient *client);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGatewayKernel, ipb_gateway_kernel_free)
