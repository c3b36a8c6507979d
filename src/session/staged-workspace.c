/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of operations and the owner share the layer; the last of them closes it. So freeing
 * never waits for the disk, except to see whether the layer is empty.
 */
#include "session/staged-workspace.h"

#include <stdlib.h>
#include <string.h>

#include <gio/gio.h>

#include "base/display-text.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/unified-diff.h"
#include "base/thread.h"
#include "sandbox/layer-watch.h"

#define MAX_PATHS 10000
#define MAX_PATH_BYTES 4096
#define MAX_DIFF_FILE_BYTES ((size_t) 256 << 10)
#define MAX_DIFF_BYTES ((size_t) 64 << 10)       /* of one file */
#define MAX_ALL_DIFFS_BYTES ((size_t) 512 << 10) /* of one answer */

typedef struct {
    int references; /* atomic */
    GMutex mutex;   /* of the threads that use the layer */
    IpbLayer *layer;
} Shared;

typedef struct {
    IpbStagedWorkspace *staged; /* NULL: it was freed */
    Shared *shared;
    IpbStagedAction action;
    char **paths;
    IpbSandboxPlan *plan;
    int inside;
    IpbLayerUser user;
    IpbStagedFunc func;
    void *data;
    /* the result */
    IpbLayerChanges *changes;
    char *digest;
    char **diffs;
} Operation;

typedef enum { COPY_KEEP, COPY_RESTORE, COPY_DROP } CopyAction;

/* On a copy of a checkpoint. */
typedef struct {
    IpbStagedWorkspace *staged; /* NULL: it was freed, or does not wait for the end */
    Shared *shared;
    CopyAction action;
    uint64_t number;
    int inside;
    IpbLayerUser user;
    IpbStagedCopiedFunc func;
    void *data;
} CopyWork;

struct IpbStagedWorkspace {
    IpbLoop *loop;
    Shared *shared;
    IpbLayerWatch *watch; /* NULL: of a layer that was left behind */
    int inside;
    IpbLayerUser user;
    Operation *running;
    CopyWork *copying;
    bool has_waiting_cell;     /* it was given since the copy was begun */
    IpbStagedDoneFunc on_done; /* or NULL */
    void *done_data;
};

static void
unref_shared(Shared *shared)
{
    if (!g_atomic_int_dec_and_test(&shared->references))
        return;
    ipb_layer_close(shared->layer, ipb_layer_is_empty(shared->layer));
    g_mutex_clear(&shared->mutex);
    g_free(shared);
}

static void
free_operation(void *data)
{
    Operation *operation = data;
    unref_shared(operation->shared);
    ipb_fd_close(&operation->inside);
    ipb_sandbox_plan_unref(operation->plan);
    ipb_layer_changes_free(operation->changes);
    g_strfreev(operation->paths);
    g_strfreev(operation->diffs);
    g_free(operation->digest);
    g_free(operation);
}

/* --- in the thread ---------------------------------------------------------------------------- */

static char *
make_diff(IpbLayer *layer, const IpbLayerChange *change, size_t max)
{
    g_autofree char *old_text = NULL, *new_text = NULL;
    if (change->type != IPB_NAME_FILE ||
        !ipb_layer_read_both(layer, change->path, MAX_DIFF_FILE_BYTES, &old_text, &new_text))
        return g_strdup("");
    g_autofree char *valid = g_utf8_make_valid(change->path, -1);
    g_autofree char *name = ipb_display_text_printable(valid);
    const char *new_side = change->kind == IPB_CHANGE_REMOVED ? NULL : new_text;
    return ipb_unified_diff(name, old_text != NULL ? old_text : "",
                            new_side != NULL ? new_side : "", max);
}

static char **
make_diffs(IpbLayer *layer, const IpbLayerChanges *changes)
{
    char **diffs = g_new0(char *, changes->changes->len + 1);
    size_t left = MAX_ALL_DIFFS_BYTES;
    for (guint i = 0; i < changes->changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes->changes, i);
        bool is_shown = i < IPB_STAGED_MAX_SHOWN && left > 0;
        diffs[i] = is_shown ? make_diff(layer, change, MIN(left, MAX_DIFF_BYTES)) : g_strdup("");
        left -= MIN(left, strlen(diffs[i]));
    }
    return diffs;
}

