/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbTunnel: asks a proxy that is connected for a stream to a destination (HTTP's CONNECT). What the destination sends is left in the
 * socket.
 *
 * The proxy is the user's, what it answers is not trusted: its head is bounded, in size and time.
 * Ownership: the owner frees it, which closes the connection.
 */
#pragma once

#include "base/loop.h"
#include "egress/upstream.h"

typedef struct IpbTunnel IpbTunnel;

/* Once, from the loop. @fd: the stream, non-blocking, the receiver's; or -1 and @error, UNAVAILABLE or TIMEOUT. May free the tunnel. */
typedef void (*IpbTunnelFunc)(int fd, const GError *error, void *data);

/* @fd: non-blocking; the new object's, whatever becomes of the call. */
IpbTunnel *ipb_tunnel_new(IpbLoop *loop, int fd, const IpbProxy *proxy,
                          const IpbDestination *destination, IpbTunnelFunc func, void *data,
                          GError **error);
void ipb_tunnel_free(IpbTunnel *tunnel);
