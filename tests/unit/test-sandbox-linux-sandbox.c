/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of real sandboxes: nothing waits for them but the loop. What a sandbox confines is tested
 * in tests/sandbox.
 */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/file.h"

#define N_SANDBOXES 3

/* Calls of ppoll() that may wait. Only ipb_fd_wait() calls it; GLib and threads use poll(). */
static unsigned n_waits;

int
ppoll(struct pollfd *fds, nfds_t n_fds, const struct timespec *timeout, const sigset_t *mask)
{
    int timeout_ms = -1;
    if (timeout != NULL)
        timeout_ms = (int) (timeout->tv_sec * 1000 + timeout->tv_nsec / 1000000);
    g_assert_null(mask);
    n_waits += timeout_ms != 0;
    return poll(fds, n_fds, timeout_ms);
}

typedef struct {
    IpbLoop *loop;
    char *workspace;
    IpbSandboxPlan *plan;
    IpbSandbox *sandboxes[N_SANDBOXES];
    unsigned n_ready, n_ended;
    bool is_unavailable; /* this machine forbids sandboxes */
} Fixture;

static void
on_ready(IpbSandbox *sandbox, const int *listeners, size_t n_listeners, void *data)
{
    Fixture *fixture = data;
    fixture->n_ready++;
}

static void
on_end(IpbSandbox *sandbox, int wait_status, const GError *error, void *data)
{
    Fixture *fixture = data;
    fixture->is_unavailable |= g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE);
    fixture->n_ended++;
    g_assert_false(ipb_sandbox_kill(sandbox));
}

static IpbSandbox *
make_sandbox(Fixture *fixture)
{
    const char *const argv[] = {"/bin/sleep", "1000", NULL}, *const env[] = {NULL};
    g_autoptr(GError) error = NULL;
    IpbSandbox *sandbox = ipb_sandbox_new(fixture->loop,
                                          &(IpbSandboxOptions){
                                              .plan = fixture->plan,
                                              .argv = argv,
                                              .env = env,
                                              .cwd = "/",
                                              .stdin_fd = -1,
                                              .stdout_fd = -1,
                                              .stderr_fd = -1,
                                              .on_ready = on_ready,
                                              .on_end = on_end,
                                              .data = fixture,
                                          },
                                          &error);
    g_assert_no_error(error);
    return sandbox;
}

static unsigned
count_children(void)
{
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents("/proc/thread-self/children", &text, NULL, NULL));
    g_auto(GStrv) pids = g_strsplit(g_strstrip(text), " ", -1);
    return g_strv_length(pids);
}

static void
set_up(Fixture *fixture, const void *data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_closed();
    fixture->loop = ipb_loop_new(NULL, &error);
    g_assert_no_error(error);
    fixture->workspace = ipb_file_make_temp_directory(NULL, "ipybox-test-", &error);
    g_assert_no_error(error);
    fixture->plan = ipb_sandbox_plan_new(
        &(IpbPlanOptions){
            .policy = policy,
            .workspace = fixture->workspace,
            .home = g_get_home_dir(),
            .limits = IPB_SANDBOX_LIMITS_DEFAULT,
        },
        &error);
    g_assert_no_error(error);
    for (size_t i = 0; i < N_SANDBOXES; i++)
        fixture->sandboxes[i] = make_sandbox(fixture);
    g_assert_false(ipb_sandbox_kill(fixture->sandboxes[0])); /* it is not ready */
    while (fixture->n_ready < N_SANDBOXES && !fixture->is_unavailable)
        g_main_context_iteration(NULL, TRUE);
    while (count_children() > N_SANDBOXES) /* launchers */
        g_main_context_iteration(NULL, TRUE);
    n_waits = 0;
}

static void
tear_down(Fixture *fixture, const void *data)
{
    for (size_t i = 0; i < N_SANDBOXES; i++)
        ipb_sandbox_free(fixture->sandboxes[i]);
    /* The main context reaps what is left. */
    while (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpint(errno, ==, ECHILD);
    ipb_sandbox_plan_unref(fixture->plan);
    ipb_file_remove_tree(fixture->workspace, NULL);
    g_free(fixture->workspace);
    ipb_loop_unref(fixture->loop);
}

static bool
is_skipped(const Fixture *fixture)
{
    if (fixture->is_unavailable)
        g_test_skip("this machine forbids sandboxes");
    return fixture->is_unavailable;
}

static void
test_free(Fixture *fixture, const void *data)
{
    if (is_skipped(fixture))
        return;
    for (size_t i = 0; i < N_SANDBOXES; i++)
        g_clear_pointer(&fixture->sandboxes[i], ipb_sandbox_free);
    g_assert_cmpuint(n_waits, ==, 0);
    g_assert_cmpuint(fixture->n_ended, ==, 0);
}

/* All end at the same time. */
static void
test_kill(Fixture *fixture, const void *data)
{
    if (is_skipped(fixture))
        return;
    for (size_t i = 0; i < N_SANDBOXES; i++)
        g_assert_true(ipb_sandbox_kill(fixture->sandboxes[i]));
    while (fixture->n_ended < N_SANDBOXES)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(count_children(), ==, 0);
    g_assert_cmpuint(n_waits, ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/sandbox/linux/sandbox/free", Fixture, NULL, set_up, test_free, tear_down);
    g_test_add("/sandbox/linux/sandbox/kill", Fixture, NULL, set_up, test_kill, tear_down);
    return g_test_run();
}
