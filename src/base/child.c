/* SPDX-License-Identifier: Apache-2.0
 *
 * Spawning, watching and ending child processes; see the header.
 *
 * The pidfd tells the end; waitid on it reaps. Signals go to the process group while the child is not
 * reaped: until then its number cannot be given to another process.
 */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child-exec.h"
#include "base/error.h"
#include "base/fd.h"

#define FALLBACK_PATH "/usr/local/bin:/usr/bin:/bin"

struct IpbChild {
    IpbLoop *loop;
    pid_t pid;
    int pidfd;
    IpbWatch *watch;
    IpbTimer *ladder;
    int ladder_step;
    unsigned grace_ms;
    bool is_running;
    IpbChildExitFunc on_exit;
    void *data;
};

static const char *
find_env(const char *const *envp, const char *name)
{
    size_t size = strlen(name);
    for (; envp != NULL && *envp != NULL; envp++)
        if (strncmp(*envp, name, size) == 0 && (*envp)[size] == '=')
            return *envp + size + 1;
    return NULL;
}

/* The program's path as execvpe would find it, relative ones to @cwd; NULL if there is none. */
static char *
find_program(const IpbChildOptions *options, const char *const *envp)
{
    const char *name = options->argv[0];
    if (strchr(name, '/') != NULL) {
        /* The child changes its directory before it executes: the path is relative to there. */
        g_autofree char *full = g_path_is_absolute(name) || options->cwd == NULL
                                    ? g_strdup(name)
                                    : g_build_filename(options->cwd, name, NULL);
        return access(full, X_OK) == 0 ? g_strdup(name) : NULL;
    }
    const char *path = find_env(envp, "PATH");
    g_auto(GStrv) directories = g_strsplit(path != NULL ? path : FALLBACK_PATH, ":", -1);
    for (char **directory = directories; *name != '\0' && *directory != NULL; directory++) {
        /* An empty or relative entry means the working directory: never executed from. */
        if (!g_path_is_absolute(*directory))
            continue;
        g_autofree char *full = g_build_filename(*directory, name, NULL);
        if (access(full, X_OK) == 0 && !g_file_test(full, G_FILE_TEST_IS_DIR))
            return g_steal_pointer(&full);
    }
    return NULL;
}

static void
set_exec_error(GError **error, const IpbChildOptions *options, const IpbExecFailure *failure)
{
    switch (failure->step) {
    case IPB_EXEC_STEP_CHDIR:
        ipb_error_set_errno(error, failure->saved_errno, "cannot enter the directory %s",
                            options->cwd);
        return;
    case IPB_EXEC_STEP_EXEC:
        ipb_error_set_errno(error, failure->saved_errno, "cannot execute %s", options->argv[0]);
        return;
    case IPB_EXEC_STEP_SESSION:
    case IPB_EXEC_STEP_DEATH_SIGNAL:
    case IPB_EXEC_STEP_FDS:
        ipb_error_set_errno(error, failure->saved_errno, "cannot prepare the process for %s",
                            options->argv[0]);
        return;
    }
}

