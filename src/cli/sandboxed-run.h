/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command in a sandbox, for `ipybox sandbox`.
 */
#pragma once

#include <stdbool.h>

#include "egress/violations.h"
#include "sandbox/plan.h"

typedef struct {
    const IpbSandboxPlan *plan;
    const char *const *argv; /* the command; its first word is looked up in PATH */
    const char *cwd;
    bool is_debug; /* report on stderr what is done */
    bool is_weaker_allowed;
    int control_fd;                 /* of --control-fd; -1: none */
    IpbViolationLog *violation_log; /* or NULL */
} IpbSandboxedRunOptions;

/* Returns the exit status: of the command, 128 + the signal that ended it, or one of cli.h. */
int ipb_sandboxed_run(const IpbSandboxedRunOptions *options);
