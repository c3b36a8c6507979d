/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs pip or uv; see the header. It is a child process whose stdout and stderr are one pipe. An
 * installation has ended when the process has ended and the pipe was read to its end.
 */
#include "session/installer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/beneath.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "command/sandboxed-command.h"
#include "json/lines.h"
#include "base/child.h"
#include "session/install-command.h"
#include "session/install-env.h"
#include "session/package-index.h"

#define MAX_LINE 65536
/* So much of the beginning of the output is kept, and of its end. */
#define MAX_OUTPUT_HALF 32768
#define TIMEOUT_MS (15 * 60 * 1000)
#define GRACE_MS 2000
#define PIP_PROXY "PIP_PROXY"

/* One installation. */
typedef struct {
    IpbInstaller *installer;
    IpbLoop *loop;
    const IpbInstallerOptions *options;
    char *package;
    IpbInstallLineFunc on_line; /* may be NULL */
    IpbInstallDoneFunc on_done;
    void *data;
    IpbChild *child; /* pip or uv, or before one in a sandbox `pip config` */
    IpbSandboxedCommand *boxed;
    IpbPackageIndex *index; /* NULL: no sandbox */
    IpbUpstream *upstream;  /* likewise */
    bool is_reading_config;
    int output_fd;
    IpbWatch *watch;
    IpbTimer *timer;
    IpbLineReader lines;
    GString *head, *tail;
    size_t left_out;
    GError *why_ended; /* timeout or cancel */
} Run;

struct IpbInstaller {
    IpbLoop *loop;
    IpbInstallerOptions options;
    Run *run; /* or NULL */
    bool is_closed;
    void (*closed)(void *data);
    void *closed_data;
};

static void report_end(Run *run, const char *output, const GError *error);

/* Keeps the line and reports it. */
static void
take_line(Run *run, const char *bytes, size_t size)
{
    IpbUtf8Decoder decoder = {0};
    g_autoptr(GString) line = g_string_new(NULL);
    ipb_utf8_decode(&decoder, bytes, size, true, line);
    if (run->is_reading_config) {
        ipb_package_index_take_line(run->index, line->str);
        return;
    }
    GString *half =
        run->head->len + line->len < MAX_OUTPUT_HALF && run->left_out == 0 && run->tail->len == 0
            ? run->head
            : run->tail;
    g_string_append_printf(half, "%s\n", line->str);
    while (run->tail->len > MAX_OUTPUT_HALF) {
        const char *newline = memchr(run->tail->str, '\n', run->tail->len);
        size_t first = (size_t) (newline - run->tail->str) + 1;
        run->left_out += first;
        g_string_erase(run->tail, 0, (gssize) first);
    }
    if (run->on_line != NULL)
        run->on_line(line->str, run->data);
}

static void
take_lines(Run *run)
{
    const char *line;
    size_t size;
    while (ipb_line_reader_next(&run->lines, &line, &size))
        take_line(run, line, size);
}

/* Reads what is available; false at the end of the pipe. A line over the maximum is cut into
 * several. */
static bool
read_output(Run *run)
{
    char chunk[16384];
    ssize_t n = read(run->output_fd, chunk, sizeof chunk);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n == 0)
        return false;
    if (!ipb_line_reader_push(&run->lines, chunk, (size_t) n, NULL)) {
        const char *rest;
        size_t size;
        if (ipb_line_reader_rest(&run->lines, &rest, &size))
            take_line(run, rest, size);
        ipb_line_reader_clear(&run->lines);
        ipb_line_reader_init(&run->lines, MAX_LINE);
        ipb_line_reader_push(&run->lines, chunk, (size_t) n, NULL);
    }
    take_lines(run);
    return true;
}

static void
on_output(uint32_t events, void *data)
{
    Run *run = data;
    if (!read_output(run))
        g_clear_pointer(&run->watch, ipb_watch_free);
}

static char *
whole_output(const Run *run)
{
    if (run->left_out == 0)
        return g_strconcat(run->head->str, run->tail->str, NULL);
    return g_strdup_printf("%s[… %zu bytes left out …]\n%s", run->head->str, run->left_out,
                           run->tail->str);
}

/* Reads everything that is in the pipe now. It does not wait for the end of the pipe, because
 * processes that the installer left behind may keep it open. */
