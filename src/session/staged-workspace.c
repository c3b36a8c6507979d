/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that takes long is a work in a thread. Works on a layer run one after the other, in
 * the order in which sessions began them. The running work and the sessions share the layer; the
 * last of them closes it. So freeing never waits for the disk, except to see whether the layer is
 * empty.
 *
 * What is frozen belongs to one session, until it is committed or thawed.
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

typedef struct Work Work;

/* A layer, and the sessions that share it. */
typedef struct {
    int references; /* atomic: of the sessions, and of the running work */
    IpbLoop *loop;  /* borrowed from the sessions: a thread may have the last reference */
    IpbLayer *layer;
    unsigned n_owners;   /* sessions */
    GPtrArray *sessions; /* IpbStagedWorkspace, borrowed: those of them that have not left */
    GQueue waiting;      /* Work */
    Work *running;       /* borrowed; or NULL */
    GQueue waits;        /* IpbStagedWait, borrowed: they wait for the end of the running work */
    /* Whose changes are frozen, or about to be; the object itself: that session was freed, and they
     * are about to be thawed; or NULL */
    const void *freezer;
    uint64_t last_copy;
    unsigned n_cells; /* that run */
    /* Of the sandbox that uses the layer: */
    IpbWalls *walls; /* NULL: there is none */
    int inside;
    IpbLayerUser user;
} Shared;

typedef enum {
    WORK_OPERATION, /* for a client */
    WORK_KEEP,      /* these are on a copy of a checkpoint */
    WORK_RESTORE,
    WORK_DROP,
} WorkKind;

struct Work {
    IpbStagedWorkspace *staged; /* NULL: it was freed, or does not wait for the end */
    Shared *shared;             /* with a reference, once the work runs */
    WorkKind kind;
    IpbStagedAction action; /* of an operation */
    char **paths;
    IpbSandboxPlan *plan;
    uint64_t copy;
    int inside; /* of the time when it began */
    IpbLayerUser user;
    IpbStagedFunc func;
    IpbStagedCopiedFunc copied_func;
    void *data;
    /* the result */
    IpbLayerChanges *changes;
    char *digest;
    char **diffs;
};

struct IpbStagedWait {
    Shared *shared; /* borrowed */
    GList link;     /* of shared->waits; its data is NULL once func was called */
    void (*func)(void *data);
    void *data;
};

struct IpbStagedWorkspace {
    IpbLoop *loop;
    Shared *shared;
    bool has_left;
    IpbLayerWatch *watch; /* NULL: of a layer that was left behind */
    bool is_operating;    /* an operation waits or runs */
    bool is_copying;      /* likewise, for a checkpoint */
    bool runs_cell;
    bool has_company;          /* another session has changed files while the cell ran */
    bool is_stale;             /* likewise, since the last cell */
    IpbStagedDoneFunc on_done; /* or NULL */
    void *done_data;
};

static void
free_work(void *data)
{
    Work *work = data;
    ipb_fd_close(&work->inside);
    ipb_sandbox_plan_unref(work->plan);
    ipb_layer_changes_free(work->changes);
    g_strfreev(work->paths);
    g_strfreev(work->diffs);
    g_free(work->digest);
    g_free(work);
}

static void
unref_shared(Shared *shared)
{
    if (!g_atomic_int_dec_and_test(&shared->references))
        return;
    g_queue_clear_full(&shared->waiting, free_work);
    ipb_layer_close(shared->layer, ipb_layer_is_empty(shared->layer));
    ipb_fd_close(&shared->inside);
    g_ptr_array_unref(shared->sessions);
    g_free(shared);
}

