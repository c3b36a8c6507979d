/* SPDX-License-Identifier: Apache-2.0
 *
 * The native backend: a kernel forked from the forkserver, spoken to over the kernel wire.
 */
#pragma once

#include "kernel/forkserver.h"
#include "kernel/kernel-sandbox.h"
#include "kernel/kernel.h"

typedef struct {
    const char *const
        *env;        /* NULL-terminated "NAME=value": the kernel's whole environment (copied) */
    const char *cwd; /* absolute */
    const char *const *path; /* prepended to sys.path, NULL-terminated; NULL: none */
    int64_t seed;            /* with has_seed: for random, numpy, torch */
    bool has_seed;
    IpbKernelRules rules;
    unsigned interrupt_grace_ms;     /* 0: 5000 */
    unsigned init_timeout_ms;        /* from fork to hello; 0: 10000 */
    const IpbKernelSandbox *sandbox; /* NULL: none; its data lives as long as the kernel */
} IpbNativeKernelOptions;

IpbKernel *ipb_native_kernel_new(IpbLoop *loop, IpbForkserver *forkserver,
                                 const IpbNativeKernelOptions *options, IpbEventFunc on_event,
                                 void *data);
