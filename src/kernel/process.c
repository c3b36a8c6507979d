/* SPDX-License-Identifier: Apache-2.0
 *
 * One kernel process; see the header.
 *
 * The states are FORKING (its sandbox, if it gets one, is made first), GREETING (`start` was sent),
 * READY, ENDING and ENDED. Each of the first three can be followed by ENDING: the process is known
 * to be dead, or was killed. Then three things are waited for: the collector delivers what is left
 * of the output, the forkserver reports how the process died and that everything it started is
 * gone, and the sandbox has ended, if this was its last process. A kill for a known cause does not
 * wait for the forkserver. An error during the start is the process's end, with that cause.
 */
#include "kernel/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/child.h"
#include "base/descendants.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/child-output.h"
#include "kernel/marker.h"
#include "kernel/output.h"
#include "kernel/private-memory.h"
#include "kernel/walls.h"
#include "sandbox/sandbox.h"

/* Not SIGINT again; see docs/internals/kernel-wire.md. */
#define REPEATED_INTERRUPT (SIGRTMIN + 6)
/* From the request for a fork to the fork. It includes the forkserver's start and its imports. */
#define FORK_TIMEOUT_MS 180000
/* From a death to the forkserver's report on how it happened, and to the end of the sandbox. */
#define EXIT_WAIT_MS 2000
/* From the request for a branch to the answer of its forerunner, whose page tables are copied. */
#define BRANCH_TIMEOUT_MS 30000
/* From the end of the wire until the process is killed: a kernel without a wire is of no use. */
#define CLOSED_WIRE_GRACE_MS 1000
/* Frames that wait to be written. */
#define MAX_WRITE_QUEUE (2 * (size_t) IPB_FRAME_MAX_SIZE)

typedef enum {
    IPB_PROCESS_FORKING,
    IPB_PROCESS_GREETING, /* start was sent */
    IPB_PROCESS_READY,
    IPB_PROCESS_ENDING,
    IPB_PROCESS_ENDED,
} IpbProcessState;

/* Signals by which a limit kills a process. */
static const int LIMIT_SIGNALS[] = {SIGKILL, SIGXCPU, SIGXFSZ};

struct IpbProcess {
    IpbLoop *loop;
    IpbProcessFuncs funcs;
    void *data;
    IpbProcessState state;
    char **env, **path, *cwd;
    GBytes *packages; /* or NULL */
    bool has_seed;
    int64_t seed;
    IpbKernelRules rules;
    bool rehearses;
    unsigned init_timeout_ms;
    IpbKernelSandboxFuncs sandboxing;
    IpbWalls *walls;     /* NULL: none, or left */
    bool is_walls_child; /* pid 1 of the sandbox has adopted it, and reports its end */
    bool is_entering;    /* the sandbox of others: if it ends before, there is another one */
    void *sandbox_wait;  /* of the owner, until a sandbox can be made; or NULL */
    int64_t id;          /* of the kernel; 0: no process has it yet */
    IpbForkserver *forkserver;
    IpbFork *fork;
    pid_t pid; /* 0: not forked yet */
    int pidfd;
    IpbWatch *pidfd_watch;
    IpbOutput *output;
    int write_fd;     /* a duplicate of the wire, for the queue */
    int new_pipes[2]; /* our ends of stdout and stderr, until the kernel has taken them; or -1 */
    IpbWriteQueue *write_queue;
    IpbPausableTimer init_timer;
    IpbTimer *fork_timer;
    IpbTimer *kill_timer; /* after shutdown, or the end of the wire: SIGKILL */
    IpbTimer *exit_timer; /* ends the wait for the forkserver's report and for the sandbox */
    IpbTimer *end_timer;
    char *cause;      /* known here; it takes precedence */
    char *exit_cause; /* of the forkserver's report */
    /* By LIMIT_SIGNALS: the limit that a kernel has exceeded if the signal has killed it, or NULL.
     * Known once the walls are left, which may be before the report. */
    char *limits[G_N_ELEMENTS(LIMIT_SIGNALS)];
    bool is_paused;
    bool is_wire_closed; /* by the kernel, dead or alive */
    bool has_broken_protocol;
    bool is_killed, is_finished, is_exited, waits_for_exit;
    /* As the forerunner of branches. */
    GPtrArray *branches; /* IpbProcess, borrowed: they wait for the answer */
    uint64_t last_branch;
    /* As a branch. */
    IpbProcess *forerunner;            /* borrowed, until it has answered; or NULL */
    uint64_t branch;                   /* its number there */
    int wire_fd, stdout_fd, stderr_fd; /* our ends, until it is adopted; or -1 */
    IpbBranchKind kind;
    char **warnings;
    bool is_refused;
};

/* --- the end ---------------------------------------------------------------------------------- */

static void
on_end_timer(void *data)
{
    IpbProcess *process = data;
    process->state = IPB_PROCESS_ENDED;
    g_autofree char *cause = g_steal_pointer(&process->cause);
    if (cause == NULL && process->exit_cause != NULL)
        cause = g_strdup_printf("the kernel %s %s",
                                g_str_has_prefix(process->exit_cause, "exit status") ? "ended with"
                                                                                     : "was",
                                process->exit_cause);
    if (cause == NULL)
        cause = g_strdup("the kernel ended, and the forkserver does not say how");
    process->funcs.on_end(cause, process->data); /* may free the process */
}

