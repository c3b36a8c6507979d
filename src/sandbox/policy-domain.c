/* SPDX-License-Identifier: Apache-2.0
 *
 * Domain patterns: "example.com", "*.example.com", "localhost", "192.0.2.1", "[::1]", each with ":port" if wanted; in deniedDomains
 * also "*". Both sides of a comparison come from the one host-name parser, so comparing is comparing bytes.
 */
#include <string.h>

#include "sandbox/policy-private.h"

static const char TOO_BROAD[] =
    "too broad: a wildcard stands for names below a domain with a dot, as in \"*.example.com\"";

void
ipb_policy_domain_free(IpbSandboxDomain *domain)
{
    g_free(domain->text);
    g_free(domain->host);
    g_free(domain->reason);
    g_free(domain);
}

/* Splits ":port" off a pattern that begins with "*"; a host-name parser would refuse the star. */
static bool
split_wildcard(const char *text, size_t *size, unsigned *ret_port, const char **ret_reason)
{
    const char *colon = memchr(text, ':', *size);
    *ret_port = 0;
    if (colon == NULL)
        return true;
    size_t host_size = (size_t) (colon - text);
    if (!ipb_hostname_parse_port(colon + 1, *size - host_size - 1, ret_port)) {
        *ret_reason = "what follows \":\" is no port (1 to 65535)";
        return false;
    }
    *size = host_size;
    return true;
}

static bool
parse_wildcard(IpbSandboxDomain *domain, const char *text, size_t size, bool may_be_all,
               const char **ret_reason)
{
    if (!split_wildcard(text, &size, &domain->port, ret_reason))
        return false;
    if (size == 1 && may_be_all)
        return true;
    *ret_reason = TOO_BROAD;
    if (size < 2 || text[1] != '.')
        return false;
    IpbHost host;
    if (!ipb_hostname_parse(text + 2, size - 2, &host, ret_reason))
        return false;
    *ret_reason = TOO_BROAD;
    if (host.kind != IPB_HOST_NAME || strchr(host.text, '.') == NULL || text[size - 1] == '.')
        return false;
    domain->is_wildcard = true;
    domain->host = g_strdup(host.text);
    return true;
}

static bool
parse_exact(IpbSandboxDomain *domain, const char *text, size_t size, const char **ret_reason)
{
    IpbHost host;
    if (!ipb_hostname_parse_authority(text, size, &host, &domain->port, ret_reason))
        return false;
    bool is_name = host.kind == IPB_HOST_NAME;
    if (is_name && strchr(host.text, '.') == NULL && strcmp(host.text, "localhost") != 0) {
        *ret_reason = "a domain has a dot in it (\"localhost\" is the exception)";
        return false;
    }
    if (memmem(text, size, ".:", 2) != NULL || text[size - 1] == '.') {
        *ret_reason = "leave out the dot at the end";
        return false;
    }
    domain->is_address = !is_name;
    domain->host = g_strdup(host.text);
    return true;
}

IpbSandboxDomain *
ipb_policy_domain_parse(const char *text, size_t size, bool may_be_all, const char **ret_reason)
{
    IpbSandboxDomain *domain = g_new0(IpbSandboxDomain, 1);
    bool is_fine = size > 0 && text[0] == '*'
                       ? parse_wildcard(domain, text, size, may_be_all, ret_reason)
                       : parse_exact(domain, text, size, ret_reason);
    if (!is_fine) {
        ipb_policy_domain_free(domain);
        return NULL;
    }
    domain->text = g_strndup(text, size);
    return domain;
}

/* Is @name below @parent, and not @parent itself? */
static bool
is_below(const char *name, const char *parent)
{
    size_t size = strlen(name), parent_size = strlen(parent);
    return size > parent_size + 1 && name[size - parent_size - 1] == '.' &&
           strcmp(name + size - parent_size, parent) == 0;
}

static bool
matches(const IpbSandboxDomain *domain, const IpbHost *host)
{
    if (domain->host == NULL)
        return true;
    if (domain->is_wildcard)
        return host->kind == IPB_HOST_NAME && is_below(host->text, domain->host);
    return strcmp(host->text, domain->host) == 0;
}

/* @port 0: of rules with a port, only an allowing one counts, since the name alone is asked about. */
static const IpbSandboxDomain *
find_rule(const GPtrArray *rules, const IpbHost *host, unsigned port, bool is_denial)
{
    for (guint i = 0; i < rules->len; i++) {
        const IpbSandboxDomain *rule = g_ptr_array_index(rules, i);
        bool is_port_fine = rule->port == 0 || (port == 0 ? !is_denial : rule->port == port);
        if (is_port_fine && matches(rule, host))
            return rule;
    }
    return NULL;
}

IpbDomainVerdict
ipb_sandbox_policy_judge(const IpbSandboxPolicy *policy, const IpbHost *host, unsigned port,
                         const IpbSandboxDomain **ret_rule)
{
    IpbDomainVerdict verdict = IPB_DOMAIN_DENIED;
    const IpbSandboxDomain *rule = find_rule(policy->denied_domains, host, port, true);
    if (rule == NULL) {
        rule = find_rule(policy->allowed_domains, host, port, false);
        verdict = rule != NULL ? IPB_DOMAIN_ALLOWED : IPB_DOMAIN_NOT_LISTED;
    }
    if (ret_rule != NULL)
        *ret_rule = rule;
    return verdict;
}
