/* SPDX-License-Identifier: Apache-2.0
 *
 * The parent's side of starting a program; see the header.
 */
#include "base/child-start.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#define CHILD_STACK_SIZE 32768

/* ThreadSanitizer keeps a table of the process's signal handlers, which a child with our memory would change. */
#ifdef __SANITIZE_THREAD__
#define SHARED_MEMORY 0
#else
#define SHARED_MEMORY (CLONE_VM | CLONE_VFORK)
#endif

static bool
set_failure(GError **error, const IpbExecPlan *plan)
{
    switch (plan->failure.step) {
    case IPB_EXEC_STEP_CHDIR:
        return ipb_error_set_errno(error, plan->failure.saved_errno,
                                   "cannot enter the directory %s", plan->cwd);
    case IPB_EXEC_STEP_EXEC:
        return ipb_error_set_errno(error, plan->failure.saved_errno, "cannot execute %s",
                                   plan->argv[0]);
    case IPB_EXEC_STEP_SESSION:
    case IPB_EXEC_STEP_DEATH_SIGNAL:
    case IPB_EXEC_STEP_FDS:
        break;
    }
    return ipb_error_set_errno(error, plan->failure.saved_errno,
                               "cannot prepare the process for %s", plan->argv[0]);
}

IPB_CHILD_SIDE static int
run_child(void *plan)
{
    ipb_child_exec(plan);
}

typedef struct {
    IpbExecPlan *plan;
    pid_t pid; /* -1: @saved_errno tells why not */
    int pidfd;
    int saved_errno;
} Fork;

/* As vfork, and with a pidfd that is surely the child's: if the application ignores SIGCHLD, a child that ends at once leaves
 * nothing that could be opened. The child has our memory, and this thread waits, until it has executed or failed: no page
 * of a large program is copied, and no time passes in which a process that another thread forks could hold what tells us. */
static void
run_fork(void *data)
{
    Fork *fork = data;
    __attribute__((aligned(16))) char stack[CHILD_STACK_SIZE]; /* ours is not touched meanwhile */
    /* No signal handler of this process may run in the child. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    fork->plan->parent = getpid();
    fork->pid = clone(run_child, stack + sizeof stack, SHARED_MEMORY | CLONE_PIDFD | SIGCHLD,
                      fork->plan, &fork->pidfd);
    fork->saved_errno = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Where the memory was copied for all that, as under valgrind and ThreadSanitizer, what the child did is told by the pipe,
 * whose end is the execution. */
static bool
has_failed(IpbExecPlan *plan, int report_fd)
{
    if (plan->is_shared)
        return plan->has_failed;
    ssize_t n;
    do
        n = read(report_fd, &plan->failure, sizeof plan->failure);
    while (n < 0 && errno == EINTR);
    return n != 0;
}

static void
reap(int pidfd)
{
    while (waitid(P_PIDFD, (id_t) pidfd, &(siginfo_t){0}, WEXITED) < 0 && errno == EINTR)
        ;
}

bool
ipb_child_start(IpbLoop *loop, IpbExecPlan *plan, pid_t *ret_pid, int *ret_pidfd, GError **error)
{
    int report[2];
    if (!ipb_fd_pipe(report, error))
        return false;
    ipb_autofd report_read = report[0];
    ipb_autofd report_write = report[1];
    plan->report_fd = report_write;
    Fork fork = {.plan = plan, .pidfd = -1};
    if (!ipb_loop_run_as_parent(loop, run_fork, &fork, error))
        return false;
    if (fork.pid < 0)
        return ipb_error_set_errno(error, fork.saved_errno, "cannot fork for %s", plan->argv[0]);
    ipb_autofd pidfd = fork.pidfd;
    ipb_fd_close(&report_write);
    if (has_failed(plan, report_read)) {
        reap(pidfd);
        return set_failure(error, plan);
    }
    *ret_pid = fork.pid;
    *ret_pidfd = ipb_fd_steal(&pidfd);
    return true;
}
