/* SPDX-License-Identifier: Apache-2.0
 *
 * Running the installer of packages; see the header. The installer is a child process whose stdout and stderr are one
 * pipe; it has ended when the process has and the pipe is read as far as it goes.
 */
#include "session/install.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "command/sandboxed-command.h"
#include "json/lines.h"
#include "base/child.h"
#include "session/install-env.h"
#include "session/package-index.h"
#include "session/packages.h"

#define MAX_LINE 65536
/* Of the output, this much of the beginning and of the end is kept. */
#define MAX_OUTPUT_HALF 32768
#define DEFAULT_TIMEOUT_MS (15 * 60 * 1000)
#define GRACE_MS 2000
#define PIP_PROXY "PIP_PROXY"

struct IpbInstall {
    IpbLoop *loop;
    IpbChild
        *child; /* the installer, or before one in a sandbox what asks pip for its configuration */
    IpbSandboxedCommand *boxed;
    IpbPackageIndex *index; /* NULL: no sandbox */
    IpbUpstream *upstream;  /* likewise */
    bool is_asking;
    char *package;
    int output_fd;
    IpbWatch *watch;
    IpbTimer *timer;
    IpbLineReader lines;
    GString *head, *tail;
    size_t left_out;
    GError *why_ended;         /* timeout or cancel */
    IpbInstallOptions options; /* its strings are borrowed */
};

/* Keeps the line and tells it. */
static void
take_line(IpbInstall *install, const char *bytes, size_t size)
{
    IpbUtf8Decoder decoder = {0};
    g_autoptr(GString) line = g_string_new(NULL);
    ipb_utf8_decode(&decoder, bytes, size, true, line);
    if (install->is_asking) {
        ipb_package_index_take_line(install->index, line->str);
        return;
    }
    GString *half = install->head->len + line->len < MAX_OUTPUT_HALF && install->left_out == 0 &&
                            install->tail->len == 0
                        ? install->head
                        : install->tail;
    g_string_append_printf(half, "%s\n", line->str);
    while (install->tail->len > MAX_OUTPUT_HALF) {
        const char *newline = memchr(install->tail->str, '\n', install->tail->len);
        size_t first = (size_t) (newline - install->tail->str) + 1;
        install->left_out += first;
        g_string_erase(install->tail, 0, (gssize) first);
    }
    if (install->options.on_line != NULL)
        install->options.on_line(line->str, install->options.data);
}

static void
take_lines(IpbInstall *install)
{
    const char *line;
    size_t size;
    while (ipb_line_reader_next(&install->lines, &line, &size))
        take_line(install, line, size);
}

/* Reads what is there; false at the end of the pipe. A line beyond the maximum is cut into several. */
static bool
read_output(IpbInstall *install)
{
    char chunk[16384];
    ssize_t n = read(install->output_fd, chunk, sizeof chunk);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n == 0)
        return false;
    if (!ipb_line_reader_push(&install->lines, chunk, (size_t) n, NULL)) {
        const char *rest;
        size_t size;
        if (ipb_line_reader_rest(&install->lines, &rest, &size))
            take_line(install, rest, size);
        ipb_line_reader_clear(&install->lines);
        ipb_line_reader_init(&install->lines, MAX_LINE);
        ipb_line_reader_push(&install->lines, chunk, (size_t) n, NULL);
    }
    take_lines(install);
    return true;
}

static void
on_output(uint32_t events, void *data)
{
    IpbInstall *install = data;
    if (!read_output(install))
        g_clear_pointer(&install->watch, ipb_watch_free);
}

static char *
whole_output(const IpbInstall *install)
{
    if (install->left_out == 0)
        return g_strconcat(install->head->str, install->tail->str, NULL);
    return g_strdup_printf("%s[… %zu bytes left out …]\n%s", install->head->str, install->left_out,
                           install->tail->str);
}

/* Everything that is in the pipe now: the installer has ended, what it left behind may keep the pipe open. */
static void
drain(IpbInstall *install)
{
    ssize_t n;
    char chunk[16384];
    while ((n = read(install->output_fd, chunk, sizeof chunk)) > 0) {
        if (ipb_line_reader_push(&install->lines, chunk, (size_t) n, NULL))
            take_lines(install);
    }
    const char *rest;
    size_t size;
    if (ipb_line_reader_rest(&install->lines, &rest, &size) && size > 0)
        take_line(install, rest, size);
}

