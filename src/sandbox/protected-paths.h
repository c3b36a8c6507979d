/* SPDX-License-Identifier: Apache-2.0
 *
 * What is never writable, whatever the policy allows: files that other programs run or obey later,
 * outside the sandbox.
 */
#pragma once

#include "sandbox/plan.h"

/* Call it after the rules of the policy and the options were added: it searches each writable
 * directory. */
void ipb_protected_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options);
