/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbStagedWorkspace: the layer of a staged session (sandbox/layer.h), worked on in a thread. What
 * the session writes stays in the layer, over resets and ends of its kernel, until it is committed
 * or discarded. One operation runs at a time.
 *
 * If the owner frees it while there are changes, the layer stays on the disk, and
 * `ipybox changes list` lists it; an empty one is removed.
 *
 * Ownership: the owner frees it, after the kernel. Functions are called from the loop, once, unless
 * the object is freed before.
 */
#pragma once

#include "base/loop.h"
#include "json/writer.h"
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
/* Whatever code does from now on, it knows the workspace as it is now. */
void ipb_staged_workspace_note_cell(IpbStagedWorkspace *staged);
/* What has changed since the last call, or since a discard: by the cell that has just ended, or by
 * what ran before it. A JSON array of {"path", "kind", "type"}; NULL: of a layer that was left
 * behind. *@ret_cut: why not all is in it, for people, or NULL. The caller frees both. */
char *ipb_staged_workspace_cell_changes(IpbStagedWorkspace *staged, char **ret_cut);
/* Before a sandbox is made that uses the layer. */
void ipb_staged_workspace_prepare(IpbStagedWorkspace *staged);
/* A sandbox uses the layer: the workspace as code inside sees it, whose fd is taken over. -1: none
 * does any more. */
void ipb_staged_workspace_set_inside(IpbStagedWorkspace *staged, int fd, const IpbLayerUser *user);
/* @paths: below the workspace; NULL: all. Lists have only the changes there.
 * @plan: judges names; a reference is taken. Errors: BUSY, SYSTEM; others come to @func. */
bool ipb_staged_workspace_start(IpbStagedWorkspace *staged, IpbStagedAction action,
                                const char *const *paths, IpbSandboxPlan *plan, IpbStagedFunc func,
                                void *data, GError **error);

/* --- for checkpoints --- */

typedef void (*IpbStagedCopiedFunc)(const GError *error, void *data);

/* Keeps or restores a copy of all changes: ipb_layer_keep(), ipb_layer_restore(). One of them runs
 * at a time, and waits for what clients have started. No cell starts before its end, which is
 * reported to @func. Errors: BUSY, SYSTEM; others come to @func. */
bool ipb_staged_workspace_keep(IpbStagedWorkspace *staged, uint64_t number,
                               IpbStagedCopiedFunc func, void *data, GError **error);
bool ipb_staged_workspace_restore(IpbStagedWorkspace *staged, uint64_t number,
                                  IpbStagedCopiedFunc func, void *data, GError **error);
/* Frees the space of a copy in the background. */
void ipb_staged_workspace_drop(IpbStagedWorkspace *staged, uint64_t number);

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
