/* SPDX-License-Identifier: Apache-2.0
 *
 * The child's side of ipb_exec_plan_start(); see the header for the rules of this file.
 */
#include "base/exec-child.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd-limit.h"
#include "base/fd.h"

/* All fds are first moved to this number or above, so that none is overwritten before it is
 * used. */
#define FIRST_SAFE_FD 16

IPB_CHILD_SIDE static void
fail(IpbExecPlan *plan, int report_fd, IpbExecStep step, int saved_errno)
{
    IpbExecFailure failure = {step, saved_errno};
    plan->failure = failure;
    plan->has_failed = true;
    (void) !write(report_fd, &failure, sizeof failure);
    _exit(127);
}

IPB_CHILD_SIDE static void
place_fds(IpbExecPlan *plan, int *report_fd)
{
    int moved[IPB_EXEC_N_FDS];
    for (int i = 0; i < IPB_EXEC_N_FDS; i++) {
        moved[i] = plan->fds[i] < 0 ? -1 : ipb_fd_duplicate(plan->fds[i], FIRST_SAFE_FD);
        if (plan->fds[i] >= 0 && moved[i] < 0)
            fail(plan, *report_fd, IPB_EXEC_STEP_FDS, errno);
    }
    if (*report_fd < FIRST_SAFE_FD) {
        int moved_report = ipb_fd_duplicate(*report_fd, FIRST_SAFE_FD);
        if (moved_report < 0)
            fail(plan, *report_fd, IPB_EXEC_STEP_FDS, errno);
        *report_fd = moved_report;
    }
    for (int i = 0; i < IPB_EXEC_N_FDS; i++) {
        if (moved[i] >= 0 && dup2(moved[i], i) < 0) /* dup2 clears close-on-exec */
            fail(plan, *report_fd, IPB_EXEC_STEP_FDS, errno);
    }
}

/* Ignored signals and the signal mask are inherited over exec, but a program expects the defaults.
 * This calls the kernel directly, because the C library refuses to change two signals that it uses
 * itself, and programs such as make leave them ignored in their children. */
static void
reset_signals(void)
{
    static const uint64_t by_default[4]; /* the kernel's struct sigaction: SIG_DFL, no mask */
    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(uint64_t));
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

void
ipb_exec_child_run(IpbExecPlan *plan)
{
    int report_fd = plan->report_fd;
    plan->is_shared = true;
    reset_signals();
    if (!plan->is_group_kept && setsid() < 0)
        fail(plan, report_fd, IPB_EXEC_STEP_SESSION, errno);
    if (plan->death_signal != 0 && prctl(PR_SET_PDEATHSIG, plan->death_signal, 0, 0, 0) < 0)
        fail(plan, report_fd, IPB_EXEC_STEP_DEATH_SIGNAL, errno);
    if (getppid() != plan->parent)
        _exit(127);
    place_fds(plan, &report_fd);
    /* After the fds are placed, which may need higher numbers. */
    ipb_fd_limit_restore(NULL);
    if (plan->cwd != NULL && chdir(plan->cwd) < 0)
        fail(plan, report_fd, IPB_EXEC_STEP_CHDIR, errno);
    execve(plan->path, (char *const *) plan->argv, (char *const *) plan->envp);
    fail(plan, report_fd, IPB_EXEC_STEP_EXEC, errno);
    __builtin_unreachable();
}