static void
free_run_work(void *data)
{
    Work *work = data;
    Shared *shared = work->shared;
    free_work(work);
    unref_shared(shared);
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
freeze(Work *operation, GError **error)
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
operate(Work *operation, GError **error)
{
    IpbLayer *layer = operation->shared->layer;
    const char *const *paths = (const char *const *) operation->paths;
    switch (operation->action) {
    case IPB_STAGED_LIST:
    case IPB_STAGED_LIST_DIFFS:
        operation->changes = ipb_layer_list(layer, operation->plan);
        if (ipb_layer_choose(operation->changes, paths, false, error) &&
            operation->action == IPB_STAGED_LIST_DIFFS)
            operation->diffs = make_diffs(layer, operation->changes);
        break;
    case IPB_STAGED_FREEZE:
        if (freeze(operation, error) && !has_work(operation->changes))
            ipb_layer_thaw(layer);
        break;
    case IPB_STAGED_FREEZE_AND_COMMIT:
        if (!freeze(operation, error))
            break;
        ipb_layer_changes_free(g_steal_pointer(&operation->changes));
        operation->changes = ipb_layer_commit(layer, operation->plan, error);
        break;
    case IPB_STAGED_COMMIT:
        operation->changes = ipb_layer_commit(layer, operation->plan, error);
        break;
    case IPB_STAGED_THAW:
        if (!ipb_layer_is_interrupted(layer)) /* else a commit is to be finished */
            ipb_layer_thaw(layer);
        break;
    case IPB_STAGED_DISCARD:
        operation->changes =
            ipb_layer_discard(layer, paths, operation->inside, &operation->user, error);
        break;
    }
}

static void
do_work(GTask *task, void *source, void *data, GCancellable *cancellable)
{
    Work *work = data;
    IpbLayer *layer = work->shared->layer;
    GError *error = NULL;
    switch (work->kind) {
    case WORK_OPERATION:
        operate(work, &error);
        break;
    case WORK_KEEP:
        ipb_layer_keep(layer, work->copy, &error);
        break;
    case WORK_RESTORE:
        ipb_layer_restore(layer, work->copy, work->inside, &work->user, &error);
        break;
    case WORK_DROP:
        ipb_layer_drop(layer, work->copy);
        break;
    }
    if (error != NULL)
        g_task_return_error(task, error);
    else
        g_task_return_boolean(task, TRUE);
}

/* --- on the loop ------------------------------------------------------------------------------ */

static void on_worked(GObject *source, GAsyncResult *result, void *data);

static void
start_next(Shared *shared)
{
    bool can_start = shared->running == NULL && shared->n_owners > 0;
    Work *work = can_start ? g_queue_pop_head(&shared->waiting) : NULL;
    if (work == NULL)
        return;
    work->inside = shared->inside >= 0 ? ipb_fd_duplicate(shared->inside, 0) : -1;
    work->user = shared->user;
    g_atomic_int_inc(&shared->references);
    shared->running = work;
    g_main_context_push_thread_default(ipb_loop_context(shared->loop));
    g_autoptr(GTask) task = g_task_new(NULL, NULL, on_worked, work);
    g_main_context_pop_thread_default(ipb_loop_context(shared->loop));
    g_task_set_task_data(task, work, free_run_work);
    g_task_run_in_thread(task, do_work);
}

static Work *
add_work(Shared *shared, WorkKind kind)
{
    Work *work = g_new0(Work, 1);
    work->shared = shared;
    work->kind = kind;
    work->inside = -1;
    g_queue_push_tail(&shared->waiting, work);
    return work;
}

/* Of a session that was freed. If there is no thread, the end of the layer thaws them. */
static void
thaw_for(Shared *shared)
{
    shared->freezer = shared;
    if (shared->n_owners == 0 || !ipb_thread_check(NULL))
        return;
    add_work(shared, WORK_OPERATION)->action = IPB_STAGED_THAW;
    start_next(shared);
}

/* What is frozen has another state after the operation. */
static void
update_freezer(Shared *shared, const Work *work, bool ok)
{
    if (work->kind != WORK_OPERATION)
        return;
    if (work->action == IPB_STAGED_COMMIT || work->action == IPB_STAGED_THAW ||
        (work->action == IPB_STAGED_FREEZE && !(ok && has_work(work->changes))))
        shared->freezer = NULL;
    else if (work->action == IPB_STAGED_FREEZE && work->staged == NULL)
        thaw_for(shared);
}

/* A discard and a restore are no changes of a cell. */
static void
note_other_changes(const Shared *shared, const Work *work)
{
    bool is_discard = work->kind == WORK_OPERATION && work->action == IPB_STAGED_DISCARD;
    if (!is_discard && work->kind != WORK_RESTORE)
        return;
    for (guint i = 0; i < shared->sessions->len; i++) {
        IpbStagedWorkspace *session = g_ptr_array_index(shared->sessions, i);
        if (session == work->staged && session->watch != NULL)
            ipb_layer_watch_skip(session->watch);
        else
            session->is_stale = session->has_company = true;
    }
}

static void
report_done(const Work *operation, const IpbStagedResult *result, const GError *error)
{
    const IpbStagedWorkspace *staged = operation->staged;
    bool is_discard = operation->action == IPB_STAGED_DISCARD;
    bool is_commit =
        operation->action == IPB_STAGED_COMMIT || operation->action == IPB_STAGED_FREEZE_AND_COMMIT;
    if (staged->on_done != NULL && (is_discard || is_commit))
        staged->on_done(is_discard, result, error, staged->done_data);
}

static void
report_operation(Work *operation, const GError *error)
{
    operation->staged->is_operating = false;
    IpbStagedResult what = {
        .changes = operation->changes,
        .digest = operation->digest,
        .diffs = operation->diffs,
    };
    report_done(operation, error == NULL ? &what : NULL, error);
    operation->func(error == NULL ? &what : NULL, error, operation->data); /* may free it */
}

/* Those of sandboxes come before the next work. */
static void
end_waits(Shared *shared)
{
    GList *link;
    while ((link = g_queue_pop_head_link(&shared->waits)) != NULL) {
        IpbStagedWait *wait = g_steal_pointer(&link->data);
        wait->func(wait->data); /* may free it */
    }
}

static void
on_worked(GObject *source, GAsyncResult *result, void *data)
{
    Work *work = data;
    g_autoptr(GError) error = NULL;
    bool ok = g_task_propagate_boolean(G_TASK(result), &error);
    Shared *shared = work->shared; /* the task has a reference until this returns */
    shared->running = NULL;
    update_freezer(shared, work, ok);
    note_other_changes(shared, work);
    end_waits(shared);
    start_next(shared);
    if (work->staged == NULL)
        return;
    if (work->kind == WORK_OPERATION) {
        report_operation(work, error);
    } else {
        work->staged->is_copying = false;
        work->copied_func(error, work->data); /* may free it */
    }
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

/* What is committed or discarded as a whole must not be half written. */
static bool
check_cells(const IpbStagedWorkspace *staged, const char *const *paths, GError **error)
{
    const Shared *shared = staged->shared;
    if (paths != NULL || shared->n_cells <= (staged->runs_cell ? 1 : 0))
        return true;
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                        "a cell runs in another session that shares the files: wait for its end, "
                        "or name the paths to commit or discard");
    return false;
}

bool
ipb_staged_workspace_check_writing(const IpbStagedWorkspace *staged, const char *const *paths,
                                   GError **error)
{
    const Shared *shared = staged->shared;
    if (shared->freezer == NULL || shared->freezer == staged)
        return check_cells(staged, paths, error);
    g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                        "a commit of another session that shares the files waits for its approval "
                        "or runs: wait for its end");
    return false;
}

