/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the gateway share: its routes (routes.c) ask for kernels (gateway.c), its channels
 * (channels.c) belong to one.
 */
#pragma once

#include "http/server.h"
#include "serve/gateway/kernel.h"
#include "serve/gateway/gateway.h"

struct IpbGateway {
    IpbLoop *loop;
    IpbRuntime *runtime;
    const IpbSessionOptions *session;
    unsigned max_kernels;
    unsigned idle_s;
    bool culls_connected;
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;

    IpbHttpServer *server;
    GPtrArray *kernels;  /* IpbGatewayKernel; those that are closing as well */
    GPtrArray *endings;  /* of kernels that are closing */
    GPtrArray *channels; /* IpbGatewayChannel */

    bool is_closing;
    IpbTimer *close_timer;
    void (*closed)(void *data);
    void *closed_data;
};

/* Kernels. */
/* @env: further variables, "NAME=value". @working_dir: as of a session (session/session.h), or NULL. LIMIT: there are as many
 * as may be. */
IpbGatewayKernel *ipb_gateway_start_kernel(IpbGateway *gateway, const char *const *env,
                                           const char *working_dir, GError **error);
/* NULL: there is none, or it is about to end. */
IpbGatewayKernel *ipb_gateway_find_kernel(IpbGateway *gateway, const char *id);
/* Nobody finds it from then on. */
void ipb_gateway_end_kernel(IpbGateway *gateway, IpbGatewayKernel *kernel);
void ipb_gateway_log(IpbGateway *gateway, const char *level, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* The only kernelspec (specs.c). */
#define IPB_GATEWAY_SPEC "python3"
void ipb_gateway_specs_describe(IpbJsonWriter *writer);
void ipb_gateway_specs_describe_one(IpbJsonWriter *writer);

/* Routes (routes.c). */
extern const IpbHttpRoute IPB_GATEWAY_ROUTES[];
extern const size_t IPB_GATEWAY_N_ROUTES;

/* WebSockets (channels.c). */
typedef struct IpbGatewayChannel IpbGatewayChannel;
/* Makes a WebSocket of @request, which ends; the channel is the gateway's, and frees itself when either side has gone. */
void ipb_gateway_channel_open(IpbGateway *gateway, IpbGatewayKernel *kernel,
                              IpbHttpRequest *request);
void ipb_gateway_channel_free(IpbGatewayChannel *channel);
