/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy of a descriptor shares its flags with the original. So code inside can make a connect()
 * here block, after it was made non-blocking. That is why the supervisor has a thread, and why
 * freeing waits for the thread for a short time only. Both sides share the state in Shared; the
 * last of the two frees it. The thread reports denials to the loop through a pipe.
 */
#include "sandbox/linux/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/seccomp.h>

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/linux/caller.h"
#include "sandbox/linux/unix-sockets.h"

#define MAX_PENDING 64
/* Interval and maximum time of retries if the queue of a listener is full. */
#define RETRY_MS 2
#define CONNECT_TIMEOUT_MS 60000
#define FREE_TIMEOUT_MS 50
#define STACK_BYTES ((size_t) 256 << 10)
/* Larger than the struct of any kernel so far. */
#define MAX_NOTIFICATION 256

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

typedef struct {
    char path[sizeof(((struct sockaddr_un *) NULL)->sun_path) + 1];
} Denial;

/* A connect() that has not been answered yet. */
typedef struct {
    uint64_t id; /* of the notification */
    int copy;    /* owned: the caller's socket */
    int target;  /* owned: O_PATH of a socket file whose queue was full; -1: the network answers */
    bool is_named;
    int64_t deadline_us;
} Pending;

typedef struct {
    int references; /* atomic */
    int notify_fd, wake_read, denied_write;
    IpbUnixSockets sockets;
    bool has_outer_user;
    uint32_t uid, gid;
    Pending pending[MAX_PENDING]; /* used by the thread only */
    size_t n_pending;
} Shared;

struct IpbSupervisor {
    Shared *shared;
    pthread_t thread;
    int wake_write, denied_read;
    IpbWatch *watch;
    void (*on_denied)(const char *path, void *data);
    void (*on_ended)(IpbSupervisor *supervisor, void *data);
    void *data;
};

static void
shared_unref(Shared *shared)
{
    if (!g_atomic_int_dec_and_test(&shared->references))
        return;
    for (size_t i = 0; i < shared->n_pending; i++) {
        ipb_fd_close(&shared->pending[i].copy);
        ipb_fd_close(&shared->pending[i].target);
    }
    ipb_fd_close(&shared->notify_fd);
    ipb_fd_close(&shared->wake_read);
    ipb_fd_close(&shared->denied_write);
    ipb_unix_sockets_clear(&shared->sockets);
    g_free(shared);
}

/* --- whose rights count ----------------------------------------------------------------------- */

/* Changes this thread only, since it makes system calls instead of calling the C library's
 * wrappers. Root loses the right to enter every directory. */
static void
set_file_system_user(uint32_t uid, uint32_t gid)
{
    syscall(SYS_setfsgid, gid);
    syscall(SYS_setfsuid, uid);
}

static void
become_outer_user(const Shared *shared)
{
    if (shared->has_outer_user)
        set_file_system_user(shared->uid, shared->gid);
}

static void
become_ourselves(const Shared *shared)
{
    if (shared->has_outer_user)
        set_file_system_user(geteuid(), getegid());
}

/* --- answering -------------------------------------------------------------------------------- */

