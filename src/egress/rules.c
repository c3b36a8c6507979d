/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a sandbox may connect to: the model.
 *
 * A sandbox has no network of its own. Whatever it wants to reach, by proxy, SOCKS or as if there were a network, comes to one
 * question: this host, this port? Hosts come from the wire through sandbox/hostname.h only, so one host has one spelling here.
 *
 * 1. What network.deniedDomains names is denied, whatever else allows it: a name, the names below one ("*.example.com", which is not
 *    example.com itself), everything ("*"), each on one port ("host:22") or on all. A denied address is denied in each spelling, and also
 *    inside the IPv6 addresses that carry it.
 * 2. What network.allowedDomains names is allowed, in the same way. An address is allowed only by an entry that is this address: no
 *    wildcard matches an address.
 * 3. All else is denied.
 *
 * A name that is allowed is not yet a place: who controls its DNS decides where it leads. So it is resolved once, on the host,
 * each address is judged, and the addresses that passed are the ones that are dialled; there is no second look-up.
 *
 * 4. An address that deniedDomains names is refused.
 * 5. An address that allowedDomains names (on this port) is fine: reaching it by name grants nothing new.
 * 6. An address in network.deniedResolvedAddresses is refused.
 * 7. localhost and names below it lead to loopback, and to nothing else.
 * 8. Loopback, unspecified, link-local, multicast and cloud metadata addresses, and those of this host's own interfaces, are refused.
 * 9. Private addresses are refused to names that only a wildcard allows: the owner of example.com can add any name below it, and
 *    point it into the user's own network. A name that the policy spells out may lead there: that is what intranets are.
 *
 * Rules 1 to 8 are srt's. Rule 9 is stricter: srt lets names under a wildcard reach private addresses unless
 * deniedResolvedAddresses lists them.
 *
 * A question for a name's address is answered (with a synthetic address, see dns.h) if any port of the name may be reached.
 */
#include "egress/rules.h"

#include <string.h>

#include "base/error.h"
#include "egress/places.h"
#include "sandbox/address.h"

#define ANY_PORT 0

struct IpbRules {
    int references;
    IpbSandboxPolicy *policy;
    GArray *denied_ranges; /* IpbAddressRange */
};

IpbRules *
ipb_rules_new(IpbSandboxPolicy *policy, GError **error)
{
    g_autoptr(GArray) ranges = g_array_new(FALSE, FALSE, sizeof(IpbAddressRange));
    for (char **text = policy->denied_addresses; text != NULL && *text != NULL; text++) {
        IpbAddressRange range;
        if (!ipb_address_range_parse(*text, &range)) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "network.deniedResolvedAddresses: \"%s\" is no address and no range",
                        *text);
            return NULL;
        }
        g_array_append_val(ranges, range);
    }
    IpbRules *rules = g_new0(IpbRules, 1);
    rules->references = 1;
    rules->policy = ipb_sandbox_policy_ref(policy);
    rules->denied_ranges = g_steal_pointer(&ranges);
    return rules;
}

IpbRules *
ipb_rules_ref(IpbRules *rules)
{
    rules->references++;
    return rules;
}

void
ipb_rules_unref(IpbRules *rules)
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

/* Entries. sandbox/policy.h compares; here is what it does not know of. */

/* The entry that denies it, for an address also as what it carries. NULL: none. */
static const IpbSandboxDomain *
find_denial(const IpbRules *rules, const IpbHost *host, unsigned port)
{
    const IpbSandboxDomain *entry;
    IpbHost carried[IPB_PLACE_MAX_CARRIED];
    size_t n = ipb_place_carried(host, carried);
    if (ipb_sandbox_policy_judge(rules->policy, host, port, &entry) == IPB_DOMAIN_DENIED)
        return entry;
    for (size_t i = 0; i < n; i++)
        if (ipb_sandbox_policy_judge(rules->policy, &carried[i], port, &entry) == IPB_DOMAIN_DENIED)
            return entry;
    return NULL;
}

