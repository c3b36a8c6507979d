/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks: kernels asked of the forkserver. A fork is WAITING (to be asked for), ASKED, RUNNING, and ENDED
 * when its last callback was called. Its owner may free it at any time; if the forkserver knows of it by
 * then, it stays in the table without an owner until its end was told.
 *
 * Owners' callbacks may make, kill and free forks and drop references, so lists are never walked over
 * them: the ids are collected, and each is looked up again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fd.h"
#include "kernel/forkserver-private.h"
#include "kernel/orphans.h"

/* Forks that wait to be asked for. */
#define MAX_WAITING 10000
#define N_SANDBOX_FDS 3

typedef enum { FORK_WAITING, FORK_ASKED, FORK_RUNNING, FORK_ENDED } ForkState;

struct IpbFork {
    IpbForkserver *forkserver; /* a reference while the fork has an owner */
    bool has_owner;
    int64_t id;
    ForkState state;
    GError *error; /* it failed, and on_forked is due */
    IpbForkFunc on_forked;
    IpbForkExitFunc on_exit;
    void *data;
    int wire_fd, stdout_fd, stderr_fd; /* our ends, while ASKED */
    bool is_sandboxed;
    int sandbox_fds[N_SANDBOX_FDS]; /* of the sandbox, while WAITING */
};

static IpbFork *
find_fork(IpbForkserver *forkserver, int64_t id)
{
    return g_hash_table_lookup(forkserver->forks, &id);
}

static void
push_id(GQueue *queue, int64_t id)
{
    g_queue_push_tail(queue, g_memdup2(&id, sizeof id));
}

static void
close_sandbox_fds(IpbFork *fork)
{
    for (size_t i = 0; i < N_SANDBOX_FDS; i++)
        ipb_fd_close(&fork->sandbox_fds[i]);
}

/* Leaves the table; without an owner the memory goes, too. */
static void
end_fork(IpbFork *fork)
{
    if (fork->state != FORK_ENDED)
        g_hash_table_remove(fork->forkserver->forks, &fork->id);
    fork->state = FORK_ENDED;
    ipb_fd_close(&fork->wire_fd);
    ipb_fd_close(&fork->stdout_fd);
    ipb_fd_close(&fork->stderr_fd);
    close_sandbox_fds(fork);
    if (fork->has_owner)
        return;
    g_clear_error(&fork->error);
    g_free(fork);
}

static int
compare_ids(const void *a, const void *b)
{
    int64_t left = *(const int64_t *) a, right = *(const int64_t *) b;
    return (left > right) - (left < right);
}

/* The ids of all forks, the oldest first. */
static GArray *
collect_ids(IpbForkserver *forkserver)
{
    GArray *ids = g_array_new(FALSE, FALSE, sizeof(int64_t));
    GHashTableIter iter;
    void *key;
    for (g_hash_table_iter_init(&iter, forkserver->forks);
         g_hash_table_iter_next(&iter, &key, NULL);)
        g_array_append_val(ids, *(int64_t *) key);
    g_array_sort(ids, compare_ids);
    return ids;
}

static void
tell_failure(IpbFork *fork)
{
    g_autoptr(GError) error = g_steal_pointer(&fork->error);
    IpbForkFunc on_forked = fork->has_owner ? fork->on_forked : NULL;
    void *data = fork->data;
    end_fork(fork);
    if (on_forked != NULL)
        on_forked(NULL, error, data);
}

static void
on_failing_timer(void *data)
{
    IpbForkserver *forkserver = ipb_forkserver_ref(data);
    g_clear_pointer(&forkserver->failing_timer, ipb_timer_free);
    g_autoptr(GArray) ids = collect_ids(forkserver);
    for (guint i = 0; i < ids->len; i++) {
        IpbFork *fork = find_fork(forkserver, g_array_index(ids, int64_t, i));
        if (fork != NULL && fork->error != NULL)
            tell_failure(fork);
    }
    ipb_forkserver_unref(forkserver);
}

/* on_forked will tell @error. */
static void
fail_fork(IpbFork *fork, const GError *error)
{
    IpbForkserver *forkserver = fork->forkserver;
    if (fork->error == NULL)
        fork->error = g_error_copy(error);
    if (forkserver->failing_timer == NULL)
        forkserver->failing_timer =
            ipb_timer_new(forkserver->loop, 0, on_failing_timer, forkserver);
}

void
ipb_forks_fail(IpbForkserver *forkserver, const GError *error)
{
    GHashTableIter iter;
    void *value;
    for (g_hash_table_iter_init(&iter, forkserver->forks);
         g_hash_table_iter_next(&iter, NULL, &value);) {
        IpbFork *fork = value;
        if (fork->state != FORK_RUNNING)
            fail_fork(fork, error);
    }
}

static void
tell_exit(IpbFork *fork, int wait_status, const char *cause)
{
    IpbForkExitFunc on_exit = fork->has_owner ? fork->on_exit : NULL;
    void *data = fork->data;
    end_fork(fork);
    if (on_exit != NULL)
        on_exit(wait_status, cause, data);
}