static void
check_end(IpbProcess *process)
{
    if (process->state == IPB_PROCESS_ENDING && process->is_finished && process->walls == NULL &&
        (process->is_exited || !process->waits_for_exit) && process->end_timer == NULL)
        process->end_timer = ipb_timer_new(process->loop, 0, on_end_timer, process);
}

static void
leave_walls(IpbProcess *process)
{
    if (process->walls == NULL)
        return;
    const IpbSandbox *sandbox = ipb_walls_sandbox(process->walls);
    for (size_t i = 0; sandbox != NULL && i < G_N_ELEMENTS(LIMIT_SIGNALS); i++) {
        g_free(process->limits[i]);
        process->limits[i] = ipb_sandbox_describe_limit(sandbox, LIMIT_SIGNALS[i]);
    }
    ipb_walls_leave(g_steal_pointer(&process->walls), process,
                    process->kind == IPB_BRANCH_PARKED ? 0 : process->id);
}

/* The limit that the kernel has exceeded, if that has ended it; else NULL. */
static char *
describe_limit(const IpbProcess *process, int wait_status)
{
    if (process->walls != NULL)
        return ipb_sandbox_describe_limit(ipb_walls_sandbox(process->walls), wait_status);
    for (size_t i = 0; WIFSIGNALED(wait_status) && i < G_N_ELEMENTS(LIMIT_SIGNALS); i++)
        if (WTERMSIG(wait_status) == LIMIT_SIGNALS[i])
            return g_strdup(process->limits[i]);
    return NULL;
}

/* The last process takes the sandbox and what is in it with it, and waits for that. */
static void
end_walls(IpbProcess *process)
{
    if (process->walls != NULL && !ipb_walls_end(process->walls))
        leave_walls(process);
}

static void
on_exit_timer(void *data)
{
    IpbProcess *process = data;
    g_clear_pointer(&process->exit_timer, ipb_timer_free);
    process->waits_for_exit = false;
    leave_walls(process);
    check_end(process);
}

static void
send_kill(IpbProcess *process)
{
    if (process->is_killed)
        return;
    process->is_killed = true;
    if (process->pidfd >= 0) /* at once, even if the forkserver is busy */
        ipb_pidfd_signal(process->pidfd, SIGKILL, NULL);
    if (process->fork != NULL)
        ipb_fork_kill(process->fork);
}

static void
set_cause(IpbProcess *process, const char *cause)
{
    if (process->cause == NULL)
        process->cause = g_strdup(cause);
}

static void
forget_sandbox_wait(IpbProcess *process)
{
    if (process->sandbox_wait != NULL)
        process->sandboxing.free_wait(g_steal_pointer(&process->sandbox_wait));
}

static void fail_start(IpbProcess *process, const char *cause);

/* The forerunner answers no more. */
static void
fail_branches(IpbProcess *process)
{
    while (process->branches->len > 0) {
        IpbProcess *branch = g_ptr_array_steal_index(process->branches, 0);
        branch->forerunner = NULL;
        fail_start(branch, "the kernel ended before it was branched");
    }
}

/* The branch does not wait for its forerunner any more. */
static void
forget_forerunner(IpbProcess *branch)
{
    if (branch->forerunner != NULL)
        g_ptr_array_remove(branch->forerunner->branches, branch);
    branch->forerunner = NULL;
    ipb_fd_close(&branch->wire_fd);
    ipb_fd_close(&branch->stdout_fd);
    ipb_fd_close(&branch->stderr_fd);
}

static void
end_process(IpbProcess *process, bool with_frames, bool waits_for_exit)
{
    if (process->state >= IPB_PROCESS_ENDING) {
        process->waits_for_exit = process->waits_for_exit && waits_for_exit;
        if (!process->waits_for_exit)
            end_walls(process);
        check_end(process);
        return;
    }
    process->state = IPB_PROCESS_ENDING;
    process->is_exited = process->is_exited || process->sandbox_wait != NULL; /* there is none */
    process->waits_for_exit = waits_for_exit;
    forget_sandbox_wait(process);
    fail_branches(process);
    forget_forerunner(process);
    ipb_pausable_timer_unset(&process->init_timer);
    g_clear_pointer(&process->fork_timer, ipb_timer_free);
    g_clear_pointer(&process->kill_timer, ipb_timer_free);
    g_clear_pointer(&process->pidfd_watch, ipb_watch_free);
    if (process->walls != NULL) {
        ipb_sandbox_report_denials(ipb_walls_sandbox(process->walls));
        /* If a sandbox fails, it kills what is in it. */
        const GError *failure = ipb_sandbox_failure(ipb_walls_sandbox(process->walls));
        if (failure != NULL)
            set_cause(process, failure->message);
    }
    if (!process->is_walls_child || !waits_for_exit || process->is_exited)
        end_walls(process);
    if (waits_for_exit || process->walls != NULL)
        process->exit_timer = ipb_timer_new(process->loop, EXIT_WAIT_MS, on_exit_timer, process);
    if (process->output != NULL)
        ipb_output_finish(process->output, with_frames);
    else
        process->is_finished = true;
    check_end(process);
}

void
ipb_process_kill(IpbProcess *process, const char *cause)
{
    set_cause(process, cause);
    send_kill(process);
    end_process(process, /* with_frames= */ true, /* waits_for_exit= */ false);
}

static void
end_by_breach(IpbProcess *process, const char *what)
{
    g_autofree char *cause = g_strdup_printf("the kernel broke its protocol: %s", what);
    set_cause(process, cause);
    process->has_broken_protocol = true;
    send_kill(process);
    end_process(process, /* with_frames= */ false, /* waits_for_exit= */ false);
}