static bool
needs_others_idle(IpbStagedAction action)
{
    return action == IPB_STAGED_FREEZE || action == IPB_STAGED_FREEZE_AND_COMMIT ||
           action == IPB_STAGED_DISCARD;
}

bool
ipb_staged_workspace_start(IpbStagedWorkspace *staged, IpbStagedAction action,
                           const char *const *paths, IpbSandboxPlan *plan, IpbStagedFunc func,
                           void *data, GError **error)
{
    Shared *shared = staged->shared;
    if (!check_paths(paths, error) || !ipb_thread_check(error) ||
        (needs_others_idle(action) && !ipb_staged_workspace_check_writing(staged, paths, error)))
        return false;
    if (staged->is_operating) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "another operation on the session's changes runs: wait for its end");
        return false;
    }
    Work *operation = add_work(shared, WORK_OPERATION);
    operation->staged = staged;
    operation->action = action;
    operation->paths = g_strdupv((char **) paths);
    operation->plan = plan != NULL ? ipb_sandbox_plan_ref(plan) : NULL;
    operation->func = func;
    operation->data = data;
    staged->is_operating = true;
    if (action == IPB_STAGED_FREEZE)
        shared->freezer = staged;
    start_next(shared);
    return true;
}

/* --- copies ----------------------------------------------------------------------------------- */

static bool
start_copying(IpbStagedWorkspace *staged, WorkKind kind, uint64_t copy, IpbStagedCopiedFunc func,
              void *data, GError **error)
{
    if (!ipb_thread_check(error))
        return false;
    if (staged->is_copying) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                            "files of another checkpoint are copied: wait for the end");
        return false;
    }
    Work *work = add_work(staged->shared, kind);
    work->staged = staged;
    work->copy = copy;
    work->copied_func = func;
    work->data = data;
    staged->is_copying = true;
    start_next(staged->shared);
    return true;
}

