/* SPDX-License-Identifier: Apache-2.0
 *
 * The parent's side of starting a program; the child's side is exec-child.c.
 */
#include "base/exec-plan.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/exec-child.h"
#include "base/fd.h"

#define CHILD_STACK_SIZE 32768

/* ThreadSanitizer keeps a table of the process's signal handlers. A child that shares our memory
 * would change it. */
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
    ipb_exec_child_run(plan);
}

typedef struct {
    IpbExecPlan *plan;
    pid_t pid; /* -1: not started, see saved_errno */
    int pidfd;
    int saved_errno;
} Fork;

/* Like vfork: the child shares our memory, and this thread waits until the child has executed the
 * program or failed. So no page of a large program is copied, and no process that another thread
 * forks can hold the report pipe open. clone also returns the pidfd, which is certain to refer to
 * the child. If the application ignores SIGCHLD and the child ends at once, it could not be opened
 * later. */
static void
run_fork(void *data)
{
    Fork *fork = data;
    __attribute__((aligned(16))) char stack[CHILD_STACK_SIZE];
    /* No signal handler of this process may run in the child, which is on a stack of ours. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    fork->plan->parent = getpid();
    fork->pid = clone(run_child, stack + sizeof stack, SHARED_MEMORY | CLONE_PIDFD | SIGCHLD,
                      fork->plan, &fork->pidfd);
    fork->saved_errno = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Under valgrind and ThreadSanitizer the child has a copy of our memory. Then it reports through
 * the pipe; the end of the pipe means that the program is executed. */
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
ipb_exec_plan_start(IpbLoop *loop, IpbExecPlan *plan, pid_t *ret_pid, int *ret_pidfd,
                    GError **error)
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
