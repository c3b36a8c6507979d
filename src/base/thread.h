/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting threads, and IpbParentThread, a thread that forks. The kernel binds the death signal of
 * a child to the thread that forked it, not to the process. In a program with threads a child would
 * die with the thread that happened to start it. A parent thread lives as long as its owner. It
 * handles no signals and does nothing else.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

/* Checks that as many threads as GTask needs can be started: one for GLib's own main context, one
 * that starts those of its pool, and one of the pool. If GLib cannot start a thread that it needs,
 * it ends the process or waits for ever, so code that makes GLib start threads calls this first.
 * SYSTEM: the limit of processes and threads (ulimit -u) or of memory is reached. */
bool ipb_thread_check(GError **error);
/* Starts a thread that handles no signals. Returns NULL if none can be started. */
GThread *ipb_thread_start(const char *name, GThreadFunc func, void *data);

typedef struct IpbParentThread IpbParentThread;

/* Whether the calling thread lives as long as the process. */
bool ipb_parent_thread_is_main(void);
/* SYSTEM: no thread can be started. */
IpbParentThread *ipb_parent_thread_new(GError **error);
/* Runs @func in the thread and waits until it returns. */
void ipb_parent_thread_run(IpbParentThread *parent, void (*func)(void *data), void *data);
/* Ends the thread. Its children get their death signals. */
void ipb_parent_thread_free(IpbParentThread *parent);
