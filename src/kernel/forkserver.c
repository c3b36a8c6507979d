/* SPDX-License-Identifier: Apache-2.0
 *
 * The forkserver's process and its control socket; see the header.
 *
 * The process is started by the first fork, and again by the next one after it ended for whatever reason.
 * Its end is told by its own exit only: when something goes wrong before (no answer in time, nonsense on the
 * control socket, `failed`), the reason is kept in `failure` and the process is ended; on_child_exit
 * then tells all who wait.
 */
#include "kernel/forkserver.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "kernel/forkserver-env.h"
#include "kernel/forkserver-private.h"
#include "kernel/marker.h"

#define START_TIMEOUT_MS 60000
/* After the end of the control socket: to reap all kernels; then SIGTERM, and again; then SIGKILL. */
#define STOP_GRACE_MS 3000
/* While it starts it has no kernels, and may hang in an import: SIGTERM at once, and again; then SIGKILL. */
#define STOP_STARTING_GRACE_MS 500
/* The last reference waits so long for the same, if there are kernels left. */
#define FREE_GRACE_MS 1000
/* What is kept of the forkserver's stdout and stderr, and how much of it a message shows. */
#define MAX_OUTPUT (64 * 1024)
#define MAX_OUTPUT_READ 4096
#define MAX_SHOWN_OUTPUT 2000
/* Packets taken in one wake-up. */
#define MAX_PACKETS 64

#define PIP_PACKAGES "ipython pydantic matplotlib-inline"

typedef struct {
    void (*done)(void *data);
    void *data;
} StopWaiter;

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
    forkserver->preload = g_strdupv((char **) options->preload);
    forkserver->env = ipb_forkserver_env();
    forkserver->start_timeout_ms =
        options->start_timeout_ms > 0 ? options->start_timeout_ms : START_TIMEOUT_MS;
    forkserver->control_fd = forkserver->output_fd = -1;
    /* An id is also how a kernel's processes are known on the whole machine: no two forkservers share one. */
    forkserver->last_id = (int64_t) g_random_int() << 20;
    ipb_buffer_init(&forkserver->output, MAX_OUTPUT);
    forkserver->forks = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_queue_init(&forkserver->waiting);
    g_queue_init(&forkserver->kills);
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

/* The end of what the process printed, as ": text" for a message, or "". */
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

/* Keeps the first reason, and ends the process; the rest is on_child_exit's. */
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

/* Python is there, but not what it needs. */
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
    ipb_forks_flush(forkserver);
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
        ipb_forks_on_packet(forkserver, &message, pidfd);
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
        ipb_forks_flush(forkserver);
    if ((events & ~(uint32_t) EPOLLOUT) != 0 && receive_packets(forkserver) == PACKETS_END) {
        /* It ends, or has lost its mind. */
        g_clear_pointer(&forkserver->control_watch, ipb_watch_free);
        ipb_child_stop(forkserver->child, STOP_GRACE_MS);
    }
    ipb_forkserver_unref(forkserver);
}

/* Keeps the last MAX_OUTPUT bytes; false at the end or when there is no more. */
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

/* Why those who wait for a kernel get none. */
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

/* Python has many words for too little memory ("error return without exception set" is one), so
 * whatever it says at its start, a limit that it had is named. */
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
tell_stopped(IpbForkserver *forkserver)
{
    StopWaiter *waiter;
    while ((waiter = g_queue_pop_head(&forkserver->stop_waiters)) != NULL) {
        waiter->done(waiter->data);
        g_free(waiter);
    }
}

static void
on_child_exit(IpbChild *child, int wait_status, void *data)
{
    IpbForkserver *forkserver = ipb_forkserver_ref(data);
    /* What it said before it ended. */
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
    ipb_forks_fail(forkserver, error);
    ipb_forks_lose(forkserver, cause);
    tell_stopped(forkserver);
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
    /* Where kernels are sandboxed, site-packages may hold .pth files that one of them wrote: they are code. */
    const char *plain[] = {forkserver->python, "-I", forkserver->script, NULL};
    const char *without_site[] = {forkserver->python, "-I", "-S", forkserver->script, NULL};
    IpbChildOptions options = {
        .argv = forkserver->entrance != NULL ? without_site : plain,
        .envp = (const char *const *) forkserver->env,
        .stdin_fd = -1,
        .stdout_fd = output_theirs,
        .stderr_fd = output_theirs,
        .extra_fd = control_theirs,
        /* When we die it still has to end what its kernels started. */
        .death_signal = SIGTERM,
    };
    forkserver->child =
        ipb_child_spawn(forkserver->loop, &options, on_child_exit, forkserver, error);
    if (forkserver->child == NULL)
        return false;
    g_autofree char *configure =
        ipb_control_build_configure((const char *const *) forkserver->preload,
                                    forkserver->stub_directory, forkserver->entrance);
    if (ipb_fd_send(forkserver->control_fd, configure, strlen(configure), NULL, 0) < 0)
        return ipb_error_set_errno(error, errno, "cannot configure the forkserver");
    return true;
}

/* The reasons that a person can do something about get the words for it. */
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
        ipb_forks_fail(forkserver, explained);
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
        tell_stopped(forkserver);
    ipb_forkserver_unref(forkserver);
}

void
ipb_forkserver_stop(IpbForkserver *forkserver, void (*done)(void *data), void *data)
{
    StopWaiter *waiter = g_new(StopWaiter, 1);
    *waiter = (StopWaiter){done, data};
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
        shutdown(forkserver->control_fd, SHUT_WR); /* it kills and reaps all kernels, and exits */
        ipb_child_stop(forkserver->child, STOP_GRACE_MS);
        return;
    case IPB_FORKSERVER_STOPPING:
        return;
    }
}

/* Lets the process kill and reap what it forked; bounded. */
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
    ipb_forks_clear(forkserver);
    g_hash_table_unref(forkserver->forks);
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
    ipb_loop_unref(forkserver->loop);
    g_free(forkserver);
}
