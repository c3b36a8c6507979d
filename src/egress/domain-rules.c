/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules for where a sandbox may connect to.
 *
 * A sandbox has no network of its own. Each connection, through the HTTP proxy, through SOCKS or
 * transparent, asks for one host and one port. Hosts from the wire are parsed by sandbox/hostname.h
 * only, so each host has one spelling here.
 *
 * 1. An entry of network.deniedDomains denies, even if another entry allows. An entry is a name,
 *    the names below a name ("*.example.com", which does not include example.com), everything
 *    ("*"), or an address; each for one port ("host:22") or for all. A denied address is denied in
 *    each spelling, and also if an IPv6 address embeds it.
 * 2. An entry of network.allowedDomains allows, in the same way. An address is allowed only by an
 *    entry that is this address: no wildcard matches an address.
 * 3. Everything else is denied.
 *
 * An allowed name is not a safe address yet, because the owner of its DNS decides where it leads.
 * So the name is resolved once, on the host. Each address is checked, and those that passed are
 * dialled; there is no second lookup.
 *
 * 4. An address in deniedDomains is refused.
 * 5. An address in allowedDomains, for this port, is allowed: reaching it by name grants nothing
 *    new.
 * 6. An address in network.deniedResolvedAddresses is refused.
 * 7. localhost and names below it lead to loopback, and to nothing else.
 * 8. Loopback, unspecified, link-local, multicast and cloud metadata addresses are refused, and so
 *    are the addresses of this host's own interfaces.
 * 9. Private addresses are refused for names that only a wildcard allows, because the owner of
 *    example.com can add any name below it and point it into the user's own network. A name that
 *    the policy spells out may lead there, as names of an intranet do.
 *
 * Rules 1 to 8 are those of srt. Rule 9 is stricter: srt lets names under a wildcard reach private
 * addresses unless deniedResolvedAddresses lists them.
 *
 * A DNS query for a name is answered, with a synthetic address (see dns.h), if the name may be
 * reached on any port.
 */
#include "egress/domain-rules.h"

#include <string.h>

#include "base/error.h"
#include "egress/address-class.h"
#include "sandbox/address.h"

#define ANY_PORT 0

struct IpbDomainRules {
    int references;
    IpbSandboxPolicy *policy;
    GArray *denied_ranges; /* IpbAddressRange */
};

IpbDomainRules *
ipb_domain_rules_new(IpbSandboxPolicy *policy, GError **error)
{
    g_autoptr(GArray) ranges = g_array_new(FALSE, FALSE, sizeof(IpbAddressRange));
    for (char **text = policy->denied_addresses; text != NULL && *text != NULL; text++) {
        IpbAddressRange range;
        if (!ipb_address_range_parse(*text, &range)) {
            g_set_error(
                error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "network.deniedResolvedAddresses: \"%s\" is not an address or a range of addresses",
                *text);
            return NULL;
        }
        g_array_append_val(ranges, range);
    }
    IpbDomainRules *rules = g_new0(IpbDomainRules, 1);
    rules->references = 1;
    rules->policy = ipb_sandbox_policy_ref(policy);
    rules->denied_ranges = g_steal_pointer(&ranges);
    return rules;
}

IpbDomainRules *
ipb_domain_rules_ref(IpbDomainRules *rules)
{
    rules->references++;
    return rules;
}

void
ipb_domain_rules_unref(IpbDomainRules *rules)
{
    if (rules == NULL || --rules->references > 0)
        return;
    ipb_sandbox_policy_unref(rules->policy);
    g_array_unref(rules->denied_ranges);
    g_free(rules);
}

/* Destinations */

char *
ipb_destination_to_text(const IpbDestination *destination)
{
    bool is_v6 = destination->host.kind == IPB_HOST_IPV6;
    return g_strdup_printf(is_v6 ? "[%s]:%u" : "%s:%u", destination->host.text, destination->port);
}

bool
ipb_destination_equal(const IpbDestination *a, const IpbDestination *b)
{
    return a->port == b->port && a->host.kind == b->host.kind &&
           strcmp(a->host.text, b->host.text) == 0;
}

/* Entries. sandbox/policy.h compares a host with them. What depends on addresses is here. */

/* The entry that denies the host or an address that it embeds; or NULL. */
static const IpbDomainPattern *
find_denial(const IpbDomainRules *rules, const IpbHost *host, unsigned port)
{
    const IpbDomainPattern *entry;
    IpbHost embedded[IPB_ADDRESS_CLASS_MAX_EMBEDDED];
    size_t n = ipb_address_class_embedded(host, embedded);
    if (ipb_sandbox_policy_judge(rules->policy, host, port, &entry) == IPB_DOMAIN_DENIED)
        return entry;
    for (size_t i = 0; i < n; i++)
        if (ipb_sandbox_policy_judge(rules->policy, &embedded[i], port, &entry) ==
            IPB_DOMAIN_DENIED)
            return entry;
    return NULL;
}

/* An allowed address is not allowed when it is embedded in another one. */
static bool
is_allowed(const IpbDomainRules *rules, const IpbHost *host, unsigned port)
{
    return ipb_sandbox_policy_judge(rules->policy, host, port, NULL) == IPB_DOMAIN_ALLOWED;
}

