/* SPDX-License-Identifier: Apache-2.0
 *
 * --approve; see the header.
 */
#include "cli/approve-option.h"

bool
ipb_approve_option_read(const IpbApprovalArguments *arguments, IpbApprovalPolicy *ret_policy,
                        const char **ret_rules, GError **error)
{
    if (arguments->approve == NULL || ipb_approval_policy_parse(arguments->approve, ret_policy))
        return true;
    if (!ipb_approval_arguments_check_file(arguments, error))
        return false;
    *ret_policy = IPB_APPROVAL_ASK;
    *ret_rules = arguments->approve;
    return true;
}