static void
on_kill_timer(void *data)
{
    IpbProcess *process = data;
    g_clear_pointer(&process->kill_timer, ipb_timer_free);
    if (process->is_wire_closed)
        set_cause(process, "the kernel's connection was closed by code that ran in it, so the "
                           "kernel was killed");
    send_kill(process);
    end_process(process, /* with_frames= */ true, /* waits_for_exit= */ true);
}

static void
on_exit_report(int wait_status, const char *cause, void *data)
{
    IpbProcess *process = data;
    process->is_exited = true;
    g_autofree char *limit = describe_limit(process, wait_status);
    process->exit_cause = limit != NULL ? g_strdup_printf("%s: %s", cause, limit) : g_strdup(cause);
    /* If the forkserver is gone, only we can kill it. */
    if (process->pidfd >= 0)
        ipb_pidfd_signal(process->pidfd, SIGKILL, NULL);
    end_process(process, /* with_frames= */ true, /* waits_for_exit= */ true);
    end_walls(process);
    check_end(process);
}

/* --- callbacks of the collector --------------------------------------------------------------- */

static void
on_text(bool is_stderr, bool is_late, uint64_t cell, const char *text, size_t size, void *data)
{
    IpbProcess *process = data;
    process->funcs.on_text(is_stderr, is_late, cell, text, size, process->data);
}

static void
on_hello(IpbProcess *process)
{
    if (process->state == IPB_PROCESS_ENDING)
        return;
    process->state = IPB_PROCESS_READY;
    ipb_pausable_timer_unset(&process->init_timer);
    if (process->kind == IPB_BRANCH_RESTORED && process->walls != NULL)
        ipb_walls_reach(process->walls, process->sandboxing.data);
    process->funcs.on_hello(process->data);
}

/* --- new pipes -------------------------------------------------------------------------------- */

/* @frame: NULL fails, with the @error that is set. */
static bool
send_frame(IpbProcess *process, const char *frame, size_t size, GError **error)
{
    return frame != NULL && ipb_write_queue_push(process->write_queue, frame, size, error);
}

static void
refuse_pipes(IpbProcess *process)
{
    size_t size;
    g_autofree char *frame = ipb_message_build_pipes(/* has_pipes= */ false, &size);
    ipb_output_keep_pipes(process->output);
    send_frame(process, frame, size, NULL);
}

/* Sends the kernel's ends. They can only be sent if no frame waits to be written. */
static bool
send_pipes(IpbProcess *process, const int fds[2])
{
    size_t size;
    g_autofree char *frame = ipb_message_build_pipes(/* has_pipes= */ true, &size);
    if (ipb_write_queue_size(process->write_queue) > 0)
        return false;
    ssize_t n = ipb_fd_send(process->write_fd, frame, size, fds, 2);
    return n >= 0 && send_frame(process, frame + n, size - (size_t) n, NULL);
}

static bool
make_pipes(IpbProcess *process, int ret_theirs[2])
{
    int out[2], err[2];
    if (!ipb_fd_pipe(out, NULL))
        return false;
    ipb_autofd out_ours = out[0], out_theirs = out[1];
    if (!ipb_fd_pipe(err, NULL))
        return false;
    ipb_autofd err_ours = err[0], err_theirs = err[1];
    if (!ipb_fd_set_nonblocking(out_ours, true, NULL) ||
        !ipb_fd_set_nonblocking(err_ours, true, NULL))
        return false;
    process->new_pipes[0] = ipb_fd_steal(&out_ours);
    process->new_pipes[1] = ipb_fd_steal(&err_ours);
    ret_theirs[0] = ipb_fd_steal(&out_theirs);
    ret_theirs[1] = ipb_fd_steal(&err_theirs);
    return true;
}

static void
close_new_pipes(IpbProcess *process)
{
    ipb_fd_close(&process->new_pipes[0]);
    ipb_fd_close(&process->new_pipes[1]);
}

/* The kernel has started other processes, which hold its pipes: what they write later belongs to
 * the cell that has just ended. */
static void
on_pipes_wanted(IpbProcess *process, uint64_t cell)
{
    int theirs[2] = {-1, -1};
    if (process->new_pipes[0] >= 0) {
        end_by_breach(process, "new pipes were wanted twice");
        return;
    }
    if (process->state != IPB_PROCESS_READY)
        return;
    ipb_output_expect_pipes(process->output, cell);
    bool is_full = ipb_output_has_too_many_pipes(process->output);
    bool is_sent = !is_full && make_pipes(process, theirs) && send_pipes(process, theirs);
    if (is_sent && process->fork != NULL && process->walls == NULL)
        ipb_fork_add_pipes(process->fork, theirs);
    ipb_fd_close(&theirs[0]);
    ipb_fd_close(&theirs[1]);
    if (is_sent)
        return;
    close_new_pipes(process);
    refuse_pipes(process);
    if (is_full)
        process->funcs.on_notice("processes that " G_STRINGIFY(
                                     IPB_CHILD_OUTPUT_MAX) " cells have "
                                                           "started still run: output of further "
                                                           "ones in the background is "
                                                           "shown with the cell that runs then",
                                 process->data);
}

static void
on_pipes_taken(IpbProcess *process, uint32_t marker)
{
    g_autoptr(GError) error = NULL;
    if (process->new_pipes[0] < 0) {
        end_by_breach(process, "new pipes were taken that were not given");
        return;
    }
    const int fds[2] = {ipb_fd_steal(&process->new_pipes[0]), ipb_fd_steal(&process->new_pipes[1])};
    if (!ipb_output_replace_pipes(process->output, fds, marker, &error))
        ipb_process_kill(process, error->message);
}

