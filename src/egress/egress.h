/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbEgress: the only way out of a sandbox's network. Its listeners are in the sandbox's network
 * namespace, so the socket itself says which sandbox a connection comes from: HTTP proxy, SOCKS5,
 * DNS with synthetic addresses, and transparent TLS and HTTP for programs that do not use a proxy.
 * Every destination is a host that the policy allows, and the address that was checked is the one
 * that is dialled.
 *
 * All input is hostile. Ownership: the owner frees it, which closes every connection. on_violation
 * is called from the loop and may free it.
 */
#pragma once

#include "base/loop.h"
#include "egress/upstream.h"
#include "egress/violations.h"
#include "sandbox/plan.h"

typedef struct IpbEgress IpbEgress;

typedef struct {
    IpbSandboxPlan *plan; /* the new object takes a reference */
    /* In the order of plan->listeners. The call takes them over, even if it fails. The listener
     * of the tool channel is an exception: the caller keeps it. */
    const int *listeners;
    const IpbUpstream *upstream; /* must outlive the object; NULL: connect directly */
    void (*on_violation)(const IpbViolation *violation, void *data); /* may be NULL */
    void *data;
} IpbEgressOptions;

IpbEgress *ipb_egress_new(IpbLoop *loop, const IpbEgressOptions *options, GError **error);
void ipb_egress_free(IpbEgress *egress);
/* Reports now what is queued for the loop, before an orderly end. on_violation must not free the
 * egress during this call. */
void ipb_egress_flush(IpbEgress *egress);
/* Replaces the network lists. Open connections are not affected. If it fails with INVALID, nothing
 * changes. */
bool ipb_egress_set_policy(IpbEgress *egress, IpbSandboxPolicy *policy, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbEgress, ipb_egress_free)