static void
drain(Run *run)
{
    ssize_t n;
    char chunk[16384];
    while ((n = read(run->output_fd, chunk, sizeof chunk)) > 0) {
        if (ipb_line_reader_push(&run->lines, chunk, (size_t) n, NULL))
            take_lines(run);
    }
    const char *rest;
    size_t size;
    if (ipb_line_reader_rest(&run->lines, &rest, &size) && size > 0)
        take_line(run, rest, size);
}

/* Reports the end; the callback may free the installer. */
static void
finish(Run *run, int wait_status, GError *error)
{
    g_clear_pointer(&run->timer, ipb_timer_free);
    g_clear_pointer(&run->watch, ipb_watch_free);
    drain(run);
    g_autofree char *output = whole_output(run);
    g_autoptr(GError) why = run->why_ended != NULL ? g_steal_pointer(&run->why_ended) : error;
    if (why != error)
        g_clear_error(&error);
    if (why == NULL && !(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)) {
        g_autofree char *status = ipb_child_describe_status(wait_status);
        g_autofree char *advice = ipb_install_env_advise(run->options->env, output);
        why = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "the installer failed (%s):\n%s%s",
                          status, output, advice != NULL ? advice : "");
    }
    report_end(run, why == NULL ? output : NULL, why);
}

static void
on_installer_exit(IpbChild *child, int wait_status, void *data)
{
    finish(data, wait_status, NULL);
}

static void
end_with(Run *run, IpyboxError code, const char *message)
{
    if (run->why_ended != NULL)
        return;
    run->why_ended = g_error_new_literal(IPYBOX_ERROR, (int) code, message);
    if (run->boxed != NULL) {
        ipb_sandboxed_command_signal(run->boxed, SIGTERM);
        ipb_sandboxed_command_stop(run->boxed, GRACE_MS);
    } else {
        ipb_child_signal(run->child, SIGTERM);
        ipb_child_stop(run->child, GRACE_MS);
    }
}

static void
on_timeout(void *data)
{
    end_with(data, IPYBOX_ERROR_TIMEOUT, "the installation took too long and was ended");
}

static char **
make_command(const Run *run, const char *uv)
{
    return ipb_install_command_argv(&(IpbInstallCommand){
        .uv = uv,
        .python = run->options->python,
        .host_directory = run->options->host_directory,
        .overlay = run->options->overlay,
        .package = run->package,
        .is_sandboxed = run->options->sandboxing != NULL,
        .allows_builds = run->options->allows_builds,
    });
}

/* Makes a pipe, and returns the end that the installer writes to; -1 with @error. */
static int
open_output(Run *run, GError **error)
{
    int ends[2];
    g_clear_pointer(&run->watch, ipb_watch_free);
    ipb_fd_close(&run->output_fd);
    if (!ipb_fd_pipe(ends, error))
        return -1;
    run->output_fd = ends[0];
    if (ipb_fd_set_nonblocking(run->output_fd, true, error))
        run->watch = ipb_watch_new(run->loop, run->output_fd, EPOLLIN, on_output, run, error);
    if (run->watch == NULL)
        ipb_fd_close(&ends[1]);
    return ends[1];
}

static bool
spawn(Run *run, const char *const *argv, const char *cwd, IpbChildExitFunc on_exit, GError **error)
{
    ipb_autofd child_end = open_output(run, error);
    if (child_end < 0)
        return false;
    IpbChildOptions child = {IPB_CHILD_OPTIONS_INIT, .argv = argv};
    child.envp = run->options->env;
    child.cwd = cwd;
    child.stdout_fd = child.stderr_fd = child_end;
    run->child = ipb_child_spawn(run->loop, &child, on_exit, run, error);
    return run->child != NULL;
}

static bool
spawn_installer(Run *run, GError **error)
{
    g_autofree char *uv =
        ipb_install_command_find_uv(run->options->python, /* is_sandboxed= */ false);
    g_auto(GStrv) argv = make_command(run, uv);
    return spawn(run, (const char *const *) argv, run->options->workspace, on_installer_exit,
                 error);
}

/* --- in a sandbox ----------------------------------------------------------------------------- */