bool
ipb_staged_workspace_keep(IpbStagedWorkspace *staged, uint64_t *ret_copy, IpbStagedCopiedFunc func,
                          void *data, GError **error)
{
    *ret_copy = ++staged->shared->last_copy;
    return start_copying(staged, WORK_KEEP, *ret_copy, func, data, error);
}

bool
ipb_staged_workspace_restore(IpbStagedWorkspace *staged, uint64_t copy, IpbStagedCopiedFunc func,
                             void *data, GError **error)
{
    return start_copying(staged, WORK_RESTORE, copy, func, data, error);
}

void
ipb_staged_workspace_drop(IpbStagedWorkspace *staged, uint64_t copy)
{
    /* If there is no thread, it is removed with the layer's other copies. */
    if (copy == 0 || !ipb_thread_check(NULL))
        return;
    add_work(staged->shared, WORK_DROP)->copy = copy;
    start_next(staged->shared);
}

/* --- cells and sandboxes ---------------------------------------------------------------------- */

/* While cells run, the one that began first may know the workspace as it was then: a later start
 * does not count, which means more conflicts, not fewer. */
void
ipb_staged_workspace_begin_cell(IpbStagedWorkspace *staged)
{
    Shared *shared = staged->shared;
    if (shared->n_cells++ == 0)
        ipb_layer_note_start(shared->layer);
    for (guint i = 0; i < shared->sessions->len; i++)
        ((IpbStagedWorkspace *) g_ptr_array_index(shared->sessions, i))->has_company = true;
    staged->has_company = shared->n_cells > 1;
    staged->runs_cell = true;
    if (staged->is_stale && staged->watch != NULL)
        ipb_layer_watch_skip(staged->watch);
    staged->is_stale = false;
}

static void
count_end_of_cell(IpbStagedWorkspace *staged)
{
    Shared *shared = staged->shared;
    if (!staged->runs_cell)
        return;
    staged->runs_cell = false;
    shared->n_cells--;
    for (guint i = 0; i < shared->sessions->len; i++) {
        IpbStagedWorkspace *session = g_ptr_array_index(shared->sessions, i);
        session->is_stale = session->is_stale || session != staged;
    }
}

void
ipb_staged_workspace_forget_cell(IpbStagedWorkspace *staged)
{
    count_end_of_cell(staged);
}

/* A drop, as after a reset, does not touch the files that code sees. */
static bool
is_at_work(const Shared *shared)
{
    return shared->running != NULL && shared->running->kind != WORK_DROP;
}

IpbStagedWait *
ipb_staged_wait_new(IpbStagedWorkspace *staged, void (*func)(void *data), void *data)
{
    Shared *shared = staged->shared;
    if (!is_at_work(shared))
        return NULL;
    IpbStagedWait *wait = g_new0(IpbStagedWait, 1);
    *wait = (IpbStagedWait){.shared = shared, .link.data = wait, .func = func, .data = data};
    g_queue_push_tail_link(&shared->waits, &wait->link);
    return wait;
}

void
ipb_staged_wait_free(IpbStagedWait *wait)
{
    if (wait->link.data != NULL)
        g_queue_unlink(&wait->shared->waits, &wait->link);
    g_free(wait);
}

void
ipb_staged_workspace_prepare(IpbStagedWorkspace *staged)
{
    const Shared *shared = staged->shared;
    /* The plan that says what may be committed is made at any time. */
    if (is_at_work(shared) || shared->inside >= 0)
        return;
    ipb_layer_prune(shared->layer);
    for (guint i = 0; i < shared->sessions->len; i++) {
        const IpbStagedWorkspace *session = g_ptr_array_index(shared->sessions, i);
        if (session->watch != NULL)
            ipb_layer_watch_skip(session->watch);
    }
}

/* A name that is not UTF-8 is written in a printable form. */
static void
write_path(const char *path, IpbJsonWriter *writer)
{
    g_autofree char *valid = g_utf8_make_valid(path, -1);
    g_autofree char *printable = ipb_display_text_printable(valid);
    ipb_json_member_string(writer, "path", g_utf8_validate(path, -1, NULL) ? path : printable);
}

static char *
describe_company(char *cut)
{
    g_autofree char *before = cut;
    return g_strdup_printf("%s%swhat other sessions, which share the files, changed at the same "
                           "time is in it, too",
                           before != NULL ? before : "", before != NULL ? "; " : "");
}

