/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether there can be another thread. GLib ends the process, or waits for ever, where it cannot make one that it needs: who asks GLib for
 * threads asks here first.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* There can be as many as GTask needs: that of GLib's own main context, one that starts those of its pool, and one of the pool. SYSTEM:
 * the limit of processes and threads (ulimit -u) or of memory is reached. */
bool ipb_thread_check(GError **error);
