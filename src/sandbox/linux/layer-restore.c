/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives files inside the state of a checkpoint. Each path that differs from the workspace, now or
 * in the copy, has a target: what the copy has, what the workspace has, or nothing. What has not
 * the type of its target is removed first, from below. Then the targets are made, from above.
 *
 * Processes in the background may change files at the same time. So this is repeated until nothing
 * is left to do, but not for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/display-text.h"
#include "base/error.h"
#include "sandbox/linux/layer-copies.h"
#include "sandbox/linux/layer-inside.h"

#define MAX_PASSES 3

typedef enum { FROM_NOTHING, FROM_WORKSPACE, FROM_COPY } Source;

typedef struct {
    char *path;
    Source source;
    mode_t mode; /* type and permissions; 0 with FROM_NOTHING */
} Target;

typedef struct {
    IpbLayer *layer;
    IpbLayerInside inside;
    int copy;
    unsigned n_commits;      /* before the copy */
    GHashTable *staying;     /* directories above what was committed since; they stay */
    IpbLayerChanges *wanted; /* what the copy changes */
    unsigned n_done;         /* in this pass */
    char *problem;           /* the first one of this pass; or NULL */
    unsigned n_problems;
} Restore;

/* --- targets ---------------------------------------------------------------------------------- */

static void
free_target(void *data)
{
    Target *target = data;
    g_free(target->path);
    g_free(target);
}

static Target *
set_target(GHashTable *targets, const char *path, Source source, mode_t mode)
{
    Target *target = g_hash_table_lookup(targets, path);
    if (target == NULL) {
        target = g_new0(Target, 1);
        target->path = g_strdup(path);
        g_hash_table_insert(targets, target->path, target);
    }
    target->source = source;
    target->mode = mode;
    return target;
}

/* A path is in a list twice if something of another type took its place: first it was removed. */
static void
undo_changes(GHashTable *targets, const GPtrArray *changes)
{
    for (guint i = 0; i < changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes, i);
        if (change->base.exists)
            set_target(targets, change->path, FROM_WORKSPACE, change->base.mode);
        else if (!g_hash_table_contains(targets, change->path))
            set_target(targets, change->path, FROM_NOTHING, 0);
    }
}

static bool
is_committed(const Restore *restore, const char *path)
{
    const IpbCommitted *committed = g_hash_table_lookup(restore->layer->committed, path);
    return committed != NULL && committed->commit > restore->n_commits;
}

/* The path of the directory, in place; false: it is the workspace. */
static bool
go_up(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
    return slash != NULL;
}

static GHashTable *
find_staying(const Restore *restore)
{
    GHashTable *staying = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    GHashTableIter iter;
    void *path, *entry;
    g_hash_table_iter_init(&iter, restore->layer->committed);
    while (g_hash_table_iter_next(&iter, &path, &entry)) {
        const IpbCommitted *committed = entry;
        g_autofree char *above = g_strdup(path);
        while (committed->commit > restore->n_commits && committed->real.exists && go_up(above))
            g_hash_table_add(staying, g_strdup(above));
    }
    return staying;
}

/* A commit may have removed the directory of a file that comes back. */
static void
add_directories(const Restore *restore, GHashTable *targets, const char *path)
{
    g_autofree char *above = g_strdup(path);
    while (go_up(above)) {
        const Target *target = g_hash_table_lookup(targets, above);
        struct stat info;
        if (target != NULL ? target->source == FROM_NOTHING
                           : !ipb_layer_inside_stat(&restore->inside, above, &info))
            set_target(targets, above, FROM_COPY, S_IFDIR | 0755);
    }
}

static void
add_wanted(const Restore *restore, GHashTable *targets)
{
    const GPtrArray *changes = restore->wanted->changes;
    for (guint i = 0; i < changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes, i);
        if (is_committed(restore, change->path))
            continue;
        if (change->kind != IPB_CHANGE_REMOVED)
            set_target(targets, change->path, FROM_COPY, change->written.mode);
        else if (!g_hash_table_contains(restore->staying, change->path))
            set_target(targets, change->path, FROM_NOTHING, 0);
    }
    for (guint i = 0; i < changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes, i);
        if (change->kind != IPB_CHANGE_REMOVED && !is_committed(restore, change->path))
            add_directories(restore, targets, change->path);
    }
}

static gint
compare_targets(gconstpointer a, gconstpointer b)
{
    const Target *const *first = a, *const *second = b;
    return strcmp((*first)->path, (*second)->path);
}

/* Sorted: a directory comes before what is in it. */
static GPtrArray *
make_targets(const Restore *restore, const IpbLayerChanges *now)
{
    g_autoptr(GHashTable) by_path = g_hash_table_new(g_str_hash, g_str_equal);
    GPtrArray *targets = g_ptr_array_new_with_free_func(free_target);
    GHashTableIter iter;
    void *target;
    undo_changes(by_path, now->changes);
    add_wanted(restore, by_path);
    g_hash_table_iter_init(&iter, by_path);
    while (g_hash_table_iter_next(&iter, NULL, &target))
        g_ptr_array_add(targets, target);
    g_ptr_array_sort(targets, compare_targets);
    return targets;
}

/* --- one path --------------------------------------------------------------------------------- */

