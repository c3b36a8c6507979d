/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbParentThread: a thread that forks. The death signal of a child is bound to the thread that forked it, not to the
 * process: in a program with threads a child would die with whichever of them happened to start it. This one lasts as
 * long as its owner. It takes no signals and does nothing else.
 */
#pragma once

#include <stdbool.h>

#include <glib.h>

typedef struct IpbParentThread IpbParentThread;

/* Does the calling thread last as long as the process? */
bool ipb_parent_thread_is_main(void);
/* SYSTEM: no thread can be made. */
IpbParentThread *ipb_parent_thread_new(GError **error);
/* Runs @func there, and waits for its end. */
void ipb_parent_thread_run(IpbParentThread *parent, void (*func)(void *data), void *data);
/* Ends the thread: its children get their death signals. */
void ipb_parent_thread_free(IpbParentThread *parent);
