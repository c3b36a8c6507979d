/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's own proxies (network.httpProxyPort, network.socksProxyPort) in place of ours: a connection to our listener is a
 * connection to the port on the host's loopback, and the application's proxy decides. Connections that know of no proxy are refused then:
 * they would go past it.
 */
#pragma once

#include "egress/connection.h"

/* The connection is opened, to the proxy, when it is made. */
extern const IpbProtocol IPB_OWN_PROXY;
/* For the transparent listeners. */
extern const IpbProtocol IPB_OWN_PROXY_NEEDED_TLS;
extern const IpbProtocol IPB_OWN_PROXY_NEEDED_HTTP;