/* Tells the end; the receiver may free us. */
static void
finish(IpbInstall *install, int wait_status, GError *error)
{
    g_clear_pointer(&install->timer, ipb_timer_free);
    g_clear_pointer(&install->watch, ipb_watch_free);
    drain(install);
    g_autofree char *output = whole_output(install);
    g_autoptr(GError) why =
        install->why_ended != NULL ? g_steal_pointer(&install->why_ended) : error;
    if (why != error)
        g_clear_error(&error);
    if (why == NULL && !(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)) {
        g_autofree char *status = ipb_child_describe_status(wait_status);
        g_autofree char *advice = ipb_install_env_advise(install->options.env, output);
        why = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "the installer failed (%s):\n%s%s",
                          status, output, advice != NULL ? advice : "");
    }
    install->options.on_done(why == NULL ? output : NULL, why, install->options.data);
}

static void
on_installer_exit(IpbChild *child, int wait_status, void *data)
{
    finish(data, wait_status, NULL);
}

static void
end_with(IpbInstall *install, IpyboxError code, const char *message)
{
    if (install->why_ended != NULL)
        return;
    install->why_ended = g_error_new_literal(IPYBOX_ERROR, (int) code, message);
    if (install->boxed != NULL) {
        ipb_sandboxed_command_signal(install->boxed, SIGTERM);
        ipb_sandboxed_command_stop(install->boxed, GRACE_MS);
    } else {
        ipb_child_signal(install->child, SIGTERM);
        ipb_child_stop(install->child, GRACE_MS);
    }
}

static void
on_timeout(void *data)
{
    end_with(data, IPYBOX_ERROR_TIMEOUT, "the installation took too long and was ended");
}

void
ipb_install_cancel(IpbInstall *install)
{
    end_with(install, IPYBOX_ERROR_CANCELLED, "the installation was cancelled");
}

static char **
make_command(const IpbInstall *install, const char *uv)
{
    return ipb_packages_command(&(IpbPackageCommand){
        .uv = uv,
        .python = install->options.python,
        .host_directory = install->options.host_directory,
        .overlay = install->options.overlay,
        .package = install->package,
        .is_sandboxed = install->options.sandboxing != NULL,
        .allows_builds = install->options.allows_builds,
    });
}

/* The end of the pipe that the installer writes to; -1 with @error. */
static int
open_output(IpbInstall *install, GError **error)
{
    int ends[2];
    g_clear_pointer(&install->watch, ipb_watch_free);
    ipb_fd_close(&install->output_fd);
    if (!ipb_fd_pipe(ends, error))
        return -1;
    install->output_fd = ends[0];
    if (ipb_fd_set_nonblocking(install->output_fd, true, error))
        install->watch =
            ipb_watch_new(install->loop, install->output_fd, EPOLLIN, on_output, install, error);
    if (install->watch == NULL)
        ipb_fd_close(&ends[1]);
    return ends[1];
}

static bool
spawn(IpbInstall *install, const char *const *argv, const char *cwd, IpbChildExitFunc on_exit,
      GError **error)
{
    ipb_autofd child_end = open_output(install, error);
    if (child_end < 0)
        return false;
    IpbChildOptions child = {IPB_CHILD_OPTIONS_INIT, .argv = argv};
    child.envp = install->options.env;
    child.cwd = cwd;
    child.stdout_fd = child.stderr_fd = child_end;
    install->child = ipb_child_spawn(install->loop, &child, on_exit, install, error);
    return install->child != NULL;
}

static bool
spawn_installer(IpbInstall *install, GError **error)
{
    g_autofree char *uv = ipb_packages_find_uv(install->options.python, /* is_sandboxed= */ false);
    g_auto(GStrv) argv = make_command(install, uv);
    return spawn(install, (const char *const *) argv, install->options.workspace, on_installer_exit,
                 error);
}

/* --- in a sandbox ------------------------------------------------------------------------------ */

static void
on_boxed_end(IpbSandboxedCommand *command, int wait_status, const GError *error, void *data)
{
    finish(data, wait_status, error != NULL ? g_error_copy(error) : NULL);
}

static void
on_violation(const IpbViolation *violation, void *data)
{
    bool is_denial = !g_str_equal(violation->what, IPB_VIOLATION_PROXY);
    g_autofree char *line =
        is_denial
            ? g_strdup_printf("operation not permitted: %s to %s: an installation reaches "
                              "the configured index only\n",
                              violation->what, violation->target)
            : g_strdup_printf("%s cannot be reached: %s\n", violation->target, violation->reason);
    IpbInstall *install = data;
    take_line(install, line, strlen(line) - 1);
}

/* pip's own setting, which is for all hosts; NULL: there is none. */
static const char *
find_own_proxy(const IpbInstall *install)
{
    const char *own = g_environ_getenv((char **) install->options.env, PIP_PROXY);
    if (own == NULL)
        own = g_environ_getenv((char **) ipb_package_index_settings(install->index), PIP_PROXY);
    return own != NULL && *own != '\0' ? own : NULL;
}

