/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbApprovedChanges: commits and discards what a staged session has changed, once that is
 * approved: by a rule, by the policy, or by the user who is asked. A commit freezes the changes
 * first, and the question is about what is frozen. So what was approved is what is written.
 *
 * For rules they are calls of IPB_OWN_SERVER.IPB_COMMIT_TOOL and IPB_DISCARD_TOOL, with the
 * arguments "workspace"; "paths", an array; "changes", an array of objects, which the question
 * shows; and "digest" of a commit: SHA-256 of all paths, modes and contents. What cannot be
 * committed is not in them.
 *
 * One commit or discard is done at a time, between cells. Cells that are given then wait.
 *
 * Ownership: the session owns it. It closes it before the parts that it uses are freed, and frees
 * it after them. Functions are called from the loop, once, unless it is closed before.
 */
#pragma once

#include "session/cells.h"
#include "session/staged-workspace.h"

typedef struct IpbApprovedChanges IpbApprovedChanges;

/* More changes are not committed or discarded at once. */
#define IPB_APPROVED_MAX_CHANGES 10000

typedef struct {
    /* borrowed, as these: */
    IpbApprovals *approvals;
    IpbCells *cells;
    IpbStagedWorkspace *staged;
    const char *workspace;
    /* The plan that judges names; caller unrefs. */
    IpbSandboxPlan *(*make_plan)(void *data, GError **error);
    void *data;
} IpbApprovedChangesOptions;

IpbApprovedChanges *ipb_approved_changes_new(const IpbApprovedChangesOptions *options);
/* @paths: NULL: all. Errors that are returned: BUSY. Those of @func: REFUSED, TIMEOUT, CANCELLED,
 * LIMIT (too many), and those of the layer. */
bool ipb_approved_changes_start(IpbApprovedChanges *changes, bool is_discard,
                                const char *const *paths, IpbStagedFunc func, void *data,
                                GError **error);
/* The caller is gone: what is not approved yet ends with CANCELLED. */
void ipb_approved_changes_cancel(IpbApprovedChanges *changes);
/* The session ends: likewise, and @done is called once nothing runs any more, maybe at once. */
void ipb_approved_changes_end(IpbApprovedChanges *changes, void (*done)(void *data), void *data);
/* No function is called any more. */
void ipb_approved_changes_close(IpbApprovedChanges *changes);
void ipb_approved_changes_free(IpbApprovedChanges *changes);