/* --- branches --------------------------------------------------------------------------------- */

static void on_forked(const IpbForkedProcess *forked, const GError *error, void *data);

static IpbProcess *
take_branch(IpbProcess *process, uint64_t number)
{
    for (guint i = 0; i < process->branches->len; i++) {
        IpbProcess *branch = g_ptr_array_index(process->branches, i);
        if (branch->branch != number)
            continue;
        g_ptr_array_remove_index(process->branches, i);
        branch->forerunner = NULL;
        return branch;
    }
    return NULL;
}

static void
refuse_branch(IpbProcess *branch, const char *const *reasons)
{
    g_autofree char *joined = g_strjoinv("; ", (char **) reasons);
    g_autofree char *cause = g_strdup_printf("the kernel cannot be branched: %s",
                                             joined[0] != '\0' ? joined : "it gives no reason");
    branch->is_refused = true;
    fail_start(branch, cause);
}

/* If the branch is not wanted any more, its wire is closed, and it ends. */
static void
on_branched(IpbProcess *process, const IpbMessage *message)
{
    IpbProcess *branch = take_branch(process, message->request);
    if (branch == NULL) {
        if (message->request > process->last_branch)
            end_by_breach(process, "a branch that was not requested");
        return;
    }
    if (message->branch_pid == 0) {
        refuse_branch(branch, (const char *const *) message->texts);
        return;
    }
    /* What a parked copy lacks, its branches lack, too. */
    branch->warnings =
        g_strdupv(process->kind == IPB_BRANCH_PARKED ? process->warnings : message->texts);
    if (branch->walls != NULL) {
        g_autoptr(GError) error = NULL;
        if (!ipb_walls_adopt(branch->walls, branch, (pid_t) message->branch_pid, &error))
            fail_start(branch, error->message);
        return;
    }
    const int pipes[2] = {branch->stdout_fd, branch->stderr_fd};
    branch->fork = ipb_fork_adopt(branch->forkserver, (pid_t) message->branch_pid, pipes, on_forked,
                                  on_exit_report, branch);
}

/* --- frames ----------------------------------------------------------------------------------- */

static void
on_frame(const IpbFrame *frame, void *data)
{
    IpbProcess *process = data;
    g_auto(IpbMessage) message = {0};
    g_autoptr(GError) error = NULL;
    bool is_greeting = process->state == IPB_PROCESS_GREETING;
    if (process->has_broken_protocol)
        return;
    if (!ipb_message_parse(frame, &message, &error)) {
        end_by_breach(process, error->message);
    } else if (message.type == IPB_FRAME_HELLO) {
        if (is_greeting)
            on_hello(process);
        else if (process->state == IPB_PROCESS_READY)
            end_by_breach(process, "a second hello");
    } else if (is_greeting) {
        end_by_breach(process, "the first frame was not hello");
    } else if (message.type == IPB_FRAME_PIPES_WANTED) {
        on_pipes_wanted(process, message.event.cell);
    } else if (message.type == IPB_FRAME_PIPES_TAKEN) {
        on_pipes_taken(process, frame->marker);
    } else if (message.type == IPB_FRAME_BRANCHED) {
        on_branched(process, &message);
    } else {
        /* What was refused before is a reason for this error, or belongs to the cell that ends. */
        if (process->walls != NULL &&
            (message.type == IPB_FRAME_ERROR || message.type == IPB_FRAME_DONE))
            ipb_sandbox_report_denials(ipb_walls_sandbox(process->walls));
        if (!process->funcs.on_message(&message, &error, process->data))
            end_by_breach(process, error->message);
    }
}

static void
on_wire_end(const GError *error, void *data)
{
    IpbProcess *process = data;
    if (error != NULL) {
        end_by_breach(process, error->message);
        return;
    }
    /* The end of the process follows, with the cause. */
    process->is_wire_closed = true;
    if (process->state < IPB_PROCESS_ENDING && process->kill_timer == NULL)
        process->kill_timer =
            ipb_timer_new(process->loop, CLOSED_WIRE_GRACE_MS, on_kill_timer, process);
}

static void
on_finished(void *data)
{
    IpbProcess *process = data;
    process->is_finished = true;
    check_end(process);
}

static const IpbOutputFuncs output_funcs = {
    .on_text = on_text,
    .on_frame = on_frame,
    .on_wire_end = on_wire_end,
    .on_finished = on_finished,
};

uint64_t
ipb_process_cpu_wait_us(const IpbProcess *process)
{
    return process->pid > 0 ? ipb_pausable_timer_cpu_wait_us(process->pid) : 0;
}

/* --- the fork --------------------------------------------------------------------------------- */

/* No process will exist. */
static void
fail_start(IpbProcess *process, const char *cause)
{
    process->is_exited = true;
    set_cause(process, cause);
    end_process(process, /* with_frames= */ true, /* waits_for_exit= */ false);
}

static void
on_init_timeout(void *data)
{
    IpbProcess *process = data;
    g_autofree char *cause =
        g_strdup_printf("the kernel did not answer within %.3g s after its fork",
                        process->init_timeout_ms / 1000.0);
    ipb_process_kill(process, cause);
}

static uint64_t
cpu_wait_us(void *data)
{
    return ipb_process_cpu_wait_us(data);
}

static const IpbPausableTimerFuncs init_funcs = {on_init_timeout, cpu_wait_us};