static void
note(Restore *restore, const Target *target, bool ok)
{
    if (ok) {
        restore->n_done++;
        return;
    }
    restore->n_problems++;
    if (restore->problem == NULL) {
        int saved = errno;
        g_autofree char *valid = g_utf8_make_valid(target->path, -1);
        g_autofree char *printable = ipb_display_text_printable(valid);
        restore->problem = ipb_layer_files_problem(printable, saved);
    }
}

static void
clear_place(Restore *restore, const Target *target)
{
    struct stat info;
    if (!ipb_layer_inside_stat(&restore->inside, target->path, &info) ||
        (target->source != FROM_NOTHING && (info.st_mode & S_IFMT) == (target->mode & S_IFMT)))
        return;
    note(restore, target,
         ipb_layer_inside_remove(&restore->inside, target->path, S_ISDIR(info.st_mode)));
}

static void
make_file(Restore *restore, const Target *target, int side)
{
    ipb_autofd from = ipb_layer_files_open(side, target->path, O_RDONLY | O_NONBLOCK);
    if (from < 0)
        note(restore, target, false);
    else if (!ipb_layer_inside_has_file(&restore->inside, target->path, from))
        note(restore, target, ipb_layer_inside_put_file(&restore->inside, target->path, from));
}

static void
make_link(Restore *restore, const Target *target, int side)
{
    const char *name;
    ipb_autofd parent = ipb_layer_files_open_parent(side, target->path, &name);
    g_autofree char *text = parent >= 0 ? ipb_layer_files_read_link(parent, name) : NULL;
    if (text == NULL)
        note(restore, target, false);
    else if (!ipb_layer_inside_has_link(&restore->inside, target->path, text))
        note(restore, target, ipb_layer_inside_put_link(&restore->inside, target->path, text));
}

static void
make_target(Restore *restore, const Target *target)
{
    int side = target->source == FROM_COPY ? restore->copy : restore->layer->workspace_fd;
    struct stat info;
    bool is_there = ipb_layer_inside_stat(&restore->inside, target->path, &info);
    bool is_known = is_there && (info.st_mode & S_IFMT) == (target->mode & S_IFMT);
    if (S_ISREG(target->mode))
        make_file(restore, target, side);
    else if (S_ISLNK(target->mode))
        make_link(restore, target, side);
    else if (S_ISDIR(target->mode) && !(is_known && (info.st_mode & 0777) == (target->mode & 0777)))
        note(restore, target,
             ipb_layer_inside_make_directory(&restore->inside, target->path, target->mode));
    else if (!S_ISDIR(target->mode) && !is_known)
        note(restore, target,
             ipb_layer_inside_make_special(&restore->inside, target->path, target->mode));
}

/* --- all -------------------------------------------------------------------------------------- */

/* Returns whether there was nothing to do. */
static bool
run_pass(Restore *restore)
{
    g_autoptr(IpbLayerChanges) now = ipb_layer_list(restore->layer, NULL);
    g_autoptr(GPtrArray) targets = make_targets(restore, now);
    g_clear_pointer(&restore->problem, g_free);
    restore->n_done = restore->n_problems = 0;
    for (guint i = targets->len; i > 0; i--)
        clear_place(restore, g_ptr_array_index(targets, i - 1));
    for (guint i = 0; i < targets->len; i++) {
        const Target *target = g_ptr_array_index(targets, i);
        if (target->source != FROM_NOTHING)
            make_target(restore, target);
    }
    if (now->cut != NULL && restore->problem == NULL) {
        restore->n_problems++;
        restore->problem = g_strdup_printf("not all changes can be found: %s", now->cut);
    }
    return restore->n_done == 0;
}

static bool
run_passes(Restore *restore, GError **error)
{
    bool has_ended = false;
    for (unsigned pass = 0; pass < MAX_PASSES && !has_ended; pass++)
        has_ended = run_pass(restore);
    if (restore->n_problems == 0 && has_ended)
        return true;
    if (restore->n_problems == 0)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                            "files were changed while they were restored: end the processes that "
                            "write them, and restore again");
    else
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM,
                    "%u files could not be restored, the first one: %s", restore->n_problems,
                    restore->problem);
    return false;
}

static bool
begin(const Restore *restore, uint64_t number, GError **error)
{
    const GPtrArray *changes = restore->wanted->changes;
    g_autoptr(GPtrArray) skipped = g_ptr_array_new();
    for (guint i = 0; i < changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes, i);
        if (is_committed(restore, change->path))
            g_ptr_array_add(skipped, change->path);
    }
    g_ptr_array_add(skipped, NULL);
    return ipb_copies_begin_restore(restore->layer, number, (const char *const *) skipped->pdata,
                                    error);
}

bool
ipb_layer_restore(IpbLayer *layer, uint64_t number, int inside, const IpbLayerUser *user,
                  GError **error)
{
    Restore restore = {.layer = layer, .inside = {inside, user}};
    if (inside < 0) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                            "the sandbox of the checkpoint has ended");
        return false;
    }
    ipb_autofd copy = ipb_copies_open(layer, number, &restore.n_commits, error);
    if (copy < 0)
        return false;
    restore.copy = copy;
    restore.wanted = ipb_layer_list_copy(layer, copy);
    restore.staying = find_staying(&restore);
    bool ok = begin(&restore, number, error) && run_passes(&restore, error);
    ipb_copies_end_restore(layer);
    ipb_layer_changes_free(restore.wanted);
    g_hash_table_unref(restore.staying);
    g_free(restore.problem);
    return ok;
}
