/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbUpstream: the proxies of this machine's network (https_proxy, http_proxy, no_proxy), and
 * IpbUpstreamTunnel: a stream through one of them.
 *
 * They are for sandboxes whose destinations the user chose: an installation's package indexes.
 * Other sandboxes do not use them, because such a proxy resolves names itself and decides where a
 * connection ends (docs/internals/egress.md).
 *
 * The environment is the user's. No message contains a value of it, because it may contain a
 * password. The user chose the proxy, but its answers are not trusted: their heads are bounded in
 * size and time.
 *
 * Ownership: the owner frees both objects. An IpbUpstream does not change.
 */
#pragma once

#include <stdbool.h>

#include "base/loop.h"
#include "egress/domain-rules.h"

typedef struct {
    const char *variable;   /* static: the variable that names it, for messages */
    char *problem;          /* why it cannot be used: a clause for people; or NULL */
    IpbDestination address; /* unless there is a problem; a name is not resolved yet */
    char *authorization;    /* the value of Proxy-Authorization, or NULL */
} IpbUpstreamProxy;

typedef struct IpbUpstream IpbUpstream;

/* @env: "NAME=value" list. The lower-case form of a name takes precedence; all_proxy is the
 * fallback. @own (may be NULL): the installer's own setting, which applies to all hosts; @own_name
 * (static) says where it is from. */
IpbUpstream *ipb_upstream_new(const char *const *env, const char *own, const char *own_name);
void ipb_upstream_free(IpbUpstream *upstream);
/* The proxy for a destination; NULL: connect directly, as is always done for what is on this
 * machine by its name or address. @is_http: for requests with http:// URLs, which the proxy
 * forwards; else for a stream, by CONNECT. Borrowed. */
const IpbUpstreamProxy *ipb_upstream_find(const IpbUpstream *upstream,
                                          const IpbDestination *destination, bool is_http);

typedef struct IpbUpstreamTunnel IpbUpstreamTunnel;

/* Called once, from the loop. @fd: the stream, non-blocking, owned by the receiver; or -1 and
 * @error, UNAVAILABLE or TIMEOUT. May free the tunnel. */
typedef void (*IpbUpstreamTunnelFunc)(int fd, const GError *error, void *data);

/* Asks a connected proxy for a stream to @destination, by CONNECT. What the destination sends is
 * left in the socket. @fd: non-blocking; the call takes it over, even if it fails. */
IpbUpstreamTunnel *ipb_upstream_tunnel_new(IpbLoop *loop, int fd, const IpbUpstreamProxy *proxy,
                                           const IpbDestination *destination,
                                           IpbUpstreamTunnelFunc func, void *data, GError **error);
/* Closes the connection. */
void ipb_upstream_tunnel_free(IpbUpstreamTunnel *tunnel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbUpstream, ipb_upstream_free)
