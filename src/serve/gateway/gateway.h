/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGateway: Jupyter's REST and WebSocket interface to kernels in front of our sessions (docs/internals/gateway.md).
 *
 * Ownership: the owner frees the gateway, after _close if it wants an orderly end.
 */
#pragma once

#include "http/gate.h"
#include "session/session.h"

typedef struct IpbGateway IpbGateway;

typedef struct {
    IpbRuntime *runtime;
    /* Of each kernel; borrowed with what it points to, as long as the gateway lives. */
    const IpbSessionOptions *session;
    unsigned max_kernels;
    unsigned idle_s;      /* a kernel that idles so long is ended; 0: none is */
    bool culls_connected; /* even if clients are connected to it */
    IpbHttpGate *gate;    /* taken; the application's role is asked for */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbGatewayOptions;

IpbGateway *ipb_gateway_new(const IpbGatewayOptions *options);
/* See ipb_http_server_listen. */
bool ipb_gateway_listen(IpbGateway *gateway, const char *host, unsigned port, GError **error);
unsigned ipb_gateway_port(const IpbGateway *gateway);
/* Ends all kernels in order; @done from the loop. Nothing is answered any more. */
void ipb_gateway_close(IpbGateway *gateway, void (*done)(void *data), void *data);
void ipb_gateway_free(IpbGateway *gateway);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGateway, ipb_gateway_free)
