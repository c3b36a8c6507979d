/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRuntime: what the sessions of one program share: the loop, the warm Python that kernels are forked
 * from, the registry of MCP servers. No state is global: two runtimes in one process do not meet.
 *
 * Ownership: reference-counted; each session keeps a reference.
 */
#pragma once

#include "kernel/forkserver.h"
#include "mcp/eras.h"
#include "tools/registry.h"

typedef struct IpbRuntime IpbRuntime;

typedef struct {
    const char *python; /* interpreter for kernels; NULL: see session/python.h */
    const char *const
        *preload; /* modules to import before the first fork, NULL-terminated; or NULL */
    const char *host_directory; /* where forkserver.py is; NULL: found from the program's place */
    const char *state_dir;      /* of the registry; NULL: the user's */
} IpbRuntimeOptions;

/* Starts nothing. NOT_FOUND: no Python, or the installation is not whole. */
IpbRuntime *ipb_runtime_new(GMainContext *context, const IpbRuntimeOptions *options,
                            GError **error);
IpbRuntime *ipb_runtime_ref(IpbRuntime *runtime);
void ipb_runtime_unref(IpbRuntime *runtime);
/* Warms Python up in the background. */
void ipb_runtime_start(IpbRuntime *runtime);
/* Ends Python and every kernel in order; @done from the loop. Sessions should be closed before. */
void ipb_runtime_stop(IpbRuntime *runtime, void (*done)(void *data), void *data);

IpbLoop *ipb_runtime_loop(IpbRuntime *runtime);
IpbRegistry *ipb_runtime_registry(IpbRuntime *runtime);
/* What was found out about MCP servers; borrowed. */
IpbMcpEras *ipb_runtime_eras(IpbRuntime *runtime);
/* The forkserver whose kernels live in sandboxes, or the other one; borrowed. NOT_FOUND: the installation is not whole. */
IpbForkserver *ipb_runtime_forkserver(IpbRuntime *runtime, bool is_sandboxed, GError **error);
const char *ipb_runtime_python(IpbRuntime *runtime);
const char *ipb_runtime_host_directory(IpbRuntime *runtime);
const char *ipb_runtime_state_dir(IpbRuntime *runtime);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRuntime, ipb_runtime_unref)
