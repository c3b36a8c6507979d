/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

typedef struct {
    int status;
    int ends;
} Ended;

static void
on_child_exit(IpbChild *child, int wait_status, void *data)
{
    Ended *ended = data;
    ended->status = wait_status;
    ended->ends++;
    g_assert_false(ipb_child_is_running(child));
}

static IpbChild *
spawn_shell(IpbLoop *loop, const char *script, int stdin_fd, int stdout_fd, Ended *ended)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    IpbChildOptions options = {IPB_CHILD_OPTIONS_INIT, .argv = argv};
    options.stdin_fd = stdin_fd;
    options.stdout_fd = stdout_fd;
    g_autoptr(GError) error = NULL;
    IpbChild *child = ipb_child_spawn(loop, &options, on_child_exit, ended, &error);
    g_assert_no_error(error);
    return child;
}

static void
wait_for(const Ended *ended)
{
    while (ended->ends == 0)
        g_main_context_iteration(NULL, TRUE);
}

/* Reads a line, for a child's report that it got so far. */
static void
read_line(int fd, char *line, size_t size)
{
    size_t n = 0;
    while (n < size - 1 && read(fd, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
}

static void
test_status(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    Ended ended = {0};
    g_autoptr(IpbChild) child = spawn_shell(loop, "exit 3", -1, -1, &ended);
    wait_for(&ended);
    g_autofree char *text = ipb_child_describe_status(ended.status);
    g_assert_cmpstr(text, ==, "exit status 3");

    Ended killed = {0};
    g_autoptr(IpbChild) other = spawn_shell(loop, "kill -SEGV $$", -1, -1, &killed);
    wait_for(&killed);
    g_autofree char *cause = ipb_child_describe_status(killed.status);
    g_assert_cmpstr(cause, ==, "killed by SIGSEGV (segmentation fault)");
}

static void
test_errors(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    g_autoptr(GError) error = NULL;
    const char *argv[] = {"no-such-command-here", NULL};
    IpbChildOptions options = {IPB_CHILD_OPTIONS_INIT, .argv = argv};
    g_assert_null(ipb_child_spawn(loop, &options, NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_assert_nonnull(strstr(error->message, "no-such-command-here"));
    g_clear_error(&error);

    argv[0] = "true";
    options.cwd = "/no/such/directory";
    g_assert_null(ipb_child_spawn(loop, &options, NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
    g_assert_nonnull(strstr(error->message, "/no/such/directory"));
    g_assert_cmpint(waitpid(-1, NULL, WNOHANG), ==, -1); /* nothing left to reap */
}

/* A child that ignores SIGTERM, with a grandchild that does too: the ladder ends both. */
static void
test_ladder_ends_group(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    int ends[2];
    g_assert_true(ipb_fd_pipe(ends, NULL));
    Ended ended = {0};
    IpbChild *child = spawn_shell(
        loop, "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done'", -1,
        ends[1], &ended);
    ipb_fd_close(&ends[1]);
    char line[32];
    read_line(ends[0], line, sizeof line);
    pid_t grandchild = (pid_t) g_ascii_strtoll(line, NULL, 10);
    g_assert_cmpint(grandchild, >, 0);
    ipb_child_stop(child, 50);
    ipb_child_stop(child, 50);
    wait_for(&ended);
    g_assert_true(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGKILL);
    g_assert_cmpint(read(ends[0], line, 1), ==, 0); /* end of file: the grandchild is gone, too */
    ipb_child_free(child);
    ipb_fd_close(&ends[0]);
}

static void
test_free_kills(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    Ended ended = {0};
    IpbChild *child = spawn_shell(loop, "sleep 1000", -1, -1, &ended);
    pid_t pid = ipb_child_pid(child);
    ipb_child_free(child);
    g_assert_cmpint(kill(pid, 0), ==, -1);
    g_assert_cmpint(errno, ==, ESRCH);
    g_assert_cmpint(ended.ends, ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/child/status", test_status);
    g_test_add_func("/base/child/errors", test_errors);
    g_test_add_func("/base/child/ladder-ends-group", test_ladder_ends_group);
    g_test_add_func("/base/child/free-kills", test_free_kills);
    return g_test_run();
}
