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
#include "json/json.h"

typedef struct IpbKernel IpbKernel;

typedef enum {
    IPB_KERNEL_STARTED, /* the cell was sent to a kernel that is ready: its time runs from here. Not
                           told of a cell that never gets so far */
    IPB_KERNEL_STDOUT,  /* text */
    IPB_KERNEL_STDERR,  /* text */
    IPB_KERNEL_LATE_OUTPUT, /* text: written after the previous cell was done; comes first in a cell */
    IPB_KERNEL_DISPLAY,     /* bundle, display_id (may be NULL) */
    IPB_KERNEL_UPDATE_DISPLAY, /* bundle, display_id */
    IPB_KERNEL_CLEAR_OUTPUT,   /* wait */
    IPB_KERNEL_RESULT,         /* bundle, execution_count */
    IPB_KERNEL_ERROR,          /* ename, evalue, text = traceback */
    IPB_KERNEL_DONE,           /* status, execution_count, text = cause or cwd, see below */
} IpbKernelEventType;

typedef enum {
    IPB_CELL_OK,          /* text: the kernel's working directory */
    IPB_CELL_ERROR,       /* an ERROR event came before; text: the working directory */
    IPB_CELL_INTERRUPTED, /* likewise */
    IPB_CELL_LOST, /* the kernel died or was killed or did not start; text: the cause, for people */
} IpbCellStatus;

typedef struct {
    IpbKernelEventType type;
    uint64_t cell;    /* as ipb_kernel_execute returned it */
    const char *text; /* valid UTF-8, NUL-terminated; may hold no NUL (shown as U+2400) */
    size_t text_size;
    const IpbJson *data;     /* MIME bundle: an object; values as in kernel-wire.md */
    const IpbJson *metadata; /* an object or NULL */
    const char *display_id;
    bool wait;
    const char *ename;
    const char *evalue;
    int64_t execution_count;
    IpbCellStatus status;
} IpbKernelEvent;

typedef void (*IpbKernelEventFunc)(IpbKernel *kernel, const IpbKernelEvent *event, void *data);

typedef struct {
    void (*start)(IpbKernel *kernel);
    bool (*execute)(IpbKernel *kernel, const char *code, uint64_t cell, GError **error);
    void (*interrupt)(IpbKernel *kernel);
    void (*reset)(IpbKernel *kernel);
    void (*stop)(IpbKernel *kernel, void (*done)(void *data), void *data);
    void (*set_paused)(IpbKernel *kernel, bool paused);
    void (*free)(IpbKernel *kernel);
} IpbKernelOps;

/* Backends embed this as their first member. */
struct IpbKernel {
    const IpbKernelOps *ops;
    IpbKernelEventFunc on_event;
    void *data;
    uint64_t last_cell;
};

/* Gets a process ready in the background; execute does it too. */
void ipb_kernel_start(IpbKernel *kernel);
/* Runs a cell: events follow from the loop, DONE is the last one and always comes. Returns the cell's
 * number, or 0: BUSY (a cell is running), LIMIT (code over 32 MiB), INVALID (no UTF-8). */
uint64_t ipb_kernel_execute(IpbKernel *kernel, const char *code, GError **error);
/* Interrupts the running cell, if any; one that waits for its kernel's start ends at once (ERROR, DONE with
 * IPB_CELL_INTERRUPTED). One that goes on for the grace period (options) loses its kernel:
 * DONE with IPB_CELL_LOST, the cause says that the state is gone. */
void ipb_kernel_interrupt(IpbKernel *kernel);
/* Throws the process away; a running cell ends with IPB_CELL_LOST ("reset"). A fresh one starts at once
 * in the background. */
void ipb_kernel_reset(IpbKernel *kernel);
/* Ends the process in order (atexit handlers get the grace period), then SIGKILL; @done when all is gone.
 * A running cell ends with IPB_CELL_LOST. */
void ipb_kernel_stop(IpbKernel *kernel, void (*done)(void *data), void *data);
/* Back-pressure: while paused no output is read, so that a kernel that prints waits in the end. */
void ipb_kernel_set_paused(IpbKernel *kernel, bool paused);
/* Kills and reaps what is left. */
void ipb_kernel_free(IpbKernel *kernel);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbKernel, ipb_kernel_free)
