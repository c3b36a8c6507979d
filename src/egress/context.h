/* SPDX-License-Identifier: Apache-2.0
 *
 * What the connections of one sandbox share. Plain struct; everything in it is the IpbEgress's.
 */
#pragma once

#include "base/loop.h"
#include "egress/resolver.h"
#include "egress/rules.h"
#include "egress/synthetic.h"
#include "egress/upstream.h"
#include "egress/violations.h"

typedef struct {
    IpbLoop *loop;
    IpbRules *rules; /* may be replaced between two turns of the loop */
    IpbResolver *resolver;
    IpbSynthetic *names;
    IpbViolations *violations;
    const IpbUpstream *upstream; /* borrowed; NULL: destinations are reached directly */
} IpbEgressContext;
