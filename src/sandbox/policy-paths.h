/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds the paths that the policy and the options name to a plan.
 */
#pragma once

#include "sandbox/plan.h"

/* INVALID (a pattern that is not valid), LIMIT (too many files have to be looked at for a
 * pattern). */
bool ipb_policy_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options, GError **error);
