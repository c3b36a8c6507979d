/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel's owner does about the sandboxes its processes live in: each process has one of its own, made before the fork and gone
 * with it.
 */
#pragma once

#include "sandbox/plan.h"

typedef struct {
    /* The plan for a process that is about to start, the receiver's; NULL with @error: it does not start. */
    IpbSandboxPlan *(*make_plan)(void *data, GError **error);
    /* That sandbox stands: its listeners, in the order of plan->listeners; the receiver's. */
    void (*on_listeners)(const int *listeners, size_t n_listeners, void *data);
    /* Code in it was not allowed to connect to a socket of the host; @path as it was written, untrusted. */
    void (*on_denied_socket)(const char *path, void *data);
    void *data;
} IpbKernelSandbox;
