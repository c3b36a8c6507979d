/* SPDX-License-Identifier: Apache-2.0
 *
 * Freeing waits for the thread for a short time only, since a call may block it. Both sides share
 * the state in Shared; the last of the two frees it. The thread reports denials to the loop through
 * a pipe.
 */
#include "sandbox/linux/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/error.h"
#include "base/fd.h"
#include "sandbox/linux/file-calls.h"
#include "sandbox/linux/names-lock.h"
#include "sandbox/linux/unix-connect.h"

#define MAX_WAITS 64
/* Interval of retries if the queue of a listener is full. */
#define RETRY_MS 2
/* Likewise, if the other end of a FIFO is missing. */
#define RETRY_FIFO_MS 5
/* Callers that did not call for so long are forgotten. */
#define IDLE_MS 1000
#define FREE_TIMEOUT_MS 50
#define N_FREE_FDS 12
#define STACK_BYTES ((size_t) 256 << 10)

G_STATIC_ASSERT(sizeof(IpbDenialRecord) <= PIPE_BUF);

typedef struct {
    bool is_fifo;
    IpbFifoWait fifo;
    IpbConnectWait connect;
} Wait;

typedef struct {
    int references; /* atomic */
    int notify_fd, wake_read, denied_write;
    IpbSandboxPlan *plan;
    IpbSandboxUser user;
    IpbUnixConnect connect;
    /* used by the thread only */
    IpbFileCalls calls;
    Wait waits[MAX_WAITS];
    size_t n_waits;
} Shared;

struct IpbSupervisor {
    Shared *shared;
    pthread_t thread;
    int wake_write, denied_read;
    IpbWatch *watch;
    void (*on_denied)(const IpbSandboxDenial *denial, void *data);
    void (*on_ended)(IpbSupervisor *supervisor, void *data);
    void *data;
};

static void
shared_unref(Shared *shared)
{
    if (!g_atomic_int_dec_and_test(&shared->references))
        return;
    ipb_fd_close(&shared->notify_fd);
    ipb_fd_close(&shared->wake_read);
    ipb_fd_close(&shared->denied_write);
    ipb_unix_sockets_clear(&shared->connect.sockets);
    ipb_sandbox_plan_unref(shared->plan);
    ipb_names_lock_close();
    g_free(shared);
}

/* --- denials ---------------------------------------------------------------------------------- */

/* If the pipe is full, the report is lost. The caller gets its error in any case. */
static void
on_denied_name(const IpbDenialRecord *record, void *data)
{
    const Shared *shared = data;
    (void) !write(shared->denied_write, record, sizeof *record);
}

static void
on_denied_socket(const IpbCaller *caller, const char *path, void *data)
{
    IpbDenialRecord record = {
        .denial = {.kind = IPB_DENIED_SOCKET, .pid = caller->inner_group},
    };
    char name[IPB_CALLER_NAME_SIZE];
    ipb_caller_name(caller, name);
    g_strlcpy(record.denial.process, name, sizeof record.denial.process);
    g_strlcpy(record.path, path, sizeof record.path);
    on_denied_name(&record, data);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* The working directory and the umask become this thread's own. */
static bool
detach_from_process(void)
{
    if (syscall(SYS_unshare, CLONE_FS) < 0 || chdir("/") < 0)
        return false;
    umask(0);
    return true;
}

/* The calls of the C library would change all threads. If the plan names sockets, the permitted
 * capabilities stay, since those are connected with our own rights. */
static bool
give_up_rights(const Shared *shared)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &header, sets) < 0)
        return false;
    sets[0].effective &=
        1u << CAP_SYS_PTRACE | 1u << CAP_KILL | 1u << CAP_SETUID | 1u << CAP_SETGID;
    sets[1].effective = 0;
    if (shared->connect.sockets.allowed[0] == NULL) {
        sets[0].permitted &= sets[0].effective;
        sets[1].permitted = 0;
    }
    if (shared->connect.has_outer_user && syscall(SYS_setgroups, 0, NULL) < 0)
        return false;
    if (!ipb_unix_connect_become_outer_user(&shared->connect)) {
        errno = EPERM;
        return false;
    }
    header.pid = 0;
    return syscall(SYS_capset, &header, sets) == 0;
}

