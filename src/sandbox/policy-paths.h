/* SPDX-License-Identifier: Apache-2.0
 *
 * The paths that the policy and the options name, as rules of a plan.
 */
#pragma once

#include "sandbox/plan.h"

/* INVALID (a pattern that cannot be), LIMIT (a pattern for which too many files have to be looked
 * at). */
bool ipb_policy_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options, GError **error);
