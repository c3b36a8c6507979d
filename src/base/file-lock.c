/* SPDX-License-Identifier: Apache-2.0
 *
 * flock with a timeout. The system has none, so a thread waits for the lock. If that takes too
 * long, the caller gives up and the thread ends as soon as it gets the lock, which it releases.
 */
#include "base/file-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/file.h>

#include "base/error.h"
#include "base/thread.h"

typedef struct {
    int references; /* of the caller and the thread */
    int fd;
    int signal_fd; /* closed when the thread has ended; -1: none */
    GMutex mutex;
    GCond is_decided;
    bool is_done; /* the thread has ended */
    int result;   /* errno */
} Wait;

static void
unref_wait(Wait *wait)
{
    if (!g_atomic_int_dec_and_test(&wait->references))
        return;
    ipb_fd_close(&wait->fd);
    ipb_fd_close(&wait->signal_fd);
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
    ipb_fd_close(&wait->signal_fd);
    g_mutex_unlock(&wait->mutex);
    unref_wait(wait);
    return NULL;
}

static bool
start_thread(Wait *wait)
{
    GThread *thread = ipb_thread_start("ipybox lock", run_wait, wait);
    if (thread != NULL)
        g_thread_unref(thread);
    return thread != NULL;
}

/* Takes both fds. Returns NULL if no thread can be started. */
static Wait *
start_wait(int fd, int signal_fd)
{
    Wait *wait = g_new0(Wait, 1);
    wait->references = 2;
    wait->fd = fd;
    wait->signal_fd = signal_fd;
    g_mutex_init(&wait->mutex);
    g_cond_init(&wait->is_decided);
    if (start_thread(wait))
        return wait;
    wait->references = 1;
    unref_wait(wait);
    return NULL;
}

/* Takes @fd. Returns 0, an errno, or ETIMEDOUT. */
static int
wait_for_lock(int fd, unsigned timeout_ms, int *ret_fd)
{
    gint64 deadline = g_get_monotonic_time() + (gint64) timeout_ms * 1000;
    Wait *wait = start_wait(fd, -1);
    if (wait == NULL)
        return EAGAIN;
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

static int
open_lock(const char *path, GError **error)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        ipb_error_set_errno(error, errno, "cannot open the lock file %s", path);
    return fd;
}

static void
set_lock_error(GError **error, int result, const char *path, unsigned timeout_ms)
{
    if (result == ETIMEDOUT)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "another process has held %s for %u s: try again when it has ended", path,
                    timeout_ms / 1000);
    else
        ipb_error_set_errno(error, result, "cannot lock %s", path);
}

int
ipb_file_lock(const char *path, unsigned timeout_ms, GError **error)
{
    ipb_autofd fd = open_lock(path, error);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return ipb_fd_steal(&fd);
    int result = errno;
    int locked = -1;
    if (result == EWOULDBLOCK)
        result = wait_for_lock(ipb_fd_steal(&fd), timeout_ms, &locked);
    if (result != 0)
        set_lock_error(error, result, path, timeout_ms);
    return locked;
}

/* --- On the loop ------------------------------------------------------------------------------ */

struct IpbFileLockWait {
    IpbFileLockFunc func;
    void *data;
    char *path;
    unsigned timeout_ms;
    int fd; /* locked; -1: not yet */
    GError *error;
    Wait *thread; /* NULL: there is none */
    int signal_fd;
    IpbWatch *watch;
    IpbTimer *timer; /* reports the result, or the timeout */
};

void
ipb_file_lock_wait_cancel(IpbFileLockWait *wait)
{
    if (wait == NULL)
        return;
    ipb_watch_free(wait->watch);
    ipb_timer_free(wait->timer);
    ipb_fd_close(&wait->signal_fd);
    ipb_fd_close(&wait->fd);
    if (wait->thread != NULL)
        unref_wait(wait->thread);
    g_clear_error(&wait->error);
    g_free(wait->path);
    g_free(wait);
}

static void
answer(IpbFileLockWait *wait)
{
    IpbFileLockFunc func = wait->func;
    void *data = wait->data;
    int fd = ipb_fd_steal(&wait->fd);
    g_autoptr(GError) error = g_steal_pointer(&wait->error);
    ipb_file_lock_wait_cancel(wait);
    func(fd, error, data);
}

static void
on_answer_due(void *data)
{
    answer(data);
}

static void
on_timeout(void *data)
{
    IpbFileLockWait *wait = data;
    set_lock_error(&wait->error, ETIMEDOUT, wait->path, wait->timeout_ms);
    answer(wait);
}

static void
on_thread_done(uint32_t events, void *data)
{
    IpbFileLockWait *wait = data;
    g_mutex_lock(&wait->thread->mutex);
    int result = wait->thread->result;
    if (result == 0)
        wait->fd = ipb_fd_steal(&wait->thread->fd);
    g_mutex_unlock(&wait->thread->mutex);
    if (result != 0)
        set_lock_error(&wait->error, result, wait->path, wait->timeout_ms);
    answer(wait);
}

/* Waits in a thread for the lock on @fd, which it takes. */
static bool
wait_in_thread(IpbFileLockWait *wait, IpbLoop *loop, int fd, GError **error)
{
    int pipe_fds[2];
    ipb_autofd lock = fd;
    if (!ipb_fd_pipe(pipe_fds, error))
        return false;
    wait->signal_fd = pipe_fds[0];
    ipb_autofd writer = pipe_fds[1];
    wait->watch = ipb_watch_new(loop, wait->signal_fd, EPOLLIN, on_thread_done, wait, error);
    if (wait->watch == NULL)
        return false;
    wait->thread = start_wait(ipb_fd_steal(&lock), ipb_fd_steal(&writer));
    if (wait->thread == NULL)
        return ipb_error_set_errno(error, EAGAIN, "cannot start a thread");
    wait->timer = ipb_timer_new(loop, wait->timeout_ms, on_timeout, wait);
    return true;
}

IpbFileLockWait *
ipb_file_lock_wait(IpbLoop *loop, const char *path, unsigned timeout_ms, IpbFileLockFunc func,
                   void *data)
{
    IpbFileLockWait *wait = g_new0(IpbFileLockWait, 1);
    wait->func = func;
    wait->data = data;
    wait->path = g_strdup(path);
    wait->timeout_ms = timeout_ms;
    wait->signal_fd = -1;
    wait->fd = open_lock(path, &wait->error);
    bool is_taken = wait->fd >= 0 && flock(wait->fd, LOCK_EX | LOCK_NB) < 0;
    if (is_taken && errno != EWOULDBLOCK) {
        set_lock_error(&wait->error, errno, path, timeout_ms);
        ipb_fd_close(&wait->fd);
    } else if (is_taken && wait_in_thread(wait, loop, ipb_fd_steal(&wait->fd), &wait->error)) {
        return wait;
    }
    g_clear_pointer(&wait->watch, ipb_watch_free);
    wait->timer = ipb_timer_new(loop, 0, on_answer_due, wait);
    return wait;
}
