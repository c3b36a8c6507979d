/* SPDX-License-Identifier: Apache-2.0
 *
 * The library in a process that has few file descriptors left, and in one that is interrupted all
 * the time.
 */
#include "lib-fixture.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a session with a kernel takes, and more. */
#define MANY_FDS 40
#define STORM_CELLS 30
#define LONG_OUTPUT 300000

/* --- file descriptors --------------------------------------------------------------------------
 * */

static unsigned
find_lowest_free_fd(void)
{
    int fd = dup(0);
    close(fd);
    return (unsigned) fd;
}

static void
limit_fds(rlim_t n)
{
    struct rlimit limit;
    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    limit.rlim_cur = n;
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
}

static rlim_t
get_fd_limit(void)
{
    struct rlimit limit;
    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    return limit.rlim_cur;
}

static bool
names_fd_limit(const char *message)
{
    return message != NULL && strstr(message, "ulimit -n") != NULL;
}

/* A session's life. False: it was not possible, and the error gave the reason. */
static bool
live(Fixture *fixture)
{
    g_autoptr(GError) error = NULL;
    IpyboxSessionOptions options = session_options(fixture);
    g_autoptr(IpyboxSession) session = ipybox_session_new(fixture->runtime, &options, &error);
    if (session == NULL) {
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
        g_assert_true(names_fd_limit(error->message));
        return false;
    }
    g_autoptr(IpyboxResult) result =
        ipybox_session_execute(session, "print(6 * 7)", NULL, NULL, &error);
    g_assert_no_error(error);
    if (ipybox_result_get_status(result) == IPYBOX_STATUS_OK) {
        g_assert_cmpstr(ipybox_result_get_text(result), ==, "42");
        return true;
    }
    if (!names_fd_limit(ipybox_result_get_message(result)))
        g_error("%s", ipybox_result_get_message(result));
    return false;
}

/* @fixture's Python runs already, or is to be started. */
static void
step_fds(Fixture *fixture)
{
    rlim_t before = get_fd_limit();
    unsigned first = find_lowest_free_fd();
    bool works = false;
    for (unsigned more = 0; more <= MANY_FDS; more++) {
        limit_fds(first + more);
        bool lives = live(fixture);
        g_assert_false(lives && more == 0);
        g_assert_true(lives || !works); /* what works works with more, too */
        works = lives;
    }
    g_assert_true(works);
    limit_fds(before);
}

static void
test_few_fds(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    step_fds(&fixture);
}

static void
test_few_fds_beside_a_session(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    assert_prints(fixture.session, "x = 1\nprint(x)", "1");
    step_fds(&fixture);
    assert_prints(fixture.session, "print(x)", "1");
}

/* --- signals -----------------------------------------------------------------------------------
 * */

static volatile sig_atomic_t n_signals;

static void
on_signal(int number)
{
    n_signals++;
}

/* A handler without SA_RESTART, every millisecond: system calls end with EINTR wherever they can.
 * */
static void
set_storm(bool is_on)
{
    static struct sigaction old;
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval every = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000}, never = {0};
    g_assert_cmpint(setitimer(ITIMER_REAL, is_on ? &every : &never, NULL), ==, 0);
    g_assert_cmpint(is_on ? sigaction(SIGALRM, &action, &old) : sigaction(SIGALRM, &old, NULL), ==,
                    0);
}

static void
test_signal_storm(void)
{
    g_auto(Fixture) fixture = {0};
    set_storm(true);
    fixture_set_up(&fixture, NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.approval = IPYBOX_APPROVAL_ALLOW;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    register_fake_server(session);
    g_autofree char *call = call_tool("echo");
    assert_prints(session, "n = 0\nprint(n)", "0");
    g_autofree char *expected = g_strnfill(LONG_OUTPUT, '=');
    for (int i = 1; i <= STORM_CELLS; i++) {
        g_autofree char *code = g_strdup_printf("n += 1\nprint('=' * %d)\nprint(n)", LONG_OUTPUT);
        g_autofree char *all = g_strdup_printf("%s\n%d", expected, i);
        assert_prints(session, code, all);
        g_autoptr(IpyboxResult) called = run(session, call, IPYBOX_STATUS_OK);
    }
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_reset(session, &error));
    g_assert_no_error(error);
    assert_prints(session, "print('n' in globals())", "False");
    g_assert_true(ipybox_session_close(session, &error));
    g_assert_no_error(error);
    set_storm(false);
    g_assert_cmpint(n_signals, >, STORM_CELLS);
}

/* --- children ----------------------------------------------------------------------------------
 * */

static void
live_with_children(void)
{
    g_auto(Fixture) fixture = {0};
    fixture_set_up(&fixture, NULL);
    IpyboxSessionOptions options = session_options(&fixture);
    options.approval = IPYBOX_APPROVAL_ALLOW;
    g_autoptr(IpyboxSession) session = new_session(&fixture, &options);
    register_fake_server(session);
    g_autofree char *call = call_tool("echo");
    g_autoptr(IpyboxResult) called = run(session, call, IPYBOX_STATUS_OK);
    options.sandbox = IPYBOX_SANDBOX_ON;
    g_autoptr(IpyboxSession) closed = new_session(&fixture, &options);
    assert_prints(closed, "print(6 * 7)", "42");
    g_autoptr(IpyboxResult) ended =
        run(session, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", IPYBOX_STATUS_LOST);
    g_assert_nonnull(strstr(ipybox_result_get_message(ended), "SIGKILL"));
    g_autoptr(GError) error = NULL;
    g_assert_true(ipybox_session_close(session, &error));
    g_assert_no_error(error);
    g_assert_true(ipybox_runtime_close(fixture.runtime, &error));
    g_assert_no_error(error);
}

/* As a program does that does not want to wait for its own. */
static void
test_sigchld_ignored(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    g_assert_cmpint(sigaction(SIGCHLD, &ignore, &old), ==, 0);
    live_with_children();
    g_assert_cmpint(sigaction(SIGCHLD, &old, NULL), ==, 0);
}

static volatile sig_atomic_t n_reaped;

static void
reap_all(int number)
{
    int saved = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        n_reaped++;
    errno = saved;
}

/* As many a program's handler does. */
static void
test_all_children_reaped(void)
{
    struct sigaction reap = {.sa_handler = reap_all, .sa_flags = SA_RESTART}, old;
    g_assert_cmpint(sigaction(SIGCHLD, &reap, &old), ==, 0);
    live_with_children();
    g_assert_cmpint(sigaction(SIGCHLD, &old, NULL), ==, 0);
    g_assert_cmpint(n_reaped, >, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_test("/hardships/few-fds", test_few_fds);
    add_test("/hardships/few-fds-beside-a-session", test_few_fds_beside_a_session);
    add_test("/hardships/signal-storm", test_signal_storm);
    add_test("/hardships/sigchld-ignored", test_sigchld_ignored);
    add_test("/hardships/all-children-reaped", test_all_children_reaped);
    return g_test_run();
}
