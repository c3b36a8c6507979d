/* SPDX-License-Identifier: Apache-2.0
 *
 * The host matcher. A host on the first line, and a configuration below: however the host is
 * written, the verdict is the same; what deniedDomains says holds; a reason is one printable line.
 */
#include <string.h>

#include "egress/domain-rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
allows(const IpbDomainRules *rules, const IpbDestination *destination)
{
    g_autofree char *reason = NULL;
    bool is_allowed = ipb_domain_rules_check(rules, destination, &reason);
    g_assert(is_allowed == (reason == NULL));
    for (const char *c = reason; c != NULL && *c != '\0'; c++)
        g_assert((unsigned char) *c >= ' ' && *c != 0x7f);
    return is_allowed;
}

/* In capitals, and with the root's dot. */
static void
check_spellings(const IpbDomainRules *rules, const IpbDestination *destination, bool is_allowed)
{
    if (destination->host.kind != IPB_HOST_NAME)
        return;
    g_autofree char *upper = g_ascii_strup(destination->host.text, -1);
    g_autofree char *dotted = g_strconcat(upper, ".", NULL);
    IpbDestination other = {.port = destination->port};
    g_assert(ipb_hostname_parse(dotted, strlen(dotted), &other.host, NULL));
    g_assert(ipb_destination_equal(&other, destination));
    g_assert(allows(rules, &other) == is_allowed);
}

static void
check_rules(const IpbDomainRules *rules, IpbSandboxPolicy *policy,
            const IpbDestination *destination)
{
    bool is_allowed = allows(rules, destination);
    IpbDomainVerdict verdict =
        ipb_sandbox_policy_judge(policy, &destination->host, destination->port, NULL);
    g_assert(!is_allowed || verdict == IPB_DOMAIN_ALLOWED);
    check_spellings(rules, destination, is_allowed);
    g_autofree char *reason = NULL, *place_reason = NULL;
    /* A name of which no port may be reached has no address. */
    if (is_allowed && destination->host.kind == IPB_HOST_NAME)
        g_assert(ipb_domain_rules_check_name(rules, &destination->host, &reason));
    IpbHost loopback;
    ipb_hostname_from_address((const uint8_t[4]){127, 0, 0, 1}, 4, &loopback);
    bool is_listed =
        ipb_sandbox_policy_judge(policy, &loopback, destination->port, NULL) == IPB_DOMAIN_ALLOWED;
    bool is_local = g_str_equal(destination->host.text, "localhost") ||
                    g_str_has_suffix(destination->host.text, ".localhost");
    if (ipb_domain_rules_check_address(rules, destination, &loopback, &place_reason))
        g_assert(is_listed || is_local);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *) data;
    const char *end = size > 0 ? memchr(text, '\n', size) : NULL;
    IpbDestination destination;
    if (end == NULL || !ipb_hostname_parse_authority(text, (size_t) (end - text), &destination.host,
                                                     &destination.port, NULL))
        return 0;
    if (destination.port == 0)
        destination.port = 443;
    g_autoptr(IpbSandboxPolicy) policy =
        ipb_sandbox_policy_parse(end + 1, size - (size_t) (end + 1 - text), NULL, NULL);
    if (policy == NULL)
        return 0;
    g_autoptr(IpbDomainRules) rules = ipb_domain_rules_new(policy, NULL);
    g_assert_nonnull(rules);
    check_rules(rules, policy, &destination);
    return 0;
}
