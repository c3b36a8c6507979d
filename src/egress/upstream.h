/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbUpstream: the proxies of this machine's network (https_proxy, http_proxy, no_proxy), for a sandbox whose destinations are the
 * user's own choice: an installation's package indexes. Other sandboxes have none, since such a proxy looks names up itself and
 * decides where a connection ends (docs/internals/egress.md).
 *
 * The environment is the user's. No message holds a value of it, which may have a password in it.
 * Ownership: the owner frees it. Unchanging.
 */
#pragma once

#include <stdbool.h>

#include "egress/rules.h"

typedef struct {
    const char *variable;   /* static: whose value it is, for messages */
    char *problem;          /* why it cannot be used: a clause for people; or NULL */
    IpbDestination address; /* unless there is a problem; a name is not looked up yet */
    char *authorization;    /* the value of Proxy-Authorization, or NULL */
} IpbProxy;

typedef struct IpbUpstream IpbUpstream;

/* @env: "NAME=value" list. The lower case of a name counts first; all_proxy where the other is not there. @own (may be NULL): the
 * installer's own setting, which is for all hosts; @own_name (static) says where it is from. */
IpbUpstream *ipb_upstream_new(const char *const *env, const char *own, const char *own_name);
void ipb_upstream_free(IpbUpstream *upstream);
/* NULL: the host is reached directly. @is_http: requests for http:// URLs, which the proxy passes on; else a stream, for CONNECT.
 * Borrowed. */
const IpbProxy *ipb_upstream_find(const IpbUpstream *upstream, const IpbDestination *destination,
                                  bool is_http);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbUpstream, ipb_upstream_free)
