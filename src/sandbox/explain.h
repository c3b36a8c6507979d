/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes a plan, and how this system carries it out: a table for people, JSON for programs.
 * Nothing is left out.
 */
#pragma once

#include "sandbox/plan.h"

/* LIMIT: the plan cannot be carried out. Caller frees. */
char *ipb_sandbox_explain(const IpbSandboxPlan *plan, bool as_json, GError **error);