/* Returns false if no process is left inside. */
static bool
serve(Shared *shared)
{
    IpbNotification notification;
    switch (ipb_notification_receive(shared->notify_fd, &notification)) {
    case IPB_NOTIFICATION_NONE:
        return true;
    case IPB_NOTIFICATION_ENDED:
        return false;
    case IPB_NOTIFICATION_RECEIVED:
        break;
    }
    Wait wait = {.is_fifo = true};
    bool waits = false;
    switch (ipb_file_calls_perform(&shared->calls, &notification, &wait.fifo)) {
    case IPB_FILE_CALL_ANSWERED:
        break;
    case IPB_FILE_CALL_WAITS:
        waits = true;
        break;
    case IPB_FILE_CALL_OTHER: /* connect(): the filter asks about nothing else */
        wait.is_fifo = false;
        waits = ipb_unix_connect_perform(&shared->connect, &shared->calls.callers, &notification,
                                         &wait.connect);
        break;
    }
    if (waits && shared->n_waits < MAX_WAITS)
        shared->waits[shared->n_waits++] = wait;
    else if (waits && wait.is_fifo)
        ipb_fifo_wait_end(&wait.fifo, EAGAIN);
    else if (waits)
        ipb_connect_wait_end(&wait.connect, EAGAIN);
    return true;
}

static void
go_on_with_all(Shared *shared, const struct pollfd *fds)
{
    size_t n = shared->n_waits, kept = 0;
    for (size_t i = 0; i < n; i++) {
        Wait wait = shared->waits[i];
        bool is_done = wait.is_fifo
                           ? ipb_fifo_wait_go_on(&shared->calls, &wait.fifo)
                           : ipb_connect_wait_go_on(&shared->connect, &shared->calls.callers,
                                                    &wait.connect, fds[i].revents != 0);
        if (!is_done)
            shared->waits[kept++] = wait;
    }
    shared->n_waits = kept;
}

/* Returns what poll() may report, or -1: an answer of the network, or a writer of a FIFO (but not
 * each one). */
static int
fd_of(const Wait *wait)
{
    if (wait->is_fifo)
        return wait->fifo.writer_flags < 0 ? wait->fifo.fd : -1;
    return wait->connect.target < 0 ? wait->connect.copy : -1;
}

/* Returns how long to sleep: without limit, unless something has to be done again. */
static int
next_timeout(const Shared *shared)
{
    int timeout_ms = shared->calls.callers.n > 0 || shared->n_waits > 0 ? IDLE_MS : -1;
    for (size_t i = 0; i < shared->n_waits; i++) {
        const Wait *wait = &shared->waits[i];
        if (!wait->is_fifo && wait->connect.target >= 0)
            return RETRY_MS;
        if (wait->is_fifo)
            timeout_ms = RETRY_FIFO_MS;
    }
    return timeout_ms;
}

static void
serve_until_end(Shared *shared)
{
    struct pollfd fds[2 + MAX_WAITS];
    for (;;) {
        fds[0] = (struct pollfd){.fd = shared->wake_read, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = shared->notify_fd, .events = POLLIN};
        for (size_t i = 0; i < shared->n_waits; i++) {
            const Wait *wait = &shared->waits[i];
            fds[2 + i] = (struct pollfd){
                .fd = fd_of(wait),
                .events = wait->is_fifo ? POLLIN : POLLOUT,
            };
        }
        int n = poll(fds, 2 + shared->n_waits, next_timeout(shared));
        if ((n < 0 && errno != EINTR) || fds[0].revents != 0)
            return;
        if (n == 0 && shared->n_waits == 0)
            ipb_callers_clear(&shared->calls.callers);
        go_on_with_all(shared, fds + 2);
        if (n > 0 && ((fds[1].revents & POLLIN) != 0 ? !serve(shared) : fds[1].revents != 0))
            return;
    }
}

/* First tells the owner, through the pipe, whether it is ready: 0 or an errno. */
static void *
run_thread(void *data)
{
    Shared *shared = data;
    int failure = detach_from_process() && give_up_rights(shared) ? 0 : errno;
    (void) !write(shared->denied_write, &failure, sizeof failure);
    if (failure == 0)
        serve_until_end(shared);
    for (size_t i = 0; i < shared->n_waits; i++) {
        if (shared->waits[i].is_fifo)
            ipb_fifo_wait_end(&shared->waits[i].fifo, EINTR);
        else
            ipb_connect_wait_end(&shared->waits[i].connect, EINTR);
    }
    ipb_callers_clear(&shared->calls.callers);
    /* Close these now, not with the last reference: later calls get ENOSYS, and the owner learns of
     * the end. */
    ipb_fd_close(&shared->notify_fd);
    ipb_fd_close(&shared->denied_write);
    shared_unref(shared);
    return NULL;
}

/* --- the owner's side ------------------------------------------------------------------------- */

