/* SPDX-License-Identifier: Apache-2.0
 *
 * The native provider: its kernels are processes forked from a warm Python of our own, the
 * forkserver. Kernels in sandboxes and kernels without one are forked from two different
 * forkservers; each starts when it is first needed.
 */
#pragma once

#include "kernel/kernel-provider.h"

typedef struct {
    /* interpreter: path, or a name looked up in PATH */
    const char *python;
    /* where forkserver.py is */
    const char *host_directory;
    /* modules to import before the first fork, NULL-terminated; NULL: none */
    const char *const *preload;
} IpbNativeProviderOptions;

/* Starts nothing. The strings are copied. */
IpbKernelProvider *ipb_native_provider_new(IpbLoop *loop, const IpbNativeProviderOptions *options);
