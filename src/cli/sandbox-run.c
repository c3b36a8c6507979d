/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command in a sandbox; see the header.
 *
 * The command stays in our process group, as with `env` or `nice`: what is typed at the terminal (Ctrl-C, Ctrl-Z) reaches it and us alike,
 * pipelines and `fg` work. We outlive its signals and end as it does. A signal that was sent to us alone is passed on.
 */
#include "cli/sandbox-run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "sandbox/launch.h"

/* As shells have it. */
#define STATUS_NOT_EXECUTABLE 126
#define STATUS_NOT_FOUND 127

typedef struct {
    const IpbSandboxRun *run;
    GMainLoop *main_loop;
    IpbLoop *loop;
    IpbSandbox *sandbox;
    IpbWatch *signal_watch;
    int signal_fd;
    int pending_signal; /* came before the command ran */
    bool is_ready;
    int status;
} Run;

static int
fail(const GError *error)
{
    int status = ipb_cli_status(error);
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND))
        status = STATUS_NOT_FOUND;
    else if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED))
        status = STATUS_NOT_EXECUTABLE;
    return ipb_cli_fail(&ipb_verb_sandbox, status, "%s", error->message);
}

G_GNUC_PRINTF(1, 2)
static void
say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *line = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree char *printable = ipb_cli_printable(line);
    fprintf(stderr, "ipybox sandbox: %s\n", printable);
}

/* --- signals ----------------------------------------------------------------------------------- */

static void
on_signal(uint32_t events, void *data)
{
    Run *run = data;
    struct signalfd_siginfo info;
    if (read(run->signal_fd, &info, sizeof info) != (ssize_t) sizeof info)
        return;
    /* From the terminal it went to the whole process group. */
    if (info.ssi_code == SI_KERNEL)
        return;
    if (run->is_ready)
        ipb_sandbox_signal(run->sandbox, (int) info.ssi_signo);
    else
        run->pending_signal = (int) info.ssi_signo;
}

static bool
watch_signals(Run *run, GError **error)
{
    static const int SIGNALS[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < G_N_ELEMENTS(SIGNALS); i++)
        sigaddset(&set, SIGNALS[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signal_fd < 0)
        return ipb_error_set_errno(error, errno, "cannot watch for signals");
    run->signal_watch = ipb_watch_new(run->loop, run->signal_fd, EPOLLIN, on_signal, run, error);
    return run->signal_watch != NULL;
}

/* --- the sandbox ------------------------------------------------------------------------------- */

static void
on_ready(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data)
{
    Run *run = data;
    run->is_ready = true;
    for (size_t i = 0; i < n_listeners; i++) {
        int fd = listeners[i];
        ipb_fd_close(&fd);
    }
    if (run->run->is_debug)
        say("the sandbox stands");
    if (run->pending_signal != 0)
        ipb_sandbox_signal(sandbox, run->pending_signal);
}

static void
on_end(IpbSandbox *sandbox, int wait_status, const GError *error, void *data)
{
    Run *run = data;
    if (error != NULL)
        run->status = fail(error);
    else
        run->status =
            WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    g_main_loop_quit(run->main_loop);
}

static void
on_denied_socket(IpbSandbox *sandbox, const char *path, void *data)
{
    const Run *run = data;
    if (run->run->is_debug)
        say("operation not permitted: the socket %s (network.allowUnixSockets can allow it)", path);
}

static int
standard_fd(int fd)
{
    return fcntl(fd, F_GETFD) >= 0 ? fd : -1;
}

static bool
start(Run *run, GError **error)
{
    run->loop = ipb_loop_new(NULL, error);
    if (run->loop == NULL || !watch_signals(run, error))
        return false;
    g_auto(GStrv) env = g_get_environ();
    run->sandbox = ipb_sandbox_new(run->loop,
                                   &(IpbSandboxOptions){
                                       .plan = run->run->plan,
                                       .argv = run->run->argv,
                                       .env = (const char *const *) env,
                                       .cwd = run->run->cwd,
                                       .stdin_fd = standard_fd(STDIN_FILENO),
                                       .stdout_fd = standard_fd(STDOUT_FILENO),
                                       .stderr_fd = standard_fd(STDERR_FILENO),
                                       .is_group_kept = true,
                                       .is_weaker_allowed = run->run->is_weaker_allowed,
                                       .on_ready = on_ready,
                                       .on_end = on_end,
                                       .on_denied_socket = on_denied_socket,
                                       .data = run,
                                   },
                                   error);
    return run->sandbox != NULL;
}

static void
show_warnings(const IpbSandboxPlan *plan)
{
    for (guint i = 0; i < plan->warnings->len; i++)
        say("warning: %s", (const char *) g_ptr_array_index(plan->warnings, i));
}

int
ipb_sandbox_run(const IpbSandboxRun *options)
{
    g_autoptr(GError) error = NULL;
    Run run = {.run = options, .signal_fd = -1};
    if (options->control_fd >= 0)
        return ipb_cli_fail(&ipb_verb_sandbox, IPB_EXIT_UNAVAILABLE,
                            "--control-fd is not there yet");
    show_warnings(options->plan);
    run.main_loop = g_main_loop_new(NULL, FALSE);
    if (start(&run, &error))
        g_main_loop_run(run.main_loop);
    else
        run.status = fail(error);
    ipb_sandbox_free(run.sandbox);
    ipb_watch_free(run.signal_watch);
    ipb_fd_close(&run.signal_fd);
    ipb_loop_unref(run.loop);
    g_main_loop_unref(run.main_loop);
    return run.status;
}
