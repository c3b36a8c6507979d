/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a stream to port 443 or 80: is it for the host that the connection is to? Many hosts live behind one address,
 * so a client that may connect to one of them could ask for another there. The same for a connection that came to our listener as if
 * it were the server (transparent), and for what goes through a tunnel of the HTTP proxy or of SOCKS.
 *
 *     443: TLS, whose ClientHello names the host; or SSH, which names none and is never taken for TLS by a server
 *     80:  HTTP, one request for each connection, whose Host header names the host
 *     any other port: whatever comes
 */
#pragma once

#include "egress/connection.h"
#include "egress/http-request.h"

/* Room that a protocol's input needs whose tunnels are inspected. */
#define IPB_INSPECT_MAX_INPUT (32 * 1024)

/* Transparent: the destination is where the client believes to be. */
extern const IpbProtocol IPB_INSPECT_TLS;
extern const IpbProtocol IPB_INSPECT_HTTP;

/* Is what goes there taken for HTTP? */
bool ipb_inspect_is_http(const IpbDestination *destination);
/* A tunnel: the connection's server is connected, the client was told. Ends the turn. */
void ipb_inspect_tunnel(IpbConnection *connection);
/* Where the client believes to be; a synthetic address is the name that it stands for. */
bool ipb_inspect_find_destination(IpbConnection *connection, IpbDestination *ret_destination);
/* Ends it for a TLS client in a way that it understands. Ends the turn. */
void ipb_inspect_finish_tls(IpbConnection *connection);
/* Sends a request that was checked to the connected server, and its body, and the answer back. @head and @request point into the
 * input. Ends the turn. */
void ipb_inspect_relay_request(IpbConnection *connection, const IpbHttpHead *head,
                               const IpbHttpRequest *request);
