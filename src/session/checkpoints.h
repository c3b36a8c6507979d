/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCheckpoints: the checkpoints of a session, and the ring of those that are made before its
 * cells, for undo. A checkpoint is a parked copy of the kernel: a process that runs nothing. A
 * restore gives the session's kernel a fork of it (docs/branches.md). In a staged session it has a
 * copy of the changed files, too, which a restore puts back once the old process is killed. While
 * other sessions share the files, only variables can be restored.
 *
 * One of them is made or restored at a time, between cells. Cells that are given then wait.
 *
 * Ownership: the session owns it, and frees it before the kernel and the cells.
 */
#pragma once

#include "kernel/kernel.h"
#include "session/cells.h"
#include "session/runtime.h"
#include "session/staged-workspace.h"

typedef struct IpbCheckpoints IpbCheckpoints;

/* The most cells that can be undone. */
#define IPB_MAX_UNDO 100

typedef struct {
    /* 0: no checkpoint is made before each cell */
    unsigned undo;
    /* borrowed, as these: */
    IpbCheckpointTotals *totals;
    IpbKernel *kernel;
    IpbCells *cells;
    /* Its files are part of each checkpoint; or NULL */
    IpbStagedWorkspace *staged;
    /* of files that are part of them; with staged */
    const char *workspace;
    /* Makes another kernel with the session's options. */
    IpbKernel *(*make_kernel)(IpbEventFunc on_event, void *event_data, void *data, GError **error);
    /* Whether the kernel may be copied or replaced now. @is_before_cell: the cells are about to
     * start the next one; else none may run or wait. */
    bool (*check)(bool is_before_cell, void *data, GError **error);
    /* For calls of tools, once the kernel has a copy; NULL: it has one already. */
    const char *(*get_token)(void *data, GError **error);
    void *data;
} IpbCheckpointsOptions;

typedef struct {
    uint64_t id;
    const char *name;
    int64_t created_us; /* since 1970 */
    /* What it shares with no other process, when it was measured last. One that could never be
     * measured is not made. */
    uint64_t private_bytes;
    /* as of a branch: what a restore shares or lacks */
    const char *const *warnings;
    /* why it cannot be restored any more; or NULL */
    const char *lost_cause;
} IpbCheckpointInfo;

/* @id: of the checkpoint that was made. */
typedef void (*IpbCheckpointMadeFunc)(uint64_t id, const GError *error, void *data);
typedef void (*IpbRestoredFunc)(const GError *error, void *data);

IpbCheckpoints *ipb_checkpoints_new(IpbLoop *loop, const IpbCheckpointsOptions *options);
/* Ends all checkpoints. No function is called any more. */
void ipb_checkpoints_free(IpbCheckpoints *checkpoints);

/* Makes a checkpoint. @name: NULL: one is made up. @func is called once, from the loop or from
 * ipb_checkpoints_drop_all(). Errors at once or later: BUSY; LIMIT, which says what to drop;
 * INVALID: the name is empty, too long or in use; SYSTEM: its memory cannot be measured; and those
 * of ipb_kernel_fork(). */
bool ipb_checkpoints_make(IpbCheckpoints *checkpoints, const char *name, IpbCheckpointMadeFunc func,
                          void *data, GError **error);
/* Gives the kernel the state of a checkpoint, which remains. The cells before can not be undone any
 * more. On failure the kernel is as it was. @with_files: in a staged session, files are restored,
 * too. NOT_FOUND: there is no such checkpoint. BUSY also: with files that other sessions share. */
bool ipb_checkpoints_restore(IpbCheckpoints *checkpoints, uint64_t id, bool with_files,
                             IpbRestoredFunc func, void *data, GError **error);
/* Gives the kernel the state before the last @n cells that the ring has. */
bool ipb_checkpoints_undo(IpbCheckpoints *checkpoints, unsigned n, bool with_files,
                          IpbRestoredFunc func, void *data, GError **error);
bool ipb_checkpoints_drop(IpbCheckpoints *checkpoints, uint64_t id, GError **error);
/* Ends them all, and what is being made or restored: the session ends, or its kernel is about to be
 * reset. Returns how many checkpoints there were, without those of the ring. */
unsigned ipb_checkpoints_drop_all(IpbCheckpoints *checkpoints);
/* IpbCheckpointInfo, the oldest first, measured now, without those of the ring. The texts are
 * borrowed. */
GArray *ipb_checkpoints_list(IpbCheckpoints *checkpoints);
/* False: there is none. */
bool ipb_checkpoints_get(IpbCheckpoints *checkpoints, uint64_t id, IpbCheckpointInfo *ret_info);
/* 0: there is none. */
uint64_t ipb_checkpoints_find(const IpbCheckpoints *checkpoints, const char *name);
/* Its parked kernel, borrowed; NULL with @error: NOT_FOUND, KERNEL_DIED. */
IpbKernel *ipb_checkpoints_kernel(IpbCheckpoints *checkpoints, uint64_t id, GError **error);
/* How many cells can be undone. */
unsigned ipb_checkpoints_n_undo(const IpbCheckpoints *checkpoints);
/* Something is being made or restored. */
bool ipb_checkpoints_is_busy(const IpbCheckpoints *checkpoints);

/* Functions for the cells; @data: the checkpoints. */
extern const IpbCellUndoFuncs IPB_CHECKPOINTS_CELL_FUNCS;