/* A commit that was interrupted is finished first: it was approved. */
static bool
freeze(Operation *operation, GError **error)
{
    IpbLayer *layer = operation->shared->layer;
    if (ipb_layer_is_interrupted(layer)) {
        g_autoptr(IpbLayerChanges) earlier = ipb_layer_commit(layer, operation->plan, error);
        if (earlier == NULL)
            return false;
    }
    operation->changes = ipb_layer_freeze(
        layer, operation->plan, (const char *const *) operation->paths, &operation->digest, error);
    return operation->changes != NULL;
}

static bool
has_work(const IpbLayerChanges *changes)
{
    for (guint i = 0; i < changes->changes->len; i++)
        if (((IpbLayerChange *) g_ptr_array_index(changes->changes, i))->problem == NULL)
            return true;
    return false;
}

static void
operate(GTask *task, void *source, void *data, GCancellable *cancellable)
{
    Operation *operation = data;
    IpbLayer *layer = operation->shared->layer;
    const char *const *paths = (const char *const *) operation->paths;
    GError *error = NULL;
    g_mutex_lock(&operation->shared->mutex);
    switch (operation->action) {
    case IPB_STAGED_LIST:
    case IPB_STAGED_LIST_DIFFS:
        operation->changes = ipb_layer_list(layer, operation->plan);
        if (ipb_layer_choose(operation->changes, paths, false, &error) &&
            operation->action == IPB_STAGED_LIST_DIFFS)
            operation->diffs = make_diffs(layer, operation->changes);
        break;
    case IPB_STAGED_FREEZE:
        if (freeze(operation, &error) && !has_work(operation->changes))
            ipb_layer_thaw(layer);
        break;
    case IPB_STAGED_FREEZE_AND_COMMIT:
        if (!freeze(operation, &error))
            break;
        ipb_layer_changes_free(g_steal_pointer(&operation->changes));
        operation->changes = ipb_layer_commit(layer, operation->plan, &error);
        break;
    case IPB_STAGED_COMMIT:
        operation->changes = ipb_layer_commit(layer, operation->plan, &error);
        break;
    case IPB_STAGED_THAW:
        ipb_layer_thaw(layer);
        break;
    case IPB_STAGED_DISCARD:
        operation->changes =
            ipb_layer_discard(layer, paths, operation->inside, &operation->user, &error);
        break;
    }
    g_mutex_unlock(&operation->shared->mutex);
    if (error != NULL)
        g_task_return_error(task, error);
    else
        g_task_return_boolean(task, TRUE);
}

static void
work_on_copy(GTask *task, void *source, void *data, GCancellable *cancellable)
{
    CopyWork *work = data;
    IpbLayer *layer = work->shared->layer;
    GError *error = NULL;
    g_mutex_lock(&work->shared->mutex);
    switch (work->action) {
    case COPY_KEEP:
        ipb_layer_keep(layer, work->number, &error);
        break;
    case COPY_RESTORE:
        ipb_layer_restore(layer, work->number, work->inside, &work->user, &error);
        break;
    case COPY_DROP:
        ipb_layer_drop(layer, work->number);
        break;
    }
    g_mutex_unlock(&work->shared->mutex);
    if (error != NULL)
        g_task_return_error(task, error);
    else
        g_task_return_boolean(task, TRUE);
}

/* --- on the loop ------------------------------------------------------------------------------ */

static void
report_done(const Operation *operation, const IpbStagedResult *result, const GError *error)
{
    const IpbStagedWorkspace *staged = operation->staged;
    bool is_discard = operation->action == IPB_STAGED_DISCARD;
    bool is_commit =
        operation->action == IPB_STAGED_COMMIT || operation->action == IPB_STAGED_FREEZE_AND_COMMIT;
    if (staged->on_done != NULL && (is_discard || is_commit))
        staged->on_done(is_discard, result, error, staged->done_data);
}

static void
on_operated(GObject *source, GAsyncResult *result, void *data)
{
    Operation *operation = data;
    g_autoptr(GError) error = NULL;
    bool ok = g_task_propagate_boolean(G_TASK(result), &error);
    if (operation->staged == NULL)
        return;
    operation->staged->running = NULL;
    /* A discard is no change of a cell. */
    if (operation->action == IPB_STAGED_DISCARD && operation->staged->watch != NULL)
        ipb_layer_watch_skip(operation->staged->watch);
    IpbStagedResult what = {
        .changes = operation->changes,
        .digest = operation->digest,
        .diffs = operation->diffs,
    };
    report_done(operation, ok ? &what : NULL, error);
    operation->func(ok ? &what : NULL, error, operation->data); /* may free it */
}

