/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbResolver: resolves names as this host resolves them, without blocking the loop. Lookups run in
 * threads, a few at once. Further lookups are queued.
 *
 * Ownership: the owner frees the resolver and each lookup. Freeing a lookup cancels it. The
 * resolver must outlive its lookups.
 */
#pragma once

#include "base/loop.h"
#include "sandbox/hostname.h"

#define IPB_RESOLVER_MAX_ADDRESSES 8

typedef struct IpbResolver IpbResolver;
typedef struct IpbLookup IpbLookup;

/* Called once, from the loop. @error: NOT_FOUND or TIMEOUT; if NULL, there is at least one
 * address. May free the lookup. */
typedef void (*IpbLookupFunc)(const IpbHost *addresses, size_t n_addresses, const GError *error,
                              void *data);

IpbResolver *ipb_resolver_new(IpbLoop *loop);
void ipb_resolver_free(IpbResolver *resolver);
IpbLookup *ipb_lookup_new(IpbResolver *resolver, const char *name, IpbLookupFunc func, void *data);
void ipb_lookup_free(IpbLookup *lookup);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbResolver, ipb_resolver_free)
