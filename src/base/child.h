/* SPDX-License-Identifier: Apache-2.0
 *
 * Child processes: spawned in a session and process group of their own, watched by pidfd, ended by
 * a ladder (SIGTERM, then SIGKILL, each to the whole group), and always reaped by their owner.
 * A child gets a signal (SIGKILL unless asked otherwise) when this process dies, whichever thread spawned it.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"

typedef struct IpbChild IpbChild;

typedef struct {
    const char *const *argv; /* argv[0] is looked up in PATH of @envp, as execvpe does */
    const char *const *envp; /* NULL: this process's environment */
    const char *cwd;         /* NULL: this process's */
    int stdin_fd;            /* borrowed; -1: /dev/null */
    int stdout_fd;           /* borrowed; -1: /dev/null */
    int stderr_fd;           /* borrowed; -1: /dev/null */
    int extra_fd;            /* borrowed; becomes fd 3 in the child; -1: none */
    int death_signal;        /* when this process dies; 0: SIGKILL */
} IpbChildOptions;

/* For a designated initializer: all fds absent. */
#define IPB_CHILD_OPTIONS_INIT .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .extra_fd = -1

/* The wait status of a child that somebody else has reaped. */
#define IPB_CHILD_STATUS_UNKNOWN (-1)

/* Called once, when the child has ended and was reaped. The child object stays valid. */
typedef void (*IpbChildExitFunc)(IpbChild *child, int wait_status, void *data);

/* Errors: NOT_FOUND (no such command, the message names it and PATH's role), SYSTEM. */
IpbChild *ipb_child_spawn(IpbLoop *loop, const IpbChildOptions *options, IpbChildExitFunc on_exit,
                          void *data, GError **error);
pid_t ipb_child_pid(const IpbChild *child);
/* To the process group; nothing if the child has ended. */
void ipb_child_signal(IpbChild *child, int signal_number);
/* Starts the ladder: waits @grace_ms for the child to end by itself, SIGTERM to the group, @grace_ms
 * more, SIGKILL to the group. on_exit tells the end. When the child has ended, what is left of its
 * group gets SIGKILL. A second call does nothing. */
void ipb_child_stop(IpbChild *child, unsigned grace_ms);
/* SIGKILL to the group if still running, reaped before this returns; on_exit is not called any more. */
void ipb_child_free(IpbChild *child);

/* "exit status 3", "killed by SIGSEGV (segmentation fault)". Caller frees. */
char *ipb_child_describe_status(int wait_status);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbChild, ipb_child_free)