/* Forks and waits until the child has executed or failed; -1 with @error. */
static pid_t
fork_and_exec(IpbExecPlan *plan, const IpbChildOptions *options, GError **error)
{
    int report[2];
    if (!ipb_fd_pipe(report, error))
        return -1;
    ipb_autofd report_read = report[0];
    ipb_autofd report_write = report[1];
    plan->report_fd = report_write;
    plan->parent = getpid();

    /* No signal handler of this process may run in the child. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pid_t pid = fork();
    int saved = errno;
    if (pid == 0)
        ipb_child_exec(plan);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid < 0) {
        ipb_error_set_errno(error, saved, "cannot fork for %s", options->argv[0]);
        return -1;
    }
    ipb_fd_close(&report_write);
    IpbExecFailure failure;
    ssize_t n;
    do
        n = read(report_read, &failure, sizeof failure);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return pid;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    set_exec_error(error, options, &failure);
    return -1;
}

static void
on_child_ended(uint32_t events, void *data)
{
    IpbChild *child = data;
    siginfo_t info = {0};
    /* What is left of the group must go before the child's number can be reused, so: signal, then reap. */
    if (waitid(P_PID, (id_t) child->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        info.si_pid == 0)
        return;
    kill(-child->pid, SIGKILL);
    int status = 0;
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    child->is_running = false;
    g_clear_pointer(&child->watch, ipb_watch_free);
    g_clear_pointer(&child->ladder, ipb_timer_free);
    if (child->on_exit != NULL)
        child->on_exit(child, status, child->data); /* may free the child */
}

static void
kill_and_reap(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* before setsid there is no group of its own */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static IpbChild *
watch_child(IpbLoop *loop, pid_t pid, IpbChildExitFunc on_exit, void *data, GError **error)
{
    ipb_autofd pidfd = ipb_pidfd_open(pid);
    if (pidfd < 0) {
        ipb_error_set_errno(error, errno, "cannot open a pidfd (Linux 5.3 or later is needed)");
        return NULL;
    }
    IpbChild *child = g_new0(IpbChild, 1);
    child->watch = ipb_watch_new(loop, pidfd, EPOLLIN, on_child_ended, child, error);
    if (child->watch == NULL) {
        g_free(child);
        return NULL;
    }
    child->loop = ipb_loop_ref(loop);
    child->pid = pid;
    child->pidfd = ipb_fd_steal(&pidfd);
    child->is_running = true;
    child->on_exit = on_exit;
    child->data = data;
    return child;
}

IpbChild *
ipb_child_spawn(IpbLoop *loop, const IpbChildOptions *options, IpbChildExitFunc on_exit, void *data,
                GError **error)
{
    const char *const *envp = options->envp != NULL ? options->envp : (const char *const *) environ;
    g_autofree char *path = find_program(options, envp);
    if (path == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                    "no such command: %s (looked up in PATH=%s)", options->argv[0],
                    find_env(envp, "PATH") != NULL ? find_env(envp, "PATH") : FALLBACK_PATH);
        return NULL;
    }
    ipb_autofd null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0) {
        ipb_error_set_errno(error, errno, "cannot open /dev/null");
        return NULL;
    }
    IpbExecPlan plan = {
        .path = path,
        .argv = options->argv,
        .envp = envp,
        .cwd = options->cwd,
        .death_signal = options->death_signal != 0 ? options->death_signal : SIGKILL,
        .fds = {options->stdin_fd >= 0 ? options->stdin_fd : null_fd,
                options->stdout_fd >= 0 ? options->stdout_fd : null_fd,
                options->stderr_fd >= 0 ? options->stderr_fd : null_fd, options->extra_fd},
    };
    pid_t pid = fork_and_exec(&plan, options, error);
    if (pid < 0)
        return NULL;
    IpbChild *child = watch_child(loop, pid, on_exit, data, error);
    if (child == NULL)
        kill_and_reap(pid);
    return child;
}

pid_t
ipb_child_pid(const IpbChild *child)
{
    return child->pid;
}

bool
ipb_child_is_running(const IpbChild *child)
{
    return child->is_running;
}

void
ipb_child_signal(IpbChild *child, int signal_number)
{
    if (child->is_running)
        kill(-child->pid, signal_number);
}

static void
on_ladder(void *data)
{
    IpbChild *child = data;
    g_clear_pointer(&child->ladder, ipb_timer_free);
    if (child->ladder_step++ > 0) {
        ipb_child_signal(child, SIGKILL);
        return;
    }
    ipb_child_signal(child, SIGTERM);
    child->ladder = ipb_timer_new(child->loop, child->grace_ms, on_ladder, child);
}

void
ipb_child_stop(IpbChild *child, unsigned grace_ms)
{
    if (!child->is_running || child->ladder != NULL || child->ladder_step > 0)
        return;
    child->grace_ms = grace_ms;
    child->ladder = ipb_timer_new(child->loop, grace_ms, on_ladder, child);
}

void
ipb_child_free(IpbChild *child)
{
    if (child == NULL)
        return;
    if (child->is_running)
        kill_and_reap(child->pid);
    ipb_watch_free(child->watch);
    ipb_timer_free(child->ladder);
    ipb_fd_close(&child->pidfd);
    ipb_loop_unref(child->loop);
    g_free(child);
}

char *
ipb_child_describe_status(int wait_status)
{
    if (WIFEXITED(wait_status))
        return g_strdup_printf("exit status %d", WEXITSTATUS(wait_status));
    if (!WIFSIGNALED(wait_status))
        return g_strdup_printf("wait status 0x%x", wait_status);
    int number = WTERMSIG(wait_status);
    const char *name = sigabbrev_np(number);
    g_autofree char *meaning =
        g_ascii_strdown(sigdescr_np(number) != NULL ? sigdescr_np(number) : "", -1);
    return g_strdup_printf("killed by SIG%s (%s)", name != NULL ? name : "?", meaning);
}
