/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/name-rules.h"

struct IpbNameRules {
    int reserved;
};

IpbNameRules *
ipb_name_rules_new(const IpbSandboxPolicy *policy, const char *home, GError **error)
{
    return g_new0(IpbNameRules, 1);
}

void
ipb_name_rules_free(IpbNameRules *rules)
{
    g_free(rules);
}

IpbNameJudgement
ipb_name_rules_judge(const IpbNameRules *rules, const IpbNameQuestion *question)
{
    return (IpbNameJudgement){IPB_NAME_ALLOWED, NULL};
}

bool
ipb_name_rule_accepts(const IpbNameRule *rule, const char *path, size_t root_size,
                      const char *contents, size_t size, char **ret_reason)
{
    return true;
}

const IpbNameRule *const *
ipb_name_rules_list(size_t *ret_n)
{
    *ret_n = 0;
    return NULL;
}
