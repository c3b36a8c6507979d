/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
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

/* Reads a line, by which a child reports its progress. */
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

/* A child and its grandchild ignore SIGTERM. Stopping the child ends both. */
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

static void
set_sigchld(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    g_assert_cmpint(sigaction(SIGCHLD, &action, NULL), ==, 0);
}

/* Applications ignore SIGCHLD so that they need not wait for their own children. */
static void
test_sigchld_ignored(void)
{
    set_sigchld(SIG_IGN);
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    for (int i = 0; i < 50; i++) { /* some have ended before we can check */
        Ended ended = {0};
        g_autoptr(IpbChild) child = spawn_shell(loop, "exit 3", -1, -1, &ended);
        wait_for(&ended);
        g_assert_cmpint(ended.status, ==, IPB_CHILD_STATUS_UNKNOWN);
    }
    g_autofree char *text = ipb_child_describe_status(IPB_CHILD_STATUS_UNKNOWN);
    g_assert_nonnull(strstr(text, "SIGCHLD"));

    Ended killed = {0};
    IpbChild *child = spawn_shell(loop, "sleep 1000", -1, -1, &killed);
    pid_t pid = ipb_child_pid(child);
    ipb_child_free(child);
    /* Linux removes it a moment after its end is reported. */
    while (kill(pid, 0) == 0)
        sched_yield();
    g_assert_cmpint(errno, ==, ESRCH);

    const char *argv[] = {"true", NULL};
    IpbChildOptions options = {IPB_CHILD_OPTIONS_INIT, .argv = argv, .cwd = "/no/such"};
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_child_spawn(loop, &options, NULL, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
    set_sigchld(SIG_DFL);
}

/* Like a program that calls waitpid(-1). */
static void
test_reaped_by_application(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    Ended ended = {0};
    g_autoptr(IpbChild) child = spawn_shell(loop, "exit 3", -1, -1, &ended);
    g_assert_cmpint(waitpid(-1, NULL, 0), ==, ipb_child_pid(child));
    ipb_child_signal(child, SIGTERM); /* the number may belong to another process */
    wait_for(&ended);
    g_assert_cmpint(ended.status, ==, IPB_CHILD_STATUS_UNKNOWN);
}

/* One of the C library's own signals, below SIGRTMIN, which only the system call sets. */
#define OWN_SIGNAL 32

/* The kernel's struct sigaction. */
typedef struct {
    uint64_t handler, flags, restorer, mask;
} KernelAction;

static void
set_own_signal(const KernelAction *action, KernelAction *ret_old)
{
    long done = syscall(SYS_rt_sigaction, OWN_SIGNAL, action, ret_old, sizeof action->mask);
    g_assert_cmpint(done, ==, 0);
}

static void
test_signals_are_reset(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    KernelAction own_old;
    g_assert_cmpint(sigaction(SIGRTMIN, &ignore, &old), ==, 0);
    /* As make leaves it. */
    set_own_signal(&(KernelAction){.handler = (uintptr_t) SIG_IGN}, &own_old);
    int output[2];
    g_assert_true(ipb_fd_pipe(output, NULL));
    Ended ended = {0};
    g_autoptr(IpbChild) child = spawn_shell(
        loop, "exec grep -h -E 'Sig(Ign|Blk)' /proc/self/status", -1, output[1], &ended);
    g_assert_cmpint(sigaction(SIGRTMIN, &old, NULL), ==, 0);
    set_own_signal(&own_old, NULL);
    ipb_fd_close(&output[1]);
    char line[64];
    read_line(output[0], line, sizeof line);
    g_assert_cmpstr(line, ==, "SigBlk:\t0000000000000000");
    read_line(output[0], line, sizeof line);
    g_assert_cmpstr(line, ==, "SigIgn:\t0000000000000000");
    wait_for(&ended);
    ipb_fd_close(&output[0]);
}

typedef struct {
    GMainContext *context;
    IpbLoop *loop;
    IpbChild *child;
    int stdin_fd, stdout_fd;
    Ended ended;
} Threaded;

static void *
spawn_in_thread(void *data)
{
    Threaded *threaded = data;
    threaded->loop = ipb_loop_new(threaded->context, NULL);
    threaded->child = spawn_shell(threaded->loop, "read line; echo $line; exit 3",
                                  threaded->stdin_fd, threaded->stdout_fd, &threaded->ended);
    return NULL;
}

/* The kernel binds the death signal to the thread that forks. Callers must not notice that. */
static void
test_outlives_its_thread(void)
{
    g_autoptr(GMainContext) context = g_main_context_new();
    int input[2], output[2];
    g_assert_true(ipb_fd_pipe(input, NULL));
    g_assert_true(ipb_fd_pipe(output, NULL));
    Threaded threaded = {.context = context, .stdin_fd = input[0], .stdout_fd = output[1]};
    g_thread_join(g_thread_new("spawns", spawn_in_thread, &threaded));
    ipb_fd_close(&input[0]);
    ipb_fd_close(&output[1]);
    g_assert_true(ipb_fd_write_all(input[1], "alive\n", 6, NULL));
    char line[32];
    read_line(output[0], line, sizeof line);
    g_assert_cmpstr(line, ==, "alive");
    while (threaded.ended.ends == 0)
        g_main_context_iteration(context, TRUE);
    g_assert_true(WIFEXITED(threaded.ended.status) && WEXITSTATUS(threaded.ended.status) == 3);
    ipb_child_free(threaded.child);
    ipb_loop_unref(threaded.loop);
    ipb_fd_close(&input[1]);
    ipb_fd_close(&output[0]);
}

#ifdef __SANITIZE_THREAD__
#define IS_THREAD_SANITIZED true
#else
#define IS_THREAD_SANITIZED false
#endif
#define N_FORKS 60

static void *
fork_and_keep(void *data)
{
    pid_t *pids = data;
    for (int i = 0; i < N_FORKS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) /* it holds every fd that was open in this moment */
            for (;;)
                pause();
    }
    return NULL;
}

/* Another thread of the application forks without executing. Fds that its children inherit must not
 * block us. (Under ThreadSanitizer they do, see base/exec-plan.c.) */
static void
test_forks_beside(void)
{
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    pid_t pids[N_FORKS];
    GThread *thread = g_thread_new("forks", fork_and_keep, pids);
    for (int i = 0; i < 4 * N_FORKS; i++) {
        Ended ended = {0};
        g_autoptr(IpbChild) child = spawn_shell(loop, "exit 3", -1, -1, &ended);
        wait_for(&ended);
        g_assert_cmpint(WEXITSTATUS(ended.status), ==, 3);
    }
    g_thread_join(thread);
    for (int i = 0; i < N_FORKS; i++) {
        kill(pids[i], SIGKILL);
        g_assert_cmpint(waitpid(pids[i], NULL, 0), ==, pids[i]);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/child/status", test_status);
    g_test_add_func("/base/child/errors", test_errors);
    g_test_add_func("/base/child/ladder-ends-group", test_ladder_ends_group);
    g_test_add_func("/base/child/free-kills", test_free_kills);
    g_test_add_func("/base/child/sigchld-ignored", test_sigchld_ignored);
    g_test_add_func("/base/child/reaped-by-application", test_reaped_by_application);
    g_test_add_func("/base/child/signals-are-reset", test_signals_are_reset);
    g_test_add_func("/base/child/outlives-its-thread", test_outlives_its_thread);
    if (!IS_THREAD_SANITIZED)
        g_test_add_func("/base/child/forks-beside", test_forks_beside);
    return g_test_run();
}
