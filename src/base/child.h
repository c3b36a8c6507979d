/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes. Each is started in a session and process group of its own, watched by a pidfd,
 * and reaped by its owner. It is stopped in steps: SIGTERM, then SIGKILL, each to the whole group.
 * When this process dies, the child gets a signal (SIGKILL unless the options name another),
 * whichever thread started it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"

typedef struct IpbChild IpbChild;

typedef struct {
    const char *const *argv; /* argv[0] is looked up in PATH of @envp, like execvpe() */
    const char *const *envp; /* NULL: the environment of this process */
    const char *cwd;         /* NULL: that of this process */
    int stdin_fd;            /* borrowed; -1: /dev/null */
    int stdout_fd;           /* borrowed; -1: /dev/null */
    int stderr_fd;           /* borrowed; -1: /dev/null */
    int extra_fd;            /* borrowed; becomes fd 3 in the child; -1: none */
    int death_signal;        /* sent when this process dies; 0: SIGKILL */
} IpbChildOptions;

/* For a designated initializer: all fds absent. */
#define IPB_CHILD_OPTIONS_INIT .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .extra_fd = -1

/* The wait status of a child that other code of the application has reaped. */
#define IPB_CHILD_STATUS_UNKNOWN (-1)

/* Called once, when the child has ended and was reaped. The child object stays valid. */
typedef void (*IpbChildExitFunc)(IpbChild *child, int wait_status, void *data);

/* Errors: NOT_FOUND (no such command; the message has the PATH that was searched), SYSTEM. */
IpbChild *ipb_child_spawn(IpbLoop *loop, const IpbChildOptions *options, IpbChildExitFunc on_exit,
                          void *data, GError **error);
pid_t ipb_child_pid(const IpbChild *child);
/* Signals the process group. Does nothing if the child has ended. */
void ipb_child_signal(IpbChild *child, int signal_number);
/* Stops the child in steps: waits @grace_ms for it to end by itself, sends SIGTERM to the group,
 * waits @grace_ms more, and sends SIGKILL to the group. on_exit reports the end. When the child has
 * ended, the rest of its group gets SIGKILL. A second call does nothing. */
void ipb_child_stop(IpbChild *child, unsigned grace_ms);
/* Kills the group if it still runs, and reaps the child before it returns. on_exit is not called
 * any more. */
void ipb_child_free(IpbChild *child);

/* "exit status 3", "killed by SIGSEGV (segmentation fault)". Caller frees. */
char *ipb_child_describe_status(int wait_status);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbChild, ipb_child_free)
