/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbEgress: the only way out of a sandbox's network. It accepts on listeners that lie inside the sandbox's network namespace, so the
 * socket itself says whose connection it is: HTTP proxy, SOCKS5, DNS with synthetic addresses, and transparent TLS and HTTP for programs
 * that know nothing of proxies. Every destination is a name that the policy allows; what was checked is what is dialled.
 *
 * Everything that comes in is hostile. Ownership: the owner frees it, which closes every connection; on_violation comes from the loop
 * and may do so.
 */
#pragma once

#include "base/loop.h"
#include "egress/upstream.h"
#include "sandbox/plan.h"

typedef struct IpbEgress IpbEgress;

/* No denial: a proxy of the machine's network did not do what was asked of it. */
#define IPB_VIOLATION_PROXY "network-proxy"

/* A denial, for people and for the session's violation log. */
typedef struct {
    const char *what;   /* "network-outbound", "dns", "unix-connect", or IPB_VIOLATION_PROXY */
    const char *target; /* "host:port", canonical; a name; a path: printable */
    const char
        *reason; /* the rule that denied it, or that nothing allows it, and how to allow it */
} IpbViolation;

typedef struct {
    IpbSandboxPlan *plan; /* the new object takes a reference */
    /* In the order of plan->listeners; the new object's, whatever becomes of the call */
    const int *listeners;
    const IpbUpstream *upstream; /* lives longer; NULL: destinations are reached directly */
    void (*on_violation)(const IpbViolation *violation, void *data); /* may be NULL */
    void *data;
} IpbEgressOptions;

/* "operation not permitted: network-outbound evil.example:443: …", one printable line; the caller's. */
char *ipb_violation_to_text(const IpbViolation *violation);

/* The tool channel's listener is not taken: its fd stays the caller's. */
IpbEgress *ipb_egress_new(IpbLoop *loop, const IpbEgressOptions *options, GError **error);
void ipb_egress_free(IpbEgress *egress);
/* Tells now what else is told from the loop soon: for an end in order. on_violation must not free the egress then. */
void ipb_egress_flush(IpbEgress *egress);
/* Other network lists from now on; connections that stand are left alone. INVALID: then nothing changes. */
bool ipb_egress_set_policy(IpbEgress *egress, IpbSandboxPolicy *policy, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbEgress, ipb_egress_free)
