/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command in a sandbox; see the header.
 *
 * The command stays in our process group, as with `env` or `nice`: what the user types at the
 * terminal (Ctrl-C, Ctrl-Z) reaches both, and pipelines and `fg` work. We survive its signals and
 * end as it does. A signal that was sent to us alone is passed on.
 */
#include "cli/sandboxed-run.h"

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
#include "command/sandboxed-command.h"
#include "json/lines.h"
#include "sandbox/policy.h"
#include "sandbox/sandbox.h"

/* Denials that are reported at the end. The rest is counted. */
#define MAX_REPORTED_DENIALS 16
/* As in shells. */
#define STATUS_NOT_EXECUTABLE 126
#define STATUS_NOT_FOUND 127
/* Bytes of a configuration, as in a file. */
#define MAX_CONTROL_LINE (1024 * 1024)
#define CONTROL_READ_SIZE (64 * 1024)

typedef struct {
    const IpbSandboxedRunOptions *options;
    GMainLoop *main_loop;
    IpbLoop *loop;
    IpbSandboxedCommand *command;
    IpbWatch *control_watch;
    IpbLineReader control_lines;
    IpbViolationLog *log; /* NULL also after it could not be written */
    GPtrArray *denials;   /* char *, to be reported at the end; each once */
    unsigned n_unreported;
    IpbWatch *signal_watch;
    int signal_fd;
    int pending_signal; /* arrived before the command was started */
    bool is_ready, has_update;
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

/* --- signals ---------------------------------------------------------------------------------- */

static void
on_signal(uint32_t events, void *data)
{
    Run *run = data;
    struct signalfd_siginfo info;
    if (read(run->signal_fd, &info, sizeof info) != (ssize_t) sizeof info)
        return;
    /* The terminal sent it to the whole process group. */
    if (info.ssi_code == SI_KERNEL)
        return;
    if (run->is_ready)
        ipb_sandboxed_command_signal(run->command, (int) info.ssi_signo);
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

/* --- denials ---------------------------------------------------------------------------------- */

/* Keeps a denial for the end, when the command's own output is complete. Each is reported once. */
static void
keep_denial(Run *run, const char *text)
{
    if (g_ptr_array_find_with_equal_func(run->denials, text, g_str_equal, NULL))
        return;
    if (run->denials->len < MAX_REPORTED_DENIALS)
        g_ptr_array_add(run->denials, g_strdup(text));
    else
        run->n_unreported++;
}

static void
on_violation(const IpbViolation *violation, void *data)
{
    Run *run = data;
    g_autoptr(GError) error = NULL;
    g_autofree char *text = ipb_violation_to_text(violation);
    if (run->options->is_debug)
        ipb_cli_say(&ipb_verb_sandbox, "%s", text);
    else
        keep_denial(run, text);
    if (run->log != NULL && !ipb_violation_log_write(run->log, violation, &error)) {
        ipb_cli_say(&ipb_verb_sandbox, "%s", error->message);
        run->log = NULL; /* report this once */
    }
}

static void
report_denials(const Run *run)
{
    for (guint i = 0; i < run->denials->len; i++)
        ipb_cli_say(&ipb_verb_sandbox, "%s", (const char *) g_ptr_array_index(run->denials, i));
    if (run->n_unreported > 0)
        ipb_cli_say(&ipb_verb_sandbox,
                    "%u more denials; use --violation-log FILE to keep all of them",
                    run->n_unreported);
}

/* --- new configurations: --control-fd --------------------------------------------------------- */

static void
take_policy(Run *run, IpbSandboxPolicy *policy)
{
    g_autoptr(GError) error = NULL;
    if (ipb_sandboxed_command_set_policy(run->command, policy, &error))
        run->has_update = true;
    else
        ipb_cli_say(&ipb_verb_sandbox, "--control-fd: %s", error->message);
    if (run->options->is_debug && error == NULL)
        ipb_cli_say(&ipb_verb_sandbox, "a new configuration is in force");
}

static void
take_line(Run *run, const char *line, size_t size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbSandboxPolicy) policy =
        ipb_sandbox_policy_parse(line, size, "--control-fd", &error);
    if (policy != NULL)
        take_policy(run, policy);
    else
        ipb_cli_say(&ipb_verb_sandbox, "a line was dropped: %s", error->message);
}

/* If no configuration has come yet, the channel may never have worked. Then the command must not
 * continue with a configuration that its supervisor wanted to change. */
static void
lose_control(Run *run, const GError *error)
{
    if (run->has_update) {
        ipb_cli_say(&ipb_verb_sandbox, "%s; the last configuration stays in force", error->message);
        return;
    }
    run->status = ipb_cli_fail(&ipb_verb_sandbox, IPB_EXIT_FAILED, "%s", error->message);
    g_main_loop_quit(run->main_loop);
}

static void
on_control(uint32_t events, void *data)
{
    Run *run = data;
    g_autoptr(GError) error = NULL;
    char bytes[CONTROL_READ_SIZE];
    const char *line;
    size_t size;
    ssize_t n = read(run->options->control_fd, bytes, sizeof bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0)
        ipb_error_set_errno(&error, errno, "--control-fd cannot be read any more");
    if (n <= 0 || !ipb_line_reader_push(&run->control_lines, bytes, (size_t) n, &error)) {
        g_clear_pointer(&run->control_watch, ipb_watch_free);
        if (error != NULL) /* else the channel has ended, and the configuration stays */
            lose_control(run, error);
        return;
    }
    while (ipb_line_reader_next(&run->control_lines, &line, &size))
        if (size > 0)
            take_line(run, line, size);
}

/* The descriptor becomes non-blocking. */
static bool
watch_control(Run *run, GError **error)
{
    int fd = run->options->control_fd;
    if (fd < 0)
        return true;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (ipb_fd_set_nonblocking(fd, true, error))
        run->control_watch = ipb_watch_new(run->loop, fd, EPOLLIN, on_control, run, error);
    return run->control_watch != NULL;
}

/* --- the command ------------------------------------------------------------------------------ */

static void
on_end(IpbSandboxedCommand *command, int wait_status, const GError *error, void *data)
{
    Run *run = data;
    g_autofree char *limit =
        error == NULL ? ipb_sandboxed_command_describe_limit(command, wait_status) : NULL;
    if (limit != NULL)
        ipb_cli_say(&ipb_verb_sandbox, "the command was stopped: %s", limit);
    if (error != NULL)
        run->status = fail(error);
    else
        run->status =
            WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    g_main_loop_quit(run->main_loop);
}

static void
report_weakness(void)
{
    ipb_cli_say(&ipb_verb_sandbox, "warning: namespaces are forbidden here, so this is the weaker "
                                   "sandbox, with Landlock and seccomp only:");
    for (const char *const *gap = ipb_sandbox_weaker_gaps(); *gap != NULL; gap++)
        ipb_cli_say(&ipb_verb_sandbox, "- %s", *gap);
}

/* New configurations are for the egress, which exists now. */
static void
on_ready(IpbSandboxedCommand *command, void *data)
{
    Run *run = data;
    g_autoptr(GError) error = NULL;
    run->is_ready = true;
    if (ipb_sandboxed_command_is_weaker(command))
        report_weakness();
    if (run->options->is_debug)
        ipb_cli_say(&ipb_verb_sandbox, "the sandbox is ready");
    if (run->pending_signal != 0)
        ipb_sandboxed_command_signal(command, run->pending_signal);
    if (!watch_control(run, &error))
        on_end(command, 0, error, run);
}

static void
on_warning(const char *text, void *data)
{
    ipb_cli_say(&ipb_verb_sandbox, "warning: %s", text);
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
    const IpbSandboxedCommandOptions options = {
        .plan = run->options->plan,
        .argv = run->options->argv,
        .env = (const char *const *) env,
        .cwd = run->options->cwd,
        .stdin_fd = standard_fd(STDIN_FILENO),
        .stdout_fd = standard_fd(STDOUT_FILENO),
        .stderr_fd = standard_fd(STDERR_FILENO),
        .is_group_kept = true,
        .is_weaker_allowed = run->options->is_weaker_allowed,
        .on_ready = on_ready,
        .on_end = on_end,
        .on_violation = on_violation,
        .on_warning = on_warning,
        .data = run,
    };
    run->command = ipb_sandboxed_command_new(run->loop, &options, error);
    return run->command != NULL;
}

static void
show_warnings(const IpbSandboxPlan *plan)
{
    for (guint i = 0; i < plan->warnings->len; i++)
        ipb_cli_say(&ipb_verb_sandbox, "warning: %s",
                    (const char *) g_ptr_array_index(plan->warnings, i));
}

static void
clear(Run *run)
{
    ipb_watch_free(run->control_watch);
    ipb_line_reader_clear(&run->control_lines);
    ipb_watch_free(run->signal_watch);
    ipb_fd_close(&run->signal_fd);
    ipb_loop_unref(run->loop);
    g_main_loop_unref(run->main_loop);
    g_ptr_array_unref(run->denials);
}

int
ipb_sandboxed_run(const IpbSandboxedRunOptions *options)
{
    g_autoptr(GError) error = NULL;
    Run run = {.options = options, .log = options->violation_log, .signal_fd = -1};
    show_warnings(options->plan);
    run.denials = g_ptr_array_new_with_free_func(g_free);
    run.main_loop = g_main_loop_new(NULL, FALSE);
    ipb_line_reader_init(&run.control_lines, MAX_CONTROL_LINE);
    if (start(&run, &error))
        g_main_loop_run(run.main_loop);
    else
        run.status = fail(error);
    ipb_sandboxed_command_free(run.command);
    report_denials(&run);
    clear(&run);
    return run.status;
}
