/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbResolver: names to addresses as this host resolves them, without blocking the loop: in threads, a few at
 * once, the others wait their turn.
 *
 * Ownership: the owner frees the resolver and each lookup; freeing a lookup that is under way cancels it. Lookups do not outlive
 * the resolver.
 */
#pragma once

#include "base/loop.h"
#include "sandbox/hostname.h"

#define IPB_RESOLVER_MAX_ADDRESSES 8

typedef struct IpbResolver IpbResolver;
typedef struct IpbLookup IpbLookup;

/* Once, from the loop. @error: NOT_FOUND, TIMEOUT, or NULL and then there is an address. May free the lookup. */
typedef void (*IpbLookupFunc)(const IpbHost *addresses, size_t n_addresses, const GError *error,
                              void *data);

IpbResolver *ipb_resolver_new(IpbLoop *loop);
void ipb_resolver_free(IpbResolver *resolver);
IpbLookup *ipb_lookup_new(IpbResolver *resolver, const char *name, IpbLookupFunc func, void *data);
void ipb_lookup_free(IpbLookup *lookup);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbResolver, ipb_resolver_free)
