/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRuntime: what the sessions of one program share: the loop, the providers of kernels, the
 * registry of MCP servers. No state is global: two runtimes in one process share nothing.
 *
 * Ownership: reference-counted; each session keeps a reference.
 */
#pragma once

#include "kernel/kernel-provider.h"
#include "mcp/legacy-servers.h"
#include "tools/registry.h"

typedef struct IpbRuntime IpbRuntime;

/* The checkpoints of all sessions (session/checkpoints.h). */
typedef struct {
    unsigned n;
    uint64_t bytes; /* that they share with no other process */
} IpbCheckpointTotals;

typedef struct {
    /* interpreter for kernels; NULL: see session/python.h */
    const char *python;
    /* modules to import before the first kernel starts, NULL-terminated; or NULL */
    const char *const *preload;
    /* where forkserver.py is; NULL: found from the program's place */
    const char *host_directory;
    /* where the registry is; NULL: the user's state directory */
    const char *state_dir;
} IpbRuntimeOptions;

/* Starts nothing. It has one provider of kernels, the native one. NOT_FOUND: no Python, or the
 * installation is not complete. REFUSED: the Python is not trusted (command/known-paths.h). */
IpbRuntime *ipb_runtime_new(GMainContext *context, const IpbRuntimeOptions *options,
                            GError **error);
IpbRuntime *ipb_runtime_ref(IpbRuntime *runtime);
void ipb_runtime_unref(IpbRuntime *runtime);
/* Gets the default provider ready in the background. */
void ipb_runtime_start(IpbRuntime *runtime);
/* Ends all providers and their kernels in order; @done from the loop. Close the sessions before. */
void ipb_runtime_stop(IpbRuntime *runtime, void (*done)(void *data), void *data);

IpbLoop *ipb_runtime_loop(IpbRuntime *runtime);
/* The provider of sessions that name none; borrowed. */
IpbKernelProvider *ipb_runtime_kernel_provider(IpbRuntime *runtime);
/* Adds another provider, which sessions can name and which ends with the runtime. Keeps a
 * reference. */
void ipb_runtime_add_kernel_provider(IpbRuntime *runtime, IpbKernelProvider *provider);
IpbRegistry *ipb_runtime_registry(IpbRuntime *runtime);
/* What was found out about MCP servers; borrowed. */
IpbLegacyServers *ipb_runtime_legacy_servers(IpbRuntime *runtime);
/* What its sessions count; borrowed. */
IpbCheckpointTotals *ipb_runtime_checkpoint_totals(IpbRuntime *runtime);
const char *ipb_runtime_python(IpbRuntime *runtime);
const char *ipb_runtime_host_directory(IpbRuntime *runtime);
const char *ipb_runtime_state_dir(IpbRuntime *runtime);
/* What the user should know about the Python of kernels; NULL: nothing. Sessions log it. */
const char *ipb_runtime_warning(const IpbRuntime *runtime);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRuntime, ipb_runtime_unref)
