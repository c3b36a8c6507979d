/* SPDX-License-Identifier: Apache-2.0
 *
 * The forkserver's process, its control socket, and the forks that it was asked for; see the
 * header.
 *
 * The first fork starts the process. If it ends, for whatever reason, the next fork starts it
 * again. Only its own exit is reported as its end. If something goes wrong before (no answer in
 * time, nonsense on the control socket, `failed`), the reason is kept in `failure` and the process
 * is killed; on_child_exit then informs all who wait.
 *
 * A fork is WAITING (to be asked for), ASKED, RUNNING, and ENDED when its last callback was called.
 * Its owner may free it at any time. If the forkserver knows of it by then, it stays in the table
 * without an owner until its end is reported. Owners' callbacks may make, kill and free forks and
 * drop references, so no list is walked while they are called: the ids are collected, and each is
 * looked up again.
 */
#include "kernel/forkserver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/child.h"
#include "base/done.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/control.h"
#include "kernel/forkserver-env.h"
#include "kernel/marker.h"
#include "kernel/orphans.h"

#define START_TIMEOUT_MS 60000
/* After the end of the control socket: time to reap all kernels. Then SIGTERM, twice; then
 * SIGKILL. */
#define STOP_GRACE_MS 3000
/* While it starts it has no kernels, and may hang in an import: SIGTERM at once, and again; then
 * SIGKILL. */
#define STOP_STARTING_GRACE_MS 500
/* The last reference waits so long for the same, if kernels are left. */
#define FREE_GRACE_MS 1000
/* How much of the forkserver's stdout and stderr is kept, is read at once, and is shown in a
 * message. */
#define MAX_OUTPUT (64 * 1024)
#define MAX_OUTPUT_READ 4096
#define MAX_SHOWN_OUTPUT 2000
/* Packets received in one wake-up. */
#define MAX_PACKETS 64

/* The cause of a kernel's death if the forkserver was stopped. */
#define IPB_CAUSE_STOPPED "stopped with the forkserver"

#define PIP_PACKAGES "ipython pydantic matplotlib-inline"

/* Forks that wait to be asked for. */
#define MAX_WAITING 10000
#define N_SANDBOX_FDS 3
/* How often, and how many times, a request for a kernel is sent again while programs of this user
 * have too many descriptors in flight. */
#define IN_FLIGHT_PAUSE_MS 10
#define MAX_IN_FLIGHT_PAUSES 200

typedef enum {
    IPB_FORKSERVER_STOPPED,
    IPB_FORKSERVER_STARTING,
    IPB_FORKSERVER_READY,
    IPB_FORKSERVER_STOPPING,
} IpbForkserverState;

struct IpbForkserver {
    int references;
    IpbLoop *loop;
    char *python, *script, *stub_directory, *entrance, *branching;
    char **preload;
    char **env; /* of the process; a copy, because another thread may change ours later */
    unsigned start_timeout_ms;
    IpbForkserverState state;
    /* The process: from STARTING to STOPPING. */
    IpbChild *child;
    int control_fd;
    IpbWatch *control_watch;
    int output_fd; /* read end of its stdout and stderr */
    IpbWatch *output_watch;
    IpbBuffer output; /* its end */
    IpbTimer *start_timer;
    GError *failure; /* the cause of its end, if it is known before */
    char **preload_failures;
    GHashTable *forks; /* int64_t id → IpbFork: all that have not ended */
    GQueue waiting;    /* IDs (int64_t *) of forks to request */
    GQueue packets;    /* char *: to be sent, which need no descriptors */
    /* The next request is sent when this timer ends, see must_pause() */
    IpbTimer *pause_timer;
    unsigned n_pauses; /* of the next request */
    IpbTimer *failing_timer;
    int64_t last_id;
    /* Callers that wait for stop (IpbDone). */
    GQueue stop_waiters;
    IpbTimer *stopped_timer;
};

typedef enum { FORK_WAITING, FORK_ASKED, FORK_RUNNING, FORK_ENDED } ForkState;

