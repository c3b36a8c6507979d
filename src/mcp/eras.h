/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbMcpEras: which servers are known to want a handshake, so that they are not probed again at each
 * connection. It forgets with its process, and holds no parameters, which may be secret: only their hash.
 *
 * Ownership: reference-counted; each session's clients share their runtime's.
 */
#pragma once

#include "mcp/params.h"

typedef struct IpbMcpEras IpbMcpEras;

IpbMcpEras *ipb_mcp_eras_new(void);
IpbMcpEras *ipb_mcp_eras_ref(IpbMcpEras *eras);
void ipb_mcp_eras_unref(IpbMcpEras *eras);

/* Says which server @params (expanded) are about. Caller frees. */
char *ipb_mcp_eras_make_key(const IpbServerParams *params);
/* False if nothing is known. @eras may be NULL. */
bool ipb_mcp_eras_is_legacy(const IpbMcpEras *eras, const char *key);
void ipb_mcp_eras_set_legacy(IpbMcpEras *eras, const char *key, bool is_legacy);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbMcpEras, ipb_mcp_eras_unref)