/* Does an entry name the host itself, rather than a wildcard above it? */
static bool
is_spelled_out(const IpbDomainRules *rules, const IpbDestination *destination)
{
    GPtrArray *entries = rules->policy->allowed_domains;
    for (guint i = 0; i < entries->len; i++) {
        const IpbDomainPattern *entry = g_ptr_array_index(entries, i);
        bool is_port = entry->port == 0 || entry->port == destination->port;
        if (is_port && !entry->is_wildcard && entry->host != NULL &&
            strcmp(entry->host, destination->host.text) == 0)
            return true;
    }
    return false;
}

/* Decisions */

static char *
explain_denial(const IpbDomainPattern *entry)
{
    if (entry->reason == NULL)
        return g_strdup_printf(
            "network.deniedDomains denies it: \"%s\"; to allow it, remove that entry", entry->text);
    g_autofree char *reason = g_strdup(entry->reason);
    for (char *c = reason; *c != '\0'; c++)
        if ((unsigned char) *c < ' ' || *c == 0x7f)
            *c = ' ';
    return g_strdup_printf("network.deniedDomains denies it: \"%s\": %s", entry->text, reason);
}

bool
ipb_domain_rules_check(const IpbDomainRules *rules, const IpbDestination *destination,
                       char **ret_reason)
{
    const IpbDomainPattern *denial = find_denial(rules, &destination->host, destination->port);
    if (denial != NULL) {
        *ret_reason = explain_denial(denial);
        return false;
    }
    if (is_allowed(rules, &destination->host, destination->port))
        return true;
    g_autofree char *target = ipb_destination_to_text(destination);
    *ret_reason = g_strdup_printf(
        "it is not in network.allowedDomains; to allow it, add \"%s\" there", target);
    return false;
}

bool
ipb_domain_rules_check_name(const IpbDomainRules *rules, const IpbHost *name, char **ret_reason)
{
    const IpbDomainPattern *denial = find_denial(rules, name, ANY_PORT);
    if (denial != NULL) {
        *ret_reason = explain_denial(denial);
        return false;
    }
    if (is_allowed(rules, name, ANY_PORT))
        return true;
    *ret_reason = g_strdup_printf(
        "it is not in network.allowedDomains; to allow it, add \"%s\" there", name->text);
    return false;
}

const char *
ipb_domain_rules_denial_reason(const IpbDomainRules *rules, const IpbDestination *destination)
{
    const IpbDomainPattern *denial = find_denial(rules, &destination->host, destination->port);
    return denial != NULL ? denial->reason : NULL;
}

/* Resolved addresses */

static bool
is_localhost(const IpbHost *host)
{
    return host->kind == IPB_HOST_NAME &&
           (strcmp(host->text, "localhost") == 0 || g_str_has_suffix(host->text, ".localhost"));
}

static bool
is_in_denied_ranges(const IpbDomainRules *rules, const IpbHost *address)
{
    IpbHost embedded[IPB_ADDRESS_CLASS_MAX_EMBEDDED];
    size_t n = ipb_address_class_embedded(address, embedded);
    for (guint i = 0; i < rules->denied_ranges->len; i++) {
        const IpbAddressRange *range = &g_array_index(rules->denied_ranges, IpbAddressRange, i);
        if (ipb_address_range_contains(range, address))
            return true;
        for (size_t k = 0; k < n; k++)
            if (ipb_address_range_contains(range, &embedded[k]))
                return true;
    }
    return false;
}

static bool
refuse_address(char **ret_reason, const char *what, const char *advice)
{
    *ret_reason = g_strdup_printf("it resolved to %s; %s", what, advice);
    return false;
}

static bool
check_class(const IpbDomainRules *rules, const IpbDestination *destination, const IpbHost *address,
            char **ret_reason)
{
    static const char LIST_ADDRESS[] =
        "to allow it, add the address itself to network.allowedDomains, with the port";
    const char *name;
    IpbAddressClass class = ipb_address_class_of(address, &name);
    if (is_localhost(&destination->host) && class == IPB_ADDRESS_CLASS_LOOPBACK)
        return true;
    if (class >= IPB_ADDRESS_CLASS_LOOPBACK)
        return refuse_address(ret_reason, name, LIST_ADDRESS);
    if (is_localhost(&destination->host))
        return refuse_address(ret_reason, name, "localhost may lead to loopback only");
    if (ipb_address_class_is_own(address))
        return refuse_address(ret_reason, "an address of this host", LIST_ADDRESS);
    if (class == IPB_ADDRESS_CLASS_PRIVATE && !is_spelled_out(rules, destination))
        return refuse_address(ret_reason, name,
                              "names that only a wildcard allows must not lead there; to allow "
                              "it, add the name itself to network.allowedDomains");
    return true;
}

bool
ipb_domain_rules_check_address(const IpbDomainRules *rules, const IpbDestination *destination,
                               const IpbHost *address, char **ret_reason)
{
    if (find_denial(rules, address, destination->port) != NULL)
        return refuse_address(ret_reason, "an address in network.deniedDomains",
                              "such an address is denied for every name");
    if (is_allowed(rules, address, destination->port))
        return true;
    if (is_in_denied_ranges(rules, address))
        return refuse_address(ret_reason, "an address in network.deniedResolvedAddresses",
                              "to allow it, add the address itself to network.allowedDomains");
    return check_class(rules, destination, address, ret_reason);
}
