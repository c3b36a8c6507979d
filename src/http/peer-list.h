/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbPeerList: the addresses that may connect to a server, such as those of its proxies. Each is an
 * IPv4 or IPv6 address, or a network: "10.1.0.0/16", "fd00::/8".
 *
 * Ownership: the owner frees it.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

#include "http/socket-address.h"

#define IPB_PEER_LIST_MAX 64

typedef struct IpbPeerList IpbPeerList;

/* @texts: NULL-terminated. INVALID: one is no address or network, or has bits after its prefix;
 * LIMIT: there are more than 64. */
IpbPeerList *ipb_peer_list_new(const char *const *texts, GError **error);
/* An IPv4 address that IPv6 carries (::ffff:10.0.0.1) counts as IPv4. An address of another family
 * is not in the list. */
bool ipb_peer_list_contains(const IpbPeerList *list, const IpbSocketAddress *address);
void ipb_peer_list_free(IpbPeerList *list);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbPeerList, ipb_peer_list_free)
