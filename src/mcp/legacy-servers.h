/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLegacyServers: remembers which servers are known to need a handshake, so that they are not
 * probed again at each connection. It lives in memory only. It holds hashes of parameters, because
 * parameters may be secret.
 *
 * Ownership: reference-counted. A runtime has one, which the clients of all its sessions share.
 */
#pragma once

#include "mcp/server-params.h"

typedef struct IpbLegacyServers IpbLegacyServers;

IpbLegacyServers *ipb_legacy_servers_new(void);
IpbLegacyServers *ipb_legacy_servers_ref(IpbLegacyServers *legacy_servers);
void ipb_legacy_servers_unref(IpbLegacyServers *legacy_servers);

/* The key of the server that has these expanded parameters. Caller frees. */
char *ipb_legacy_servers_make_key(const IpbServerParams *params);
/* Whether the server is known to be legacy. False if nothing is known; @servers may be NULL. */
bool ipb_legacy_servers_has(const IpbLegacyServers *legacy_servers, const char *key);
void ipb_legacy_servers_set(IpbLegacyServers *legacy_servers, const char *key, bool is_legacy);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbLegacyServers, ipb_legacy_servers_unref)
