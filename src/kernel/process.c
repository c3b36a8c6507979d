/* SPDX-License-Identifier: Apache-2.0
 *
 * One kernel process; see the header.
 *
 * FORKING (also while its sandbox is made) → GREETING (start was sent) → READY, and from each of them ENDING → ENDED. It is ENDING when it is
 * known to be dead, or was killed. Then two things are waited for: the collector tells what is left, and the
 * forkserver tells how it died and that all it started is gone. A kill for a known cause waits
 * for the first only.
 */
#include "kernel/process.h"

#include <poll.h>
#include <signal.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/descendants.h"
#include "kernel/cpu-wait.h"
#include "kernel/process-private.h"

/* Not SIGINT again; see docs/internals/kernel-wire.md. */
#define REPEATED_INTERRUPT (SIGRTMIN + 6)
/* From a death to the forkserver's word on how it came about. */
#define EXIT_WAIT_MS 2000
/* From the end of the wire to the end of the process: a kernel that closed the one lives without use. */
#define CLOSED_WIRE_GRACE_MS 1000

/* --- the end ----------------------------------------------------------------------------------- */

static void
on_end_timer(void *data)
{
    IpbProcess *process = data;
    process->state = IPB_PROCESS_ENDED;
    g_autofree char *cause = g_steal_pointer(&process->cause);
    /* A sandbox that goes wrong kills what is in it. */
    const GError *failure = process->sandbox != NULL ? ipb_sandbox_failure(process->sandbox) : NULL;
    if (cause == NULL && failure != NULL)
        cause = g_strdup(failure->message);
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
    if (process->state == IPB_PROCESS_ENDING && process->is_finished &&
        (process->is_exited || !process->waits_for_exit) && process->end_timer == NULL)
        process->end_timer = ipb_timer_new(process->loop, 0, on_end_timer, process);
}

