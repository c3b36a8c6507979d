/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayKernels: what a gateway's kernels of kernelspecs run with. What a kernelspec does not
 * say is as the gateway was started, except that its kernels have a sandbox unless it says
 * otherwise. A gateway with a sandbox offers a kernelspec that allows more only if the user has
 * named it (docs/internals/decisions.md).
 *
 * Ownership: the verb owns it, and frees it after the gateway.
 */
#pragma once

#include "serve/gateway/gateway.h"

typedef struct IpbGatewayKernels IpbGatewayKernels;

typedef struct {
    /* Of the gateway's own kernel, borrowed */
    const IpbSessionOptions *session;
    const char *python; /* as given, or NULL */
    IpbRuntime *runtime;
    const char *state_dir;
    /* The kernelspecs that may allow more, NULL-terminated; or NULL */
    const char *const *allowed;
} IpbGatewayKernelsOptions;

/* The options are borrowed as long as it lives. */
IpbGatewayKernels *ipb_gateway_kernels_new(const IpbGatewayKernelsOptions *options);
/* For the gateway's options. */
IpbGatewaySpecSource ipb_gateway_kernels_source(IpbGatewayKernels *kernels);
/* Ends the Pythons; @done from the loop, or at once if there is none. */
void ipb_gateway_kernels_stop(IpbGatewayKernels *kernels, void (*done)(void *data), void *data);
void ipb_gateway_kernels_free(IpbGatewayKernels *kernels);
