/* SPDX-License-Identifier: Apache-2.0
 *
 * How native kernels and their forkserver start, fail to start, are reset, stopped and freed. Tests
 * of cells are in test-kernel-native.c. The tests use a fake forkserver (fake-kernel/). After each
 * test, the fixture checks that no process and no fd is left.
 */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "kernel-fixture.h"

/* More descriptors are in flight than this process may have. */
#define FEW_FDS 64
#define N_MESSAGES (2 * FEW_FDS / IPB_FD_MAX_PASSED)

typedef KernelFixture Fixture;

static const KernelFixtureOptions quick_interrupt = {.interrupt_grace_ms = 100};
static const KernelFixtureOptions quick_init = {.mode = "no-hello", .init_timeout_ms = 1500};
static const KernelFixtureOptions chatty_mode = {.mode = "chatty"};
static const KernelFixtureOptions die_at_start_mode = {.mode = "die-at-start"};
static const KernelFixtureOptions no_fork_mode = {.mode = "no-fork"};
static const KernelFixtureOptions die_on_fork_mode = {.mode = "die-on-fork"};
static const KernelFixtureOptions missing_mode = {.mode = "missing"};
static const KernelFixtureOptions failed_mode = {.mode = "failed"};
static const KernelFixtureOptions exit_mode = {.mode = "exit"};
static const KernelFixtureOptions garbage_mode = {.mode = "garbage"};
static const KernelFixtureOptions preload_fails_mode = {.mode = "preload-fails"};
static const KernelFixtureOptions silent_mode = {.mode = "silent", .start_timeout_ms = 100};
static const KernelFixtureOptions no_python = {.python = "no-python"};

static void
test_start(Fixture *fixture, const void *data)
{
    ipb_kernel_start(fixture->kernel, false);
    ipb_kernel_start(fixture->kernel, false);
    kernel_fixture_assert_cell(fixture, "", "started done(ok)");
}

static void
test_start_output(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_cell(fixture, "out('a')", "started late(hello\n) out(a) done(ok)");
}

static void
test_init_timeout(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(
        fixture, "", "done(lost)",
        "the kernel did not answer within 1.5 s after its fork; it printed: starting \xe2\x80\xa6");
    kernel_fixture_assert_lost(
        fixture, "", "done(lost)",
        "the kernel did not answer within 1.5 s after its fork; it printed: starting \xe2\x80\xa6");
}

static void
test_death_at_start(Fixture *fixture, const void *data)
{
    for (int i = 0; i < 2; i++)
        kernel_fixture_assert_lost(fixture, "", "done(lost)",
                                   "the kernel ended with exit status 4; it printed: cannot start");
}

static void
test_fork_failed(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(fixture, "", "done(lost)", "the kernel cannot be forked: no more");
}

static void
test_die_on_fork(Fixture *fixture, const void *data)
{
    for (int i = 0; i < 2; i++)
        kernel_fixture_assert_lost(fixture, "", "done(lost)",
                                   "the forkserver ended (killed by SIGKILL (killed))");
}

static void
test_no_python(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "");
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
    g_assert_true(
        g_str_has_prefix(fixture->cause, "Python was not found: no such command: no-python"));
    g_assert_true(g_str_has_suffix(fixture->cause, "or name one with --python or IPYBOX_PYTHON"));
}

static void
test_missing_modules(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(
        fixture, "", "done(lost)",
        "python3 lacks what kernels need (IPython, pydantic). 'ipybox doctor --setup' makes an "
        "environment that has it; or, for this interpreter, run: python3 -m pip install "
        "ipython pydantic matplotlib-inline");
}

static void
test_forkserver_failed(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(fixture, "", "done(lost)",
                               "python3 cannot run kernels: it is broken");
}

static void
test_forkserver_exit(Fixture *fixture, const void *data)
{
    for (int i = 0; i < 2; i++)
        kernel_fixture_assert_lost(
            fixture, "", "done(lost)",
            "python3 cannot run kernels: it ended at its start (exit status 3): no way");
}