static void
on_fork_timeout(void *data)
{
    IpbProcess *process = data;
    g_autofree char *cause = g_strdup_printf(
        process->sandbox_wait != NULL
            ? "no sandbox could be made within %d s, since work on the session's files runs: try "
              "again"
            : "the forkserver did not fork a kernel within %d s (does the import of a preloaded "
              "module hang?)",
        FORK_TIMEOUT_MS / 1000);
    ipb_process_kill(process, cause);
}

static void
on_process_dead(uint32_t events, void *data)
{
    end_process(data, /* with_frames= */ true, /* waits_for_exit= */ true);
}

static void
forget_start(IpbProcess *process)
{
    g_clear_pointer(&process->env, g_strfreev);
    g_clear_pointer(&process->path, g_strfreev);
    g_clear_pointer(&process->packages, g_bytes_unref);
    g_clear_pointer(&process->cwd, g_free);
}

/* A parked copy runs nothing that could be started: it says hello by itself. */
static bool
send_start(IpbProcess *process, int64_t id, uint8_t *key, GError **error)
{
    if (getrandom(key, IPB_MARKER_KEY_SIZE, 0) != IPB_MARKER_KEY_SIZE)
        return ipb_error_set_errno(error, errno, "cannot get random bytes");
    if (process->kind == IPB_BRANCH_PARKED)
        return true;
    char key_text[2 * IPB_MARKER_KEY_SIZE + 1];
    for (int i = 0; i < IPB_MARKER_KEY_SIZE; i++)
        snprintf(key_text + 2 * i, 3, "%02x", key[i]);
    IpbStartMessage start = {
        .key = key_text,
        .id = id,
        .env = (const char *const *) process->env,
        .cwd = process->cwd,
        .path = (const char *const *) process->path,
        .packages = process->packages,
        .has_seed = process->has_seed,
        .seed = process->seed,
        .rules = process->rules,
        .rehearses = process->rehearses,
    };
    size_t size;
    g_autofree char *frame = ipb_message_build_start(&start, &size, error);
    forget_start(process);
    return send_frame(process, frame, size, error);
}

static bool
open_channels(IpbProcess *process, const IpbForkedProcess *forked, GError **error)
{
    ipb_autofd wire_fd = forked->wire_fd;
    ipb_autofd stdout_fd = forked->stdout_fd;
    ipb_autofd stderr_fd = forked->stderr_fd;
    process->write_fd = fcntl(wire_fd, F_DUPFD_CLOEXEC, 3);
    if (process->write_fd < 0)
        return ipb_error_set_errno(error, errno, "cannot duplicate the wire");
    process->write_queue = ipb_write_queue_new(process->loop, process->write_fd, MAX_WRITE_QUEUE,
                                               NULL, process, error);
    if (process->write_queue == NULL)
        return false;
    uint8_t key[IPB_MARKER_KEY_SIZE];
    g_autoptr(GError) send_error = NULL;
    /* Writing to a kernel that is dead already fails. Its end is reported later, with the cause. */
    if (!send_start(process, forked->id, key, &send_error) &&
        !ipb_write_queue_has_failed(process->write_queue)) {
        g_propagate_error(error, g_steal_pointer(&send_error));
        return false;
    }
    process->output = ipb_output_new(process->loop, stdout_fd, stderr_fd, wire_fd, key,
                                     &output_funcs, process, error);
    if (process->output == NULL)
        return false;
    stdout_fd = stderr_fd = wire_fd = -1;
    ipb_output_set_paused(process->output, process->is_paused);
    process->pidfd_watch =
        ipb_watch_new(process->loop, process->pidfd, EPOLLIN, on_process_dead, process, error);
    return process->pidfd_watch != NULL;
}

static void
close_fds(const IpbForkedProcess *forked)
{
    int fds[] = {forked->wire_fd, forked->stdout_fd, forked->stderr_fd};
    for (size_t i = 0; i < G_N_ELEMENTS(fds); i++)
        ipb_fd_close(&fds[i]);
}

/* A branch has its channels already. */
static IpbForkedProcess
add_channels(IpbProcess *process, const IpbForkedProcess *forked)
{
    IpbForkedProcess whole = *forked;
    if (process->wire_fd < 0)
        return whole;
    whole.wire_fd = ipb_fd_steal(&process->wire_fd);
    whole.stdout_fd = ipb_fd_steal(&process->stdout_fd);
    whole.stderr_fd = ipb_fd_steal(&process->stderr_fd);
    return whole;
}

static void
on_forked(const IpbForkedProcess *forked, const GError *error, void *data)
{
    IpbProcess *process = data;
    g_clear_pointer(&process->fork_timer, ipb_timer_free);
    if (forked == NULL) {
        /* A failure of the sandbox comes first: it kills the process that enters the sandbox. */
        const GError *failure =
            process->walls != NULL ? ipb_sandbox_failure(ipb_walls_sandbox(process->walls)) : NULL;
        fail_start(process, failure != NULL ? failure->message : error->message);
        return;
    }
    const IpbForkedProcess whole = add_channels(process, forked);
    process->id = whole.id;
    process->pid = whole.pid;
    process->pidfd = whole.pidfd;
    if (process->state != IPB_PROCESS_FORKING) { /* killed since the request */
        close_fds(&whole);
        return;
    }
    process->state = IPB_PROCESS_GREETING;
    g_autoptr(GError) channel_error = NULL;
    if ((process->walls != NULL &&
         !ipb_sandbox_add_process(ipb_walls_sandbox(process->walls), whole.pid, &channel_error)) ||
        !open_channels(process, &whole, &channel_error)) {
        ipb_process_kill(process, channel_error->message);
        return;
    }
    ipb_pausable_timer_set(&process->init_timer, process->init_timeout_ms);
}