static bool
check_paths(const char *const *paths, GError **error)
{
    size_t n = 0;
    for (; paths != NULL && paths[n] != NULL; n++)
        if (n >= MAX_PATHS || *paths[n] == '\0' || *paths[n] == '/' ||
            strlen(paths[n]) > MAX_PATH_BYTES) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "the paths of changes are below the workspace and do not begin with \"/\"; "
                        "%d at most, of %d bytes",
                        MAX_PATHS, MAX_PATH_BYTES);
            return false;
        }
    return true;
}

bool
ipb_staged_workspace_start(IpbStagedWorkspace *staged, IpbStagedAction action,
                           const char *const *paths, IpbSandboxPlan *plan, IpbStagedFunc func,
                           void *data, GError **error)
{
    if (!check_paths(paths, error) || !ipb_thread_check(error))
        return false;
    if (staged->running != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "another operation on the session's changes runs: wait for its end");
        return false;
    }
    Operation *operation = g_new0(Operation, 1);
    *operation = (Operation){
        .staged = staged,
        .shared = staged->shared,
        .action = action,
        .paths = g_strdupv((char **) paths),
        .plan = plan != NULL ? ipb_sandbox_plan_ref(plan) : NULL,
        .inside = staged->inside >= 0 ? ipb_fd_duplicate(staged->inside, 0) : -1,
        .user = staged->user,
        .func = func,
        .data = data,
    };
    g_atomic_int_inc(&staged->shared->references);
    staged->running = operation;
    g_main_context_push_thread_default(ipb_loop_context(staged->loop));
    g_autoptr(GTask) task = g_task_new(NULL, NULL, on_operated, operation);
    g_main_context_pop_thread_default(ipb_loop_context(staged->loop));
    g_task_set_task_data(task, operation, free_operation);
    g_task_run_in_thread(task, operate);
    return true;
}

/* --- copies ----------------------------------------------------------------------------------- */

static void
free_copy_work(void *data)
{
    CopyWork *work = data;
    unref_shared(work->shared);
    ipb_fd_close(&work->inside);
    g_free(work);
}

static void
on_copied(GObject *source, GAsyncResult *result, void *data)
{
    CopyWork *work = data;
    g_autoptr(GError) error = NULL;
    g_task_propagate_boolean(G_TASK(result), &error);
    IpbStagedWorkspace *staged = work->staged;
    if (staged == NULL)
        return;
    staged->copying = NULL;
    /* A restore is no change of a cell. */
    if (work->action == COPY_RESTORE && staged->watch != NULL)
        ipb_layer_watch_skip(staged->watch);
    if (staged->has_waiting_cell)
        ipb_staged_workspace_note_cell(staged);
    work->func(error, work->data); /* may free it */
}

static CopyWork *
start_copy_work(const IpbStagedWorkspace *staged, CopyAction action, uint64_t number)
{
    CopyWork *work = g_new0(CopyWork, 1);
    work->shared = staged->shared;
    work->action = action;
    work->number = number;
    work->inside = staged->inside >= 0 ? ipb_fd_duplicate(staged->inside, 0) : -1;
    work->user = staged->user;
    g_atomic_int_inc(&staged->shared->references);
    g_main_context_push_thread_default(ipb_loop_context(staged->loop));
    g_autoptr(GTask) task = g_task_new(NULL, NULL, on_copied, work);
    g_main_context_pop_thread_default(ipb_loop_context(staged->loop));
    g_task_set_task_data(task, work, free_copy_work);
    g_task_run_in_thread(task, work_on_copy);
    return work;
}

static bool
start_copying(IpbStagedWorkspace *staged, CopyAction action, uint64_t number,
              IpbStagedCopiedFunc func, void *data, GError **error)
{
    if (!ipb_thread_check(error))
        return false;
    if (staged->copying != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "files of another checkpoint are copied: wait for the end");
        return false;
    }
    staged->has_waiting_cell = false;
    staged->copying = start_copy_work(staged, action, number);
    staged->copying->staged = staged;
    staged->copying->func = func;
    staged->copying->data = data;
    return true;
}

