/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbGatewaySeed: the code of a notebook that every kernel runs before its first client.
 * IpbGatewaySeeding: one kernel runs it, a cell after the other, until one fails.
 *
 * Ownership: the gateway owns both. The seed outlives its seedings.
 */
#pragma once

#include "session/session.h"

typedef struct IpbGatewaySeed IpbGatewaySeed;
typedef struct IpbGatewaySeeding IpbGatewaySeeding;

/* Reads the code cells of a notebook (nbformat 4). Errors: NOT_FOUND, INVALID, LIMIT. */
IpbGatewaySeed *ipb_gateway_seed_read(const char *path, GError **error);
void ipb_gateway_seed_free(IpbGatewaySeed *seed);

/* @done: once, from the loop; it may free the seeding. @failure: why a cell failed, for people;
 * NULL: all have run. */
IpbGatewaySeeding *ipb_gateway_seeding_new(const IpbGatewaySeed *seed, IpbLoop *loop,
                                           IpbSession *session,
                                           void (*done)(const char *failure, void *data),
                                           void *data);
/* Before the end only if the session has ended. */
void ipb_gateway_seeding_free(IpbGatewaySeeding *seeding);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbGatewaySeed, ipb_gateway_seed_free)
