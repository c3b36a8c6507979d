/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbDial: connects to an allowed destination. It resolves the name once and checks each address
 * against the rules. Then it tries the addresses that passed: each attempt starts a quarter of a
 * second after the one before, so an address family that leads nowhere costs no more than that.
 *
 * Ownership: the owner frees it, which cancels the attempts.
 */
#pragma once

#include "egress/domain-rules.h"
#include "egress/resolver.h"

typedef struct IpbDial IpbDial;

/* Called once, from the loop. @fd: connected, non-blocking, owned by the receiver. Or -1 and
 * @error: REFUSED by the rules (the message is their reason), NOT_FOUND, TIMEOUT, UNAVAILABLE
 * (the host refused the connection), SYSTEM. May free the dial. */
typedef void (*IpbDialFunc)(int fd, const GError *error, void *data);

/* @rules: NULL for a host that is not checked. */
IpbDial *ipb_dial_new(IpbLoop *loop, IpbResolver *resolver, IpbDomainRules *rules,
                      const IpbDestination *destination, IpbDialFunc func, void *data);
void ipb_dial_free(IpbDial *dial);
