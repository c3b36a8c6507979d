/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. This process is a subreaper: processes that a test leaves behind are re-parented
 * to it, and tear_down waits for them. A test that leaves a process running therefore hangs until
 * its timeout.
 */
#include "kernel-fixture.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

size_t
kernel_fixture_count_fds(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

static const char *
type_name(IpbEventType type)
{
    static const char *const names[] = {
        [IPB_EVENT_STARTED] = "started",    [IPB_EVENT_STDOUT] = "out",
        [IPB_EVENT_STDERR] = "err",         [IPB_EVENT_LATE_OUTPUT] = "late",
        [IPB_EVENT_DISPLAY] = "display",    [IPB_EVENT_UPDATE] = "update",
        [IPB_EVENT_CLEAR_OUTPUT] = "clear", [IPB_EVENT_RESULT] = "result",
        [IPB_EVENT_ERROR] = "error",        [IPB_EVENT_DONE] = "done",
        [IPB_EVENT_NOTICE] = "notice",      [IPB_EVENT_COMM] = "comm",
    };
    return names[type];
}

static const char *
status_name(IpbCellStatus status)
{
    return ipb_cell_status_name(status);
}

static void
close_text(KernelFixture *fixture)
{
    if (fixture->open_text >= 0)
        g_string_append_c(fixture->trace, ')');
    fixture->open_text = -1;
}

static void
add_text(KernelFixture *fixture, const IpbEvent *event)
{
    g_assert_cmpuint(strlen(event->text), ==, event->text_size);
    g_assert_true(g_utf8_validate(event->text, -1, NULL));
    if (fixture->is_counting) {
        fixture->n_bytes += event->text_size;
        return;
    }
    if (fixture->open_text != (int) event->type) {
        close_text(fixture);
        g_string_append_printf(fixture->trace, " %s(", type_name(event->type));
        fixture->open_text = (int) event->type;
    }
    g_string_append(fixture->trace, event->text);
}

static const char *
event_detail(const IpbEvent *event)
{
    if (event->type == IPB_EVENT_DONE)
        return status_name(event->status);
    if (event->type == IPB_EVENT_ERROR)
        return event->ename;
    if (event->type == IPB_EVENT_NOTICE)
        return event->text;
    if (event->type == IPB_EVENT_COMM)
        return event->comm->comm_id;
    if (event->type == IPB_EVENT_CLEAR_OUTPUT)
        return event->wait ? "wait" : "";
    const char *text = ipb_json_get_string(event->data, "text/plain");
    return text != NULL ? text : "";
}

static void
on_event(const IpbEvent *event, void *data)
{
    KernelFixture *fixture = data;
    if (event->type == IPB_EVENT_READY || event->type == IPB_EVENT_START_FAILED) {
        g_assert_cmpuint(event->cell, ==, 0);
        fixture->n_ready += event->type == IPB_EVENT_READY;
        fixture->n_failed_starts += event->type == IPB_EVENT_START_FAILED;
        return;
    }
    if (event->type == IPB_EVENT_DIED) {
        g_assert_cmpuint(event->cell, ==, 0);
        g_assert_cmpuint(strlen(event->text), ==, event->text_size);
        fixture->n_died++;
        return;
    }
    if (event->is_late) {
        g_string_append_printf(fixture->late, " %" PRIu64 ":%s(%s)", event->cell,
                               type_name(event->type),
                               event->text != NULL ? event->text : event_detail(event));
        return;
    }
    g_assert_cmpuint(event->cell, ==, fixture->kernel->last_cell);
    if (event->type == IPB_EVENT_STDOUT || event->type == IPB_EVENT_STDERR ||
        event->type == IPB_EVENT_LATE_OUTPUT) {
        add_text(fixture, event);
    } else {
        close_text(fixture);
        g_string_append_printf(fixture->trace,
                               event->type == IPB_EVENT_STARTED ? " %s%s" : " %s(%s)",
                               type_name(event->type), event_detail(event));
    }
    if (event->type == IPB_EVENT_ERROR) {
        g_free(fixture->traceback);
        fixture->traceback = g_strdup(event->text);
    }
    if (event->type == IPB_EVENT_DONE) {
        fixture->n_done++;
        fixture->status = event->status;
        g_free(fixture->cause);
        fixture->cause = g_strdup(event->text);
    }
    if (fixture->on_event != NULL)
        fixture->on_event(fixture, event);
}

void
kernel_fixture_set_up(KernelFixture *fixture, const void *data)
{
    static const KernelFixtureOptions no_options;
    const KernelFixtureOptions *options = data != NULL ? data : &no_options;
    g_assert_cmpint(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), ==, 0);
    g_main_context_default(); /* opens an fd, which must not count as a leak */
    *fixture = (KernelFixture){.n_fds = kernel_fixture_count_fds(), .open_text = -1};
    fixture->loop = ipb_loop_new(NULL, NULL);
    fixture->trace = g_string_new(NULL);
    fixture->late = g_string_new(NULL);
    const char *preload[] = {options->mode, NULL};
    g_autofree char *host = options->host_directory != NULL
                                ? g_strdup(options->host_directory)
                                : g_test_build_filename(G_TEST_DIST, "fake-kernel", NULL);
    IpbForkserverOptions forkserver_options = {
        .python = options->python != NULL ? options->python : "python3",
        .host_directory = host,
        .preload = preload,
        .start_timeout_ms = options->start_timeout_ms,
    };
    fixture->forkserver = ipb_forkserver_new(fixture->loop, &forkserver_options);
    g_auto(GStrv) env = g_get_environ();
    IpbKernelOptions kernel_options = {
        .env = (const char *const *) env,
        .cwd = "/",
        .interrupt_grace_ms = options->interrupt_grace_ms,
        .init_timeout_ms = options->init_timeout_ms,
        .rules.has_rich_client = options->has_rich_client,
    };
    fixture->kernel = ipb_native_kernel_new(fixture->loop, fixture->forkserver, &kernel_options,
                                            on_event, fixture);
}

