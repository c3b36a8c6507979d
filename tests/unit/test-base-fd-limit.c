/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd-limit.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/loop.h"

#define FEW 100

static rlim_t
soft_limit(void)
{
    struct rlimit limit;
    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    return limit.rlim_cur;
}

static rlim_t
lower_to_few(void)
{
    struct rlimit limit;
    g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    limit.rlim_cur = FEW;
    g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &limit), ==, 0);
    g_assert_cmpuint(limit.rlim_max, >, FEW);
    return limit.rlim_max;
}

static void
test_raise(void)
{
    if (!g_test_subprocess()) {
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        return;
    }
    rlim_t most = lower_to_few();
    ipb_fd_limit_restore(NULL); /* nothing to restore yet */
    g_assert_cmpuint(soft_limit(), ==, FEW);
    ipb_fd_limit_raise();
    g_assert_cmpuint(soft_limit(), ==, most);
    ipb_fd_limit_raise(); /* does not take the raised limit for the old one */
    ipb_fd_limit_restore(NULL);
    g_assert_cmpuint(soft_limit(), ==, FEW);
}

static void
on_exit_status(IpbChild *child, int wait_status, void *data)
{
    *(int *) data = WEXITSTATUS(wait_status);
}

/* A program that is started has the old limit, and this process keeps its own. */
static void
test_children(void)
{
    if (!g_test_subprocess()) {
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        return;
    }
    rlim_t most = lower_to_few();
    ipb_fd_limit_raise();
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    static const char *const ARGV[] = {"sh", "-c", "exit $(ulimit -Sn)", NULL};
    IpbChildOptions options = {IPB_CHILD_OPTIONS_INIT, .argv = ARGV};
    int status = -1;
    g_autoptr(IpbChild) child = ipb_child_spawn(loop, &options, on_exit_status, &status, NULL);
    g_assert_nonnull(child);
    while (status < 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpint(status, ==, FEW);
    g_assert_cmpuint(soft_limit(), ==, most);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/fd-limit/raise", test_raise);
    g_test_add_func("/base/fd-limit/children", test_children);
    return g_test_run();
}
