/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports whose server trusts the processes of its own user. The egress of a sandbox is such a process, and connects for code that nobody
 * trusts: so the server says which port it has, by an abstract Unix socket of that name, which ends with it, and egress keeps away. Both
 * are on loopback, hence in one network namespace, where such names are.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Says it for @port as long as the fd is open; the caller closes it. -1: UNAVAILABLE. What connected before may have been told
 * otherwise. */
int ipb_trusting_port_claim(unsigned port, GError **error);

/* Is the connected socket @fd at such a port on loopback? Whoever asks after connecting misses none. */
bool ipb_trusting_port_is_peer(int fd);