static void
on_exit_timer(void *data)
{
    IpbProcess *process = data;
    g_clear_pointer(&process->exit_timer, ipb_timer_free);
    process->waits_for_exit = false;
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

void
ipb_process_end(IpbProcess *process, bool with_frames, bool waits_for_exit)
{
    if (process->state >= IPB_PROCESS_ENDING) {
        process->waits_for_exit = process->waits_for_exit && waits_for_exit;
        check_end(process);
        return;
    }
    process->state = IPB_PROCESS_ENDING;
    process->waits_for_exit = waits_for_exit;
    ipb_deadline_unset(&process->init_deadline);
    g_clear_pointer(&process->fork_timer, ipb_timer_free);
    g_clear_pointer(&process->kill_timer, ipb_timer_free);
    g_clear_pointer(&process->pidfd_watch, ipb_watch_free);
    g_clear_pointer(&process->sandbox, ipb_sandbox_free);
    if (waits_for_exit)
        process->exit_timer = ipb_timer_new(process->loop, EXIT_WAIT_MS, on_exit_timer, process);
    if (process->output != NULL)
        ipb_output_finish(process->output, with_frames);
    else
        process->is_finished = true;
    check_end(process);
}

void
ipb_process_set_cause(IpbProcess *process, const char *cause)
{
    if (process->cause == NULL)
        process->cause = g_strdup(cause);
}

void
ipb_process_kill(IpbProcess *process, const char *cause)
{
    ipb_process_set_cause(process, cause);
    send_kill(process);
    ipb_process_end(process, /* with_frames= */ true, /* waits_for_exit= */ false);
}

static void
end_by_breach(IpbProcess *process, const char *what)
{
    g_autofree char *cause = g_strdup_printf("the kernel broke its protocol: %s", what);
    ipb_process_set_cause(process, cause);
    process->has_broken_protocol = true;
    send_kill(process);
    ipb_process_end(process, /* with_frames= */ false, /* waits_for_exit= */ false);
}

static void
on_kill_timer(void *data)
{
    IpbProcess *process = data;
    g_clear_pointer(&process->kill_timer, ipb_timer_free);
    if (process->is_wire_closed)
        ipb_process_set_cause(process,
                              "the kernel's connection was closed by code that ran in it, so the "
                              "kernel was killed");
    send_kill(process);
    ipb_process_end(process, /* with_frames= */ true, /* waits_for_exit= */ true);
}

void
ipb_process_note_exit(int wait_status, const char *cause, void *data)
{
    IpbProcess *process = data;
    process->is_exited = true;
    g_autofree char *limit =
        process->sandbox != NULL ? ipb_sandbox_describe_limit(process->sandbox, wait_status) : NULL;
    process->exit_cause = limit != NULL ? g_strdup_printf("%s: %s", cause, limit) : g_strdup(cause);
    /* With the forkserver lost, nobody else makes sure of it. */
    if (process->pidfd >= 0)
        ipb_pidfd_signal(process->pidfd, SIGKILL, NULL);
    ipb_process_end(process, /* with_frames= */ true, /* waits_for_exit= */ true);
}

/* --- what the collector tells ------------------------------------------------------------------ */

static void
on_text(bool is_stderr, bool is_late, const char *text, size_t size, void *data)
{
    IpbProcess *process = data;
    process->funcs.on_text(is_stderr, is_late, text, size, process->data);
}

static void
on_hello(IpbProcess *process)
{
    if (process->state == IPB_PROCESS_ENDING)
        return;
    process->state = IPB_PROCESS_READY;
    ipb_deadline_unset(&process->init_deadline);
    process->funcs.on_hello(process->data);
}

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
        end_by_breach(process, "another frame than hello came first");
    } else if (!process->funcs.on_message(&message, &error, process->data)) {
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
    /* The end of the process follows, and tells why. */
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

const IpbOutputFuncs IPB_PROCESS_OUTPUT_FUNCS = {
    .on_text = on_text,
    .on_frame = on_frame,
    .on_wire_end = on_wire_end,
    .on_finished = on_finished,
};

/* --- what its owner does ----------------------------------------------------------------------- */

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
    process->cwd = g_strdup(options->cwd);
    process->has_seed = options->has_seed;
    process->seed = options->seed;
    process->rules = options->rules;
    process->init_timeout_ms = options->init_timeout_ms;
    process->pidfd = process->write_fd = -1;
    process->forkserver = ipb_forkserver_ref(forkserver);
    ipb_process_start(process, options->sandbox);
    return process;
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
ipb_process_send(IpbProcess *process, const char *frame, size_t size, GError **error)
{
    return frame != NULL && ipb_write_queue_push(process->write_queue, frame, size, error);
}

bool
ipb_process_execute(IpbProcess *process, uint64_t cell, const IpbKernelCode *code, GError **error)
{
    size_t size;
    g_autofree char *frame = ipb_message_build_execute(cell, code, &size, error);
    if (frame == NULL || !check_alive(process, error))
        return false;
    ipb_output_mark_cell(process->output);
    return ipb_process_send(process, frame, size, error);
}

bool
ipb_process_request(IpbProcess *process, uint64_t id, const char *method, const char *params,
                    GError **error)
{
    size_t size;
    g_autofree char *frame = ipb_message_build_request(id, method, params, &size, error);
    return check_alive(process, error) && ipb_process_send(process, frame, size, error);
}

uint64_t
ipb_process_cpu_wait_us(const IpbProcess *process)
{
    return process->pid > 0 ? ipb_cpu_wait_us(process->pid) : 0;
}

bool
ipb_process_has_socket(const IpbProcess *process, uint64_t inode)
{
    return process->pid > 0 && process->pidfd >= 0 &&
           ipb_descendants_have_socket(process->pid, process->pidfd, inode);
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
    ipb_process_set_cause(process, cause);
    if (process->state >= IPB_PROCESS_ENDING)
        return;
    if (process->state != IPB_PROCESS_READY) {
        send_kill(process);
        ipb_process_end(process, /* with_frames= */ true, /* waits_for_exit= */ true);
        return;
    }
    size_t size;
    g_autofree char *frame = ipb_message_build_shutdown(&size);
    ipb_process_send(process, frame, size, NULL);
    g_clear_pointer(&process->kill_timer, ipb_timer_free);
    process->kill_timer = ipb_timer_new(process->loop, grace_ms, on_kill_timer, process);
}

void
ipb_process_set_paused(IpbProcess *process, bool paused)
{
    process->is_paused = paused;
    ipb_deadline_set_paused(&process->init_deadline, paused);
    if (process->output != NULL)
        ipb_output_set_paused(process->output, paused);
}

void
ipb_process_free(IpbProcess *process)
{
    if (process == NULL)
        return;
    if (!process->is_exited)
        send_kill(process);
    ipb_sandbox_free(process->sandbox);
    ipb_fork_free(process->fork);
    ipb_forkserver_unref(process->forkserver);
    ipb_deadline_unset(&process->init_deadline);
    ipb_timer_free(process->fork_timer);
    ipb_timer_free(process->kill_timer);
    ipb_timer_free(process->exit_timer);
    ipb_timer_free(process->end_timer);
    ipb_watch_free(process->pidfd_watch);
    ipb_output_free(process->output);
    ipb_write_queue_free(process->write_queue);
    ipb_fd_close(&process->write_fd);
    ipb_fd_close(&process->pidfd);
    g_free(process->cause);
    g_free(process->exit_cause);
    ipb_process_forget_start(process);
    ipb_loop_unref(process->loop);
    g_free(process);
}