struct IpbFork {
    IpbForkserver *forkserver; /* a reference while the fork has an owner */
    bool has_owner;
    int64_t id;
    ForkState state;
    GError *error; /* the fork failed, and on_forked is due */
    IpbForkFunc on_forked;
    IpbForkExitFunc on_exit;
    void *data;
    int wire_fd, stdout_fd, stderr_fd; /* our ends, while ASKED */
    bool is_sandboxed, is_command;
    int sandbox_fds[N_SANDBOX_FDS]; /* of the sandbox, while WAITING */
};

IpbForkserver *
ipb_forkserver_new(IpbLoop *loop, const IpbForkserverOptions *options)
{
    IpbForkserver *forkserver = g_new0(IpbForkserver, 1);
    forkserver->references = 1;
    forkserver->loop = ipb_loop_ref(loop);
    forkserver->python = g_strdup(options->python);
    forkserver->script = g_build_filename(options->host_directory, "forkserver.py", NULL);
    forkserver->stub_directory = g_build_filename(options->host_directory, "stub", NULL);
    forkserver->entrance = g_strdup(options->entrance);
    forkserver->branching = g_strdup(options->branching);
    forkserver->preload = g_strdupv((char **) options->preload);
    forkserver->env = ipb_forkserver_env();
    forkserver->start_timeout_ms =
        options->start_timeout_ms > 0 ? options->start_timeout_ms : START_TIMEOUT_MS;
    forkserver->control_fd = forkserver->output_fd = -1;
    /* The processes of a kernel are found by its id on the whole machine, so no two forkservers may
     * use the same ids. */
    forkserver->last_id = (int64_t) g_random_int() << 20;
    ipb_buffer_init(&forkserver->output, MAX_OUTPUT);
    forkserver->forks = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_queue_init(&forkserver->waiting);
    g_queue_init(&forkserver->packets);
    g_queue_init(&forkserver->stop_waiters);
    return forkserver;
}

IpbForkserver *
ipb_forkserver_ref(IpbForkserver *forkserver)
{
    forkserver->references++;
    return forkserver;
}

const char *const *
ipb_forkserver_preload_failures(IpbForkserver *forkserver)
{
    return (const char *const *) forkserver->preload_failures;
}

/* --- forks ------------------------------------------------------------------------------------ */

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

/* Removes the fork from the table, and frees it if it has no owner. */
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
report_failure(IpbFork *fork)
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
            report_failure(fork);
    }
    ipb_forkserver_unref(forkserver);
}

/* on_forked will report @error. */
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

static void
fail_waiting_forks(IpbForkserver *forkserver, const GError *error)
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
report_exit(IpbFork *fork, int wait_status, const char *cause)
{
    IpbForkExitFunc on_exit = fork->has_owner ? fork->on_exit : NULL;
    void *data = fork->data;
    end_fork(fork);
    if (on_exit != NULL)
        on_exit(wait_status, cause, data);
}

static void
lose_forks(IpbForkserver *forkserver, const char *cause)
{
    g_autoptr(GArray) ids = collect_ids(forkserver);
    /* The kernels died with it (PR_SET_PDEATHSIG). The processes that they started did not. */
    ipb_orphans_kill((const int64_t *) (void *) ids->data, ids->len);
    for (guint i = 0; i < ids->len; i++) {
        IpbFork *fork = find_fork(forkserver, g_array_index(ids, int64_t, i));
        if (fork != NULL && fork->state == FORK_RUNNING)
            report_exit(fork, SIGKILL, cause);
    }
}

static void
on_forked(IpbFork *fork, pid_t pid, int *pidfd)
{
    fork->state = FORK_RUNNING;
    if (fork->has_owner && *pidfd < 0) {
        /* The pidfd came with the packet, but this process had no free descriptor. */
        ipb_fork_kill(fork);
        ipb_error_set_errno(&fork->error, EMFILE, "the kernel cannot be forked");
        report_failure(fork);
        return;
    }
    if (!fork->has_owner) { /* its kill was requested already */
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
        report_exit(fork, message->wait_status, IPB_CAUSE_STOPPED);
        return;
    }
    g_autofree char *status = ipb_child_describe_status(message->wait_status);
    g_autofree char *cause = g_strconcat(
        status,
        is_killed && message->is_oom_kill ? ", probably by the system for lack of memory" : "",
        NULL);
    report_exit(fork, message->wait_status, cause);
}

