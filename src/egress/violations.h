/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbViolations: tells the owner of denials, from the loop, never from within the call that found one. A program that tries again and
 * again is told of once a second, and a flood is cut off and counted.
 *
 * Ownership: the owner frees it; what is not told by then is dropped.
 */
#pragma once

#include "egress/egress.h"

typedef struct IpbViolations IpbViolations;

IpbViolations *ipb_violations_new(IpbLoop *loop,
                                  void (*on_violation)(const IpbViolation *violation, void *data),
                                  void *data);
void ipb_violations_free(IpbViolations *violations);
/* Tells all that waits to be told; on_violation must not free us then. */
void ipb_violations_flush(IpbViolations *violations);
/* @what is static. What is not printable in the texts is replaced. */
void ipb_violations_report(IpbViolations *violations, const char *what, const char *target,
                           const char *reason);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbViolations, ipb_violations_free)