void
ipb_forks_lose(IpbForkserver *forkserver, const char *cause)
{
    g_autoptr(GArray) ids = collect_ids(forkserver);
    /* The kernels died with it (PR_SET_PDEATHSIG); what they had started did not. */
    ipb_orphans_kill((const int64_t *) (void *) ids->data, ids->len);
    for (guint i = 0; i < ids->len; i++) {
        IpbFork *fork = find_fork(forkserver, g_array_index(ids, int64_t, i));
        if (fork != NULL && fork->state == FORK_RUNNING)
            tell_exit(fork, SIGKILL, cause);
    }
}

static void
on_forked(IpbFork *fork, pid_t pid, int *pidfd)
{
    fork->state = FORK_RUNNING;
    if (fork->has_owner && *pidfd < 0) {
        /* It came with the packet, and there was no room for it. */
        ipb_fork_kill(fork);
        ipb_error_set_errno(&fork->error, EMFILE, "the kernel cannot be forked");
        tell_failure(fork);
        return;
    }
    if (!fork->has_owner) { /* its kill was asked for already */
        ipb_fd_close(&fork->wire_fd);
        ipb_fd_close(&fork->stdout_fd);
        ipb_fd_close(&fork->stderr_fd);
        return;
    }
    IpbForkedProcess process = {
        .id = fork->id,
        .pid = pid,
        .pidfd = ipb_fd_steal(pidfd),
        .wire_fd = ipb_fd_steal(&fork->wire_fd),
        .stdout_fd = ipb_fd_steal(&fork->stdout_fd),
        .stderr_fd = ipb_fd_steal(&fork->stderr_fd),
    };
    fork->on_forked(&process, NULL, fork->data);
}

static void
on_exited(IpbFork *fork, const IpbControlMessage *message)
{
    bool is_killed = WIFSIGNALED(message->wait_status) && WTERMSIG(message->wait_status) == SIGKILL;
    if (is_killed && fork->forkserver->state == IPB_FORKSERVER_STOPPING) {
        tell_exit(fork, message->wait_status, IPB_CAUSE_STOPPED);
        return;
    }
    g_autofree char *status = ipb_child_describe_status(message->wait_status);
    g_autofree char *cause = g_strconcat(
        status,
        is_killed && message->is_oom_kill ? ", probably by the system for want of memory" : "",
        NULL);
    tell_exit(fork, message->wait_status, cause);
}

void
ipb_forks_on_packet(IpbForkserver *forkserver, const IpbControlMessage *message, int *pidfd)
{
    IpbFork *fork = find_fork(forkserver, message->id);
    if (fork == NULL)
        return;
    if (message->op == IPB_CONTROL_FORKED && fork->state == FORK_ASKED) {
        on_forked(fork, (pid_t) message->pid, pidfd);
    } else if (message->op == IPB_CONTROL_FORK_FAILED && fork->state == FORK_ASKED) {
        g_autoptr(GError) error =
            g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "the kernel cannot be forked: %s",
                        message->error != NULL ? message->error : "no reason was given");
        fail_fork(fork, error);
    } else if (message->op == IPB_CONTROL_EXITED && fork->state == FORK_RUNNING) {
        on_exited(fork, message);
    }
}

/* Sends one packet; false when the socket is full (or dead: then its end of file tells). */
static bool
send_packet(IpbForkserver *forkserver, const char *packet, const int *fds, size_t n_fds)
{
    return ipb_fd_send(forkserver->control_fd, packet, strlen(packet), fds, n_fds) >= 0;
}

/* Makes the channels of the fork and sends the kernel's ends; false when the socket is full. */
static bool
ask_for(IpbFork *fork, GError **error)
{
    int wire[2], out[2], err[2];
    if (!ipb_fd_socketpair(SOCK_STREAM, wire, error))
        return false;
    ipb_autofd wire_ours = wire[0], wire_theirs = wire[1];
    if (!ipb_fd_pipe(out, error))
        return false;
    ipb_autofd out_ours = out[0], out_theirs = out[1];
    if (!ipb_fd_pipe(err, error))
        return false;
    ipb_autofd err_ours = err[0], err_theirs = err[1];
    if (!ipb_fd_set_nonblocking(wire_ours, true, error) ||
        !ipb_fd_set_nonblocking(out_ours, true, error) ||
        !ipb_fd_set_nonblocking(err_ours, true, error))
        return false;
    int theirs[3 + N_SANDBOX_FDS] = {wire_theirs, out_theirs, err_theirs};
    memcpy(theirs + 3, fork->sandbox_fds, sizeof fork->sandbox_fds);
    g_autofree char *packet = ipb_control_build_fork(fork->id, fork->is_sandboxed);
    if (!send_packet(fork->forkserver, packet, theirs, fork->is_sandboxed ? 3 + N_SANDBOX_FDS : 3))
        return errno == EAGAIN || errno == EPIPE || errno == ECONNRESET
                   ? false
                   : ipb_error_set_errno(error, errno, "cannot ask for a kernel");
    fork->wire_fd = ipb_fd_steal(&wire_ours);
    fork->stdout_fd = ipb_fd_steal(&out_ours);
    fork->stderr_fd = ipb_fd_steal(&err_ours);
    close_sandbox_fds(fork);
    fork->state = FORK_ASKED;
    return true;
}