static void
on_fork_packet(IpbForkserver *forkserver, const IpbControlMessage *message, int *pidfd)
{
    IpbFork *fork = find_fork(forkserver, message->id);
    if (fork == NULL)
        return;
    if (message->op == IPB_CONTROL_FORKED && fork->state == FORK_ASKED) {
        on_forked(fork, (pid_t) message->pid, pidfd);
    } else if (message->op == IPB_CONTROL_FORK_FAILED && fork->state == FORK_ASKED) {
        g_autoptr(GError) error =
            g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "the %s cannot be forked: %s",
                        fork->is_command ? "command" : "kernel",
                        message->error != NULL ? message->error : "no reason was given");
        fail_fork(fork, error);
    } else if (message->op == IPB_CONTROL_EXITED && fork->state == FORK_RUNNING) {
        on_exited(fork, message);
    }
}

/* Sends one packet. False if the socket is full, or dead: then end of file follows. */
static bool
send_packet(IpbForkserver *forkserver, const char *packet, const int *fds, size_t n_fds)
{
    return ipb_fd_send(forkserver->control_fd, packet, strlen(packet), fds, n_fds) >= 0;
}

static void flush_forks(IpbForkserver *forkserver);

static void
on_pause_end(void *data)
{
    IpbForkserver *forkserver = data;
    g_clear_pointer(&forkserver->pause_timer, ipb_timer_free);
    flush_forks(forkserver);
}

/* Linux limits the descriptors that an ordinary user has in flight, in the sockets of all programs,
 * to RLIMIT_NOFILE. Most are received within milliseconds, but the system reports no event for it.
 * So the request is sent again after a pause, a limited number of times. */
static bool
must_pause(IpbForkserver *forkserver, int saved_errno)
{
    if (saved_errno != ETOOMANYREFS || forkserver->n_pauses == MAX_IN_FLIGHT_PAUSES) {
        forkserver->n_pauses = 0;
        return false;
    }
    forkserver->n_pauses++;
    forkserver->pause_timer =
        ipb_timer_new(forkserver->loop, IN_FLIGHT_PAUSE_MS, on_pause_end, forkserver);
    return true;
}

/* Makes the channels of the fork and sends the kernel's ends. False without an error if the request
 * has to be sent again: when the socket is no longer full, or after a pause. */
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
    g_autofree char *packet =
        ipb_control_build_fork(fork->id, fork->is_sandboxed, fork->is_command);
    if (!send_packet(fork->forkserver, packet, theirs,
                     fork->is_sandboxed ? 3 + N_SANDBOX_FDS : 3)) {
        int saved_errno = errno;
        bool is_full = errno == EAGAIN || errno == EPIPE || errno == ECONNRESET;
        return is_full || must_pause(fork->forkserver, saved_errno)
                   ? false
                   : ipb_error_set_errno(error, saved_errno, "cannot ask for a kernel");
    }
    fork->forkserver->n_pauses = 0;
    fork->wire_fd = ipb_fd_steal(&wire_ours);
    fork->stdout_fd = ipb_fd_steal(&out_ours);
    fork->stderr_fd = ipb_fd_steal(&err_ours);
    close_sandbox_fds(fork);
    fork->state = FORK_ASKED;
    return true;
}

/* False if the socket is full. */
static bool
flush_packets(IpbForkserver *forkserver)
{
    const char *packet;
    while ((packet = g_queue_peek_head(&forkserver->packets)) != NULL) {
        if (!send_packet(forkserver, packet, NULL, 0))
            return false;
        g_free(g_queue_pop_head(&forkserver->packets));
    }
    return true;
}