/* --- the sandbox ------------------------------------------------------------------------------ */

static IpbForkSandbox
find_place(const IpbProcess *process)
{
    const IpbSandboxEntry entry = ipb_sandbox_entry(ipb_walls_sandbox(process->walls));
    return (IpbForkSandbox){
        .init_pidfd = entry.fds[0],
        .plan_fd = entry.fds[1],
        .channel_fd = entry.fds[2],
    };
}

static void
on_walls_ready(void *data)
{
    IpbProcess *process = data;
    ipb_walls_reach(process->walls, process->sandboxing.data);
    const IpbForkSandbox place = find_place(process);
    process->fork = ipb_fork_new(process->forkserver, IPB_FORK_KERNEL, &place, on_forked,
                                 on_exit_report, process);
}

static void make_sandbox(IpbProcess *process);

static void
on_walls_end(const char *cause, void *data)
{
    IpbProcess *process = data;
    if (process->state == IPB_PROCESS_FORKING && process->is_entering && process->fork == NULL) {
        leave_walls(process);
        make_sandbox(process);
        return;
    }
    bool is_ending = process->state >= IPB_PROCESS_ENDING;
    /* Pid 1, which has not reported the end of a child of its own, cannot do so any more. */
    bool is_unreported = process->is_walls_child && !process->is_exited;
    if (!is_ending && process->fork == NULL && process->pid == 0)
        fail_start(process, cause);
    else if (!is_ending || is_unreported)
        ipb_process_kill(process, cause); /* the end of its pid namespace has killed it */
    leave_walls(process);
    check_end(process);
}

static void
on_walls_adopted(pid_t pid, int pidfd, const GError *error, void *data)
{
    IpbProcess *branch = data;
    if (error != NULL) {
        on_forked(NULL, error, branch);
        return;
    }
    const IpbForkedProcess forked = {
        .id = ipb_forkserver_make_id(branch->forkserver),
        .pid = pid,
        .pidfd = pidfd,
        .wire_fd = -1,
        .stdout_fd = -1,
        .stderr_fd = -1,
    };
    branch->is_walls_child = true;
    on_forked(&forked, NULL, branch);
}

static void
on_walls_reaped(int wait_status, void *data)
{
    g_autofree char *cause = ipb_child_describe_status(wait_status);
    on_exit_report(wait_status, cause, data);
}

static const IpbWallsFuncs walls_funcs = {
    .on_ready = on_walls_ready,
    .on_end = on_walls_end,
    .on_adopted = on_walls_adopted,
    .on_reaped = on_walls_reaped,
};

/* A sandbox has its own ways to the outside, which replace those of the application's
 * environment. */
static char **
change_environment(char **env, const IpbSandboxPlan *plan)
{
    for (char **name = plan->unset; *name != NULL; name++)
        env = g_environ_unsetenv(env, *name);
    for (char **entry = plan->environment; *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        g_autofree char *name = g_strndup(*entry, (gsize) (equals - *entry));
        env = g_environ_setenv(env, name, equals + 1, TRUE);
    }
    return env;
}

/* Enters the sandbox of other processes, if there is one that they share. */
static bool
enter_sandbox(IpbProcess *process)
{
    if (process->sandboxing.walls == NULL || *process->sandboxing.walls == NULL)
        return false;
    process->walls = *process->sandboxing.walls;
    process->env = change_environment(process->env, ipb_walls_plan(process->walls));
    process->is_entering = true;
    if (ipb_walls_enter(process->walls, &walls_funcs, process))
        on_walls_ready(process);
    return true;
}

static void
on_wait_end(void *data)
{
    IpbProcess *process = data;
    forget_sandbox_wait(process);
    make_sandbox(process);
}

static void
make_sandbox(IpbProcess *process)
{
    g_autoptr(GError) error = NULL;
    process->is_entering = false;
    if (enter_sandbox(process))
        return;
    if (process->sandboxing.wait != NULL)
        process->sandbox_wait =
            process->sandboxing.wait(on_wait_end, process, process->sandboxing.data);
    if (process->sandbox_wait != NULL)
        return;
    g_autoptr(IpbSandboxPlan) plan =
        process->sandboxing.make_plan(process->sandboxing.data, &error);
    if (plan == NULL) {
        fail_start(process, error->message);
        return;
    }
    process->env = change_environment(process->env, plan);
    process->walls =
        ipb_walls_new(process->loop, plan, &process->sandboxing, &walls_funcs, process, &error);
    if (process->walls == NULL)
        fail_start(process, error->message);
}

static void
start(IpbProcess *process, const IpbKernelSandboxFuncs *sandbox)
{
    ipb_pausable_timer_init(&process->init_timer, process->loop, &init_funcs, process);
    process->fork_timer = ipb_timer_new(process->loop, FORK_TIMEOUT_MS, on_fork_timeout, process);
    if (sandbox != NULL) {
        process->sandboxing = *sandbox;
        make_sandbox(process);
    } else {
        process->fork = ipb_fork_new(process->forkserver, IPB_FORK_KERNEL, /* sandbox= */ NULL,
                                     on_forked, on_exit_report, process);
    }
}

/* --- a branch is requested -------------------------------------------------------------------- */

