/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbLegacyServers: which servers are known to want a handshake, so that they are not probed again at each
 * connection. It forgets with its process, and holds no parameters, which may be secret: only their hash.
 *
 * Ownership: reference-counted; each session's clients share their runtime's.
 */
#pragma once

#include "mcp/server-params.h"

typedef struct IpbLegacyServers IpbLegacyServers;

IpbLegacyServers *ipb_legacy_servers_new(void);
IpbLegacyServers *ipb_legacy_servers_ref(IpbLegacyServers *legacy_servers);
void ipb_legacy_servers_unref(IpbLegacyServers *legacy_servers);

/* Says which server @params (expanded) are about. Caller frees. */
char *ipb_legacy_servers_make_key(const IpbServerParams *params);
/* False if nothing is known. @legacy_servers may be NULL. */
bool ipb_legacy_servers_has(const IpbLegacyServers *legacy_servers, const char *key);
void ipb_legacy_servers_set(IpbLegacyServers *legacy_servers, const char *key, bool is_legacy);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbLegacyServers, ipb_legacy_servers_unref)