static bool
flush_waiting(IpbForkserver *forkserver)
{
    int64_t *id;
    while (forkserver->pause_timer == NULL &&
           (id = g_queue_peek_head(&forkserver->waiting)) != NULL) {
        IpbFork *fork = find_fork(forkserver, *id);
        if (fork != NULL && fork->state == FORK_WAITING && fork->error == NULL) {
            g_autoptr(GError) error = NULL;
            if (!ask_for(fork, &error)) {
                if (error == NULL)
                    return forkserver->pause_timer != NULL;
                fail_fork(fork, error);
            }
        }
        g_free(g_queue_pop_head(&forkserver->waiting));
    }
    return true;
}

static void
flush_forks(IpbForkserver *forkserver)
{
    if (forkserver->control_watch == NULL)
        return;
    bool is_all_sent = flush_packets(forkserver) &&
                       (forkserver->state != IPB_FORKSERVER_READY || flush_waiting(forkserver));
    ipb_watch_set_events(forkserver->control_watch, is_all_sent ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/* --- the process ------------------------------------------------------------------------------ */

/* The end of what the process printed, as ": text" for a message; "" if it printed nothing. */
static char *
shown_output(IpbForkserver *forkserver)
{
    size_t size = ipb_buffer_size(&forkserver->output), shown = MIN(size, MAX_SHOWN_OUTPUT);
    IpbUtf8Decoder decoder = {0};
    g_autoptr(GString) text = g_string_new(NULL);
    if (shown > 0)
        ipb_marker_decode_text(&decoder, ipb_buffer_data(&forkserver->output) + (size - shown),
                               shown, text);
    g_strstrip(text->str);
    return text->str[0] == '\0' ? g_strdup("")
                                : g_strconcat(size > shown ? ": …" : ": ", text->str, NULL);
}

/* Keeps the first reason, and kills the process. on_child_exit does the rest. */
static void
fail_process(IpbForkserver *forkserver, GError *error)
{
    if (forkserver->failure == NULL)
        forkserver->failure = error;
    else
        g_error_free(error);
    ipb_child_signal(forkserver->child, SIGKILL);
}

static void
on_start_timeout(void *data)
{
    IpbForkserver *forkserver = data;
    g_autofree char *output = shown_output(forkserver);
    fail_process(forkserver,
                 g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_TIMEOUT,
                             "%s was not ready to run kernels after %.3g s%s", forkserver->python,
                             forkserver->start_timeout_ms / 1000.0, output));
}

/* Python exists, but lacks modules. */
static GError *
error_of_failed(IpbForkserver *forkserver, const IpbControlMessage *message)
{
    if (message->missing == NULL || message->missing[0] == NULL)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "%s cannot run kernels: %s",
                           forkserver->python,
                           message->error != NULL ? message->error : "no reason was given");
    g_autofree char *missing = g_strjoinv(", ", message->missing);
    g_autofree char *python = strpbrk(forkserver->python, " \t'\"\\$") != NULL
                                  ? g_shell_quote(forkserver->python)
                                  : g_strdup(forkserver->python);
    return g_error_new(
        IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
        "%s lacks what kernels need (%s). 'ipybox doctor --setup' makes an environment "
        "that has it; or, for this interpreter, run: %s -m pip install " PIP_PACKAGES,
        forkserver->python, missing, python);
}

static void
on_ready(IpbForkserver *forkserver)
{
    if (forkserver->state != IPB_FORKSERVER_STARTING)
        return;
    forkserver->state = IPB_FORKSERVER_READY;
    g_clear_pointer(&forkserver->start_timer, ipb_timer_free);
    flush_forks(forkserver);
}

static void
on_packet(IpbForkserver *forkserver, const char *packet, size_t size, int *pidfd)
{
    g_auto(IpbControlMessage) message = {0};
    GError *error = NULL;
    if (!ipb_control_parse(packet, size, &message, &error)) {
        fail_process(forkserver, error);
        return;
    }
    switch (message.op) {
    case IPB_CONTROL_READY:
        on_ready(forkserver);
        return;
    case IPB_CONTROL_FAILED:
        fail_process(forkserver, error_of_failed(forkserver, &message));
        return;
    case IPB_CONTROL_PRELOADED:
        g_strfreev(forkserver->preload_failures);
        forkserver->preload_failures = g_steal_pointer(&message.preload_failures);
        return;
    case IPB_CONTROL_FORKED:
    case IPB_CONTROL_FORK_FAILED:
    case IPB_CONTROL_EXITED:
        on_fork_packet(forkserver, &message, pidfd);
        return;
    }
}