static void
test_forkserver_garbage(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "");
    g_assert_true(g_str_has_prefix(fixture->cause, "the forkserver sent a malformed packet: "));
}

static void
test_forkserver_silent(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_lost(fixture, "", "done(lost)",
                               "python3 was not ready to run kernels after 0.1 s");
}

static void
test_preload_failures(Fixture *fixture, const void *data)
{
    g_assert_null(ipb_forkserver_preload_failures(fixture->forkserver));
    kernel_fixture_cell(fixture, "");
    const char *const *failures = ipb_forkserver_preload_failures(fixture->forkserver);
    g_assert_cmpstr(failures[0], ==, "m: E: no\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    g_assert_null(failures[1]);
}

/* Reset and stop. */

static void
test_reset(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "x = 1; done(); out('late')");
    ipb_kernel_reset(fixture->kernel);
    kernel_fixture_assert_cell(fixture, "out('x' in globals() and 'old' or 'new')",
                               "started out(new) done(ok)");
    /* While a cell runs. */
    kernel_fixture_execute(fixture, "out('a'); time.sleep(1000)");
    kernel_fixture_wait_for(fixture, "out(a");
    ipb_kernel_reset(fixture->kernel);
    ipb_kernel_reset(fixture->kernel);
    kernel_fixture_wait_done(fixture, 3);
    g_assert_cmpstr(fixture->cause, ==, "the kernel was reset");
    /* While the kernel starts and a cell waits for it. */
    kernel_fixture_execute(fixture, "");
    ipb_kernel_reset(fixture->kernel);
    kernel_fixture_wait_done(fixture, 4);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
}

static void
test_stop(Fixture *fixture, const void *data)
{
    kernel_fixture_stop(fixture); /* no kernel runs yet */
    pid_t pid = kernel_fixture_pid(fixture);
    kernel_fixture_stop(fixture);
    g_assert_cmpint(kill(pid, 0), ==, -1);
    g_assert_cmpint(errno, ==, ESRCH);
    /* The next cell starts a new kernel. It reports no lost state, because stop is deliberate. */
    kernel_fixture_assert_cell(fixture, "out('ok')", "started out(ok) done(ok)");
}

static void
test_stop_busy(Fixture *fixture, const void *data)
{
    kernel_fixture_execute(fixture, "out('a'); time.sleep(1000)");
    kernel_fixture_wait_for(fixture, "out(a");
    kernel_fixture_stop(fixture);
    g_assert_cmpuint(fixture->n_done, ==, 1);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
    g_assert_cmpstr(fixture->cause, ==, "the kernel was stopped");
}

static void
test_stop_timeout(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture,
                        "names = kernel.names; names['at_exit'] = lambda: time.sleep(1000)");
    kernel_fixture_stop(fixture);
}

static void
test_stop_starting(Fixture *fixture, const void *data)
{
    kernel_fixture_execute(fixture, "");
    kernel_fixture_stop(fixture);
    g_assert_cmpstr(fixture->trace->str, ==, " done(lost)");
}

static void
on_stopped_free(void *data)
{
    kernel_fixture_free_kernel(data);
}

static void
test_free_when_stopped(Fixture *fixture, const void *data)
{
    for (int i = 0; i < 2; i++) {
        if (i == 1)
            kernel_fixture_cell(fixture, "");
        ipb_kernel_stop(fixture->kernel, on_stopped_free, fixture);
        while (fixture->kernel != NULL)
            g_main_context_iteration(NULL, TRUE);
        if (i == 0) {
            kernel_fixture_tear_down(fixture, data);
            kernel_fixture_set_up(fixture, data);
        }
    }
}

static void
set_true(void *data)
{
    *(bool *) data = true;
}

