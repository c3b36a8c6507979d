/* SPDX-License-Identifier: Apache-2.0
 *
 * The SOCKS 5 proxy inside a sandbox: CONNECT without authentication, to names and addresses.
 */
#pragma once

#include "egress/connection.h"

extern const IpbProtocol IPB_SOCKS;
