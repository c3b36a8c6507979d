/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRpcRuntimes: the warm Pythons of `ipybox rpc`, one for each interpreter and list of modules to
 * preload. A Python that no session uses stays warm until its place is needed.
 *
 * Ownership: the table keeps a reference to each runtime, and each caller gets one of its own.
 */
#pragma once

#include "session/runtime.h"

typedef struct IpbRpcRuntimes IpbRpcRuntimes;

IpbRpcRuntimes *ipb_rpc_runtimes_new(void);
/* Kills Pythons that were not stopped. */
void ipb_rpc_runtimes_free(IpbRpcRuntimes *runtimes);
/* NULL with @error: LIMIT, or an error of ipb_runtime_new. @python and @preload may be NULL. */
IpbRuntime *ipb_rpc_runtimes_get(IpbRpcRuntimes *runtimes, const char *python,
                                 const char *const *preload, GError **error);
/* A session stops using the runtime. Takes the reference. */
void ipb_rpc_runtimes_give_back(IpbRpcRuntimes *runtimes, IpbRuntime *runtime);
/* Stops all; @done from the loop, or at once if there is none. */
void ipb_rpc_runtimes_stop(IpbRpcRuntimes *runtimes, void (*done)(void *data), void *data);
