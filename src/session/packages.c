/* SPDX-License-Identifier: Apache-2.0
 *
 * Installing packages for the kernel; see the header. The installer is a child process whose stdout and stderr are one
 * pipe; it has ended when the process has and the pipe is read as far as it goes.
 */
#include "session/packages.h"

#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "json/lines.h"

#define OVERLAY ".ipybox/packages"
#define MAX_PACKAGE_SIZE 4096
#define MAX_LINE 65536
/* Of the output, this much of the beginning and of the end is kept. */
#define MAX_OUTPUT_HALF 32768
#define DEFAULT_TIMEOUT_MS (15 * 60 * 1000)
#define GRACE_MS 2000

struct IpbInstall {
    IpbLoop *loop;
    IpbChild *child;
    int output_fd;
    IpbWatch *watch;
    IpbTimer *timer;
    IpbLineReader lines;
    GString *head, *tail;
    size_t left_out;
    GError *why_ended;         /* timeout or cancel */
    IpbInstallOptions options; /* its strings are not kept */
};

static bool
matches(const char *prefix, const char *pattern, int mode)
{
    g_autofree char *full = g_build_filename(prefix, pattern, NULL);
    glob_t found = {0};
    bool result = false;
    if (glob(full, GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            result = result || access(found.gl_pathv[i], mode) == 0;
    globfree(&found);
    return result;
}

char *
ipb_packages_overlay(const char *python, const char *workspace, bool is_sandboxed)
{
    g_autofree char *bin = g_path_get_dirname(python);
    g_autofree char *prefix = g_path_get_dirname(bin);
    g_autofree char *venv = g_build_filename(prefix, "pyvenv.cfg", NULL);
    bool is_venv = g_file_test(venv, G_FILE_TEST_EXISTS);
    if (!is_sandboxed && matches(prefix, "lib/python3*/site-packages", W_OK) &&
        (is_venv || !matches(prefix, "lib/python3*/EXTERNALLY-MANAGED", F_OK)))
        return NULL;
    return g_build_filename(workspace, OVERLAY, NULL);
}

/* Keeps the line and tells it. */
static void
take_line(IpbInstall *install, const char *bytes, size_t size)
{
    IpbUtf8Decoder decoder = {0};
    g_autoptr(GString) line = g_string_new(NULL);
    ipb_utf8_decode(&decoder, bytes, size, true, line);
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

static void
on_installer_exit(IpbChild *child, int wait_status, void *data)
{
    IpbInstall *install = data;
    g_clear_pointer(&install->timer, ipb_timer_free);
    g_clear_pointer(&install->watch, ipb_watch_free);
    drain(install);
    g_autofree char *output = whole_output(install);
    g_autoptr(GError) error = g_steal_pointer(&install->why_ended);
    if (error == NULL && !(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)) {
        g_autofree char *status = ipb_child_describe_status(wait_status);
        error = g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_SERVER, "the installer failed (%s):\n%s",
                            status, output);
    }
    install->options.on_done(error == NULL ? output : NULL, error, install->options.data);
}

static void
end_with(IpbInstall *install, IpyboxError code, const char *message)
{
    if (install->why_ended != NULL)
        return;
    install->why_ended = g_error_new_literal(IPYBOX_ERROR, (int) code, message);
    ipb_child_signal(install->child, SIGTERM);
    ipb_child_stop(install->child, GRACE_MS);
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

static bool
check_package(const char *package, GError **error)
{
    const char *problem = NULL;
    if (*package == '\0')
        problem = "is empty";
    else if (*package == '-')
        problem = "begins with '-': options are not taken";
    else if (strlen(package) > MAX_PACKAGE_SIZE)
        problem = "is too long";
    else if (strpbrk(package, "\n\r") != NULL)
        problem = "holds a line break: name one package a call";
    if (problem == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the package name %s", problem);
    return false;
}

/* The command line; the strings are borrowed but for uv's path, which @uv owns. */
static GPtrArray *
make_command(const IpbInstallOptions *options, char *uv)
{
    GPtrArray *argv = g_ptr_array_new();
    if (uv != NULL) {
        const char *const words[] = {uv, "pip", "install", "--python", options->python};
        for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
            g_ptr_array_add(argv, (void *) words[i]);
    } else {
        const char *const words[] = {
            options->python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"};
        for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
            g_ptr_array_add(argv, (void *) words[i]);
    }
    if (options->overlay != NULL) {
        g_ptr_array_add(argv, (void *) "--target");
        g_ptr_array_add(argv, (void *) options->overlay);
        g_ptr_array_add(argv, (void *) "--upgrade");
    }
    g_ptr_array_add(argv, (void *) options->package);
    g_ptr_array_add(argv, NULL);
    return argv;
}

static bool
spawn_installer(IpbInstall *install, const IpbInstallOptions *options, GError **error)
{
    int ends[2];
    if (!ipb_fd_pipe(ends, error))
        return false;
    install->output_fd = ends[0];
    ipb_autofd child_end = ends[1];
    g_autofree char *uv = g_find_program_in_path("uv");
    g_autoptr(GPtrArray) argv = make_command(options, uv);
    IpbChildOptions child = {IPB_CHILD_OPTIONS_INIT, .argv = (const char *const *) argv->pdata};
    child.envp = options->env;
    child.cwd = options->cwd;
    child.stdout_fd = child.stderr_fd = child_end;
    if (!ipb_fd_set_nonblocking(install->output_fd, true, error))
        return false;
    install->watch =
        ipb_watch_new(install->loop, install->output_fd, EPOLLIN, on_output, install, error);
    if (install->watch == NULL)
        return false;
    install->child = ipb_child_spawn(install->loop, &child, on_installer_exit, install, error);
    return install->child != NULL;
}

IpbInstall *
ipb_install_new(IpbLoop *loop, const IpbInstallOptions *options, GError **error)
{
    if (!check_package(options->package, error))
        return NULL;
    IpbInstall *install = g_new0(IpbInstall, 1);
    install->loop = ipb_loop_ref(loop);
    install->output_fd = -1;
    install->head = g_string_new(NULL);
    install->tail = g_string_new(NULL);
    install->options = *options;
    ipb_line_reader_init(&install->lines, MAX_LINE);
    if (!spawn_installer(install, options, error)) {
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
