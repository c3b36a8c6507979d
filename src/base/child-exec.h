/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs in a child between clone and exec: async-signal-safe code only, no GLib, no malloc. It shares the
 * parent's memory, and writes to none of it but the plan's report.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

typedef enum {
    IPB_EXEC_STEP_SESSION,
    IPB_EXEC_STEP_DEATH_SIGNAL,
    IPB_EXEC_STEP_FDS,
    IPB_EXEC_STEP_CHDIR,
    IPB_EXEC_STEP_EXEC,
} IpbExecStep;

/* From a child that could not exec. */
typedef struct {
    IpbExecStep step;
    int saved_errno;
} IpbExecFailure;

#define IPB_EXEC_N_FDS 6

typedef struct {
    const char *path; /* of the program, already looked up */
    const char *const *argv;
    const char *const *envp;
    const char *cwd;         /* or NULL */
    int fds[IPB_EXEC_N_FDS]; /* become 0 – 5; -1: stays closed (0 – 2 are always given) */
    bool is_group_kept;      /* no session and process group of its own */
    int death_signal;        /* 0: none */
    int report_fd;           /* close-on-exec; gets the failure, too, for where memory is copied */
    pid_t parent;            /* to notice that it died before the death signal was set */
    /* Set by the child. */
    volatile bool is_shared; /* it has our memory, so what stands here is what happened */
    volatile bool has_failed;
    IpbExecFailure failure;
} IpbExecPlan;

/* For what runs there: ASan does not know of the stack, and takes it for a broken one. */
#define IPB_CHILD_SIDE __attribute__((no_sanitize("address")))

/* Never returns: executes the program, or reports and exits with status 127. */
IPB_CHILD_SIDE void ipb_child_exec(IpbExecPlan *plan) __attribute__((noreturn));