bool
ipb_staged_workspace_keep(IpbStagedWorkspace *staged, uint64_t number, IpbStagedCopiedFunc func,
                          void *data, GError **error)
{
    return start_copying(staged, COPY_KEEP, number, func, data, error);
}

bool
ipb_staged_workspace_restore(IpbStagedWorkspace *staged, uint64_t number, IpbStagedCopiedFunc func,
                             void *data, GError **error)
{
    return start_copying(staged, COPY_RESTORE, number, func, data, error);
}

void
ipb_staged_workspace_drop(IpbStagedWorkspace *staged, uint64_t number)
{
    /* If there is no thread, it is removed with the layer's other copies. */
    if (ipb_thread_check(NULL))
        start_copy_work(staged, COPY_DROP, number);
}

/* --- cells and sandboxes ---------------------------------------------------------------------- */

/* A thread may read the list of starts. A start that is not noted means more conflicts, not fewer.
 * No cell starts while a copy is made or restored: it is noted then. */
void
ipb_staged_workspace_note_cell(IpbStagedWorkspace *staged)
{
    staged->has_waiting_cell = staged->copying != NULL;
    if (staged->running == NULL && staged->copying == NULL)
        ipb_layer_note_start(staged->shared->layer);
}

void
ipb_staged_workspace_prepare(IpbStagedWorkspace *staged)
{
    if (staged->running != NULL || staged->copying != NULL || staged->inside >= 0)
        return;
    ipb_layer_prune(staged->shared->layer);
    if (staged->watch != NULL)
        ipb_layer_watch_skip(staged->watch);
}

/* A name that is not UTF-8 is written in a printable form. */
static void
write_path(const char *path, IpbJsonWriter *writer)
{
    g_autofree char *valid = g_utf8_make_valid(path, -1);
    g_autofree char *printable = ipb_display_text_printable(valid);
    ipb_json_member_string(writer, "path", g_utf8_validate(path, -1, NULL) ? path : printable);
}

char *
ipb_staged_workspace_cell_changes(IpbStagedWorkspace *staged, char **ret_cut)
{
    *ret_cut = NULL;
    if (staged->watch == NULL)
        return NULL;
    g_autoptr(IpbLayerChanges) changes = ipb_layer_watch_look(staged->watch);
    *ret_cut = g_steal_pointer(&changes->cut);
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_array(writer);
    for (guint i = 0; i < changes->changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes->changes, i);
        ipb_json_begin_object(writer);
        write_path(change->path, writer);
        ipb_json_member_string(writer, "kind", ipb_staged_kind_name(change->kind));
        ipb_json_member_string(writer, "type", ipb_staged_type_name(change->type));
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    return ipb_json_writer_finish(writer, NULL);
}

void
ipb_staged_workspace_set_inside(IpbStagedWorkspace *staged, int fd, const IpbLayerUser *user)
{
    ipb_fd_close(&staged->inside);
    staged->inside = fd;
    if (user != NULL)
        staged->user = *user;
}

void
ipb_staged_workspace_watch(IpbStagedWorkspace *staged, IpbStagedDoneFunc func, void *data)
{
    staged->on_done = func;
    staged->done_data = data;
}

const char *
ipb_staged_workspace_directory(const IpbStagedWorkspace *staged)
{
    return ipb_layer_directory(staged->shared->layer);
}

/* --- life ------------------------------------------------------------------------------------- */

char *
ipb_staged_workspace_place(const char *staging_dir, const char *state_dir)
{
    return staging_dir != NULL ? g_canonicalize_filename(staging_dir, NULL)
                               : g_build_filename(state_dir, "staged", NULL);
}

static IpbStagedWorkspace *
new_for(IpbLoop *loop, IpbLayer *layer)
{
    if (layer == NULL)
        return NULL;
    IpbStagedWorkspace *staged = g_new0(IpbStagedWorkspace, 1);
    staged->loop = ipb_loop_ref(loop);
    staged->shared = g_new(Shared, 1);
    *staged->shared = (Shared){.references = 1, .layer = layer};
    g_mutex_init(&staged->shared->mutex);
    staged->inside = -1;
    return staged;
}