/* False when the socket is full. */
static bool
flush_kills(IpbForkserver *forkserver)
{
    int64_t *id;
    while ((id = g_queue_peek_head(&forkserver->kills)) != NULL) {
        IpbFork *fork = find_fork(forkserver, *id);
        g_autofree char *packet = ipb_control_build_kill(*id);
        if (fork != NULL && !send_packet(forkserver, packet, NULL, 0))
            return false;
        g_free(g_queue_pop_head(&forkserver->kills));
    }
    return true;
}

static bool
flush_waiting(IpbForkserver *forkserver)
{
    int64_t *id;
    while ((id = g_queue_peek_head(&forkserver->waiting)) != NULL) {
        IpbFork *fork = find_fork(forkserver, *id);
        if (fork != NULL && fork->state == FORK_WAITING && fork->error == NULL) {
            g_autoptr(GError) error = NULL;
            if (!ask_for(fork, &error)) {
                if (error == NULL)
                    return false;
                fail_fork(fork, error);
            }
        }
        g_free(g_queue_pop_head(&forkserver->waiting));
    }
    return true;
}

void
ipb_forks_flush(IpbForkserver *forkserver)
{
    if (forkserver->control_watch == NULL)
        return;
    bool is_all_sent = flush_kills(forkserver) &&
                       (forkserver->state != IPB_FORKSERVER_READY || flush_waiting(forkserver));
    ipb_watch_set_events(forkserver->control_watch, is_all_sent ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

static bool
keep_sandbox(IpbFork *fork, const IpbForkSandbox *sandbox, GError **error)
{
    const int fds[N_SANDBOX_FDS] = {sandbox->init_pidfd, sandbox->plan_fd, sandbox->channel_fd};
    fork->is_sandboxed = true;
    for (size_t i = 0; i < N_SANDBOX_FDS; i++) {
        fork->sandbox_fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (fork->sandbox_fds[i] < 0)
            return ipb_error_set_errno(error, errno, "cannot duplicate the sandbox's descriptors");
    }
    return true;
}

IpbFork *
ipb_fork_new(IpbForkserver *forkserver, const IpbForkSandbox *sandbox, IpbForkFunc on_forked_func,
             IpbForkExitFunc on_exit, void *data)
{
    IpbFork *fork = g_new0(IpbFork, 1);
    *fork = (IpbFork){
        .forkserver = ipb_forkserver_ref(forkserver),
        .has_owner = true,
        .id = ++forkserver->last_id,
        .on_forked = on_forked_func,
        .on_exit = on_exit,
        .data = data,
        .wire_fd = -1,
        .stdout_fd = -1,
        .stderr_fd = -1,
        .sandbox_fds = {-1, -1, -1},
    };
    g_hash_table_insert(forkserver->forks, &fork->id, fork);
    g_autoptr(GError) error = NULL;
    if (forkserver->state == IPB_FORKSERVER_STOPPING)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                    "the forkserver is being stopped");
    else if (g_queue_get_length(&forkserver->waiting) >= MAX_WAITING)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%d kernels wait to be started",
                    MAX_WAITING);
    else if (sandbox != NULL)
        keep_sandbox(fork, sandbox, &error);
    if (error != NULL) {
        fail_fork(fork, error);
        return fork;
    }
    push_id(&forkserver->waiting, fork->id);
    ipb_forkserver_start(forkserver);
    ipb_forks_flush(forkserver);
    return fork;
}

void
ipb_fork_kill(IpbFork *fork)
{
    if (fork->state == FORK_ENDED)
        return;
    if (fork->state == FORK_WAITING) {
        g_autoptr(GError) error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                              "the kernel was stopped before it started");
        fail_fork(fork, error);
        return;
    }
    push_id(&fork->forkserver->kills, fork->id);
    ipb_forks_flush(fork->forkserver);
}

void
ipb_fork_free(IpbFork *fork)
{
    if (fork == NULL)
        return;
    IpbForkserver *forkserver = fork->forkserver;
    fork->has_owner = false;
    if (fork->state == FORK_ASKED || fork->state == FORK_RUNNING)
        ipb_fork_kill(fork);
    else
        end_fork(fork);
    ipb_forkserver_unref(forkserver);
}

void
ipb_forks_clear(IpbForkserver *forkserver)
{
    g_autoptr(GArray) ids = collect_ids(forkserver);
    for (guint i = 0; i < ids->len; i++)
        end_fork(find_fork(forkserver, g_array_index(ids, int64_t, i)));
    g_queue_clear_full(&forkserver->waiting, g_free);
    g_queue_clear_full(&forkserver->kills, g_free);
}
