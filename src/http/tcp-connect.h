/* SPDX-License-Identifier: Apache-2.0
 *
 * Connects by TCP to a host, given by name or address, without blocking the loop: a thread of
 * GLib's pool resolves the name and tries the host's addresses one after the other.
 *
 * It is not GIO's client, because that brings most of GIO, and the modules that GIO loads, into
 * programs that are linked statically.
 */
#pragma once

#include <gio/gio.h>

/* @func is called once in @context, even after a cancellation. Requires ipb_thread_check(). */
void ipb_tcp_connect(const char *host, unsigned port, GMainContext *context,
                     GCancellable *cancellable, GAsyncReadyCallback func, void *data);
/* The socket, non-blocking, closed on exec; the caller closes it. -1: UNAVAILABLE, NOT_FOUND,
 * TIMEOUT or G_IO_ERROR_CANCELLED. */
int ipb_tcp_connect_finish(GAsyncResult *result, GError **error);