static void
on_branch_timeout(void *data)
{
    g_autofree char *cause =
        g_strdup_printf("the kernel did not fork a branch within %d s", BRANCH_TIMEOUT_MS / 1000);
    ipb_process_kill(data, cause);
}

/* Makes the channels of the branch. */
static bool
make_channels(IpbProcess *branch, int ret_theirs[3], GError **error)
{
    int wire[2], out[2], err[2];
    if (!ipb_fd_socketpair(SOCK_STREAM, wire, error))
        return false;
    branch->wire_fd = wire[0];
    ret_theirs[0] = wire[1];
    if (!ipb_fd_pipe(out, error))
        return false;
    branch->stdout_fd = out[0];
    ret_theirs[1] = out[1];
    if (!ipb_fd_pipe(err, error))
        return false;
    branch->stderr_fd = err[0];
    ret_theirs[2] = err[1];
    return ipb_fd_set_nonblocking(branch->wire_fd, true, error) &&
           ipb_fd_set_nonblocking(branch->stdout_fd, true, error) &&
           ipb_fd_set_nonblocking(branch->stderr_fd, true, error);
}

/* Descriptors can only be sent if no frame waits to be written. */
static bool
send_branch(IpbProcess *forerunner, const IpbProcessOptions *options, const int theirs[3],
            GError **error)
{
    size_t size;
    g_autofree char *frame = ipb_message_build_branch(
        options->kind, ++forerunner->last_branch, options->forerunner_token, options->files, &size);
    if (ipb_write_queue_size(forerunner->write_queue) > 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the kernel does not read: try again");
        return false;
    }
    ssize_t n = ipb_fd_send(forerunner->write_fd, frame, size, theirs, 3);
    if (n < 0)
        return ipb_error_set_errno(error, errno, "cannot ask the kernel for a branch");
    return send_frame(forerunner, frame + n, size - (size_t) n, error);
}

static bool
ask_forerunner(IpbProcess *branch, const IpbProcessOptions *options, GError **error)
{
    IpbProcess *forerunner = options->forerunner;
    int theirs[3] = {-1, -1, -1};
    bool is_sent = forerunner->state == IPB_PROCESS_READY && make_channels(branch, theirs, error) &&
                   send_branch(forerunner, options, theirs, error);
    for (size_t i = 0; i < G_N_ELEMENTS(theirs); i++)
        ipb_fd_close(&theirs[i]);
    if (!is_sent)
        return false;
    branch->branch = forerunner->last_branch;
    branch->forerunner = forerunner;
    g_ptr_array_add(forerunner->branches, branch);
    branch->fork_timer = ipb_timer_new(branch->loop, BRANCH_TIMEOUT_MS, on_branch_timeout, branch);
    return true;
}

static void
start_branch(IpbProcess *branch, const IpbProcessOptions *options)
{
    g_autoptr(GError) error = NULL;
    IpbProcess *forerunner = options->forerunner;
    ipb_pausable_timer_init(&branch->init_timer, branch->loop, &init_funcs, branch);
    if (!ask_forerunner(branch, options, &error)) {
        fail_start(branch, error != NULL ? error->message : "the kernel has ended");
    } else if (forerunner->walls != NULL) {
        branch->walls = forerunner->walls;
        branch->sandboxing = *options->sandbox;
        ipb_walls_join(branch->walls, &walls_funcs, branch);
        if (branch->kind == IPB_BRANCH_LIVE)
            ipb_walls_reach(branch->walls, branch->sandboxing.data);
    }
}

/* --- the interface ----------------------------------------------------------------------- */

IpbProcess *
ipb_process_new(IpbLoop *loop, IpbForkserver *forkserver, const IpbProcessOptions *options,
                const IpbProcessFuncs *funcs, void *data)
{
    IpbProcess *process = g_new0(IpbProcess, 1);
    process->loop = ipb_loop_ref(loop);
    process->funcs = *funcs;
    process->data = data;
    process->env = g_strdupv((char **) options->env);
    process->path = g_strdupv((char **) options->path);
    process->packages = options->packages != NULL ? g_bytes_ref(options->packages) : NULL;
    process->cwd = g_strdup(options->cwd);
    process->has_seed = options->has_seed;
    process->seed = options->seed;
    process->rules = options->rules;
    process->rehearses = options->rehearses;
    process->init_timeout_ms = options->init_timeout_ms;
    process->kind = options->kind;
    process->pidfd = process->write_fd = process->new_pipes[0] = process->new_pipes[1] = -1;
    process->wire_fd = process->stdout_fd = process->stderr_fd = -1;
    process->branches = g_ptr_array_new();
    process->forkserver = ipb_forkserver_ref(forkserver);
    if (options->forerunner != NULL)
        start_branch(process, options);
    else
        start(process, options->sandbox);
    return process;
}

void
ipb_process_set_data(IpbProcess *process, void *data)
{
    process->data = data;
}

bool
ipb_process_measure(const IpbProcess *process, uint64_t *ret_bytes)
{
    return process->state == IPB_PROCESS_READY && ipb_private_memory(process->pid, ret_bytes);
}

const char *const *
ipb_process_warnings(const IpbProcess *process)
{
    static const char *const none[] = {NULL};
    return process->warnings != NULL ? (const char *const *) process->warnings : none;
}

bool
ipb_process_is_refused(const IpbProcess *process)
{
    return process->is_refused;
}

static bool
is_dead(const IpbProcess *process)
{
    struct pollfd poll_fd = {.fd = process->pidfd, .events = POLLIN};
    return process->is_exited || (process->pidfd >= 0 && poll(&poll_fd, 1, 0) > 0);
}