typedef enum { PACKETS_MORE, PACKETS_DRY, PACKETS_END } PacketsState;

static PacketsState
receive_packets(IpbForkserver *forkserver)
{
    g_autofree char *packet = g_malloc(IPB_CONTROL_MAX_PACKET);
    for (int i = 0; i < MAX_PACKETS; i++) {
        ipb_autofd pidfd = -1;
        size_t n_fds = 0;
        ssize_t n = ipb_fd_receive(forkserver->control_fd, packet, IPB_CONTROL_MAX_PACKET, &pidfd,
                                   1, &n_fds);
        if (n < 0 && errno == EAGAIN)
            return PACKETS_DRY;
        if (n <= 0)
            return PACKETS_END;
        on_packet(forkserver, packet, (size_t) n, &pidfd);
    }
    return PACKETS_MORE;
}

static void
on_control_ready(uint32_t events, void *data)
{
    IpbForkserver *forkserver = ipb_forkserver_ref(data);
    if ((events & EPOLLOUT) != 0)
        flush_forks(forkserver);
    if ((events & ~(uint32_t) EPOLLOUT) != 0 && receive_packets(forkserver) == PACKETS_END) {
        /* It is ending, or it is broken. */
        g_clear_pointer(&forkserver->control_watch, ipb_watch_free);
        ipb_child_stop(forkserver->child, STOP_GRACE_MS);
    }
    ipb_forkserver_unref(forkserver);
}

/* Keeps the last MAX_OUTPUT bytes. False at the end of file, or if nothing more is available. */
static bool
read_output(IpbForkserver *forkserver)
{
    char bytes[MAX_OUTPUT_READ];
    ssize_t n = read(forkserver->output_fd, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        g_clear_pointer(&forkserver->output_watch, ipb_watch_free);
    if (n <= 0)
        return false;
    size_t used = ipb_buffer_size(&forkserver->output);
    if (used + (size_t) n > MAX_OUTPUT)
        ipb_buffer_consume(&forkserver->output, used + (size_t) n - MAX_OUTPUT);
    ipb_buffer_append(&forkserver->output, bytes, (size_t) n);
    return true;
}

static void
on_output_ready(uint32_t events, void *data)
{
    read_output(data);
}

static void
clear_process(IpbForkserver *forkserver)
{
    g_clear_pointer(&forkserver->control_watch, ipb_watch_free);
    g_clear_pointer(&forkserver->output_watch, ipb_watch_free);
    g_clear_pointer(&forkserver->start_timer, ipb_timer_free);
    g_clear_pointer(&forkserver->child, ipb_child_free);
    g_clear_error(&forkserver->failure);
    ipb_fd_close(&forkserver->control_fd);
    ipb_fd_close(&forkserver->output_fd);
    ipb_buffer_clear(&forkserver->output);
    forkserver->state = IPB_FORKSERVER_STOPPED;
}

/* The error for forks that wait. */
static GError *
error_of_exit(IpbForkserver *forkserver, const char *status)
{
    if (forkserver->failure != NULL)
        return g_steal_pointer(&forkserver->failure);
    if (forkserver->state == IPB_FORKSERVER_STOPPING)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED, "the forkserver was stopped");
    g_autofree char *output = shown_output(forkserver);
    if (forkserver->state == IPB_FORKSERVER_STARTING)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                           "%s cannot run kernels: it ended at its start (%s)%s",
                           forkserver->python, status, output);
    return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "the forkserver ended (%s)%s", status,
                       output);
}

/* If memory runs out, Python fails with many different messages ("error return without exception
 * set" is one). So a limit is mentioned whatever the message of a failed start is. */
