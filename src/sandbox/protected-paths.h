/* SPDX-License-Identifier: Apache-2.0
 *
 * What is never writable, whatever the policy allows: files that other programs run or obey later,
 * outside the sandbox.
 */
#pragma once

#include "sandbox/plan.h"

/* Call it when the rules of the policy and the options are there: it looks into each writable
 * directory. */
void ipb_protected_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options);