static void
test_forkserver_stop(Fixture *fixture, const void *data)
{
    pid_t pid = kernel_fixture_pid(fixture);
    kernel_fixture_execute(fixture, "out('a'); time.sleep(1000)");
    kernel_fixture_wait_for(fixture, "out(a");
    bool is_stopped = false;
    ipb_forkserver_stop(fixture->forkserver, set_true, &is_stopped);
    kernel_fixture_wait_done(fixture, 2);
    g_assert_cmpstr(fixture->cause, ==, "the kernel was stopped with the forkserver" STATE_LOST);
    kernel_fixture_wait_gone(pid);
    while (!is_stopped)
        g_main_context_iteration(NULL, TRUE);
}

/* Free the kernel after any number of turns of the main loop. */
static void
test_free_in_any_state(void)
{
    for (int n_turns = 0; n_turns < 60; n_turns++) {
        Fixture fixture;
        kernel_fixture_set_up(&fixture, NULL);
        kernel_fixture_execute(&fixture, "display('a'); out('b'); os._exit(1)");
        for (int i = 0; i < n_turns && fixture.n_done == 0; i++)
            g_main_context_iteration(NULL, TRUE);
        bool has_ended = fixture.n_done > 0;
        kernel_fixture_tear_down(&fixture, NULL);
        if (has_ended)
            return;
    }
    g_assert_not_reached();
}

static void
test_free_busy(Fixture *fixture, const void *data)
{
    kernel_fixture_cell(fixture, "");
    kernel_fixture_execute(fixture, "time.sleep(1000)");
    kernel_fixture_wait_for(fixture, "started");
}

static void
count_done(const IpbEvent *event, void *data)
{
    if (event->type == IPB_EVENT_DONE && event->status == IPB_CELL_OK)
        ++*(unsigned *) data;
}

/* Many kernels, all requested before their forkserver is ready. */
static void
test_many_kernels(Fixture *fixture, const void *data)
{
    IpbKernel *kernels[20];
    unsigned n_done = 0;
    IpbKernelOptions options = {.cwd = "/"};
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++) {
        kernels[i] = ipb_native_kernel_new(fixture->loop, fixture->forkserver, &options, count_done,
                                           &n_done);
        g_assert_cmpuint(kernel_execute(kernels[i], "out('a')", NULL), ==, 1);
    }
    ipb_kernel_free(kernels[3]);
    while (n_done < G_N_ELEMENTS(kernels) - 1)
        g_main_context_iteration(NULL, TRUE);
    for (size_t i = 0; i < G_N_ELEMENTS(kernels); i++)
        if (i != 3)
            ipb_kernel_free(kernels[i]);
}

static void
stop_at_done(void *data, const IpbEvent *event)
{
    Fixture *fixture = data;
    if (event->type == IPB_EVENT_DONE)
        ipb_kernel_stop(fixture->kernel, on_stopped_free, fixture);
}

static void
test_stop_in_callback(Fixture *fixture, const void *data)
{
    fixture->on_event = stop_at_done;
    kernel_fixture_execute(fixture, "out('a')");
    while (fixture->kernel != NULL)
        g_main_context_iteration(NULL, TRUE);
}

/* Descriptors in flight. */

typedef struct {
    int sockets[2];
    struct rlimit limit;
    struct __user_cap_data_struct capabilities[2];
} Flight;

static void
set_capabilities(struct __user_cap_data_struct *capabilities)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    g_assert_cmpint(syscall(SYS_capset, &header, capabilities), ==, 0);
}

/* Sends many descriptors that are not received. Root gives up what exempts it from the limit. */
static void
begin_flight(Flight *flight)
{
    const int fds[IPB_FD_MAX_PASSED] = {0};
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, flight->sockets), ==, 0);
    for (int i = 0; i < N_MESSAGES; i++)
        g_assert_cmpint(ipb_fd_send(flight->sockets[0], "x", 1, fds, IPB_FD_MAX_PASSED), ==, 1);
    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &flight->limit), ==, 0);
    struct rlimit few = {FEW_FDS, flight->limit.rlim_max};
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &few), ==, 0);
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    g_assert_cmpint(syscall(SYS_capget, &header, flight->capabilities), ==, 0);
    struct __user_cap_data_struct less[2];
    memcpy(less, flight->capabilities, sizeof less);
    less[0].effective &= ~(1u << CAP_SYS_RESOURCE | 1u << CAP_SYS_ADMIN);
    set_capabilities(less);
}