static void
mention_memory_limit(GError *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    char *message = error->message;
    error->message =
        g_strdup_printf("%s; its memory (address space) is limited to %" G_GUINT64_FORMAT
                        " MiB here: see 'ulimit -v'",
                        message, (guint64) limit.rlim_cur >> 20);
    g_free(message);
}

static void
report_stopped(IpbForkserver *forkserver)
{
    IpbDone *waiter;
    while ((waiter = g_queue_pop_head(&forkserver->stop_waiters)) != NULL) {
        waiter->func(waiter->data);
        g_free(waiter);
    }
}

static void
on_child_exit(IpbChild *child, int wait_status, void *data)
{
    IpbForkserver *forkserver = ipb_forkserver_ref(data);
    /* Read what it sent before it ended. */
    for (int i = 0; i < MAX_OUTPUT / MAX_OUTPUT_READ && forkserver->output_watch != NULL; i++)
        if (!read_output(forkserver))
            break;
    while (forkserver->control_watch != NULL && receive_packets(forkserver) == PACKETS_MORE)
        ;
    g_autofree char *status = ipb_child_describe_status(wait_status);
    g_autoptr(GError) error = error_of_exit(forkserver, status);
    if (forkserver->state == IPB_FORKSERVER_STARTING)
        mention_memory_limit(error);
    g_autofree char *cause = forkserver->state == IPB_FORKSERVER_STOPPING
                                 ? g_strdup(IPB_CAUSE_STOPPED)
                                 : g_strdup_printf("lost with the forkserver: %s", error->message);
    clear_process(forkserver);
    fail_waiting_forks(forkserver, error);
    lose_forks(forkserver, cause);
    report_stopped(forkserver);
    ipb_forkserver_unref(forkserver);
}

static bool
open_channels(IpbForkserver *forkserver, int *ret_control, int *ret_output, GError **error)
{
    int control[2], output[2];
    if (!ipb_fd_socketpair(SOCK_SEQPACKET, control, error))
        return false;
    forkserver->control_fd = control[0];
    *ret_control = control[1];
    if (!ipb_fd_pipe(output, error))
        return false;
    forkserver->output_fd = output[0];
    *ret_output = output[1];
    if (!ipb_fd_set_nonblocking(forkserver->output_fd, true, error))
        return false;
    forkserver->control_watch = ipb_watch_new(forkserver->loop, forkserver->control_fd, EPOLLIN,
                                              on_control_ready, forkserver, error);
    forkserver->output_watch =
        ipb_watch_new(forkserver->loop, forkserver->output_fd, EPOLLIN, on_output_ready, forkserver,
                      forkserver->control_watch != NULL ? error : NULL);
    return forkserver->control_watch != NULL && forkserver->output_watch != NULL;
}

static bool
spawn(IpbForkserver *forkserver, GError **error)
{
    ipb_autofd control_theirs = -1, output_theirs = -1;
    if (!open_channels(forkserver, &control_theirs, &output_theirs, error))
        return false;
    /* A sandboxed kernel may have written .pth files to site-packages. They are code. */
    const char *plain[] = {forkserver->python, "-I", forkserver->script, NULL};
    const char *without_site[] = {forkserver->python, "-I", "-S", forkserver->script, NULL};
    IpbChildOptions options = {
        .argv = forkserver->entrance != NULL ? without_site : plain,
        .envp = (const char *const *) forkserver->env,
        .stdin_fd = -1,
        .stdout_fd = output_theirs,
        .stderr_fd = output_theirs,
        .extra_fd = control_theirs,
        /* If this process dies, the forkserver still has to kill what its kernels started. */
        .death_signal = SIGTERM,
    };
    forkserver->child =
        ipb_child_spawn(forkserver->loop, &options, on_child_exit, forkserver, error);
    if (forkserver->child == NULL)
        return false;
    g_autofree char *configure = ipb_control_build_configure(
        (const char *const *) forkserver->preload, forkserver->stub_directory, forkserver->entrance,
        forkserver->branching);
    if (ipb_fd_send(forkserver->control_fd, configure, strlen(configure), NULL, 0) < 0)
        return ipb_error_set_errno(error, errno, "cannot configure the forkserver");
    return true;
}

