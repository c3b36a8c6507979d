/* SPDX-License-Identifier: Apache-2.0
 *
 * --approve of the verbs that are built on sessions and tools.
 */
#pragma once

#include "cli/options.h"
#include "tools/approval-rules.h"

/* A policy, or a file of rules: then calls that no rule names are asked about. Both stay as they are if --approve was not given. */
bool ipb_approve_option_read(const IpbApprovalArguments *arguments, IpbApprovalPolicy *ret_policy,
                             const char **ret_rules, GError **error);
