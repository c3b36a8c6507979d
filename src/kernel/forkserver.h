/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbForkserver: the warm Python process from which kernels are forked, and its control socket
 * (docs/internals/kernel-wire.md). It starts in the background; forks requested before it is ready
 * wait. If it dies, its kernels die with it, and the next fork starts it again.
 *
 * Ownership: reference-counted; each kernel keeps a reference.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbForkserver IpbForkserver;

typedef struct {
    /* interpreter: path, or a name looked up in PATH */
    const char *python;
    /* where forkserver.py is */
    const char *host_directory;
    /* module names, NULL-terminated; NULL: none */
    const char *const *preload;
    /* The library by which kernels enter sandboxes. With it, nothing runs that a sandbox could have
     * written (python -S). NULL: no kernel is in a sandbox. */
    const char *entrance;
    /* The library by which kernels fork branches of themselves; NULL: they cannot. */
    const char *branching;
    /* 0: 60 s */
    unsigned start_timeout_ms;
} IpbForkserverOptions;

/* A forked process. The receiver owns the fds. The wire and the pipes were made here, and our ends
 * are non-blocking. */
typedef struct {
    int64_t id;
    pid_t pid;
    int pidfd;
    int wire_fd;
    int stdout_fd;
    int stderr_fd;
} IpbForkedProcess;

typedef void (*IpbForkFunc)(const IpbForkedProcess *process, const GError *error, void *data);
/* @cause: "exit status 3"; "killed by SIGKILL, probably by the system for lack of memory"; … */
typedef void (*IpbForkExitFunc)(int wait_status, const char *cause, void *data);

typedef struct IpbFork IpbFork;

/* The sandbox into which a kernel is forked (sandbox/sandbox.h). The fds are borrowed for the
 * call. */
typedef struct {
    /* of its pid 1 */
    int init_pidfd;
    /* what is locked down */
    int plan_fd;
    /* gets the notifications of seccomp */
    int channel_fd;
} IpbForkSandbox;

/* Starts nothing yet. */
IpbForkserver *ipb_forkserver_new(IpbLoop *loop, const IpbForkserverOptions *options);
IpbForkserver *ipb_forkserver_ref(IpbForkserver *forkserver);
/* The last reference kills the forkserver and all kernels. If there are kernels, it waits for that,
 * 1 s at most. */
void ipb_forkserver_unref(IpbForkserver *forkserver);
/* Starts Python in the background unless it runs. The next fork reports a failure. */
void ipb_forkserver_start(IpbForkserver *forkserver);
/* Stops it in order, first by SIGTERM. Calls @done when it and all kernels are gone and reaped. */
void ipb_forkserver_stop(IpbForkserver *forkserver, void (*done)(void *data), void *data);
/* "name: error" for each module of the preload list that could not be imported; NULL while not
 * known. */
const char *const *ipb_forkserver_preload_failures(IpbForkserver *forkserver);

typedef enum {
    IPB_FORK_KERNEL,
    /* A process that gets a program over its wire, and executes it (side-command.c). What it leaves
     * behind is not killed with it. */
    IPB_FORK_COMMAND,
} IpbForkKind;

/* Forks a process, into @sandbox unless it is NULL. @on_forked is called once, from the loop.
 * Errors: UNAVAILABLE: no Python or no IPython, with the command that installs it; TIMEOUT; SYSTEM.
 * @on_exit is called once if on_forked got a process, when it is gone; for a kernel, when
 * everything that it started is gone, too. */
IpbFork *ipb_fork_new(IpbForkserver *forkserver, IpbForkKind kind, const IpbForkSandbox *sandbox,
                      IpbForkFunc on_forked, IpbForkExitFunc on_exit, void *data);
/* An id for a kernel that is forked by other means: no fork has it. */
int64_t ipb_forkserver_make_id(IpbForkserver *forkserver);
/* As ipb_fork_new() for a branch: process @pid, which a kernel of this forkserver has forked. Its
 * wire and its pipes exist already: those of @on_forked are -1. @pipes: our ends of its pipes for
 * stdout and stderr, borrowed for the call. */
IpbFork *ipb_fork_adopt(IpbForkserver *forkserver, pid_t pid, const int pipes[2],
                        IpbForkFunc on_forked, IpbForkExitFunc on_exit, void *data);
/* Sends SIGKILL to the process and everything it started; on_exit reports the end. */
void ipb_fork_kill(IpbFork *fork);
/* The process has new pipes, @fds: processes that it leaves behind are found by them. */
void ipb_fork_add_pipes(IpbFork *fork, const int fds[2]);
/* Kills the process if it still lives. No callback comes any more. */
void ipb_fork_free(IpbFork *fork);
