/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes what failed in ipybox-sandbox-init, and what can be done about it.
 */
#pragma once

#include "sandbox/linux/init/protocol.h"
#include "sandbox/plan.h"

/* The sandbox in which the step failed. */
typedef struct {
    const IpbSandboxPlan *plan;
    const GPtrArray *mounts; /* IpbMount; may be NULL */
    const char *command;     /* argv[0], or NULL */
} IpbStepContext;

void ipb_step_error_set(GError **error, const IpbStepError *failure, const IpbStepContext *context);