static void
answer(const Shared *shared, uint64_t id, int errno_value)
{
    struct seccomp_notif_resp response = {.id = id, .error = -errno_value};
    /* ENOENT: the caller was killed in the meantime. */
    ioctl(shared->notify_fd, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static bool
is_still_waiting(const Shared *shared, uint64_t id)
{
    return ioctl(shared->notify_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static void
tell_denial(const Shared *shared, const char *path)
{
    Denial denial = {0};
    g_strlcpy(denial.path, path, sizeof denial.path);
    /* If the pipe is full, the report is lost. The caller gets its error in any case. */
    (void) !write(shared->denied_write, &denial, sizeof denial);
}

/* --- connecting ------------------------------------------------------------------------------- */

/* Connects without waiting. *ret_was_blocking: the caller would wait. Returns 0 or an errno. */
static int
try_connect(int copy, const struct sockaddr *address, socklen_t size, bool *ret_was_blocking)
{
    int flags = fcntl(copy, F_GETFL);
    if (flags < 0)
        return errno;
    *ret_was_blocking = (flags & O_NONBLOCK) == 0;
    if (*ret_was_blocking)
        fcntl(copy, F_SETFL, flags | O_NONBLOCK);
    int result = connect(copy, address, size) == 0 ? 0 : errno;
    if (*ret_was_blocking)
        fcntl(copy, F_SETFL, flags);
    return result;
}

static int
connect_to_file(const Shared *shared, int copy, int target, bool is_named, bool *ret_was_blocking)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    g_snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", target);
    /* Sockets that the plan names are connected with our own rights: a user who has them asked for
     * it. */
    if (!is_named)
        become_outer_user(shared);
    int result = try_connect(copy, (struct sockaddr *) &address, sizeof address, ret_was_blocking);
    become_ourselves(shared);
    return result;
}

/* Takes both fds. */
static void
wait_for(Shared *shared, uint64_t id, int copy, int target, bool is_named)
{
    if (shared->n_pending == MAX_PENDING) {
        answer(shared, id, EAGAIN);
        ipb_fd_close(&copy);
        ipb_fd_close(&target);
        return;
    }
    shared->pending[shared->n_pending++] = (Pending){
        id, copy, target, is_named, g_get_monotonic_time() + CONNECT_TIMEOUT_MS * INT64_C(1000)};
}

/* Connects to a socket of the sandbox's network, or to an abstract one, which belongs to that
 * network, too. So it cannot be the host's. If the sandbox has no network of its own, all names are
 * the host's. A socket that was handed in belongs to the network where it was created. */
static void
connect_as_is(Shared *shared, uint64_t id, int *copy, const void *address, socklen_t size)
{
    bool was_blocking = false;
    if (!ipb_unix_sockets_are_inside(&shared->sockets, *copy)) {
        answer(shared, id, EACCES);
        return;
    }
    int result = try_connect(*copy, address, size, &was_blocking);
    if (result == EINPROGRESS && was_blocking)
        wait_for(shared, id, ipb_fd_steal(copy), -1, false);
    else
        answer(shared, id, result);
}

static void
connect_by_path(Shared *shared, IpbCaller *caller, uint64_t id, int *copy, const char *path)
{
    become_outer_user(shared);
    ipb_autofd target = ipb_caller_find(caller, path);
    int saved = errno;
    become_ourselves(shared);
    struct stat info;
    if (target < 0 || fstat(target, &info) < 0) {
        /* A magic link, or too many links: report it as denied. */
        answer(shared, id, saved == EXDEV || saved == ELOOP ? EACCES : saved);
        return;
    }
    IpbUnixVerdict verdict =
        S_ISSOCK(info.st_mode)
            ? ipb_unix_sockets_judge(&shared->sockets, ipb_caller_root(caller), &info)
            : IPB_UNIX_OWN; /* the kernel reports what is wrong with it */
    if (verdict == IPB_UNIX_DENIED || !is_still_waiting(shared, id)) {
        tell_denial(shared, path);
        answer(shared, id, EACCES);
        return;
    }
    bool was_blocking = false, is_named = verdict == IPB_UNIX_NAMED;
    int result = connect_to_file(shared, *copy, target, is_named, &was_blocking);
    if (result == EAGAIN && was_blocking)
        wait_for(shared, id, ipb_fd_steal(copy), ipb_fd_steal(&target), is_named);
    else
        answer(shared, id, result);
}

static void
connect_unix(Shared *shared, IpbCaller *caller, uint64_t id, int *copy, const uint8_t *bytes,
             size_t size)
{
    struct sockaddr_un address = {0};
    if (size < offsetof(struct sockaddr_un, sun_path) || size > sizeof address) {
        answer(shared, id, EINVAL);
        return;
    }
    memcpy(&address, bytes, size);
    size_t path_size = size - offsetof(struct sockaddr_un, sun_path);
    if (address.sun_family != AF_UNIX) {
        answer(shared, id, EINVAL);
    } else if (path_size > 0 && address.sun_path[0] != '\0') {
        g_autofree char *path = g_strndup(address.sun_path, path_size);
        connect_by_path(shared, caller, id, copy, path);
    } else {
        connect_as_is(shared, id, copy, &address, (socklen_t) size);
    }
}

/* The caller is open, and everything was taken from it. Then check that it is still the one that
 * asked. */
static void
connect_for(Shared *shared, IpbCaller *caller, const struct seccomp_notif *request)
{
    uint8_t bytes[IPB_CALLER_MAX_ADDRESS];
    size_t size = request->data.args[2] & UINT32_MAX;
    ipb_autofd copy = ipb_caller_copy_fd(caller, (int) request->data.args[0]);
    int error = 0;
    if (copy < 0)
        error = errno;
    else if (size > sizeof bytes)
        error = EINVAL;
    else if (!ipb_caller_read(caller, request->data.args[1], bytes, size))
        error = EFAULT;
    if (!is_still_waiting(shared, request->id))
        return;
    int domain = AF_UNSPEC;
    socklen_t domain_size = sizeof domain;
    if (error == 0 && getsockopt(copy, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) < 0)
        error = errno;
    if (error != 0)
        answer(shared, request->id, error);
    else if (domain == AF_UNIX)
        connect_unix(shared, caller, request->id, &copy, bytes, size);
    else
        connect_as_is(shared, request->id, &copy, bytes, (socklen_t) size);
}

/* Returns false if no process is left inside. */
static bool
serve(Shared *shared)
{
    union {
        struct seccomp_notif request;
        char space[MAX_NOTIFICATION];
    } room = {0};
    if (ioctl(shared->notify_fd, SECCOMP_IOCTL_NOTIF_RECV, &room.request) < 0)
        return errno == EINTR || errno == EAGAIN || errno == ENOENT;
    IpbCaller caller;
    if (!ipb_caller_open(&caller, (pid_t) room.request.pid)) {
        answer(shared, room.request.id, EACCES);
        return true;
    }
    connect_for(shared, &caller, &room.request);
    ipb_caller_clear(&caller);
    return true;
}

/* --- connects under way ----------------------------------------------------------------------- */

/* Returns true if it has ended and was answered. */
static bool
go_on(const Shared *shared, Pending *pending, bool is_ready)
{
    int result = EAGAIN;
    bool was_blocking = false;
    socklen_t size = sizeof result;
    if (pending->target >= 0)
        result = connect_to_file(shared, pending->copy, pending->target, pending->is_named,
                                 &was_blocking);
    else if (is_ready && getsockopt(pending->copy, SOL_SOCKET, SO_ERROR, &result, &size) < 0)
        result = errno;
    if (result == EAGAIN && g_get_monotonic_time() > pending->deadline_us)
        result = ETIMEDOUT;
    /* EAGAIN: neither ready nor too late. Is the caller still waiting? */
    if (result == EAGAIN && is_still_waiting(shared, pending->id))
        return false;
    answer(shared, pending->id, result);
    ipb_fd_close(&pending->copy);
    ipb_fd_close(&pending->target);
    return true;
}

static void
go_on_with_all(Shared *shared, const struct pollfd *fds)
{
    size_t n = shared->n_pending, kept = 0;
    for (size_t i = 0; i < n; i++) {
        Pending pending = shared->pending[i];
        if (!go_on(shared, &pending, fds[i].revents != 0))
            shared->pending[kept++] = pending;
    }
    shared->n_pending = kept;
}

/* Returns how long to sleep: without limit, unless something has to be tried again. */
static int
next_timeout(const Shared *shared)
{
    int timeout_ms = -1;
    for (size_t i = 0; i < shared->n_pending; i++) {
        if (shared->pending[i].target >= 0)
            return RETRY_MS;
        timeout_ms = 1000;
    }
    return timeout_ms;
}

static void *
run_thread(void *data)
{
    Shared *shared = data;
    struct pollfd fds[2 + MAX_PENDING];
    for (;;) {
        fds[0] = (struct pollfd){.fd = shared->wake_read, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = shared->notify_fd, .events = POLLIN};
        for (size_t i = 0; i < shared->n_pending; i++)
            fds[2 + i] = (struct pollfd){
                .fd = shared->pending[i].target < 0 ? shared->pending[i].copy : -1,
                .events = POLLOUT,
            };
        if (poll(fds, 2 + shared->n_pending, next_timeout(shared)) < 0 && errno != EINTR)
            break;
        if (fds[0].revents != 0)
            break;
        go_on_with_all(shared, fds + 2);
        if ((fds[1].revents & POLLIN) != 0 ? !serve(shared) : fds[1].revents != 0)
            break;
    }
    /* Close it now, not with the last reference: later calls get ENOSYS. */
    ipb_fd_close(&shared->notify_fd);
    shared_unref(shared);
    return NULL;
}

/* --- the owner's side ------------------------------------------------------------------------- */

static void
on_denials(uint32_t events, void *data)
{
    IpbSupervisor *supervisor = data;
    Denial denial;
    ssize_t n = read(supervisor->denied_read, &denial, sizeof denial);
    if (n == (ssize_t) sizeof denial && supervisor->on_denied != NULL) {
        supervisor->on_denied(denial.path, supervisor->data);
    } else if (n == 0) { /* the thread has ended */
        ipb_watch_set_events(supervisor->watch, 0);
        if (supervisor->on_ended != NULL)
            supervisor->on_ended(supervisor, supervisor->data); /* may free it */
    }
}

static bool
open_pipes(IpbSupervisor *supervisor, GError **error)
{
    int wake[2], denied[2];
    if (!ipb_fd_pipe(wake, error))
        return false;
    supervisor->shared->wake_read = wake[0];
    supervisor->wake_write = wake[1];
    if (!ipb_fd_pipe(denied, error))
        return false;
    supervisor->denied_read = denied[0];
    supervisor->shared->denied_write = denied[1];
    return ipb_fd_set_nonblocking(denied[0], true, error) &&
           ipb_fd_set_nonblocking(denied[1], true, error);
}

static int
start_thread(IpbSupervisor *supervisor)
{
    pthread_attr_t attributes;
    sigset_t all, old;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    /* The application's signal handlers run in its own threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    g_atomic_int_inc(&supervisor->shared->references);
    int result = pthread_create(&supervisor->thread, &attributes, run_thread, supervisor->shared);
    if (result != 0)
        shared_unref(supervisor->shared);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return result;
}

static bool
start(IpbSupervisor *supervisor, IpbLoop *loop, const IpbSupervisorOptions *options, GError **error)
{
    Shared *shared = supervisor->shared;
    if (!open_pipes(supervisor, error) ||
        !ipb_unix_sockets_init(&shared->sockets, options->diag_fd, options->unix_sockets,
                               options->own_directories, error))
        return false;
    shared->has_outer_user = options->uid != geteuid();
    shared->uid = options->uid;
    shared->gid = options->gid;
    /* Linux 6.6: the caller and this thread share a processor while one waits for the other. That
     * halves the time. */
    ioctl(shared->notify_fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    supervisor->watch =
        ipb_watch_new(loop, supervisor->denied_read, EPOLLIN, on_denials, supervisor, error);
    if (supervisor->watch == NULL)
        return false;
    int result = start_thread(supervisor);
    if (result != 0)
        return ipb_error_set_errno(error, result, "cannot start a thread");
    return true;
}

IpbSupervisor *
ipb_supervisor_new(IpbLoop *loop, const IpbSupervisorOptions *options, GError **error)
{
    IpbSupervisor *supervisor = g_new0(IpbSupervisor, 1);
    supervisor->shared = g_new0(Shared, 1);
    *supervisor->shared = (Shared){
        .references = 1, .notify_fd = options->notify_fd, .wake_read = -1, .denied_write = -1};
    supervisor->shared->sockets.diag_fd = -1;
    supervisor->wake_write = supervisor->denied_read = -1;
    supervisor->on_denied = options->on_denied;
    supervisor->on_ended = options->on_ended;
    supervisor->data = options->data;
    if (start(supervisor, loop, options, error))
        return supervisor;
    ipb_supervisor_free(supervisor);
    return NULL;
}

void
ipb_supervisor_free(IpbSupervisor *supervisor)
{
    if (supervisor == NULL)
        return;
    g_clear_pointer(&supervisor->watch, ipb_watch_free);
    ipb_fd_close(&supervisor->wake_write); /* ends the thread */
    ipb_fd_close(&supervisor->denied_read);
    if (supervisor->thread != 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += FREE_TIMEOUT_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        /* A thread that code inside has blocked ends when its call ends. */
        if (pthread_timedjoin_np(supervisor->thread, NULL, &until) != 0)
            pthread_detach(supervisor->thread);
    }
    shared_unref(supervisor->shared);
    g_free(supervisor);
}
