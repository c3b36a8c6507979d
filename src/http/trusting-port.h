/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports whose server trusts the processes of its own user. The egress of a sandbox is such a
 * process, but connects for untrusted code. So the server claims its port with an abstract Unix
 * socket, whose name has the port and which disappears with the server. Egress refuses to connect
 * to claimed ports. Both are on loopback, so they are in one network namespace and see the same
 * abstract names.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Claims @port as long as the fd is open; the caller closes it. -1: UNAVAILABLE. Drop connections
 * that were accepted before: egress may have checked the port before it was claimed. */
int ipb_trusting_port_claim(unsigned port, GError **error);

/* Is the peer of the connected socket @fd such a port on loopback? Call it after connect(): an
 * earlier check could miss a port that is claimed in between. */
bool ipb_trusting_port_is_peer(int fd);
