/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbKernel: something that runs cells one after the other and tells by events what they print,
 * show and return. The interface that backends implement (native: a forked IPython of our own;
 * later: a Jupyter kernel over ZeroMQ), and the calls that dispatch to one.
 *
 * A kernel object outlives its process: after a death or a reset the next cell runs in a fresh one.
 * States: STOPPED → STARTING → IDLE ⇄ BUSY → (INTERRUPTING) → IDLE, and from each of them DYING →
 * STOPPED.
 *
 * Ownership: the owner frees it. Events are borrowed for the callback. The callback may call
 * interrupt, execute or reset, but not free.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "kernel/event.h"

typedef struct IpbKernel IpbKernel;

/* What holds for all cells of a kernel; see session/session.h. */
typedef struct {
    bool approves_shell_cmds;
    bool requires_shell_escape;
    bool returns_to_cwd; /* after each cell */
} IpbKernelRules;

/* What to run, and how: as Jupyter's execute_request has it. */
typedef struct {
    const char *code;
    bool is_silent;   /* no displayed value, no history, no post_run_cell */
    bool is_unstored; /* not in the history, does not count */
    /* Text of a JSON object {name: expression}, evaluated after it; or NULL */
    const char *user_expressions;
} IpbKernelCode;

/* The end of a request; exactly one is set. @result: borrowed. Errors: CANCELLED (the kernel ended, was reset or stopped), SERVER (the
 * kernel says why). */
typedef void (*IpbKernelReplyFunc)(const IpbJson *result, const GError *error, void *data);

typedef struct {
    void (*start)(IpbKernel *kernel);
    bool (*execute)(IpbKernel *kernel, const IpbKernelCode *code, uint64_t cell, GError **error);
    bool (*request)(IpbKernel *kernel, const char *method, const char *params,
                    IpbKernelReplyFunc func, void *data, GError **error);
    void (*interrupt)(IpbKernel *kernel);
    void (*reset)(IpbKernel *kernel);
    void (*stop)(IpbKernel *kernel, void (*done)(void *data), void *data);
    void (*set_paused)(IpbKernel *kernel, bool paused);
    bool (*has_socket)(const IpbKernel *kernel, uint64_t inode);
    void (*free)(IpbKernel *kernel);
} IpbKernelOps;

/* Backends embed this as their first member. */
struct IpbKernel {
    const IpbKernelOps *ops;
    IpbEventFunc on_event;
    void *data;
    uint64_t last_cell;
};

/* Gets a process ready in the background; execute does it too. */
void ipb_kernel_start(IpbKernel *kernel);
/* Runs a cell: events follow from the loop, DONE is the last one and always comes. Returns the cell's
 * number, or 0: BUSY (a cell is running), LIMIT (code over 32 MiB), INVALID (no UTF-8; user_expressions is no JSON object of
 * strings). */
uint64_t ipb_kernel_execute(IpbKernel *kernel, const IpbKernelCode *code, GError **error);
/* Asks the kernel something: @method and its @params (text of a JSON object) and result are in docs/internals/kernel-wire.md: complete,
 * inspect, is_complete, history, kernel_info, comm_info. A kernel that has no process gets one first; one that runs a cell answers when
 * it has ended or awaits something. @func is called once, from the loop, unless the kernel is freed.
 * False: INVALID (params), LIMIT (too large, too many at once), BUSY (the kernel is being stopped). */
bool ipb_kernel_request(IpbKernel *kernel, const char *method, const char *params,
                        IpbKernelReplyFunc func, void *data, GError **error);
/* Interrupts the running cell, if any; one that waits for its kernel's start ends at once (ERROR, DONE with
 * IPB_CELL_INTERRUPTED). One that goes on for the grace period (options) loses its kernel:
 * DONE with IPB_CELL_LOST, the cause says that the state is gone. */
void ipb_kernel_interrupt(IpbKernel *kernel);
/* Throws the process away; a running cell ends with IPB_CELL_LOST ("reset"). Without one, atexit handlers run and files are
 * written, for two seconds at most. Then a fresh one starts in the background. */
void ipb_kernel_reset(IpbKernel *kernel);
/* Ends the process in order (atexit handlers get the grace period), then SIGKILL; @done when all is gone.
 * A running cell ends with IPB_CELL_LOST. */
void ipb_kernel_stop(IpbKernel *kernel, void (*done)(void *data), void *data);
/* Back-pressure: while paused no output is read, so that a kernel that prints waits in the end. */
void ipb_kernel_set_paused(IpbKernel *kernel, bool paused);
/* Does its process, or one that descends from it, hold a socket with this inode? See base/descendants.h. */
bool ipb_kernel_has_socket(const IpbKernel *kernel, uint64_t inode);
/* Kills and reaps what is left. */
void ipb_kernel_free(IpbKernel *kernel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbKernel, ipb_kernel_free)
