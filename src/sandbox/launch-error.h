/* SPDX-License-Identifier: Apache-2.0
 *
 * Words for what failed in ipybox-sandbox-init.
 */
#pragma once

#include "sandbox/init/blob.h"
#include "sandbox/plan.h"

/* @command: argv[0], or NULL. */
void ipb_launch_error_set(GError **error, const IpbStepError *failure, const IpbSandboxPlan *plan,
                          const char *command);
