/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbStagedWorkspace: the layer of a staged session (sandbox/layer.h), worked on in a thread. What
 * the session writes stays in the layer, over resets and ends of its kernel, until it is committed
 * or discarded.
 *
 * A session and those that were forked from it share one layer, and each has an object of its own
 * for it. Their kernels are in one sandbox, the only one that uses the layer. Works on the layer
 * run one after the other.
 *
 * When the last of these objects is freed while there are changes, the layer stays on the disk, and
 * `ipybox changes list` lists it; an empty one is removed.
 *
 * Ownership: the session frees it, after its kernels. Functions are called from the loop, once,
 * unless the object is freed before: then what waits for its turn is not done.
 */
#pragma once

#include "base/loop.h"
#include "json/writer.h"
#include "kernel/kernel.h"
#include "sandbox/layer.h"

typedef struct IpbStagedWorkspace IpbStagedWorkspace;

/* How many changes one answer has at most; the others are counted. */
#define IPB_STAGED_MAX_SHOWN 1000

typedef enum {
    IPB_STAGED_LIST,
    IPB_STAGED_LIST_DIFFS, /* with unified diffs of texts */
    IPB_STAGED_FREEZE,     /* what COMMIT will write; nothing, if no change can be committed */
    IPB_STAGED_COMMIT,     /* what was frozen */
    IPB_STAGED_FREEZE_AND_COMMIT,
    IPB_STAGED_THAW,
    IPB_STAGED_DISCARD,
} IpbStagedAction;

typedef struct {
    const IpbLayerChanges *changes; /* NULL of THAW */
    const char *digest;             /* of what is frozen; else NULL */
    char *const *diffs;             /* of each change, "" if there is none; else NULL */
} IpbStagedResult;

/* Everything is borrowed. @result is NULL if there is an @error. */
typedef void (*IpbStagedFunc)(const IpbStagedResult *result, const GError *error, void *data);

/* The directory in which layers are kept: @staging_dir, or the one of the user. Caller frees. */
char *ipb_staged_workspace_place(const char *staging_dir, const char *state_dir);
/* Makes a layer for @workspace in a new directory below @place. */
IpbStagedWorkspace *ipb_staged_workspace_new(IpbLoop *loop, const char *place,
                                             const char *workspace, GError **error);
/* Works on a layer that was left behind. */
IpbStagedWorkspace *ipb_staged_workspace_open(IpbLoop *loop, const char *directory, GError **error);
/* Every commit and discard is reported to @func, before its own function. */
typedef void (*IpbStagedDoneFunc)(bool is_discard, const IpbStagedResult *result,
                                  const GError *error, void *data);
void ipb_staged_workspace_watch(IpbStagedWorkspace *staged, IpbStagedDoneFunc func, void *data);
/* The layer's directory. */
const char *ipb_staged_workspace_directory(const IpbStagedWorkspace *staged);
/* For a session that was forked from that of @other. */
IpbStagedWorkspace *ipb_staged_workspace_share(const IpbStagedWorkspace *other);
/* How many other sessions share the layer, and have not left. */
unsigned ipb_staged_workspace_n_others(const IpbStagedWorkspace *staged);
/* The session is being closed: it counts as another one no more. */
void ipb_staged_workspace_leave(IpbStagedWorkspace *staged);
/* Whether all others are freed. */
bool ipb_staged_workspace_is_last(const IpbStagedWorkspace *staged);
/* A cell of the session begins. It knows the workspace as it is now. */
void ipb_staged_workspace_begin_cell(IpbStagedWorkspace *staged);
/* It has ended, or could not begin: what it changed counts to the next one. */
void ipb_staged_workspace_forget_cell(IpbStagedWorkspace *staged);
/* Returns what has changed since the last call, or since a discard: by the cell that has just
 * ended, or by what ran before it. If other sessions changed something since then, since the
 * beginning of the cell. A JSON array of {"path", "kind", "type"}; NULL: of a layer that was left
 * behind. *@ret_cut: why it is not exactly what the cell changed, for people, or NULL. The caller
 * frees both. */
