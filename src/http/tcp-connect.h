/* SPDX-License-Identifier: Apache-2.0
 *
 * A TCP connection to a host by name or address, as this host resolves it, without blocking the loop: in a thread of GLib's pool, which
 * tries the host's addresses one after the other.
 *
 * Not GIO's client: it brings most of GIO with it, and what that loads, into programs that are linked statically.
 */
#pragma once

#include <gio/gio.h>

/* @func is called in @context, once, also after a cancellation. Only where ipb_thread_check() is true. */
void ipb_tcp_connect(const char *host, unsigned port, GMainContext *context,
                     GCancellable *cancellable, GAsyncReadyCallback func, void *data);
/* The socket, not blocking, closed on exec; the caller's. -1: UNAVAILABLE, NOT_FOUND, TIMEOUT or G_IO_ERROR_CANCELLED. */
int ipb_tcp_connect_finish(GAsyncResult *result, GError **error);
