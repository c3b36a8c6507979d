/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewayKernelspecs: the kernelspecs that a gateway offers beside its own kernel: those that
 * start `ipybox kernel`, in folders where Jupyter finds them. They are read for each request, so
 * that one that was installed just now is found. As in Jupyter, names have no case, and the first
 * folder that has a name decides.
 *
 * Ownership: the gateway owns it.
 */
#pragma once

#include "serve/gateway/kernelspec.h"

typedef struct IpbGatewayKernelspecs IpbGatewayKernelspecs;

typedef struct {
    /* Paths, NULL-terminated, borrowed as long as the object lives */
    const char *const *folders;
    /* May this one be offered? REFUSED or INVALID, with the reason. */
    bool (*check)(const IpbGatewayKernelspec *spec, void *data, GError **error);
    void *check_data;
    /* Gets each reason why one is not offered once, until there is another reason. May be NULL. */
    void (*on_log)(const char *level, const char *text, void *data);
    void *data;
} IpbGatewayKernelspecsOptions;

IpbGatewayKernelspecs *ipb_gateway_kernelspecs_new(const IpbGatewayKernelspecsOptions *options);
void ipb_gateway_kernelspecs_free(IpbGatewayKernelspecs *specs);
/* Those that are offered, of IpbGatewayKernelspec; the caller unrefs the array. */
GPtrArray *ipb_gateway_kernelspecs_list(IpbGatewayKernelspecs *specs);
/* The caller frees it. NOT_FOUND: there is none, or another program's; else why it is not
 * offered. */
IpbGatewayKernelspec *ipb_gateway_kernelspecs_find(IpbGatewayKernelspecs *specs, const char *name,
                                                   GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGatewayKernelspecs, ipb_gateway_kernelspecs_free)
