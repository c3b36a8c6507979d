/* SPDX-License-Identifier: Apache-2.0
 *
 * A commit goes through these steps: FREEZING, ASKING, and COMMITTING or, if it is refused,
 * THAWING. A discard lists instead of freezing, and nothing has to be thawed.
 */
#include "session/approved-changes.h"

#include <string.h>

#include "base/display-text.h"
#include "base/error.h"

typedef enum { IDLE, FREEZING, ASKING, APPLYING, THAWING } Step;

struct IpbApprovedChanges {
    IpbApprovedChangesOptions options;
    Step step;
    bool is_discard;
    bool is_cancelled;
    bool is_closed;
    uint64_t approval; /* 0: none is awaited */
    char **paths;
    char *digest;    /* of what is frozen */
    GError *refusal; /* reported once the changes are thawed */
    IpbStagedFunc func;
    void *data;
    void (*idle)(void *data); /* or NULL */
    void *idle_data;
};

IpbApprovedChanges *
ipb_approved_changes_new(const IpbApprovedChangesOptions *options)
{
    IpbApprovedChanges *changes = g_new0(IpbApprovedChanges, 1);
    changes->options = *options;
    return changes;
}

/* @func may start the next one. */
static void
finish(IpbApprovedChanges *changes, const IpbStagedResult *result, const GError *error)
{
    g_autofree char *digest = g_steal_pointer(&changes->digest);
    g_autoptr(GError) refusal = g_steal_pointer(&changes->refusal);
    changes->step = IDLE;
    g_clear_pointer(&changes->paths, g_strfreev);
    if (changes->is_closed)
        return;
    IpbStagedResult what = result != NULL ? *result : (IpbStagedResult){0};
    what.digest = digest;
    changes->func(result != NULL ? &what : NULL, error, changes->data);
    ipb_cells_hold(changes->options.cells, false);
    if (changes->step == IDLE && changes->idle != NULL)
        g_steal_pointer (&changes->idle)(changes->idle_data);
}

static bool
start_step(IpbApprovedChanges *changes, Step step, IpbStagedAction action, IpbStagedFunc func,
           GError **error)
{
    const IpbApprovedChangesOptions *options = &changes->options;
    g_autoptr(IpbSandboxPlan) plan = options->make_plan(options->data, error);
    changes->step = step;
    return plan != NULL &&
           ipb_staged_workspace_start(options->staged, action, (const char *const *) changes->paths,
                                      plan, func, changes, error);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void
on_applied(const IpbStagedResult *result, const GError *error, void *data)
{
    finish(data, result, error);
}

static void
on_thawed(const IpbStagedResult *result, const GError *error, void *data)
{
    IpbApprovedChanges *changes = data;
    g_autoptr(GError) refusal = g_steal_pointer(&changes->refusal);
    finish(changes, NULL, refusal);
}

/* Takes @error. */
static void
refuse(IpbApprovedChanges *changes, GError *error)
{
    changes->refusal = error;
    /* If no thread can be started: the next commit, or the end of the session, thaws it. */
    if (changes->is_discard || !start_step(changes, THAWING, IPB_STAGED_THAW, on_thawed, NULL))
        on_thawed(NULL, NULL, changes);
}

/* --- the question ----------------------------------------------------------------------------- */

static void
on_decided(const GError *error, void *data)
{
    IpbApprovedChanges *changes = data;
    g_autoptr(GError) failure = NULL;
    changes->approval = 0;
    if (changes->is_closed)
        return;
    if (error != NULL)
        refuse(changes, g_error_copy(error));
    else if (!start_step(changes, APPLYING,
                         changes->is_discard ? IPB_STAGED_DISCARD : IPB_STAGED_COMMIT, on_applied,
                         &failure))
        refuse(changes, g_steal_pointer(&failure));
}

/* What the operation would do with the change. */
static bool
is_meant(const IpbApprovedChanges *changes, const IpbLayerChange *change)
{
    return changes->is_discard || change->problem == NULL;
}

static char *
printable_path(const IpbLayerChange *change)
{
    g_autofree char *valid = g_utf8_make_valid(change->path, -1);
    return g_utf8_validate(change->path, -1, NULL) ? g_steal_pointer(&valid)
                                                   : ipb_display_text_printable(valid);
}

static char *
make_arguments(const IpbApprovedChanges *changes, const IpbStagedResult *result)
{
    const GPtrArray *list = result->changes->changes;
    g_autofree char *workspace = g_utf8_make_valid(changes->options.workspace, -1);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "workspace", workspace);
    ipb_json_key(writer, "paths");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < list->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(list, i);
        g_autofree char *path = printable_path(change);
        if (is_meant(changes, change))
            ipb_json_write_string(writer, path);
    }
    ipb_json_end_array(writer);
    ipb_json_key(writer, "changes");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < list->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(list, i);
        if (is_meant(changes, change))
            ipb_staged_change_write(change, NULL, writer);
    }
    ipb_json_end_array(writer);
    if (result->digest != NULL)
        ipb_json_member_string(writer, "digest", result->digest);
    ipb_json_end_object(writer);
    return ipb_json_writer_finish(writer, NULL);
}

