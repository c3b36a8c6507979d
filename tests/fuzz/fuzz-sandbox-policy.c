/* SPDX-License-Identifier: Apache-2.0
 *
 * A sandbox's configuration is refused with a message, or becomes a policy whose parts are
 * valid.
 */
#include <stdint.h>
#include <string.h>

#include <glib.h>

#include "sandbox/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_list(char **list)
{
    g_assert(list != NULL);
    for (; *list != NULL; list++)
        g_assert(strlen(*list) > 0);
}

static void
check_domains(const GPtrArray *domains)
{
    for (guint i = 0; i < domains->len; i++) {
        const IpbDomainPattern *domain = g_ptr_array_index(domains, i);
        g_assert(domain->text != NULL && domain->port <= 65535);
        g_assert(domain->host == NULL || strlen(domain->host) > 0);
    }
}

static void
check_policy(const IpbSandboxPolicy *policy)
{
    check_list(policy->deny_read);
    check_list(policy->allow_read);
    check_list(policy->allow_write);
    check_list(policy->deny_write);
    check_list(policy->allow_names);
    check_list(policy->without_effect);
    check_domains(policy->allowed_domains);
    check_domains(policy->denied_domains);
    g_assert(policy->mandatory_deny_depth >= 1 && policy->mandatory_deny_depth <= 10);
    g_assert(policy->http_proxy_port <= 65535 && policy->socks_proxy_port <= 65535);
    IpbSandboxLimits limits =
        ipb_sandbox_limits_merge(&policy->limits, &IPB_SANDBOX_LIMITS_DEFAULT);
    g_assert(limits.memory_bytes < INT64_MAX && limits.processes < INT64_MAX);
    g_assert(limits.memory_bytes == 0 || limits.memory_bytes >= 16 << 20);
    IpbHost host;
    g_assert(ipb_hostname_parse("example.com", strlen("example.com"), &host, NULL));
    const IpbDomainPattern *rule = NULL;
    IpbDomainVerdict verdict = ipb_sandbox_policy_judge(policy, &host, 443, &rule);
    g_assert((verdict == IPB_DOMAIN_NOT_LISTED) == (rule == NULL));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbSandboxPolicy) policy =
        ipb_sandbox_policy_parse((const char *) data, size, "fuzz", &error);
    g_assert((policy == NULL) == (error != NULL));
    if (policy != NULL)
        check_policy(policy);
    else
        g_assert(g_str_has_prefix(error->message, "fuzz: "));
    return 0;
}
