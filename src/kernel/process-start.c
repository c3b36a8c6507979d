/* SPDX-License-Identifier: Apache-2.0
 *
 * The start of a kernel process: its sandbox, if it gets one, then its fork, its channels and the frame `start`. What fails on the way is
 * its end, with the cause.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/fd.h"
#include "kernel/marker.h"
#include "kernel/process-private.h"

/* From asking for a fork to getting it: the forkserver's start and its imports are in it. */
#define FORK_TIMEOUT_MS 180000
/* Frames that wait to be written. */
#define MAX_WRITE_QUEUE (2 * (size_t) IPB_FRAME_MAX_SIZE)

/* --- the fork ---------------------------------------------------------------------------------- */

/* There will be no process. */
static void
fail_start(IpbProcess *process, const char *cause)
{
    process->is_exited = true;
    ipb_process_set_cause(process, cause);
    ipb_process_end(process, /* with_frames= */ true, /* waits_for_exit= */ false);
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

static const IpbDeadlineFuncs init_funcs = {on_init_timeout, cpu_wait_us};

static void
on_fork_timeout(void *data)
{
    g_autofree char *cause = g_strdup_printf("the forkserver did not fork a kernel within %d s "
                                             "(does the import of a preloaded module hang?)",
                                             FORK_TIMEOUT_MS / 1000);
    ipb_process_kill(data, cause);
}

static void
on_process_dead(uint32_t events, void *data)
{
    ipb_process_end(data, /* with_frames= */ true, /* waits_for_exit= */ true);
}

void
ipb_process_forget_start(IpbProcess *process)
{
    g_clear_pointer(&process->env, g_strfreev);
    g_clear_pointer(&process->path, g_strfreev);
    g_clear_pointer(&process->cwd, g_free);
}

static bool
send_start(IpbProcess *process, int64_t id, uint8_t *key, GError **error)
{
    if (getrandom(key, IPB_MARKER_KEY_SIZE, 0) != IPB_MARKER_KEY_SIZE)
        return ipb_error_set_errno(error, errno, "cannot get random bytes");
    char key_text[2 * IPB_MARKER_KEY_SIZE + 1];
    for (int i = 0; i < IPB_MARKER_KEY_SIZE; i++)
        snprintf(key_text + 2 * i, 3, "%02x", key[i]);
    IpbStartMessage start = {
        .key = key_text,
        .id = id,
        .env = (const char *const *) process->env,
        .cwd = process->cwd,
        .path = (const char *const *) process->path,
        .has_seed = process->has_seed,
        .seed = process->seed,
        .rules = process->rules,
    };
    size_t size;
    g_autofree char *frame = ipb_message_build_start(&start, &size, error);
    ipb_process_forget_start(process);
    return ipb_process_send(process, frame, size, error);
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
    /* A kernel that is dead already takes no write. Its end is reported below, with the cause. */
    if (!send_start(process, forked->id, key, &send_error) &&
        !ipb_write_queue_has_failed(process->write_queue)) {
        g_propagate_error(error, g_steal_pointer(&send_error));
        return false;
    }
    process->output = ipb_output_new(process->loop, stdout_fd, stderr_fd, wire_fd, key,
                                     &IPB_PROCESS_OUTPUT_FUNCS, process, error);
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

static void
on_forked(const IpbForkedProcess *forked, const GError *error, void *data)
{
    IpbProcess *process = data;
    g_clear_pointer(&process->fork_timer, ipb_timer_free);
    if (forked == NULL) {
        /* What went wrong with the sandbox comes first: it kills who enters it then. */
        const GError *failure =
            process->sandbox != NULL ? ipb_sandbox_failure(process->sandbox) : NULL;
        fail_start(process, failure != NULL ? failure->message : error->message);
        return;
    }
    process->pid = forked->pid;
    process->pidfd = forked->pidfd;
    if (process->state != IPB_PROCESS_FORKING) { /* killed meanwhile */
        close_fds(forked);
        return;
    }
    process->state = IPB_PROCESS_GREETING;
    g_autoptr(GError) channel_error = NULL;
    if ((process->sandbox != NULL &&
         !ipb_sandbox_add_process(process->sandbox, forked->pid, &channel_error)) ||
        !open_channels(process, forked, &channel_error)) {
        ipb_process_kill(process, channel_error->message);
        return;
    }
    ipb_deadline_set(&process->init_deadline, process->init_timeout_ms);
}

/* --- the sandbox ------------------------------------------------------------------------------- */

static void
on_sandbox_ready(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data)
{
    IpbProcess *process = data;
    process->sandboxing.on_listeners(listeners, n_listeners, process->sandboxing.data);
    IpbForkSandbox place = {
        .init_pidfd = ipb_sandbox_pidfd(sandbox),
        .plan_fd = ipb_sandbox_plan_fd(sandbox),
        .channel_fd = ipb_sandbox_channel_fd(sandbox),
    };
    process->fork =
        ipb_fork_new(process->forkserver, &place, on_forked, ipb_process_note_exit, process);
}

static void
on_sandbox_end(IpbSandbox *sandbox, int wait_status, const GError *error, void *data)
{
    IpbProcess *process = data;
    g_autofree char *cause =
        error != NULL ? g_strdup(error->message) : g_strdup("its sandbox ended");
    if (process->fork == NULL)
        fail_start(process, cause);
    else /* it is killed already: that is how a pid namespace ends */
        ipb_process_kill(process, cause);
}

static void
on_denied_socket(IpbSandbox *sandbox, const char *path, void *data)
{
    IpbProcess *process = data;
    process->sandboxing.on_denied_socket(path, process->sandboxing.data);
}

/* How the outside is reached from in there, whatever the application's environment says. */
static void
change_environment(IpbProcess *process, const IpbSandboxPlan *plan)
{
    for (char **name = plan->unset; *name != NULL; name++)
        process->env = g_environ_unsetenv(process->env, *name);
    for (char **entry = plan->environment; *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        g_autofree char *name = g_strndup(*entry, (gsize) (equals - *entry));
        process->env = g_environ_setenv(process->env, name, equals + 1, TRUE);
    }
}

static void
make_sandbox(IpbProcess *process)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbSandboxPlan) plan =
        process->sandboxing.make_plan(process->sandboxing.data, &error);
    if (plan == NULL) {
        fail_start(process, error->message);
        return;
    }
    change_environment(process, plan);
    IpbSandboxOptions options = {
        .plan = plan,
        .stdin_fd = -1,
        .stdout_fd = -1,
        .stderr_fd = -1,
        .on_ready = on_sandbox_ready,
        .on_end = on_sandbox_end,
        .on_denied_socket = on_denied_socket,
        .data = process,
    };
    process->sandbox = ipb_sandbox_new(process->loop, &options, &error);
    if (process->sandbox == NULL)
        fail_start(process, error->message);
}

void
ipb_process_start(IpbProcess *process, const IpbKernelSandbox *sandbox)
{
    ipb_deadline_init(&process->init_deadline, process->loop, &init_funcs, process);
    process->fork_timer = ipb_timer_new(process->loop, FORK_TIMEOUT_MS, on_fork_timeout, process);
    if (sandbox != NULL) {
        process->sandboxing = *sandbox;
        make_sandbox(process);
    } else {
        process->fork = ipb_fork_new(process->forkserver, /* sandbox= */ NULL, on_forked,
                                     ipb_process_note_exit, process);
    }
}
