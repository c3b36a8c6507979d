/* SPDX-License-Identifier: Apache-2.0
 *
 * Trying a thread; see the header.
 */
#include "base/thread.h"

#include <errno.h>

#include "base/error.h"

#define N_THREADS 3

/* Each starts the next, so that all are there at a time. Returns NULL if one could not be started. */
static void *
start_next(void *data)
{
    unsigned n_left = GPOINTER_TO_UINT(data);
    if (n_left == 0)
        return GUINT_TO_POINTER(TRUE);
    GThread *thread =
        g_thread_try_new("ipybox check", start_next, GUINT_TO_POINTER(n_left - 1), NULL);
    return thread != NULL ? g_thread_join(thread) : NULL;
}

bool
ipb_thread_check(GError **error)
{
    if (start_next(GUINT_TO_POINTER(N_THREADS)) != NULL)
        return true;
    /* GLib does not tell the errno; this is what pthread_create has. */
    return ipb_error_set_errno(error, EAGAIN, "cannot start a thread");
}
