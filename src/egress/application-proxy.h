/* SPDX-License-Identifier: Apache-2.0
 *
 * The application's own proxies (network.httpProxyPort, network.socksProxyPort), which replace
 * ours. A connection to our listener is relayed to that port on the host's loopback, and the
 * application's proxy decides. Connections that do not use a proxy are refused then, because they
 * would bypass it.
 */
#pragma once

#include "egress/connection.h"

/* For the proxy listeners. The caller opens each connection, to the proxy, when it creates it. */
extern const IpbProtocol IPB_APPLICATION_PROXY;
/* For the transparent listeners: refuse with a reason. */
extern const IpbProtocol IPB_APPLICATION_PROXY_REQUIRED_TLS;
extern const IpbProtocol IPB_APPLICATION_PROXY_REQUIRED_HTTP;