static guint
count_meant(const IpbApprovedChanges *changes, const GPtrArray *list)
{
    guint n = 0;
    for (guint i = 0; i < list->len; i++)
        n += is_meant(changes, g_ptr_array_index(list, i));
    return n;
}

static GError *
check_frozen(const IpbApprovedChanges *changes, const IpbStagedResult *result)
{
    const IpbLayerChanges *list = result->changes;
    if (changes->is_cancelled)
        return g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_CANCELLED,
                                   "it was cancelled before it was approved");
    if (changes->is_discard && list->cut != NULL && changes->paths == NULL)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                           "not all changes can be listed (%s): discard them in parts, by paths",
                           list->cut);
    if (list->changes->len > IPB_APPROVED_MAX_CHANGES)
        return g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                           "%u changes are too many at once, at most %d are possible: do it in "
                           "parts, by paths",
                           list->changes->len, IPB_APPROVED_MAX_CHANGES);
    return NULL;
}

/* Only what was shown is discarded, whatever other sessions write until the answer. */
static void
set_paths(IpbApprovedChanges *changes, const GPtrArray *list)
{
    g_autoptr(GStrvBuilder) paths = g_strv_builder_new();
    for (guint i = 0; i < list->len; i++)
        g_strv_builder_add(paths, ((IpbLayerChange *) g_ptr_array_index(list, i))->path);
    g_strfreev(changes->paths);
    changes->paths = g_strv_builder_end(paths);
}

static void
on_frozen(const IpbStagedResult *result, const GError *error, void *data)
{
    IpbApprovedChanges *changes = data;
    GError *problem = error != NULL ? g_error_copy(error) : check_frozen(changes, result);
    if (problem != NULL) {
        refuse(changes, problem);
        return;
    }
    if (count_meant(changes, result->changes->changes) == 0) {
        finish(changes, result, NULL); /* nothing is frozen then */
        return;
    }
    changes->digest = g_strdup(result->digest);
    if (changes->is_discard && ipb_staged_workspace_n_others(changes->options.staged) > 0)
        set_paths(changes, result->changes->changes);
    changes->step = ASKING;
    g_autofree char *arguments = make_arguments(changes, result);
    changes->approval = ipb_approvals_request_own(
        changes->options.approvals,
        changes->is_discard ? IPB_APPROVAL_OF_DISCARD : IPB_APPROVAL_OF_COMMIT, arguments,
        strlen(arguments), on_decided, changes);
}

bool
ipb_approved_changes_start(IpbApprovedChanges *changes, bool is_discard, const char *const *paths,
                           IpbStagedFunc func, void *data, GError **error)
{
    const char *problem = NULL;
    if (changes->step != IDLE)
        problem = "a commit or discard of the session's changes waits for its approval or runs: "
                  "wait for its end";
    else if (!ipb_cells_is_idle(changes->options.cells))
        problem = "a cell runs or waits: changes are committed and discarded between cells only";
    if (problem != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, problem);
        return false;
    }
    if (!ipb_staged_workspace_check_writing(changes->options.staged, paths, error))
        return false;
    changes->is_discard = is_discard;
    changes->is_cancelled = false;
    changes->func = func;
    changes->data = data;
    changes->paths = g_strdupv((char **) paths);
    if (!start_step(changes, FREEZING, is_discard ? IPB_STAGED_LIST : IPB_STAGED_FREEZE, on_frozen,
                    error)) {
        changes->step = IDLE;
        g_clear_pointer(&changes->paths, g_strfreev);
        return false;
    }
    ipb_cells_hold(changes->options.cells, true);
    return true;
}

void
ipb_approved_changes_cancel(IpbApprovedChanges *changes)
{
    changes->is_cancelled = true;
    if (changes->approval != 0)
        ipb_approvals_cancel(changes->options.approvals, changes->approval);
}

void
ipb_approved_changes_end(IpbApprovedChanges *changes, void (*done)(void *data), void *data)
{
    ipb_approved_changes_cancel(changes);
    if (changes->step == IDLE) {
        done(data);
        return;
    }
    changes->idle = done;
    changes->idle_data = data;
}

void
ipb_approved_changes_close(IpbApprovedChanges *changes)
{
    if (changes != NULL)
        changes->is_closed = true;
}

void
ipb_approved_changes_free(IpbApprovedChanges *changes)
{
    if (changes == NULL)
        return;
    g_strfreev(changes->paths);
    g_free(changes->digest);
    g_clear_error(&changes->refusal);
    g_free(changes);
}
