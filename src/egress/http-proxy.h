/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP proxy inside a sandbox: CONNECT, and requests for http:// URLs, one for each connection.
 */
#pragma once

#include "egress/connection.h"

extern const IpbProtocol IPB_HTTP_PROXY;
