/* SPDX-License-Identifier: Apache-2.0
 *
 * The weaker sandbox: Landlock and seccomp without namespaces, for machines that forbid those to this user, where it was asked for.
 * It can only say what may be written, not hide anything, so plans that need more are refused.
 */
#pragma once

#include "sandbox/plan.h"

/* What it does not do, one sentence each; NULL-terminated. */
extern const char *const IPB_WEAKER_LIMITS[];

/* Can it do what @plan wants? UNAVAILABLE: no, and which key of the configuration says so. */
bool ipb_weaker_check(const IpbSandboxPlan *plan, GError **error);