/* Reports one. Returns what read() did. */
static ssize_t
report_denial(IpbSupervisor *supervisor)
{
    IpbDenialRecord record;
    ssize_t n = read(supervisor->denied_read, &record, sizeof record);
    if (n == (ssize_t) sizeof record && supervisor->on_denied != NULL) {
        record.denial.path = record.path;
        supervisor->on_denied(&record.denial, supervisor->data);
    }
    return n;
}

void
ipb_supervisor_report_denials(IpbSupervisor *supervisor)
{
    /* Not until the pipe is empty: code inside could fill it for ever. */
    int size = 0;
    ioctl(supervisor->denied_read, FIONREAD, &size);
    for (; size >= (int) sizeof(IpbDenialRecord); size -= (int) sizeof(IpbDenialRecord))
        report_denial(supervisor);
}

static void
on_denials(uint32_t events, void *data)
{
    IpbSupervisor *supervisor = data;
    /* All that are there, because the thread makes them faster than the loop turns. */
    ipb_supervisor_report_denials(supervisor);
    if (report_denial(supervisor) == 0) { /* the thread has ended */
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
    return ipb_fd_set_nonblocking(denied[1], true, error);
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
    if (result != 0) {
        supervisor->thread = 0;
        return result;
    }
    int failure = EIO;
    ssize_t n;
    do
        n = read(supervisor->denied_read, &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t) sizeof failure ? failure : EIO;
}

static void
set_up(Shared *shared, const IpbSupervisorOptions *options)
{
    const IpbSandboxUser *user = &options->user;
    ipb_names_lock_open();
    shared->plan = ipb_sandbox_plan_ref((IpbSandboxPlan *) options->plan);
    shared->user = *user;
    shared->connect.has_outer_user = user->outer_uid != geteuid();
    shared->connect.uid = user->outer_uid;
    shared->connect.gid = user->outer_gid;
    shared->connect.on_denied = on_denied_socket;
    shared->connect.data = shared;
    shared->calls = (IpbFileCalls){
        .callers = IPB_CALLERS_INIT,
        .guard = {.plan = shared->plan, .on_denied = on_denied_name, .data = shared},
        .inner_uid = user->inner_uid,
        .inner_gid = user->inner_gid,
        .outer_uid = user->outer_uid,
        .outer_gid = user->outer_gid,
        .max_file_bytes = options->plan->limits.file_bytes,
        .are_sockets_confined = options->are_sockets_confined,
    };
}

/* The thread needs some for each call. Without them, programs inside would fail in odd ways. */
static bool
check_free_fds(int any, GError **error)
{
    int fds[N_FREE_FDS];
    size_t n = 0;
    while (n < N_FREE_FDS && (fds[n] = ipb_fd_duplicate(any, 0)) >= 0)
        n++;
    bool ok = n == N_FREE_FDS || ipb_error_set_errno(error, errno, "cannot judge files");
    while (n > 0)
        ipb_fd_close(&fds[--n]);
    return ok;
}

static bool
start(IpbSupervisor *supervisor, IpbLoop *loop, const IpbSupervisorOptions *options, GError **error)
{
    Shared *shared = supervisor->shared;
    set_up(shared, options);
    if (!open_pipes(supervisor, error) ||
        !ipb_unix_sockets_init(&shared->connect.sockets, options->diag_fd,
                               options->plan->unix_sockets, options->own_directories, error))
        return false;
    ipb_notification_share_processor(shared->notify_fd);
    if (!check_free_fds(shared->wake_read, error))
        return false;
    int result = start_thread(supervisor);
    if (result != 0)
        return ipb_error_set_errno(error, result,
                                   "cannot start the thread that judges files in the sandbox");
    if (!ipb_fd_set_nonblocking(supervisor->denied_read, true, error))
        return false;
    supervisor->watch =
        ipb_watch_new(loop, supervisor->denied_read, EPOLLIN, on_denials, supervisor, error);
    return supervisor->watch != NULL;
}

IpbSupervisor *
ipb_supervisor_new(IpbLoop *loop, const IpbSupervisorOptions *options, GError **error)
{
    IpbSupervisor *supervisor = g_new0(IpbSupervisor, 1);
    supervisor->shared = g_new0(Shared, 1);
    supervisor->shared->references = 1;
    supervisor->shared->notify_fd = options->notify_fd;
    supervisor->shared->wake_read = supervisor->shared->denied_write = -1;
    supervisor->shared->connect.sockets.diag_fd = -1;
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
        /* A thread that a call blocks ends when the call ends. */
        if (pthread_timedjoin_np(supervisor->thread, NULL, &until) != 0)
            pthread_detach(supervisor->thread);
    }
    shared_unref(supervisor->shared);
    g_free(supervisor);
}
