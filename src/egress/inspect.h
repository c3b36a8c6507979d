/* SPDX-License-Identifier: Apache-2.0
 *
 * Inspection of streams to port 443 and 80: is the stream for the host that it is connected to?
 * Many hosts share one address, so a client that may connect to one of them could ask for another
 * one there.
 *
 * Inspection applies to transparent connections, which reach our listener as if it were the server,
 * and to tunnels through the HTTP proxy or SOCKS:
 *
 *     443          TLS: the ClientHello names the host. SSH names no host. It passes, because no
 *                  server takes it for TLS.
 *     80           HTTP: the Host header names the host; one request for each connection
 *     other ports  not inspected
 */
#pragma once

#include "egress/connection.h"

/* The input buffer that a protocol needs if its tunnels are inspected. */
#define IPB_INSPECT_MAX_INPUT (32 * 1024)

/* For transparent connections: the destination is the address that the client connected to. */
extern const IpbProtocol IPB_INSPECT_TLS;
extern const IpbProtocol IPB_INSPECT_HTTP;

/* Is a stream to this destination inspected as HTTP? */
bool ipb_inspect_is_http(const IpbDestination *destination);
/* Inspects a tunnel whose server is connected, after the client was answered. Ends the turn. */
void ipb_inspect_tunnel(IpbConnection *connection);
/* The destination, or for a transparent connection the address that the client connected to. A
 * synthetic address is replaced by its name. */
bool ipb_inspect_find_destination(IpbConnection *connection, IpbDestination *ret_destination);
/* Denies a connection to a TLS client with a TLS alert. Ends the turn. */
void ipb_inspect_finish_tls(IpbConnection *connection);
