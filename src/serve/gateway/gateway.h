/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGateway: Jupyter's REST and WebSocket interface to kernels, each of which is a session
 * (docs/internals/gateway.md). Names, statuses and members are Jupyter's.
 *
 * Ownership: the owner frees the gateway, after _close if it wants an orderly end.
 */
#pragma once

#include "http/gate.h"
#include "http/server.h"
#include "serve/gateway/kernelspec.h"
#include "serve/gateway/seed.h"
#include "session/session.h"

typedef struct IpbGateway IpbGateway;

/* What a kernel of a kernelspec runs with. Its calls of tools are those of its own session, and its
 * client is asked about them. */
typedef struct {
    IpbRuntime *runtime;
    IpbSessionOptions session;
} IpbGatewaySetup;

/* Kernelspecs beside the gateway's own. */
typedef struct {
    /* Where they are, NULL-terminated; NULL: there are none */
    const char *const *folders;
    /* May it be offered? REFUSED or INVALID, with the reason. */
    bool (*check)(const IpbGatewayKernelspec *spec, void *data, GError **error);
    /* For one kernel of a kernelspec that may be offered. NULL with @error. */
    IpbGatewaySetup *(*set_up)(const IpbGatewayKernelspec *spec, void *data, GError **error);
    /* The kernel has ended, or was not started: frees the setup. */
    void (*release)(IpbGatewaySetup *setup, void *data);
    void *data;
} IpbGatewaySpecSource;

typedef struct {
    IpbRuntime *runtime;
    /* Of each kernel. They and all texts here are borrowed as long as the gateway lives, with all
     * that they point to. */
    const IpbSessionOptions *session;
    unsigned max_kernels;
    const char *kernel_name;    /* of the kernelspec; NULL: python3 */
    bool takes_all_names;       /* a kernel starts, whatever the name is that a client gives */
    IpbGatewaySpecSource specs; /* not used if it takes all names */
    const IpbGatewaySeed *seed; /* each kernel runs it first; NULL: nothing */
    bool hides_kernels;         /* kernels and sessions are not listed */
    /* Names of variables that clients may set for their kernels, besides KERNEL_…; NULL: none */
    const char *const *client_variables;
    /* absolute, of a directory: each kernel has a record there, which is named after its id; NULL:
     * none */
    const char *record_dir;
    unsigned idle_s;       /* how long a kernel may be idle before it ends; 0: for ever */
    bool culls_connected;  /* kernels end even while clients are connected */
    IpbHttpGate *gate;     /* taken; requests need the role of the application */
    const char *base_path; /* "/some/path", or NULL; see http/server.h, as for cors */
    IpbHttpCors cors;
    void (*on_log)(const char *level, const char *text, void *data); /* may be NULL */
    void *data;
} IpbGatewayOptions;

IpbGateway *ipb_gateway_new(const IpbGatewayOptions *options);
/* See ipb_http_server_listen. */
bool ipb_gateway_listen(IpbGateway *gateway, const char *host, unsigned port, GError **error);
/* Starts @n kernels, which clients find in the list. */
bool ipb_gateway_prespawn(IpbGateway *gateway, unsigned n, GError **error);
unsigned ipb_gateway_port(const IpbGateway *gateway);
/* Stops serving and ends all kernels in order; @done from the loop. */
void ipb_gateway_close(IpbGateway *gateway, void (*done)(void *data), void *data);
void ipb_gateway_free(IpbGateway *gateway);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGateway, ipb_gateway_free)
