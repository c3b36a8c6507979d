/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a kernel process, shared by process-start.c and process.c.
 */
#pragma once

#include "base/buffer.h"
#include "kernel/output.h"
#include "kernel/process.h"
#include "sandbox/launch.h"

typedef enum {
    IPB_PROCESS_FORKING,
    IPB_PROCESS_GREETING, /* start was sent */
    IPB_PROCESS_READY,
    IPB_PROCESS_ENDING,
    IPB_PROCESS_ENDED,
} IpbProcessState;

struct IpbProcess {
    IpbLoop *loop;
    IpbProcessFuncs funcs;
    void *data;
    IpbProcessState state;
    char **env, **path, *cwd;
    bool has_seed;
    int64_t seed;
    IpbKernelRules rules;
    unsigned init_timeout_ms;
    IpbKernelSandbox sandboxing;
    IpbSandbox *sandbox; /* NULL: none; what is in it dies with it */
    IpbForkserver *forkserver;
    IpbFork *fork;
    pid_t pid; /* 0: not forked yet */
    int pidfd;
    IpbWatch *pidfd_watch;
    IpbOutput *output;
    int write_fd; /* a duplicate of the wire, for the queue */
    IpbWriteQueue *write_queue;
    IpbDeadline init_deadline;
    IpbTimer *fork_timer;
    IpbTimer *kill_timer; /* shut down, or the wire was closed: then SIGKILL */
    IpbTimer *exit_timer; /* then the forkserver's word is not waited for any more */
    IpbTimer *end_timer;
    char *cause;      /* known by us, before any other */
    char *exit_cause; /* the forkserver's word */
    bool is_paused;
    bool is_wire_closed; /* by the kernel, alive or not */
    bool has_broken_protocol;
    bool is_killed, is_finished, is_exited, waits_for_exit;
};

/* --- the start (process-start.c) --------------------------------------------------------------- */

/* Asks for the fork, or for the sandbox that it is made in: @sandbox, or NULL. */
void ipb_process_start(IpbProcess *process, const IpbKernelSandbox *sandbox);
/* Frees what was only needed for the start. */
void ipb_process_forget_start(IpbProcess *process);

/* --- the life and the end (process.c) ---------------------------------------------------------- */

/* What the collector tells. */
extern const IpbOutputFuncs IPB_PROCESS_OUTPUT_FUNCS;

/* @frame: NULL fails, with the @error that is set. */
bool ipb_process_send(IpbProcess *process, const char *frame, size_t size, GError **error);
/* What is said of its end; the first one counts. */
void ipb_process_set_cause(IpbProcess *process, const char *cause);
/* Nothing new can come from the process: tells what is left. @waits_for_exit: for the forkserver's word on how it died. */
void ipb_process_end(IpbProcess *process, bool with_frames, bool waits_for_exit);
/* The forkserver's word; @data: the process. */
void ipb_process_note_exit(int wait_status, const char *cause, void *data);
