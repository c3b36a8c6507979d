/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting, watching and ending child processes; see the header.
 *
 * The pidfd reports the end; waitid on it reaps the child. Signals go to the process group while
 * the child is not reaped: until then its number cannot be given to another process. An application
 * must not reap our children. If it does, we lose their exit status and cannot kill the rest of
 * their groups, but nothing else happens.
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

#include "base/exec-plan.h"
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

/* The path of the program as execvpe() would find it, relative ones to @cwd. NULL: not found. */
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
        /* An empty or relative entry means the working directory. No program is executed from
         * there. */
        if (!g_path_is_absolute(*directory))
            continue;
        g_autofree char *full = g_build_filename(*directory, name, NULL);
        if (access(full, X_OK) == 0 && !g_file_test(full, G_FILE_TEST_IS_DIR))
            return g_steal_pointer(&full);
    }
    return NULL;
}

/* Waits until the child has ended, and reaps it. */
static int
reap(int pidfd)
{
    siginfo_t info = {0};
    int result;
    do
        result = waitid(P_PIDFD, (id_t) pidfd, &info, WEXITED);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return IPB_CHILD_STATUS_UNKNOWN;
    if (info.si_code == CLD_EXITED)
        return W_EXITCODE(info.si_status, 0);
    return info.si_status | (info.si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

/* Whether it is not reaped yet, so that its number and its group's number are still its own. */
static bool
is_ours(const IpbChild *child, bool *ret_has_ended)
{
    siginfo_t info = {0};
    int result = waitid(P_PIDFD, (id_t) child->pidfd, &info, WEXITED | WNOHANG | WNOWAIT);
    *ret_has_ended = info.si_pid != 0;
    return result == 0;
}

static void
on_child_ended(uint32_t events, void *data)
{
    IpbChild *child = data;
    int status = IPB_CHILD_STATUS_UNKNOWN;
    bool has_ended;
    if (is_ours(child, &has_ended)) {
        if (!has_ended)
            return;
        /* Kill the rest of the group before the child's number can be used again. */
        kill(-child->pid, SIGKILL);
        status = reap(child->pidfd);
    }
    child->is_running = false;
    g_clear_pointer(&child->watch, ipb_watch_free);
    g_clear_pointer(&child->ladder, ipb_timer_free);
    if (child->on_exit != NULL)
        child->on_exit(child, status, child->data); /* may free the child */
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
                options->stderr_fd >= 0 ? options->stderr_fd : null_fd, options->extra_fd, -1, -1},
    };
    IpbChild *child = g_new0(IpbChild, 1);
    *child = (IpbChild){.loop = ipb_loop_ref(loop), .pidfd = -1, .on_exit = on_exit, .data = data};
    child->is_running = ipb_exec_plan_start(loop, &plan, &child->pid, &child->pidfd, error);
    if (child->is_running)
        child->watch = ipb_watch_new(loop, child->pidfd, EPOLLIN, on_child_ended, child, error);
    if (child->watch == NULL)
        g_clear_pointer(&child, ipb_child_free);
    return child;
}

pid_t
ipb_child_pid(const IpbChild *child)
{
    return child->pid;
}

void
ipb_child_signal(IpbChild *child, int signal_number)
{
    bool has_ended;
    if (child->is_running && is_ours(child, &has_ended))
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
    if (child->is_running) {
        ipb_child_signal(child, SIGKILL);
        reap(child->pidfd);
    }
    ipb_watch_free(child->watch);
    ipb_timer_free(child->ladder);
    ipb_fd_close(&child->pidfd);
    ipb_loop_unref(child->loop);
    g_free(child);
}

char *
ipb_child_describe_status(int wait_status)
{
    if (wait_status == IPB_CHILD_STATUS_UNKNOWN)
        return g_strdup("unknown exit status (this program ignores SIGCHLD, or has waited for a "
                        "child that is not its own)");
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
