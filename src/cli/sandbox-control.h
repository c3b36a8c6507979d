/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxControl: --control-fd of `ipybox sandbox`: whole configurations, a line each, from a pipe or a socket.
 *
 * Ownership: the owner frees it; the fd stays the caller's. Callbacks come from the loop and must not free it.
 */
#pragma once

#include "base/loop.h"
#include "sandbox/policy.h"

typedef struct IpbSandboxControl IpbSandboxControl;

typedef struct {
    void (*on_policy)(IpbSandboxPolicy *policy, void *data);
    /* A line that is no configuration: it was dropped. */
    void (*on_bad_line)(const GError *error, void *data);
    /* The channel is broken, as opposed to at its end, which is not told. */
    void (*on_broken)(const GError *error, void *data);
    void *data;
} IpbSandboxControlOptions;

/* The fd becomes non-blocking. */
IpbSandboxControl *ipb_sandbox_control_new(IpbLoop *loop, int fd,
                                           const IpbSandboxControlOptions *options, GError **error);
void ipb_sandbox_control_free(IpbSandboxControl *control);
