/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that forks; see the header.
 */
#include "base/parent-thread.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.h"

struct IpbParentThread {
    GThread *thread;
    GMutex mutex;
    GCond changed;
    void (*func)(void *data); /* to be run; NULL when that is done */
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
    /* The application's signals are not for us: the thread inherits this mask. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    parent->thread = g_thread_try_new("ipybox parent", run, parent, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
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
