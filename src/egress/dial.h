/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbDial: a connection to an allowed destination. Its name is resolved once, each address is judged by the rules, and those that
 * passed are tried in turn, the next one soon after the one before: a family that leads nowhere costs a quarter of a second.
 *
 * Ownership: the owner frees it, which gives up.
 */
#pragma once

#include "egress/resolver.h"
#include "egress/rules.h"

typedef struct IpbDial IpbDial;

/* Once, from the loop. @fd: connected, non-blocking, the receiver's; or -1 and @error: REFUSED (the rules, and the message is their
 * reason), NOT_FOUND, TIMEOUT, UNAVAILABLE (the host refused), SYSTEM. May free the dial. */
typedef void (*IpbDialFunc)(int fd, const GError *error, void *data);

/* @rules NULL: a host that needs no rules. */
IpbDial *ipb_dial_new(IpbLoop *loop, IpbResolver *resolver, IpbRules *rules,
                      const IpbDestination *destination, IpbDialFunc func, void *data);
void ipb_dial_free(IpbDial *dial);
