/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbUnixListener: a listening Unix socket at a path, which only our user, or also a group, can
 * connect to.
 *
 * Ownership: the owner frees it, which removes the file.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef struct IpbUnixListener IpbUnixListener;

/* Listens at @path with mode 0600; with @group (a name or a number; NULL: none), which gets the
 * socket, 0660. A socket to which no program listens is replaced. BUSY: a program listens there.
 * REFUSED: there is something else, or all users can change the directory. NOT_FOUND: the group. */
IpbUnixListener *ipb_unix_listener_open(const char *path, const char *group, GError **error);
/* The socket, non-blocking. The caller takes it; once. */
int ipb_unix_listener_take_fd(IpbUnixListener *listener);
/* Removes the file if it is still the one that was made. */
void ipb_unix_listener_free(IpbUnixListener *listener);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbUnixListener, ipb_unix_listener_free)
