/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbForkserver: the warm Python process that kernels are forked from, and its control socket
 * (docs/internals/kernel-wire.md). Starts in the background; forks asked for earlier wait. When it
 * dies, its kernels die with it, and the next fork starts it anew.
 *
 * Ownership: reference-counted; each kernel keeps a reference.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbForkserver IpbForkserver;

typedef struct {
    const char *python;         /* interpreter: path, or a name looked up in PATH */
    const char *host_directory; /* where forkserver.py is */
    const char *const *preload; /* module names, NULL-terminated; NULL: none */
    const char *
        entrance; /* the library by which its kernels enter sandboxes; then nothing is run that a sandbox
                           * could have written (python -S). NULL: its kernels are in no sandbox */
    unsigned start_timeout_ms; /* 0: 60 s */
} IpbForkserverOptions;

/* What a fork gave: the fds are the receiver's. */
typedef struct {
    int64_t id;
    pid_t pid;
    int pidfd;
    int wire_fd; /* both ends of what follows were made here; non-blocking */
    int stdout_fd;
    int stderr_fd;
} IpbForkedProcess;

typedef void (*IpbForkFunc)(const IpbForkedProcess *process, const GError *error, void *data);
/* @cause: "exit status 3", "killed by SIGKILL, probably by the system for want of memory", … */
typedef void (*IpbForkExitFunc)(int wait_status, const char *cause, void *data);

typedef struct IpbFork IpbFork;

/* The sandbox that a kernel is forked into (sandbox/sandbox.h); the fds are borrowed for the call. */
typedef struct {
    int init_pidfd; /* of its pid 1 */
    int plan_fd;    /* what is locked down */
    int channel_fd; /* gets the notifications of seccomp */
} IpbForkSandbox;

/* Starts nothing yet. */
IpbForkserver *ipb_forkserver_new(IpbLoop *loop, const IpbForkserverOptions *options);
IpbForkserver *ipb_forkserver_ref(IpbForkserver *forkserver);
/* The last reference kills it and all kernels; waits for that, 1 s at most, if there are some. */
void ipb_forkserver_unref(IpbForkserver *forkserver);
/* Starts Python in the background unless it runs. A failure is told by the next fork. */
void ipb_forkserver_start(IpbForkserver *forkserver);
/* Stops it in order: SIGTERM ladder; @done when it and all kernels are gone and reaped. */
void ipb_forkserver_stop(IpbForkserver *forkserver, void (*done)(void *data), void *data);
/* Modules of the preload list that could not be imported, "name: error" each; NULL while not known. */
const char *const *ipb_forkserver_preload_failures(IpbForkserver *forkserver);

/* Forks a kernel, into @sandbox unless it is NULL. @on_forked is called once, from the loop (errors: UNAVAILABLE: no Python or no IPython,
 * with the command that installs it; TIMEOUT; SYSTEM). @on_exit once if on_forked brought a process,
 * when it and all it started are gone. */
IpbFork *ipb_fork_new(IpbForkserver *forkserver, const IpbForkSandbox *sandbox,
                      IpbForkFunc on_forked, IpbForkExitFunc on_exit, void *data);
/* SIGKILL to the process and everything it started; on_exit tells the end. */
void ipb_fork_kill(IpbFork *fork);
/* Kills if it still lives; no callback comes any more. */
void ipb_fork_free(IpbFork *fork);
