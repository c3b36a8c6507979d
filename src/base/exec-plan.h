/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbExecPlan: how to start a program. Starting is safe in a process with threads. IpbChild
 * (base/child.h) is built on it; others that supervise the process themselves use it directly.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"

typedef enum {
    IPB_EXEC_STEP_SESSION,
    IPB_EXEC_STEP_DEATH_SIGNAL,
    IPB_EXEC_STEP_FDS,
    IPB_EXEC_STEP_CHDIR,
    IPB_EXEC_STEP_EXEC,
} IpbExecStep;

/* The report of a child that could not execute the program. */
typedef struct {
    IpbExecStep step;
    int saved_errno;
} IpbExecFailure;

#define IPB_EXEC_N_FDS 6

typedef struct {
    const char *path; /* of the program, already looked up in PATH */
    const char *const *argv;
    const char *const *envp;
    const char *cwd; /* or NULL */
    /* They become fds 0 to 5; -1: closed. 0 to 2 are always given. */
    int fds[IPB_EXEC_N_FDS];
    bool is_group_kept; /* no session and process group of its own */
    int death_signal;   /* 0: none */
    /* For ipb_exec_plan_start: close-on-exec. The failure is written there as well, for systems on
     * which the child has a copy of our memory. */
    int report_fd;
    pid_t parent; /* to notice that it died before the death signal was set */
    /* Set by the child. */
    volatile bool is_shared; /* it shares our memory, so the two members below are valid */
    volatile bool has_failed;
    IpbExecFailure failure;
} IpbExecPlan;

/* Starts the program and returns when it is executed. *ret_pidfd is close-on-exec. It refers to the
 * child even if the child has ended since and another part of the application has reaped it.
 * Errors: SYSTEM, with argv[0] in the message. */
bool ipb_exec_plan_start(IpbLoop *loop, IpbExecPlan *plan, pid_t *ret_pid, int *ret_pidfd,
                         GError **error);
