/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbKernelProvider: makes kernels of one kind. A session asks its provider for a kernel and knows
 * nothing of how the kernel comes into a process. The native provider (kernel/native-provider.h)
 * forks processes from a warm Python. Other kinds fit the same interface: a branch of a live
 * kernel, or a process that speaks Jupyter's protocol.
 *
 * Kinds of kernels differ in what they can do. Callers ask for the capabilities, not for the kind,
 * and refuse an option that a kernel without the capability would ignore.
 *
 * Ownership: reference-counted. A kernel holds what it needs of its provider.
 */
#pragma once

#include "kernel/kernel.h"

typedef struct IpbKernelProvider IpbKernelProvider;

/* Flags. */
typedef enum {
    /* kernels take IpbKernelOptions.sandbox and are locked down as its plans say */
    IPB_KERNEL_CAN_BE_SANDBOXED = 1 << 0,
    /* a live kernel can be forked, with its state */
    IPB_KERNEL_CAN_BE_FORKED = 1 << 1,
    /* cells can call tools: the modules that generated packages need can be imported */
    IPB_KERNEL_HAS_TOOL_STUBS = 1 << 2,
    /* text on stdout and stderr, displays and results come in the order in which they were made */
    IPB_KERNEL_ORDERS_OUTPUT = 1 << 3,
    /* kernels obey IpbKernelRules */
    IPB_KERNEL_TAKES_RULES = 1 << 4,
    /* the provider imports modules once, before it makes kernels */
    IPB_KERNEL_PRELOADS = 1 << 5,
} IpbKernelCapabilities;

typedef struct {
    /* of the kind, for messages: "native" */
    const char *name;
    IpbKernelCapabilities capabilities;
    IpbKernel *(*make_kernel)(IpbKernelProvider *provider, const IpbKernelOptions *options,
                              IpbEventFunc on_event, void *data, GError **error);
    void (*start)(IpbKernelProvider *provider);
    void (*stop)(IpbKernelProvider *provider, void (*done)(void *data), void *data);
    void (*free)(IpbKernelProvider *provider);
} IpbKernelProviderOps;

/* Each kind of provider embeds this as its first member, and sets references to 1. */
struct IpbKernelProvider {
    const IpbKernelProviderOps *ops;
    unsigned references;
};

IpbKernelProvider *ipb_kernel_provider_ref(IpbKernelProvider *provider);
/* The last reference ends at once what the provider runs. */
void ipb_kernel_provider_unref(IpbKernelProvider *provider);
const char *ipb_kernel_provider_name(const IpbKernelProvider *provider);
IpbKernelCapabilities ipb_kernel_provider_capabilities(const IpbKernelProvider *provider);
/* Whether kernels have the capability. If not, @error (INVALID) says so: "kernels of the kind …
 * cannot @what". */
bool ipb_kernel_provider_check(const IpbKernelProvider *provider, IpbKernelCapabilities capability,
                               const char *what, GError **error);
/* Makes a kernel without a process: its first cell or ipb_kernel_start() starts one. Errors:
 * INVALID: the options need a capability that the provider lacks; NOT_FOUND: the installation is
 * not complete. */
IpbKernel *ipb_kernel_provider_make_kernel(IpbKernelProvider *provider,
                                           const IpbKernelOptions *options, IpbEventFunc on_event,
                                           void *data, GError **error);
/* Gets ready to make kernels, in the background; making one does it, too. */
void ipb_kernel_provider_start(IpbKernelProvider *provider);
/* Ends what the provider runs, and every kernel of it, in order. Calls @done from the loop. */
void ipb_kernel_provider_stop(IpbKernelProvider *provider, void (*done)(void *data), void *data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbKernelProvider, ipb_kernel_provider_unref)