static void
on_boxed_end(IpbSandboxedCommand *command, int wait_status, const GError *error, void *data)
{
    finish(data, wait_status, error != NULL ? g_error_copy(error) : NULL);
}

static char *
describe_violation(const IpbViolation *violation)
{
    if (g_str_equal(violation->what, IPB_VIOLATION_PROXY))
        return g_strdup_printf("%s cannot be reached: %s\n", violation->target, violation->reason);
    if (violation->text != NULL) /* of files: the text says all */
        return g_strdup_printf("operation not permitted: %s\n", violation->text);
    return g_strdup_printf("operation not permitted: %s to %s: an installation reaches "
                           "the configured index only\n",
                           violation->what, violation->target);
}

static void
on_violation(const IpbViolation *violation, void *data)
{
    g_autofree char *line = describe_violation(violation);
    Run *run = data;
    take_line(run, line, strlen(line) - 1);
}

/* pip's own proxy setting, which applies to all hosts; NULL: there is none. */
static const char *
find_own_proxy(const Run *run)
{
    const char *own = g_environ_getenv((char **) run->options->env, PIP_PROXY);
    if (own == NULL)
        own = g_environ_getenv((char **) ipb_package_index_settings(run->index), PIP_PROXY);
    return own != NULL && *own != '\0' ? own : NULL;
}

static IpbSandboxPlan *
make_plan(const Run *run, const char *uv, const char *const *env, GError **error)
{
    g_auto(GStrv) paths = ipb_install_env_paths(env);
    g_autoptr(GStrvBuilder) readable = g_strv_builder_new();
    g_strv_builder_addv(readable, (const char **) paths);
    if (uv != NULL)
        g_strv_builder_add(readable, uv);
    g_auto(GStrv) all = g_strv_builder_end(readable);
    return ipb_sandboxing_make_install_plan(run->options->sandboxing, run->options->overlay,
                                            (const char *const *) all,
                                            ipb_package_index_hosts(run->index), error);
}

static bool
spawn_boxed(Run *run, GError **error)
{
    const IpbInstallerOptions *options = run->options;
    g_autofree char *uv = ipb_install_command_find_uv(options->python, /* is_sandboxed= */ true);
    const char *own_proxy = uv == NULL ? find_own_proxy(run) : NULL;
    g_auto(GStrv) env = ipb_install_env_make(options->env, ipb_package_index_settings(run->index),
                                             own_proxy != NULL ? IPB_PLAN_HTTP_PROXY_URL : NULL);
    g_autoptr(IpbSandboxPlan) plan = make_plan(run, uv, (const char *const *) env, error);
    if (plan == NULL)
        return false;
    ipb_autofd child_end = open_output(run, error);
    if (child_end < 0)
        return false;
    g_auto(GStrv) argv = make_command(run, uv);
    run->upstream = ipb_upstream_new(options->env, own_proxy, PIP_PROXY);
    run->boxed = ipb_sandboxed_command_new(run->loop,
                                           &(IpbSandboxedCommandOptions){
                                               .plan = plan,
                                               .argv = (const char *const *) argv,
                                               .env = (const char *const *) env,
                                               .cwd = options->workspace,
                                               .stdin_fd = -1,
                                               .stdout_fd = child_end,
                                               .stderr_fd = child_end,
                                               .on_end = on_boxed_end,
                                               .on_violation = on_violation,
                                               .upstream = run->upstream,
                                               .data = run,
                                           },
                                           error);
    return run->boxed != NULL;
}

/* pip has printed its configuration, or failed: then only the environment is known. */
static void
on_config_read(IpbChild *child, int wait_status, void *data)
{
    Run *run = data;
    drain(run);
    run->is_reading_config = false;
    ipb_child_free(g_steal_pointer(&run->child));
    GError *error = NULL;
    if (run->why_ended != NULL || !spawn_boxed(run, &error))
        finish(run, 0, error);
}