/* An address that carries an allowed one is not allowed: only as itself. */
static bool
is_allowed(const IpbRules *rules, const IpbHost *host, unsigned port)
{
    return ipb_sandbox_policy_judge(rules->policy, host, port, NULL) == IPB_DOMAIN_ALLOWED;
}

/* Does an entry name the host itself, not only a wildcard above it? */
static bool
is_spelled_out(const IpbRules *rules, const IpbDestination *destination)
{
    GPtrArray *entries = rules->policy->allowed_domains;
    for (guint i = 0; i < entries->len; i++) {
        const IpbSandboxDomain *entry = g_ptr_array_index(entries, i);
        bool is_port = entry->port == 0 || entry->port == destination->port;
        if (is_port && !entry->is_wildcard && entry->host != NULL &&
            strcmp(entry->host, destination->host.text) == 0)
            return true;
    }
    return false;
}

/* Decisions */

static char *
explain_denial(const IpbSandboxDomain *entry)
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
ipb_rules_check(const IpbRules *rules, const IpbDestination *destination, char **ret_reason)
{
    const IpbSandboxDomain *denial = find_denial(rules, &destination->host, destination->port);
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
ipb_rules_check_name(const IpbRules *rules, const IpbHost *name, char **ret_reason)
{
    const IpbSandboxDomain *denial = find_denial(rules, name, ANY_PORT);
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
ipb_rules_denial_reason(const IpbRules *rules, const IpbDestination *destination)
{
    const IpbSandboxDomain *denial = find_denial(rules, &destination->host, destination->port);
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
is_in_denied_ranges(const IpbRules *rules, const IpbHost *address)
{
    IpbHost carried[IPB_PLACE_MAX_CARRIED];
    size_t n = ipb_place_carried(address, carried);
    for (guint i = 0; i < rules->denied_ranges->len; i++) {
        const IpbAddressRange *range = &g_array_index(rules->denied_ranges, IpbAddressRange, i);
        if (ipb_address_range_contains(range, address))
            return true;
        for (size_t k = 0; k < n; k++)
            if (ipb_address_range_contains(range, &carried[k]))
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
check_place(const IpbRules *rules, const IpbDestination *destination, const IpbHost *address,
            char **ret_reason)
{
    static const char LIST_ADDRESS[] =
        "to allow it, add the address itself to network.allowedDomains, with the port";
    const char *name;
    IpbPlace place = ipb_place_of(address, &name);
    if (is_localhost(&destination->host) && place == IPB_PLACE_LOOPBACK)
        return true;
    if (place >= IPB_PLACE_LOOPBACK)
        return refuse_address(ret_reason, name, LIST_ADDRESS);
    if (is_localhost(&destination->host))
        return refuse_address(ret_reason, name, "localhost is loopback and nothing else");
    if (ipb_place_is_own(address))
        return refuse_address(ret_reason, "an address of this host", LIST_ADDRESS);
    if (place == IPB_PLACE_PRIVATE && !is_spelled_out(rules, destination))
        return refuse_address(ret_reason, name,
                              "names that only a wildcard allows must not lead there; to allow "
                              "it, add the name itself to network.allowedDomains");
    return true;
}

bool
ipb_rules_check_address(const IpbRules *rules, const IpbDestination *destination,
                        const IpbHost *address, char **ret_reason)
{
    if (find_denial(rules, address, destination->port) != NULL)
        return refuse_address(ret_reason, "an address in network.deniedDomains",
                              "that is denied whatever name leads there");
    if (is_allowed(rules, address, destination->port))
        return true;
    if (is_in_denied_ranges(rules, address))
        return refuse_address(ret_reason, "an address in network.deniedResolvedAddresses",
                              "to allow it, add the address itself to network.allowedDomains");
    return check_place(rules, destination, address, ret_reason);
}
