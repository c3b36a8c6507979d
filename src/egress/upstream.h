/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbUpstream: the proxies of this machine's network (https_proxy, http_proxy, no_proxy). They are
 * for sandboxes whose destinations the user chose: an installation's package indexes. Other
 * sandboxes do not use them, because such a proxy resolves names itself and decides where a
 * connection ends (docs/internals/egress.md).
 *
 * The environment is the user's. No message contains a value of it, because it may contain a
 * password. Ownership: the owner frees it. Immutable.
 */
#pragma once

#include <stdbool.h>

#include "egress/rules.h"

typedef struct {
    const char *variable;   /* static: the variable that names it, for messages */
    char *problem;          /* why it cannot be used: a clause for people; or NULL */
    IpbDestination address; /* unless there is a problem; a name is not looked up yet */
    char *authorization;    /* the value of Proxy-Authorization, or NULL */
} IpbProxy;

typedef struct IpbUpstream IpbUpstream;

/* @env: "NAME=value" list. The lower-case form of a name takes precedence; all_proxy is the
 * fallback. @own (may be NULL): the installer's own setting, which applies to all hosts; @own_name
 * (static) says where it is from. */
IpbUpstream *ipb_upstream_new(const char *const *env, const char *own, const char *own_name);
void ipb_upstream_free(IpbUpstream *upstream);
/* The proxy for a destination; NULL: connect directly, as is always done for what is on this machine
 * by its name or address. @is_http: for requests with http:// URLs, which the proxy forwards; else
 * for a stream, by CONNECT. Borrowed. */
const IpbProxy *ipb_upstream_find(const IpbUpstream *upstream, const IpbDestination *destination,
                                  bool is_http);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbUpstream, ipb_upstream_free)