IpbStagedWorkspace *
ipb_staged_workspace_new(IpbLoop *loop, const char *place, const char *workspace, GError **error)
{
    if (!ipb_file_make_directories(place, 0700, error))
        return NULL;
    /* The mounts of a sandbox and names are about real paths. */
    g_autofree char *real_place = realpath(place, NULL), *real = realpath(workspace, NULL);
    g_autofree char *directory =
        real_place != NULL ? ipb_file_make_temp_directory(real_place, "layer-", error) : NULL;
    if (real == NULL || real_place == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "cannot find %s",
                    real == NULL ? workspace : place);
        return NULL;
    }
    IpbStagedWorkspace *staged =
        directory != NULL ? new_for(loop, ipb_layer_new(directory, real, error)) : NULL;
    if (staged != NULL)
        staged->watch = ipb_layer_watch_new(staged->shared->layer);
    return staged;
}

IpbStagedWorkspace *
ipb_staged_workspace_open(IpbLoop *loop, const char *directory, GError **error)
{
    return new_for(loop, ipb_layer_open(directory, error));
}

void
ipb_staged_workspace_free(IpbStagedWorkspace *staged)
{
    if (staged == NULL)
        return;
    if (staged->running != NULL)
        staged->running->staged = NULL;
    if (staged->copying != NULL)
        staged->copying->staged = NULL;
    ipb_fd_close(&staged->inside);
    ipb_layer_watch_free(staged->watch);
    unref_shared(staged->shared);
    ipb_loop_unref(staged->loop);
    g_free(staged);
}

/* --- for clients ------------------------------------------------------------------------------ */

static const char *const KINDS[] = {"added", "changed", "removed"};
static const char *const TYPES[] = {"file", "directory", "link", "special"};

const char *
ipb_staged_kind_name(IpbChangeKind kind)
{
    return KINDS[kind];
}

const char *
ipb_staged_type_name(IpbNameKind type)
{
    return TYPES[type];
}

void
ipb_staged_change_write(const IpbLayerChange *change, const char *diff, IpbJsonWriter *writer)
{
    ipb_json_begin_object(writer);
    write_path(change->path, writer);
    ipb_json_member_string(writer, "kind", KINDS[change->kind]);
    ipb_json_member_string(writer, "type", TYPES[change->type]);
    ipb_json_member_int(writer, "size", (int64_t) change->size);
    ipb_json_member_int(writer, "old_size", (int64_t) change->old_size);
    ipb_json_member_int(writer, "mode", change->mode);
    if (change->problem != NULL)
        ipb_json_member_string(writer, "problem", change->problem);
    if (change->is_conflict)
        ipb_json_member_bool(writer, "conflict", true);
    if (change->is_done)
        ipb_json_member_bool(writer, "done", true);
    if (diff != NULL && *diff != '\0')
        ipb_json_member_string(writer, "diff", diff);
    ipb_json_end_object(writer);
}

void
ipb_staged_result_write(const IpbStagedResult *result, guint max_shown, IpbJsonWriter *writer)
{
    const GPtrArray *changes = result->changes->changes;
    unsigned n_problems = 0;
    uint64_t n_bytes = 0;
    ipb_json_begin_object(writer);
    ipb_json_key(writer, "changes");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes, i);
        n_problems += change->problem != NULL;
        n_bytes += change->size;
        if (i < max_shown)
            ipb_staged_change_write(change, result->diffs != NULL ? result->diffs[i] : NULL,
                                    writer);
    }
    ipb_json_end_array(writer);
    ipb_json_member_int(writer, "total", changes->len);
    ipb_json_member_int(writer, "total_bytes", (int64_t) n_bytes);
    ipb_json_member_int(writer, "problems", n_problems);
    if (result->changes->cut != NULL) {
        g_autofree char *valid = g_utf8_make_valid(result->changes->cut, -1);
        g_autofree char *cut = ipb_display_text_printable(valid);
        ipb_json_member_string(writer, "cut", cut);
    }
    if (result->digest != NULL)
        ipb_json_member_string(writer, "digest", result->digest);
    ipb_json_end_object(writer);
}

/* The layer of a session that was freed exists if it has changes. */
char *
ipb_staged_workspace_left_text(const char *directory, const char *owner)
{
    if (directory == NULL || !g_file_test(directory, G_FILE_TEST_EXISTS))
        return NULL;
    g_autofree char *name = g_path_get_basename(directory);
    g_autofree char *place = g_path_get_dirname(directory);
    return g_strdup_printf("%s has ended with changes that were not committed. They are kept in "
                           "%s: 'ipybox changes commit %s' or 'ipybox changes discard %s'",
                           owner, place, name, name);
}
