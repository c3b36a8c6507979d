/* SPDX-License-Identifier: Apache-2.0
 *
 * GMutex and GCond implemented with pthreads, for tests that run under ThreadSanitizer.
 *
 * GLib implements its locks with futex system calls, which ThreadSanitizer does not see. It would
 * report a data race for everything that such a lock protects. Do not pass these locks to GLib
 * functions that lock them internally: GLib would use its own implementation.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include <glib.h>

static pthread_mutex_t *
find_mutex(GMutex *mutex)
{
    pthread_mutex_t *found = __atomic_load_n(&mutex->p, __ATOMIC_ACQUIRE);
    if (found != NULL)
        return found;
    pthread_mutex_t *made = g_new0(pthread_mutex_t, 1);
    pthread_mutex_init(made, NULL);
    void *none = NULL;
    if (__atomic_compare_exchange_n(&mutex->p, &none, made, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return made;
    pthread_mutex_destroy(made);
    g_free(made);
    return none;
}

static pthread_cond_t *
find_cond(GCond *cond)
{
    pthread_cond_t *found = __atomic_load_n(&cond->p, __ATOMIC_ACQUIRE);
    if (found != NULL)
        return found;
    pthread_cond_t *made = g_new0(pthread_cond_t, 1);
    pthread_cond_init(made, NULL);
    void *none = NULL;
    if (__atomic_compare_exchange_n(&cond->p, &none, made, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return made;
    pthread_cond_destroy(made);
    g_free(made);
    return none;
}

void
g_mutex_init(GMutex *mutex)
{
    mutex->p = NULL;
}

void
g_mutex_clear(GMutex *mutex)
{
    if (mutex->p != NULL)
        pthread_mutex_destroy(mutex->p);
    g_clear_pointer(&mutex->p, g_free);
}

void
g_mutex_lock(GMutex *mutex)
{
    pthread_mutex_lock(find_mutex(mutex));
}

gboolean
g_mutex_trylock(GMutex *mutex)
{
    return pthread_mutex_trylock(find_mutex(mutex)) == 0;
}

void
g_mutex_unlock(GMutex *mutex)
{
    pthread_mutex_unlock(find_mutex(mutex));
}

void
g_cond_init(GCond *cond)
{
    cond->p = NULL;
}

void
g_cond_clear(GCond *cond)
{
    if (cond->p != NULL)
        pthread_cond_destroy(cond->p);
    g_clear_pointer(&cond->p, g_free);
}

void
g_cond_wait(GCond *cond, GMutex *mutex)
{
    pthread_cond_wait(find_cond(cond), find_mutex(mutex));
}

gboolean
g_cond_wait_until(GCond *cond, GMutex *mutex, gint64 end_time)
{
    struct timespec end = {
        .tv_sec = end_time / G_USEC_PER_SEC,
        .tv_nsec = end_time % G_USEC_PER_SEC * 1000,
    };
    return pthread_cond_clockwait(find_cond(cond), find_mutex(mutex), CLOCK_MONOTONIC, &end) !=
           ETIMEDOUT;
}

void
g_cond_signal(GCond *cond)
{
    pthread_cond_signal(find_cond(cond));
}

void
g_cond_broadcast(GCond *cond)
{
    pthread_cond_broadcast(find_cond(cond));
}
