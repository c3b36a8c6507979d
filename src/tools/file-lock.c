/* SPDX-License-Identifier: Apache-2.0
 *
 * flock with a timeout. The system has none, so a lock that is taken is waited for in a thread,
 * which the caller leaves behind if it takes too long: it ends, and lets go, when it gets the lock.
 */
#include "tools/file-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"

typedef struct {
    int references; /* the caller and the thread */
    int fd;
    GMutex mutex;
    GCond is_decided;
    bool is_done; /* the thread is */
    int result;   /* errno */
} Wait;

static void
unref_wait(Wait *wait)
{
    if (!g_atomic_int_dec_and_test(&wait->references))
        return;
    ipb_fd_close(&wait->fd);
    g_mutex_clear(&wait->mutex);
    g_cond_clear(&wait->is_decided);
    g_free(wait);
}

static int
lock_blocking(int fd)
{
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static void *
run_wait(void *data)
{
    Wait *wait = data;
    int result = lock_blocking(wait->fd);
    g_mutex_lock(&wait->mutex);
    wait->is_done = true;
    wait->result = result;
    g_cond_signal(&wait->is_decided);
    g_mutex_unlock(&wait->mutex);
    unref_wait(wait);
    return NULL;
}

static bool
start_thread(Wait *wait)
{
    /* The application's signals are not for it: it inherits this mask. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    GThread *thread = g_thread_try_new("ipybox lock", run_wait, wait, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (thread != NULL)
        g_thread_unref(thread);
    return thread != NULL;
}

/* Takes @fd. Returns 0, an errno, or ETIMEDOUT. */
static int
wait_for_lock(int fd, unsigned timeout_ms, int *ret_fd)
{
    gint64 deadline = g_get_monotonic_time() + (gint64) timeout_ms * 1000;
    Wait *wait = g_new0(Wait, 1);
    wait->references = 2;
    wait->fd = fd;
    g_mutex_init(&wait->mutex);
    g_cond_init(&wait->is_decided);
    if (!start_thread(wait)) {
        wait->references = 1;
        unref_wait(wait);
        return EAGAIN;
    }
    g_mutex_lock(&wait->mutex);
    while (!wait->is_done && g_cond_wait_until(&wait->is_decided, &wait->mutex, deadline))
        ;
    int result = wait->is_done ? wait->result : ETIMEDOUT;
    if (result == 0)
        *ret_fd = ipb_fd_steal(&wait->fd);
    g_mutex_unlock(&wait->mutex);
    unref_wait(wait);
    return result;
}

int
ipb_file_lock(const char *path, unsigned timeout_ms, GError **error)
{
    ipb_autofd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        ipb_error_set_errno(error, errno, "cannot open the lock file %s", path);
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return ipb_fd_steal(&fd);
    int result = errno;
    int locked = -1;
    if (result == EWOULDBLOCK)
        result = wait_for_lock(ipb_fd_steal(&fd), timeout_ms, &locked);
    if (result == ETIMEDOUT)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "another process has held %s for %u s: try again when it has ended", path,
                    timeout_ms / 1000);
    else if (result != 0)
        ipb_error_set_errno(error, result, "cannot lock %s", path);
    return locked;
}