static bool
check_alive(IpbProcess *process, GError **error)
{
    if (process->state == IPB_PROCESS_READY && !is_dead(process))
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED, "the kernel is dead");
    return false;
}

bool
ipb_process_execute(IpbProcess *process, uint64_t cell, const IpbKernelCode *code, GError **error)
{
    size_t size;
    g_autofree char *frame = ipb_message_build_execute(cell, code, &size, error);
    if (frame == NULL || !check_alive(process, error))
        return false;
    ipb_output_mark_cell(process->output);
    return send_frame(process, frame, size, error);
}

bool
ipb_process_request(IpbProcess *process, uint64_t id, const char *method, const char *params,
                    GError **error)
{
    size_t size;
    g_autofree char *frame = ipb_message_build_request(id, method, params, &size, error);
    return check_alive(process, error) && send_frame(process, frame, size, error);
}

bool
ipb_process_answer_input(IpbProcess *process, uint64_t id, const char *value, const char *why,
                         GError **error)
{
    size_t size;
    g_autofree char *frame = ipb_message_build_input(id, value, why, &size, error);
    return frame != NULL && check_alive(process, error) && send_frame(process, frame, size, error);
}

bool
ipb_process_has_socket(const IpbProcess *process, uint64_t inode)
{
    return process->pid > 0 && process->pidfd >= 0 &&
           ipb_descendants_have_socket(process->pid, process->pidfd, inode);
}

char **
ipb_process_change_environment(const IpbProcess *process, char **env)
{
    g_autofree char *id = g_strdup_printf("%" PRId64, process->id);
    if (process->walls != NULL)
        env = change_environment(env, ipb_walls_plan(process->walls));
    return g_environ_setenv(env, "IPYBOX_KERNEL_ID", id, TRUE);
}

IpbFork *
ipb_process_fork_command(IpbProcess *process, IpbForkFunc on_command_forked,
                         IpbForkExitFunc on_command_exit, void *data)
{
    IpbForkSandbox place;
    if (process->walls != NULL)
        place = find_place(process);
    return ipb_fork_new(process->forkserver, IPB_FORK_COMMAND,
                        process->walls != NULL ? &place : NULL, on_command_forked, on_command_exit,
                        data);
}

bool
ipb_process_admit(const IpbProcess *process, pid_t pid, GError **error)
{
    if (ipb_process_is_ending(process)) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_KERNEL_DIED, "the kernel has ended");
        return false;
    }
    return process->walls == NULL ||
           ipb_sandbox_add_process(ipb_walls_sandbox(process->walls), pid, error);
}

bool
ipb_process_is_ending(const IpbProcess *process)
{
    return process->state >= IPB_PROCESS_ENDING;
}

char *
ipb_process_describe_limit(const IpbProcess *process, int wait_status)
{
    return process->walls != NULL
               ? ipb_sandbox_describe_limit(ipb_walls_sandbox(process->walls), wait_status)
               : NULL;
}

void
ipb_process_interrupt(IpbProcess *process, bool is_repetition)
{
    if (process->state == IPB_PROCESS_READY)
        ipb_pidfd_signal(process->pidfd, is_repetition ? REPEATED_INTERRUPT : SIGINT, NULL);
}

void
ipb_process_shut_down(IpbProcess *process, unsigned grace_ms, const char *cause)
{
    set_cause(process, cause);
    if (process->state >= IPB_PROCESS_ENDING)
        return;
    if (process->state != IPB_PROCESS_READY) {
        send_kill(process);
        end_process(process, /* with_frames= */ true, /* waits_for_exit= */ true);
        return;
    }
    size_t size;
    g_autofree char *frame = ipb_message_build_shutdown(&size);
    send_frame(process, frame, size, NULL);
    g_clear_pointer(&process->kill_timer, ipb_timer_free);
    process->kill_timer = ipb_timer_new(process->loop, grace_ms, on_kill_timer, process);
}

void
ipb_process_set_paused(IpbProcess *process, bool paused)
{
    process->is_paused = paused;
    ipb_pausable_timer_set_paused(&process->init_timer, paused);
    if (process->output != NULL)
        ipb_output_set_paused(process->output, paused);
}

void
ipb_process_free(IpbProcess *process)
{
    if (process == NULL)
        return;
    fail_branches(process);
    forget_forerunner(process);
    forget_sandbox_wait(process);
    if (!process->is_exited)
        send_kill(process);
    leave_walls(process);
    ipb_fork_free(process->fork);
    ipb_forkserver_unref(process->forkserver);
    ipb_pausable_timer_unset(&process->init_timer);
    ipb_timer_free(process->fork_timer);
    ipb_timer_free(process->kill_timer);
    ipb_timer_free(process->exit_timer);
    ipb_timer_free(process->end_timer);
    ipb_watch_free(process->pidfd_watch);
    ipb_output_free(process->output);
    ipb_write_queue_free(process->write_queue);
    ipb_fd_close(&process->write_fd);
    ipb_fd_close(&process->pidfd);
    close_new_pipes(process);
    g_ptr_array_unref(process->branches);
    g_strfreev(process->warnings);
    g_free(process->cause);
    g_free(process->exit_cause);
    for (size_t i = 0; i < G_N_ELEMENTS(LIMIT_SIGNALS); i++)
        g_free(process->limits[i]);
    forget_start(process);
    ipb_loop_unref(process->loop);
    g_free(process);
}