/* Adds advice to errors that the user can fix. */
static GError *
explain_spawn_error(IpbForkserver *forkserver, const GError *error)
{
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND))
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE,
                           "Python was not found: %s. Install Python 3.10 or later, or name one "
                           "with --python or IPYBOX_PYTHON",
                           error->message);
    return g_error_new(error->domain, error->code, "Python cannot be started: %s", error->message);
}

void
ipb_forkserver_start(IpbForkserver *forkserver)
{
    if (forkserver->state != IPB_FORKSERVER_STOPPED)
        return;
    g_autoptr(GError) error = NULL;
    if (!spawn(forkserver, &error)) {
        g_autoptr(GError) explained = explain_spawn_error(forkserver, error);
        clear_process(forkserver);
        fail_waiting_forks(forkserver, explained);
        return;
    }
    forkserver->state = IPB_FORKSERVER_STARTING;
    g_clear_pointer(&forkserver->preload_failures, g_strfreev);
    forkserver->start_timer =
        ipb_timer_new(forkserver->loop, forkserver->start_timeout_ms, on_start_timeout, forkserver);
}

static void
on_stopped_timer(void *data)
{
    IpbForkserver *forkserver = ipb_forkserver_ref(data);
    g_clear_pointer(&forkserver->stopped_timer, ipb_timer_free);
    if (forkserver->state == IPB_FORKSERVER_STOPPED)
        report_stopped(forkserver);
    ipb_forkserver_unref(forkserver);
}

void
ipb_forkserver_stop(IpbForkserver *forkserver, void (*done)(void *data), void *data)
{
    IpbDone *waiter = g_new(IpbDone, 1);
    *waiter = (IpbDone){done, data};
    g_queue_push_tail(&forkserver->stop_waiters, waiter);
    switch (forkserver->state) {
    case IPB_FORKSERVER_STOPPED:
        if (forkserver->stopped_timer == NULL)
            forkserver->stopped_timer =
                ipb_timer_new(forkserver->loop, 0, on_stopped_timer, forkserver);
        return;
    case IPB_FORKSERVER_STARTING:
        forkserver->state = IPB_FORKSERVER_STOPPING;
        g_clear_pointer(&forkserver->start_timer, ipb_timer_free);
        ipb_child_signal(forkserver->child, SIGTERM);
        ipb_child_stop(forkserver->child, STOP_STARTING_GRACE_MS);
        return;
    case IPB_FORKSERVER_READY:
        forkserver->state = IPB_FORKSERVER_STOPPING;
        shutdown(forkserver->control_fd,
                 SHUT_WR); /* it then kills and reaps all kernels, and exits */
        ipb_child_stop(forkserver->child, STOP_GRACE_MS);
        return;
    case IPB_FORKSERVER_STOPPING:
        return;
    }
}

/* --- the interface of a fork --------------------------------------------------------------- */

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

int64_t
ipb_forkserver_make_id(IpbForkserver *forkserver)
{
    return ++forkserver->last_id;
}

static IpbFork *
new_fork(IpbForkserver *forkserver, IpbForkFunc on_forked_func, IpbForkExitFunc on_exit, void *data)
{
    IpbFork *fork = g_new0(IpbFork, 1);
    *fork = (IpbFork){
        .forkserver = ipb_forkserver_ref(forkserver),
        .has_owner = true,
        .id = ipb_forkserver_make_id(forkserver),
        .on_forked = on_forked_func,
        .on_exit = on_exit,
        .data = data,
        .wire_fd = -1,
        .stdout_fd = -1,
        .stderr_fd = -1,
        .sandbox_fds = {-1, -1, -1},
    };
    g_hash_table_insert(forkserver->forks, &fork->id, fork);
    return fork;
}

