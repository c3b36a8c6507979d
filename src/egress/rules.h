/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbRules: may a sandbox connect to this host and port, ask for this name, reach this address? The decisions of the policy's
 * network section; the model is told in rules.c.
 *
 * Ownership: reference-counted, unchanging. It keeps the policy. Decisions are pure, but for a look at this host's own addresses.
 */
#pragma once

#include <glib.h>

#include "sandbox/hostname.h"
#include "sandbox/policy.h"

typedef struct IpbRules IpbRules;

typedef struct {
    IpbHost host;
    unsigned port; /* 1 to 65535 */
} IpbDestination;

/* INVALID: an entry that is no address, which the policy's parser does not let through. */
IpbRules *ipb_rules_new(IpbSandboxPolicy *policy, GError **error);
IpbRules *ipb_rules_ref(IpbRules *rules);
void ipb_rules_unref(IpbRules *rules);

/* Each returns true, or false with *ret_reason: a clause for people, printable, theirs to free. */

/* A connection to a name or a literal address. */
bool ipb_rules_check(const IpbRules *rules, const IpbDestination *destination, char **ret_reason);
/* The question for a name's address: is there a port on which it may be reached? */
bool ipb_rules_check_name(const IpbRules *rules, const IpbHost *name, char **ret_reason);
/* An address that the name of an allowed destination resolved to. */
bool ipb_rules_check_address(const IpbRules *rules, const IpbDestination *destination,
                             const IpbHost *address, char **ret_reason);

/* The reason that the policy gives for denying it (deniedDomainReasons), or NULL; the rules'. */
const char *ipb_rules_denial_reason(const IpbRules *rules, const IpbDestination *destination);

/* "host:port", an IPv6 address in brackets. */
char *ipb_destination_to_text(const IpbDestination *destination);
bool ipb_destination_equal(const IpbDestination *a, const IpbDestination *b);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbRules, ipb_rules_unref)