static bool
begin_boxed(Run *run, GError **error)
{
    const IpbInstallerOptions *options = run->options;
    if (!options->allows_builds && strstr(run->package, "://") != NULL) {
        g_set_error(
            error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
            "%s: a URL is not installed in a sandbox: name a package of the index, or start ipybox "
            "with --allow-builds",
            run->package);
        return false;
    }
    /* Cells write the workspace, so no link in it may lead the installer elsewhere. */
    g_autoptr(IpbBeneath) overlay =
        ipb_beneath_open_in(options->workspace, options->overlay, 0755, error);
    if (overlay == NULL)
        return false;
    run->index = ipb_package_index_new(options->env);
    ipb_package_index_take_package(run->index, run->package);
    g_autofree char *uv = ipb_install_command_find_uv(options->python, /* is_sandboxed= */ true);
    if (uv != NULL)
        return spawn_boxed(run, error);
    run->is_reading_config = true;
    /* pip reads its configuration outside of the sandbox. */
    g_auto(GStrv) argv = ipb_install_command_config_argv(options->python, options->host_directory);
    return spawn(run, (const char *const *) argv, "/", on_config_read, error);
}

/* --- the installer ---------------------------------------------------------------------------- */

static void
free_run(Run *run)
{
    if (run == NULL)
        return;
    ipb_child_free(run->child);
    ipb_sandboxed_command_free(run->boxed);
    ipb_upstream_free(run->upstream);
    ipb_package_index_free(run->index);
    g_free(run->package);
    ipb_watch_free(run->watch);
    ipb_timer_free(run->timer);
    ipb_fd_close(&run->output_fd);
    ipb_line_reader_clear(&run->lines);
    g_string_free(run->head, TRUE);
    g_string_free(run->tail, TRUE);
    g_clear_error(&run->why_ended);
    g_free(run);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Run, free_run)

static void
report_end(Run *run, const char *output, const GError *error)
{
    IpbInstaller *installer = run->installer;
    bool was_closed = installer->is_closed; /* else on_done may close it, which reports that */
    installer->run = NULL;                  /* on_done may start another */
    run->on_done(output, error, run->data);
    free_run(run);
    if (was_closed)
        installer->closed(installer->closed_data); /* may free the installer */
}

IpbInstaller *
ipb_installer_new(IpbLoop *loop, const IpbInstallerOptions *options)
{
    IpbInstaller *installer = g_new0(IpbInstaller, 1);
    installer->loop = ipb_loop_ref(loop);
    installer->options = *options;
    return installer;
}

char *
ipb_installer_describe_index(const IpbInstaller *installer)
{
    g_autoptr(IpbPackageIndex) index = ipb_package_index_new(installer->options.env);
    return ipb_package_index_describe(index);
}

bool
ipb_installer_install(IpbInstaller *installer, const char *package, IpbInstallLineFunc on_line,
                      IpbInstallDoneFunc on_done, void *data, GError **error)
{
    if (installer->is_closed || installer->run != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            installer->is_closed
                                ? "the session is closed"
                                : "another installation is under way: wait until it has ended");
        return false;
    }
    if (!ipb_install_command_check_package(package, error))
        return false;
    g_autoptr(Run) run = g_new0(Run, 1);
    run->installer = installer;
    run->loop = installer->loop;
    run->options = &installer->options;
    run->package = g_strdup(package);
    run->on_line = on_line;
    run->on_done = on_done;
    run->data = data;
    run->output_fd = -1;
    run->head = g_string_new(NULL);
    run->tail = g_string_new(NULL);
    ipb_line_reader_init(&run->lines, MAX_LINE);
    bool is_sandboxed = installer->options.sandboxing != NULL;
    if (is_sandboxed ? !begin_boxed(run, error) : !spawn_installer(run, error))
        return false;
    run->timer = ipb_timer_new(run->loop, TIMEOUT_MS, on_timeout, run);
    installer->run = g_steal_pointer(&run);
    return true;
}

void
ipb_installer_cancel(IpbInstaller *installer)
{
    if (installer->run != NULL)
        end_with(installer->run, IPYBOX_ERROR_CANCELLED, "the installation was cancelled");
}

void
ipb_installer_close(IpbInstaller *installer, void (*done)(void *data), void *data)
{
    installer->is_closed = true;
    installer->closed = done;
    installer->closed_data = data;
    if (installer->run != NULL)
        ipb_installer_cancel(installer);
    else
        done(data);
}

void
ipb_installer_free(IpbInstaller *installer)
{
    if (installer == NULL)
        return;
    free_run(installer->run);
    ipb_loop_unref(installer->loop);
    g_free(installer);
}
