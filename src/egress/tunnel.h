/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbTunnel: asks a connected proxy for a stream to a destination (HTTP's CONNECT). What the
 * destination sends is left in the socket.
 *
 * The user chose the proxy, but its answers are not trusted: their heads are bounded in size and
 * time. Ownership: the owner frees it, which closes the connection.
 */
#pragma once

#include "base/loop.h"
#include "egress/upstream.h"

typedef struct IpbTunnel IpbTunnel;

/* Called once, from the loop. @fd: the stream, non-blocking, owned by the receiver; or -1 and
 * @error, UNAVAILABLE or TIMEOUT. May free the tunnel. */
typedef void (*IpbTunnelFunc)(int fd, const GError *error, void *data);

/* @fd: non-blocking; the call takes it over, also if it fails. */
IpbTunnel *ipb_tunnel_new(IpbLoop *loop, int fd, const IpbProxy *proxy,
                          const IpbDestination *destination, IpbTunnelFunc func, void *data,
                          GError **error);
void ipb_tunnel_free(IpbTunnel *tunnel);
