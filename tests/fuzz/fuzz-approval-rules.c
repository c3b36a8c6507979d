/* SPDX-License-Identifier: Apache-2.0
 *
 * A rules file, a NUL, and the arguments of a call.
 */
#include <stdint.h>
#include <string.h>

#include "tools/approval-rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
decide(const IpbApprovalRules *rules, const char *arguments, size_t size,
       IpbApprovalVerdict *ret_verdict)
{
    g_autoptr(IpbJsonDoc) document = ipb_json_parse(arguments, size, &IPB_JSON_LIMITS_SMALL, NULL);
    if (document == NULL || !ipb_json_is(ipb_json_root(document), IPB_JSON_OBJECT) ||
        ipb_json_has_duplicates(document))
        return false;
    IpbApprovalCall call = {
        .server_name = "server",
        .is_registered = true,
        .tool_name = "tool",
        .arguments = ipb_json_root(document),
    };
    return ipb_approval_rules_decide(rules, &call, ret_verdict);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *) data;
    const char *nul = size > 0 ? memchr(text, '\0', size) : NULL;
    size_t rules_size = nul != NULL ? (size_t) (nul - text) : size;
    g_autoptr(IpbApprovalRules) rules = ipb_approval_rules_parse(text, rules_size, "fuzz", NULL);
    if (rules == NULL)
        return 0;
    IpbApprovalVerdict verdict = {0};
    if (nul != NULL && decide(rules, nul + 1, size - rules_size - 1, &verdict))
        g_assert_nonnull(ipb_approval_policy_name(verdict.policy));
    return 0;
}