char *
ipb_staged_workspace_end_cell(IpbStagedWorkspace *staged, char **ret_cut)
{
    *ret_cut = NULL;
    count_end_of_cell(staged);
    if (staged->watch == NULL)
        return NULL;
    g_autoptr(IpbLayerChanges) changes = ipb_layer_watch_look(staged->watch);
    *ret_cut = g_steal_pointer(&changes->cut);
    if (staged->has_company)
        *ret_cut = describe_company(*ret_cut);
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
    Shared *shared = staged->shared;
    ipb_fd_close(&shared->inside);
    shared->inside = fd;
    if (user != NULL)
        shared->user = *user;
}

IpbWalls **
ipb_staged_workspace_walls(IpbStagedWorkspace *staged)
{
    return &staged->shared->walls;
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

bool
ipb_staged_workspace_is_last(const IpbStagedWorkspace *staged)
{
    return staged->shared->n_owners == 1;
}

unsigned
ipb_staged_workspace_n_others(const IpbStagedWorkspace *staged)
{
    return staged->shared->sessions->len - (staged->has_left ? 0 : 1);
}

/* --- life ------------------------------------------------------------------------------------- */

char *
ipb_staged_workspace_place(const char *staging_dir, const char *state_dir)
{
    return staging_dir != NULL ? g_canonicalize_filename(staging_dir, NULL)
                               : g_build_filename(state_dir, "staged", NULL);
}

static IpbStagedWorkspace *
new_session(Shared *shared)
{
    IpbStagedWorkspace *staged = g_new0(IpbStagedWorkspace, 1);
    staged->loop = ipb_loop_ref(shared->loop);
    staged->shared = shared;
    shared->n_owners++;
    g_ptr_array_add(shared->sessions, staged);
    return staged;
}

static IpbStagedWorkspace *
new_for(IpbLoop *loop, IpbLayer *layer)
{
    if (layer == NULL)
        return NULL;
    Shared *shared = g_new0(Shared, 1);
    shared->references = 1;
    shared->loop = loop;
    shared->layer = layer;
    shared->sessions = g_ptr_array_new();
    g_queue_init(&shared->waiting);
    g_queue_init(&shared->waits);
    shared->inside = -1;
    return new_session(shared);
}

IpbStagedWorkspace *
ipb_staged_workspace_share(const IpbStagedWorkspace *other)
{
    Shared *shared = other->shared;
    g_atomic_int_inc(&shared->references);
    IpbStagedWorkspace *staged = new_session(shared);
    staged->watch = ipb_layer_watch_new(shared->layer);
    staged->is_stale = true;
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

/* What waits for its turn is not done. A running work ends, and no one is waiting for it. */
static void
forget_works(const IpbStagedWorkspace *staged)
{
    Shared *shared = staged->shared;
    if (shared->running != NULL && shared->running->staged == staged)
        shared->running->staged = NULL;
    GList *next;
    for (GList *link = shared->waiting.head; link != NULL; link = next) {
        next = link->next;
        if (((Work *) link->data)->staged != staged)
            continue;
        free_work(link->data);
        g_queue_delete_link(&shared->waiting, link);
    }
}

/* Its end changes what is frozen, for a session that was freed. */
static bool
is_of_freezer(const Work *work)
{
    return work != NULL && work->kind == WORK_OPERATION && work->staged == NULL &&
           (work->action == IPB_STAGED_FREEZE || work->action == IPB_STAGED_COMMIT ||
            work->action == IPB_STAGED_THAW);
}

void
ipb_staged_workspace_leave(IpbStagedWorkspace *staged)
{
    Shared *shared = staged->shared;
    if (staged->has_left)
        return;
    staged->has_left = true;
    g_ptr_array_remove(shared->sessions, staged);
}

void
ipb_staged_workspace_free(IpbStagedWorkspace *staged)
{
    if (staged == NULL)
        return;
    Shared *shared = staged->shared;
    ipb_staged_workspace_leave(staged);
    count_end_of_cell(staged);
    shared->n_owners--;
    forget_works(staged);
    if (shared->freezer == staged) {
        shared->freezer = shared;
        if (!is_of_freezer(shared->running))
            thaw_for(shared);
    }
    ipb_layer_watch_free(staged->watch);
    unref_shared(shared);
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
