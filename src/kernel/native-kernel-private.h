/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the native backend, shared by native-cell.c (what is told of a cell), native-process.c (what the process says and what it
 * is sent) and native-kernel.c (what the owner asks for).
 */
#pragma once

#include "kernel/interrupt.h"
#include "kernel/late-output.h"
#include "kernel/native-kernel.h"
#include "kernel/process.h"
#include "kernel/requests.h"

typedef enum {
    IPB_KERNEL_STATE_STOPPED,  /* no process */
    IPB_KERNEL_STATE_STARTING, /* forked or asked for */
    IPB_KERNEL_STATE_IDLE,
    IPB_KERNEL_STATE_BUSY,
    IPB_KERNEL_STATE_INTERRUPTING,
    IPB_KERNEL_STATE_DYING, /* dead, killed or asked to end; its end is not told yet */
} IpbKernelState;

typedef struct {
    IpbKernel base;
    IpbLoop *loop;
    IpbForkserver *forkserver;
    char **env, **path, *cwd;
    bool has_seed;
    int64_t seed;
    IpbKernelRules rules;
    unsigned interrupt_grace_ms, init_timeout_ms;
    bool is_sandboxed;
    IpbKernelSandbox sandbox;
    IpbKernelState state;
    IpbProcess *process;
    bool has_ran_cell; /* the process may hold state */
    bool is_stopping, is_resetting;
    bool is_paused;
    GQueue stop_waiters;
    IpbTimer *turn_timer;
    IpbInterrupt interrupt;
    IpbLateOutput late;
    size_t late_size_at_start; /* of the process */
    IpbRequests *requests;
    /* The cell: from execute to DONE. */
    uint64_t cell;          /* 0: none */
    char *code;             /* not sent yet */
    IpbKernelCode how;      /* of it: all but the code */
    char *user_expressions; /* of it */
    int64_t last_count;     /* of executions, as the process told it last */
    bool is_started_due;    /* was sent, and STARTED is not told yet */
    bool has_error;         /* ERROR was told */
    bool is_interrupt_due;  /* interrupted before it was sent */
    const char *lost_cause; /* however it ends, it is LOST */
} IpbNativeKernel;

/* --- the cell (native-cell.c) ------------------------------------------------------------------ */

/* A cell runs that was sent to the process. */
bool ipb_native_cell_is_running(const IpbNativeKernel *kernel);
/* Before every event of a cell: tells what must come first. */
void ipb_native_cell_begin_telling(IpbNativeKernel *kernel);
void ipb_native_cell_tell(IpbNativeKernel *kernel, const IpbEvent *event);
void ipb_native_cell_tell_text(IpbNativeKernel *kernel, IpbEventType type, const char *text,
                               size_t size);
/* The cell is over. What the callback starts comes after it, so everything is settled before. */
void ipb_native_cell_end(IpbNativeKernel *kernel, const IpbEvent *done);
void ipb_native_cell_lose(IpbNativeKernel *kernel, const char *cause);
/* Of a process that never was ready: what it printed says more than how it ended. */
void ipb_native_cell_lose_at_start(IpbNativeKernel *kernel, const char *cause);
/* It was interrupted before it was sent. */
void ipb_native_cell_end_unsent(IpbNativeKernel *kernel);

/* --- the process (native-process.c) ------------------------------------------------------------ */

/* Unless there is one. */
void ipb_native_process_start(IpbNativeKernel *kernel);
/* Sends the cell that waits; false only if it is too large for a frame. */
bool ipb_native_process_send_cell(IpbNativeKernel *kernel, GError **error);
void ipb_native_process_send_requests(IpbNativeKernel *kernel);

/* --- the kernel (native-kernel.c) -------------------------------------------------------------- */

void ipb_native_kernel_set_state(IpbNativeKernel *kernel, IpbKernelState state);
/* What a call causes at once is done in the loop's next turn. */
void ipb_native_kernel_turn_soon(IpbNativeKernel *kernel);
/* The last thing that anybody does: the callbacks may free the kernel. */
void ipb_native_kernel_tell_stopped(IpbNativeKernel *kernel);
