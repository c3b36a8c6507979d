/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs in a child between fork and exec: async-signal-safe code only, no GLib, no malloc.
 */
#pragma once

#include <sys/types.h>

typedef enum {
    IPB_EXEC_STEP_SESSION,
    IPB_EXEC_STEP_DEATH_SIGNAL,
    IPB_EXEC_STEP_FDS,
    IPB_EXEC_STEP_CHDIR,
    IPB_EXEC_STEP_EXEC,
} IpbExecStep;

/* Written to report_fd by a child that could not exec. */
typedef struct {
    IpbExecStep step;
    int saved_errno;
} IpbExecFailure;

typedef struct {
    const char *path; /* of the program, already looked up */
    const char *const *argv;
    const char *const *envp;
    const char *cwd; /* or NULL */
    int fds[4];      /* become 0 – 3; -1: stays closed (0 – 2 are always given) */
    int death_signal;
    int report_fd; /* close-on-exec */
    pid_t parent;  /* to notice that it died before the death signal was set */
} IpbExecPlan;

/* Never returns: executes the program, or reports and exits with status 127. */
void ipb_child_exec(const IpbExecPlan *plan) __attribute__((noreturn));
