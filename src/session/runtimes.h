/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRuntimes: the warm Pythons of `ipybox rpc`, and of kernelspecs in `ipybox gateway`, one for
 * each interpreter and list of modules to preload. A Python that no session uses stays warm until
 * its place is needed.
 *
 * Ownership: the table keeps a reference to each runtime, and each caller gets one of its own.
 */
#pragma once

#include "session/runtime.h"

typedef struct IpbRuntimes IpbRuntimes;

IpbRuntimes *ipb_runtimes_new(void);
/* Kills Pythons that were not stopped. */
void ipb_runtimes_free(IpbRuntimes *runtimes);
/* NULL with @error: LIMIT, or an error of ipb_runtime_new. @python and @preload may be NULL. */
IpbRuntime *ipb_runtimes_get(IpbRuntimes *runtimes, const char *python, const char *const *preload,
                             GError **error);
/* A session stops using the runtime. Takes the reference. */
void ipb_runtimes_give_back(IpbRuntimes *runtimes, IpbRuntime *runtime);
/* Stops all; @done from the loop, or at once if there is none. */
void ipb_runtimes_stop(IpbRuntimes *runtimes, void (*done)(void *data), void *data);