void
kernel_fixture_free_kernel(KernelFixture *fixture)
{
    g_clear_pointer(&fixture->kernel, ipb_kernel_free);
}

void
kernel_fixture_tear_down(KernelFixture *fixture, const void *data)
{
    kernel_fixture_free_kernel(fixture);
    ipb_forkserver_unref(fixture->forkserver);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    ipb_loop_unref(fixture->loop);
    g_string_free(fixture->trace, TRUE);
    g_string_free(fixture->late, TRUE);
    g_free(fixture->cause);
    g_free(fixture->traceback);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    g_assert_cmpint(errno, ==, ECHILD);
    g_assert_cmpuint(kernel_fixture_count_fds(), ==, fixture->n_fds);
}

void
kernel_fixture_run(KernelFixture *fixture)
{
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

void
kernel_fixture_wait_done(KernelFixture *fixture, unsigned n_done)
{
    while (fixture->n_done < n_done)
        g_main_context_iteration(NULL, TRUE);
}

void
kernel_fixture_wait_for(KernelFixture *fixture, const char *text)
{
    while (strstr(fixture->trace->str, text) == NULL)
        g_main_context_iteration(NULL, TRUE);
}

uint64_t
kernel_execute(IpbKernel *kernel, const char *code, GError **error)
{
    return ipb_kernel_execute(kernel, &(IpbKernelCode){.code = code, .stores_history = true},
                              error);
}

uint64_t
kernel_fixture_execute(KernelFixture *fixture, const char *code)
{
    g_autoptr(GError) error = NULL;
    uint64_t cell = kernel_execute(fixture->kernel, code, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(cell, >, 0);
    return cell;
}

const char *
kernel_fixture_cell(KernelFixture *fixture, const char *code)
{
    g_string_truncate(fixture->trace, 0);
    kernel_fixture_execute(fixture, code);
    kernel_fixture_wait_done(fixture, fixture->n_done + 1);
    return fixture->trace->len > 0 ? fixture->trace->str + 1 : "";
}

void
kernel_fixture_assert_cell(KernelFixture *fixture, const char *code, const char *trace)
{
    const char *actual = kernel_fixture_cell(fixture, code);
    if (strcmp(actual, trace) != 0)
        g_test_message("%s: %s", code, fixture->cause);
    g_assert_cmpstr(actual, ==, trace);
}

void
kernel_fixture_assert_lost(KernelFixture *fixture, const char *code, const char *trace,
                           const char *cause)
{
    kernel_fixture_assert_cell(fixture, code, trace);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
    g_assert_cmpstr(fixture->cause, ==, cause);
}

static void
on_stopped(void *data)
{
    ((KernelFixture *) data)->is_stopped = true;
}

void
kernel_fixture_stop(KernelFixture *fixture)
{
    fixture->is_stopped = false;
    ipb_kernel_stop(fixture->kernel, on_stopped, fixture);
    while (!fixture->is_stopped)
        g_main_context_iteration(NULL, TRUE);
}

pid_t
kernel_fixture_pid(KernelFixture *fixture)
{
    kernel_fixture_cell(fixture, "import os; os.write(1, str(os.getpid()).encode())");
    const char *pid = strstr(fixture->trace->str, "out(");
    g_assert_nonnull(pid);
    return (pid_t) strtol(pid + 4, NULL, 10);
}

/* Also true for a zombie. */
static bool
has_ended(pid_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/stat", (int) pid);
    g_autofree char *stat = NULL;
    if (!g_file_get_contents(path, &stat, NULL, NULL))
        return true;
    const char *name_end = strrchr(stat, ')');
    return name_end != NULL && (name_end[2] == 'Z' || name_end[2] == 'X');
}

void
kernel_fixture_wait_gone(pid_t pid)
{
    int pidfd = ipb_pidfd_open(pid);
    /* It has been reaped already, or pidfd_open does not work under valgrind. */
    if (pidfd < 0) {
        for (int i = 0; !has_ended(pid); i++) {
            g_assert_cmpint(i, <, 10000);
            g_usleep(1000);
        }
        return;
    }
    struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
    g_assert_cmpint(poll(&poll_fd, 1, 10000), ==, 1);
    close(pidfd);
}
