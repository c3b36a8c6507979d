/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting threads; see the header.
 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.h"

#define N_THREADS 3

/* Each thread starts the next one, so that all exist at the same time. Returns NULL if one could
 * not be started. */
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
    /* GLib does not report the errno. pthread_create fails with this one. */
    return ipb_error_set_errno(error, EAGAIN, "cannot start a thread");
}

GThread *
ipb_thread_start(const char *name, GThreadFunc func, void *data)
{
    /* The thread inherits this mask, so it takes no signal that is meant for the application. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    GThread *thread = g_thread_try_new(name, func, data, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return thread;
}

/* --- the thread that forks -------------------------------------------------------------------- */

struct IpbParentThread {
    GThread *thread;
    GMutex mutex;
    GCond changed;
    void (*func)(void *data); /* to run; NULL when that is done */
    void *data;
    bool is_ending;
};

bool
ipb_parent_thread_is_main(void)
{
    return gettid() == getpid();
}

static void *
run(void *data)
{
    IpbParentThread *parent = data;
    g_mutex_lock(&parent->mutex);
    while (!parent->is_ending) {
        if (parent->func != NULL) {
            parent->func(parent->data);
            parent->func = NULL;
            g_cond_broadcast(&parent->changed);
        }
        g_cond_wait(&parent->changed, &parent->mutex);
    }
    g_mutex_unlock(&parent->mutex);
    return NULL;
}

IpbParentThread *
ipb_parent_thread_new(GError **error)
{
    IpbParentThread *parent = g_new0(IpbParentThread, 1);
    g_mutex_init(&parent->mutex);
    g_cond_init(&parent->changed);
    parent->thread = ipb_thread_start("ipybox parent", run, parent);
    if (parent->thread == NULL) {
        ipb_error_set_errno(error, EAGAIN, "cannot start a thread");
        ipb_parent_thread_free(parent);
        return NULL;
    }
    return parent;
}

void
ipb_parent_thread_run(IpbParentThread *parent, void (*func)(void *data), void *data)
{
    g_mutex_lock(&parent->mutex);
    parent->func = func;
    parent->data = data;
    g_cond_broadcast(&parent->changed);
    while (parent->func != NULL)
        g_cond_wait(&parent->changed, &parent->mutex);
    g_mutex_unlock(&parent->mutex);
}

void
ipb_parent_thread_free(IpbParentThread *parent)
{
    if (parent == NULL)
        return;
    if (parent->thread != NULL) {
        g_mutex_lock(&parent->mutex);
        parent->is_ending = true;
        g_cond_broadcast(&parent->changed);
        g_mutex_unlock(&parent->mutex);
        g_thread_join(parent->thread);
    }
    g_mutex_clear(&parent->mutex);
    g_cond_clear(&parent->changed);
    g_free(parent);
}