char *ipb_staged_workspace_end_cell(IpbStagedWorkspace *staged, char **ret_cut);
/* IpbStagedWait: waits until no work runs on the layer, because a sandbox that uses the layer is
 * made while none does. Ownership: the caller frees it, before @staged. Returns NULL if there is
 * nothing to wait for. @func is called once, from the loop, not after the end of this object. */
typedef struct IpbStagedWait IpbStagedWait;

IpbStagedWait *ipb_staged_wait_new(IpbStagedWorkspace *staged, void (*func)(void *data),
                                   void *data);
void ipb_staged_wait_free(IpbStagedWait *wait);
/* Before a sandbox is made that uses the layer. No work runs: see IpbStagedWait. */
void ipb_staged_workspace_prepare(IpbStagedWorkspace *staged);
/* A sandbox uses the layer: the workspace as code inside sees it, whose fd is taken over. -1: none
 * does any more. */
void ipb_staged_workspace_set_inside(IpbStagedWorkspace *staged, int fd, const IpbLayerUser *user);
/* Where the sandbox is kept that uses the layer; see IpbKernelSandboxFuncs. */
IpbWalls **ipb_staged_workspace_walls(IpbStagedWorkspace *staged);
/* Whether changes at @paths may be committed or discarded now. BUSY: another session that shares
 * the layer waits for the approval of a commit; or it runs a cell, and @paths is NULL. */
bool ipb_staged_workspace_check_writing(const IpbStagedWorkspace *staged, const char *const *paths,
                                        GError **error);
/* One at a time for each session. @paths: below the workspace; NULL: all. Lists have only the
 * changes there. @plan: judges names; a reference is taken. Errors: BUSY, also as for
 * ipb_staged_workspace_check_writing(); SYSTEM; others come to @func. */
bool ipb_staged_workspace_start(IpbStagedWorkspace *staged, IpbStagedAction action,
                                const char *const *paths, IpbSandboxPlan *plan, IpbStagedFunc func,
                                void *data, GError **error);

/* --- for checkpoints --- */

typedef void (*IpbStagedCopiedFunc)(const GError *error, void *data);

/* Keeps or restores a copy of all changes: ipb_layer_keep(), ipb_layer_restore(). One at a time for
 * each session. No cell of it starts before its end, which is reported to @func. *@ret_copy: the
 * number of the copy, of all sessions that share the layer. Restore only if no others share it:
 * files would change under them. Errors: BUSY, SYSTEM; others come to @func. */
bool ipb_staged_workspace_keep(IpbStagedWorkspace *staged, uint64_t *ret_copy,
                               IpbStagedCopiedFunc func, void *data, GError **error);
bool ipb_staged_workspace_restore(IpbStagedWorkspace *staged, uint64_t copy,
                                  IpbStagedCopiedFunc func, void *data, GError **error);
/* Frees the space of a copy in the background. 0: there is none. */
void ipb_staged_workspace_drop(IpbStagedWorkspace *staged, uint64_t copy);

/* Writes an object for clients: docs/internals/staged-workspace.md. @max_shown changes are in it;
 * the others are counted. */
void ipb_staged_result_write(const IpbStagedResult *result, guint max_shown, IpbJsonWriter *writer);
/* One change of it. @diff: may be NULL. */
void ipb_staged_change_write(const IpbLayerChange *change, const char *diff, IpbJsonWriter *writer);
/* For the log, when @owner ("a session") has been freed: its layer has changes, and how to commit
 * them. NULL: it has none, or @directory is NULL. The caller frees it. */
char *ipb_staged_workspace_left_text(const char *directory, const char *owner);
/* "added", "changed", "removed". */
const char *ipb_staged_kind_name(IpbChangeKind kind);
/* "file", "directory", "link", "special". */
const char *ipb_staged_type_name(IpbNameKind type);
void ipb_staged_workspace_free(IpbStagedWorkspace *staged);