IpbFork *
ipb_fork_new(IpbForkserver *forkserver, IpbForkKind kind, const IpbForkSandbox *sandbox,
             IpbForkFunc on_forked_func, IpbForkExitFunc on_exit, void *data)
{
    IpbFork *fork = new_fork(forkserver, on_forked_func, on_exit, data);
    fork->is_command = kind == IPB_FORK_COMMAND;
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
    flush_forks(forkserver);
    return fork;
}

IpbFork *
ipb_fork_adopt(IpbForkserver *forkserver, pid_t pid, const int pipes[2], IpbForkFunc on_forked_func,
               IpbForkExitFunc on_exit, void *data)
{
    IpbFork *fork = new_fork(forkserver, on_forked_func, on_exit, data);
    struct stat status[2];
    g_autoptr(GError) error = NULL;
    if (forkserver->state != IPB_FORKSERVER_READY)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                    "the forkserver of the branch has ended");
    else if (g_queue_get_length(&forkserver->packets) >= MAX_WAITING)
        g_set_error(&error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%d requests wait for the forkserver",
                    MAX_WAITING);
    else if (fstat(pipes[0], &status[0]) < 0 || fstat(pipes[1], &status[1]) < 0)
        ipb_error_set_errno(&error, errno, "cannot examine the pipes of the branch");
    if (error != NULL) {
        fail_fork(fork, error);
        return fork;
    }
    fork->state = FORK_ASKED;
    g_queue_push_tail(&forkserver->packets,
                      ipb_control_build_adopt(fork->id, pid, status[0].st_ino, status[1].st_ino));
    flush_forks(forkserver);
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
    g_queue_push_tail(&fork->forkserver->packets, ipb_control_build_kill(fork->id));
    flush_forks(fork->forkserver);
}

void
ipb_fork_add_pipes(IpbFork *fork, const int fds[2])
{
    struct stat status[2];
    if (fork->state != FORK_RUNNING ||
        g_queue_get_length(&fork->forkserver->packets) >= MAX_WAITING ||
        fstat(fds[0], &status[0]) < 0 || fstat(fds[1], &status[1]) < 0)
        return;
    g_queue_push_tail(&fork->forkserver->packets,
                      ipb_control_build_pipes(fork->id, status[0].st_ino, status[1].st_ino));
    flush_forks(fork->forkserver);
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

/* --- the end ---------------------------------------------------------------------------------- */

static void
clear_forks(IpbForkserver *forkserver)
{
    g_autoptr(GArray) ids = collect_ids(forkserver);
    for (guint i = 0; i < ids->len; i++)
        end_fork(find_fork(forkserver, g_array_index(ids, int64_t, i)));
    g_queue_clear_full(&forkserver->waiting, g_free);
    g_queue_clear_full(&forkserver->packets, g_free);
}

/* Gives the process time to kill and reap what it forked. */
static void
wait_for_end(IpbForkserver *forkserver)
{
    shutdown(forkserver->control_fd, SHUT_WR);
    ipb_autofd pidfd = ipb_pidfd_open(ipb_child_pid(forkserver->child));
    if (pidfd >= 0)
        ipb_fd_wait(pidfd, POLLIN, FREE_GRACE_MS);
}

void
ipb_forkserver_unref(IpbForkserver *forkserver)
{
    if (forkserver == NULL || --forkserver->references > 0)
        return;
    if (forkserver->child != NULL && g_hash_table_size(forkserver->forks) > 0)
        wait_for_end(forkserver);
    clear_process(forkserver);
    clear_forks(forkserver);
    g_hash_table_unref(forkserver->forks);
    ipb_timer_free(forkserver->pause_timer);
    ipb_timer_free(forkserver->failing_timer);
    ipb_timer_free(forkserver->stopped_timer);
    g_queue_clear_full(&forkserver->stop_waiters, g_free);
    g_strfreev(forkserver->preload_failures);
    g_strfreev(forkserver->preload);
    g_strfreev(forkserver->env);
    g_free(forkserver->python);
    g_free(forkserver->script);
    g_free(forkserver->stub_directory);
    g_free(forkserver->entrance);
    g_free(forkserver->branching);
    ipb_loop_unref(forkserver->loop);
    g_free(forkserver);
}
