/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbDomainRules: may a sandbox connect to this host and port, resolve this name, reach this
 * address? The decisions follow the network section of the policy; domain-rules.c begins with the
 * rules.
 *
 * Ownership: reference-counted and immutable. It keeps a reference to the policy. Decisions are
 * pure, except that they read this host's own addresses.
 */
#pragma once

#include <glib.h>

#include "sandbox/hostname.h"
#include "sandbox/policy.h"

typedef struct IpbDomainRules IpbDomainRules;

typedef struct {
    IpbHost host;
    unsigned port; /* 1 to 65535 */
} IpbDestination;

/* INVALID: an entry is not an address. The policy's parser does not accept such an entry. */
IpbDomainRules *ipb_domain_rules_new(IpbSandboxPolicy *policy, GError **error);
IpbDomainRules *ipb_domain_rules_ref(IpbDomainRules *rules);
void ipb_domain_rules_unref(IpbDomainRules *rules);

/* The checks return true, or false with *ret_reason: a printable clause for people, which the
 * caller frees. */

/* A connection to a name or a literal address. */
bool ipb_domain_rules_check(const IpbDomainRules *rules, const IpbDestination *destination,
                            char **ret_reason);
/* A DNS query for a name: is there a port on which the name may be reached? */
bool ipb_domain_rules_check_name(const IpbDomainRules *rules, const IpbHost *name,
                                 char **ret_reason);
/* An address that the name of an allowed destination resolved to. */
bool ipb_domain_rules_check_address(const IpbDomainRules *rules, const IpbDestination *destination,
                                    const IpbHost *address, char **ret_reason);

/* The policy's own reason for the denial (deniedDomainReasons), or NULL. Borrowed from the
 * rules. */
const char *ipb_domain_rules_denial_reason(const IpbDomainRules *rules,
                                           const IpbDestination *destination);

/* "host:port", with brackets around an IPv6 address. */
char *ipb_destination_to_text(const IpbDestination *destination);
bool ipb_destination_equal(const IpbDestination *a, const IpbDestination *b);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbDomainRules, ipb_domain_rules_unref)