static void
end_flight(Flight *flight)
{
    /* The descriptors of a socket that is closed are closed as well. */
    for (int i = 0; i < 2; i++)
        ipb_fd_close(&flight->sockets[i]);
}

static void
restore_limits(Flight *flight)
{
    set_capabilities(flight->capabilities);
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &flight->limit), ==, 0);
}

static void
test_descriptors_in_flight(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_cell(fixture, "", "started done(ok)");
    Flight flight;
    begin_flight(&flight);
    ipb_kernel_reset(fixture->kernel);
    kernel_fixture_execute(fixture, "out('a')");
    /* The events of the old kernel's end, and some pauses. */
    for (int i = 0; i < 20 && fixture->n_done == 1; i++)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(fixture->n_done, ==, 1);
    end_flight(&flight);
    kernel_fixture_wait_done(fixture, 2);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_OK);
    restore_limits(&flight);
}

static void
test_too_many_descriptors_in_flight(Fixture *fixture, const void *data)
{
    kernel_fixture_assert_cell(fixture, "", "started done(ok)");
    Flight flight;
    begin_flight(&flight);
    ipb_kernel_reset(fixture->kernel);
    kernel_fixture_execute(fixture, "out('a')");
    kernel_fixture_wait_done(fixture, 2);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_LOST);
    g_assert_nonnull(strstr(fixture->cause, "raise the limit with ulimit -n"));
    end_flight(&flight);
    restore_limits(&flight);
    /* The next request is tried from the beginning. */
    kernel_fixture_execute(fixture, "");
    kernel_fixture_wait_done(fixture, 3);
    g_assert_cmpint(fixture->status, ==, IPB_CELL_OK);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(path, options, func)                                                                   \
    g_test_add("/kernel/life/" path, Fixture, options, kernel_fixture_set_up, func,                \
               kernel_fixture_tear_down)
    ADD("start", NULL, test_start);
    ADD("start-output", &chatty_mode, test_start_output);
    ADD("init-timeout", &quick_init, test_init_timeout);
    ADD("death-at-start", &die_at_start_mode, test_death_at_start);
    ADD("fork-failed", &no_fork_mode, test_fork_failed);
    ADD("die-on-fork", &die_on_fork_mode, test_die_on_fork);
    ADD("no-python", &no_python, test_no_python);
    ADD("missing-modules", &missing_mode, test_missing_modules);
    ADD("forkserver-failed", &failed_mode, test_forkserver_failed);
    ADD("forkserver-exit", &exit_mode, test_forkserver_exit);
    ADD("forkserver-garbage", &garbage_mode, test_forkserver_garbage);
    ADD("forkserver-silent", &silent_mode, test_forkserver_silent);
    ADD("preload-failures", &preload_fails_mode, test_preload_failures);
    ADD("reset", NULL, test_reset);
    ADD("stop", NULL, test_stop);
    ADD("stop-busy", NULL, test_stop_busy);
    ADD("stop-timeout", &quick_interrupt, test_stop_timeout);
    ADD("stop-starting", NULL, test_stop_starting);
    ADD("free-when-stopped", NULL, test_free_when_stopped);
    ADD("forkserver-stop", NULL, test_forkserver_stop);
    g_test_add_func("/kernel/life/free-in-any-state", test_free_in_any_state);
    ADD("free-busy", NULL, test_free_busy);
    ADD("many-kernels", NULL, test_many_kernels);
    ADD("stop-in-callback", NULL, test_stop_in_callback);
    ADD("descriptors-in-flight", NULL, test_descriptors_in_flight);
    ADD("too-many-descriptors-in-flight", NULL, test_too_many_descriptors_in_flight);
    return g_test_run();
}