static IpbSandboxPlan *
make_plan(const IpbInstall *install, const char *uv, const char *const *env, GError **error)
{
    g_auto(GStrv) paths = ipb_install_env_paths(env);
    g_autoptr(GStrvBuilder) readable = g_strv_builder_new();
    g_strv_builder_addv(readable, (const char **) paths);
    if (uv != NULL)
        g_strv_builder_add(readable, uv);
    g_auto(GStrv) all = g_strv_builder_end(readable);
    return ipb_sandboxing_make_install_plan(install->options.sandboxing, install->options.overlay,
                                            (const char *const *) all,
                                            ipb_package_index_hosts(install->index), error);
}

static bool
spawn_boxed(IpbInstall *install, GError **error)
{
    const IpbInstallOptions *options = &install->options;
    g_autofree char *uv = ipb_packages_find_uv(options->python, /* is_sandboxed= */ true);
    const char *own_proxy = uv == NULL ? find_own_proxy(install) : NULL;
    g_auto(GStrv) env =
        ipb_install_env_make(options->env, ipb_package_index_settings(install->index),
                             own_proxy != NULL ? IPB_PLAN_HTTP_PROXY_URL : NULL);
    g_autoptr(IpbSandboxPlan) plan = make_plan(install, uv, (const char *const *) env, error);
    if (plan == NULL)
        return false;
    ipb_autofd child_end = open_output(install, error);
    if (child_end < 0)
        return false;
    g_auto(GStrv) argv = make_command(install, uv);
    install->upstream = ipb_upstream_new(options->env, own_proxy, PIP_PROXY);
    install->boxed = ipb_sandboxed_command_new(install->loop,
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
                                                   .upstream = install->upstream,
                                                   .data = install,
                                               },
                                               error);
    return install->boxed != NULL;
}

/* Whatever pip said: what it did not say is not known. */
static void
on_asked(IpbChild *child, int wait_status, void *data)
{
    IpbInstall *install = data;
    drain(install);
    install->is_asking = false;
    ipb_child_free(g_steal_pointer(&install->child));
    GError *error = NULL;
    if (install->why_ended != NULL || !spawn_boxed(install, &error))
        finish(install, 0, error);
}

static bool
begin_boxed(IpbInstall *install, GError **error)
{
    const IpbInstallOptions *options = &install->options;
    if (!options->allows_builds && strstr(install->package, "://") != NULL) {
        g_set_error(
            error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
            "%s: a URL is not installed in a sandbox: name a package of the index, or start ipybox "
            "with --allow-builds",
            install->package);
        return false;
    }
    /* The workspace is the cells': nothing of theirs leads the installer elsewhere. */
    ipb_autofd overlay = ipb_file_open_directory_in(options->workspace, options->overlay, error);
    if (overlay < 0)
        return false;
    install->index = ipb_package_index_new(options->env);
    ipb_package_index_take_package(install->index, install->package);
    g_autofree char *uv = ipb_packages_find_uv(options->python, /* is_sandboxed= */ true);
    if (uv != NULL)
        return spawn_boxed(install, error);
    install->is_asking = true;
    /* This runs outside. */
    g_auto(GStrv) argv = ipb_packages_question(options->python, options->host_directory);
    return spawn(install, (const char *const *) argv, "/", on_asked, error);
}

IpbInstall *
ipb_install_new(IpbLoop *loop, const IpbInstallOptions *options, GError **error)
{
    if (!ipb_packages_check(options->package, error))
        return NULL;
    IpbInstall *install = g_new0(IpbInstall, 1);
    install->loop = ipb_loop_ref(loop);
    install->output_fd = -1;
    install->head = g_string_new(NULL);
    install->tail = g_string_new(NULL);
    install->options = *options;
    ipb_line_reader_init(&install->lines, MAX_LINE);
    install->package = g_strdup(options->package);
    if (options->sandboxing != NULL ? !begin_boxed(install, error)
                                    : !spawn_installer(install, error)) {
        ipb_install_free(install);
        return NULL;
    }
    unsigned timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
    install->timer = ipb_timer_new(loop, timeout_ms, on_timeout, install);
    return install;
}

void
ipb_install_free(IpbInstall *install)
{
    if (install == NULL)
        return;
    ipb_child_free(install->child);
    ipb_sandboxed_command_free(install->boxed);
    ipb_upstream_free(install->upstream);
    ipb_package_index_free(install->index);
    g_free(install->package);
    ipb_watch_free(install->watch);
    ipb_timer_free(install->timer);
    ipb_fd_close(&install->output_fd);
    ipb_line_reader_clear(&install->lines);
    g_string_free(install->head, TRUE);
    g_string_free(install->tail, TRUE);
    g_clear_error(&install->why_ended);
    ipb_loop_unref(install->loop);
    g_free(install);
}
