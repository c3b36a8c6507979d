/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether another thread can be started. If GLib cannot start a thread that it needs, it ends the
 * process or waits for ever. Code that makes GLib start threads calls this first.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Checks that as many threads as GTask needs can be started: one for GLib's own main context, one
 * that starts those of its pool, and one of the pool. SYSTEM: the limit of processes and threads
 * (ulimit -u) or of memory is reached. */
bool ipb_thread_check(GError **error);
