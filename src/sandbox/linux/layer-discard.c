/* SPDX-License-Identifier: Apache-2.0
 *
 * Undoing changes. If no sandbox uses the layer, what is in it is removed. Otherwise its overlay is
 * mounted, and must not be changed from below: then files get the contents of the workspace again,
 * in the overlay, as code inside could do it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "sandbox/linux/layer-inside.h"

/* --- in the overlay --------------------------------------------------------------------------- */

static bool
restore_file(const IpbLayer *layer, const IpbLayerInside *inside, const char *path)
{
    ipb_autofd from = ipb_layer_files_open(layer->workspace_fd, path, O_RDONLY | O_NONBLOCK);
    return from >= 0 && ipb_layer_inside_put_file(inside, path, from);
}

static bool
restore_link(const IpbLayer *layer, const IpbLayerInside *inside, const char *path)
{
    const char *own;
    ipb_autofd directory = ipb_layer_files_open_parent(layer->workspace_fd, path, &own);
    g_autofree char *target = directory >= 0 ? ipb_layer_files_read_link(directory, own) : NULL;
    return target != NULL && ipb_layer_inside_put_link(inside, path, target);
}

static bool
undo_inside(const IpbLayer *layer, const IpbLayerInside *inside, const IpbLayerChange *change)
{
    const char *path = change->path;
    if (change->kind == IPB_CHANGE_ADDED)
        return ipb_layer_inside_remove(inside, path, change->type == IPB_NAME_DIRECTORY);
    if (S_ISDIR(change->base.mode))
        return ipb_layer_inside_make_directory(inside, path, change->base.mode);
    return S_ISREG(change->base.mode)   ? restore_file(layer, inside, path)
           : S_ISLNK(change->base.mode) ? restore_link(layer, inside, path)
                                        : false;
}

/* What was added goes first, from below; then comes back what was there, from above. */
static void
undo_all_inside(const IpbLayer *layer, const IpbLayerInside *inside, GPtrArray *changes)
{
    for (int round = 0; round < 2; round++) {
        for (guint i = changes->len; i > 0; i--) {
            IpbLayerChange *change = g_ptr_array_index(changes, i - 1);
            if ((change->kind == IPB_CHANGE_ADDED) != (round == 0))
                continue;
            g_clear_pointer(&change->problem, g_free);
            change->is_conflict = false;
            change->is_done = undo_inside(layer, inside, change);
            if (!change->is_done)
                change->problem = ipb_layer_files_problem("it cannot be undone", errno);
        }
    }
}

/* --- in a layer that is not mounted ----------------------------------------------------------- */

static bool
remove_all(const IpbLayer *layer)
{
    g_autofree char *upper = g_build_filename(layer->directory, IPB_LAYER_UPPER, NULL);
    GDir *names = g_dir_open(upper, 0, NULL);
    const char *name;
    bool ok = names != NULL;
    while (ok && (name = g_dir_read_name(names)) != NULL)
        ok = ipb_file_remove_tree_at(layer->upper_fd, name);
    if (names != NULL)
        g_dir_close(names);
    return ok;
}

static void
remove_at(const IpbLayer *layer, const char *path)
{
    const char *name;
    g_autofree char *clean = g_strdup(path);
    for (size_t size = strlen(clean); size > 0 && clean[size - 1] == '/'; size--)
        clean[size - 1] = '\0';
    ipb_autofd parent = ipb_layer_files_open_parent(layer->upper_fd, clean, &name);
    if (parent >= 0)
        ipb_file_remove_tree_at(parent, name);
}

/* What was removed without a mark is not missed any more. */
static void
forget_removed(IpbLayer *layer, const GPtrArray *changes)
{
    for (guint i = 0; i < changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes, i);
        IpbCommitted *committed = g_hash_table_lookup(layer->committed, change->path);
        if (committed != NULL && change->kind == IPB_CHANGE_REMOVED)
            ipb_layer_files_forget_written(committed);
    }
    ipb_layer_save_committed(layer, NULL);
}

/* What is still a change afterwards belongs to a directory that was removed or replaced as a
 * whole. */
static void
undo_in_layer(IpbLayer *layer, const char *const *paths, GPtrArray *changes)
{
    if (paths == NULL)
        remove_all(layer);
    for (; paths != NULL && *paths != NULL; paths++)
        remove_at(layer, *paths);
    forget_removed(layer, changes);
    g_autoptr(IpbLayerChanges) left = ipb_layer_list(layer, NULL);
    g_autoptr(GHashTable) still = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint i = 0; i < left->changes->len; i++)
        g_hash_table_add(still, ((IpbLayerChange *) g_ptr_array_index(left->changes, i))->path);
    for (guint i = 0; i < changes->len; i++) {
        IpbLayerChange *change = g_ptr_array_index(changes, i);
        g_clear_pointer(&change->problem, g_free);
        change->is_conflict = false;
        change->is_done = !g_hash_table_contains(still, change->path);
        if (!change->is_done)
            change->problem = g_strdup("a directory above it was replaced: discard that directory");
    }
}

IpbLayerChanges *
ipb_layer_discard(IpbLayer *layer, const char *const *paths, int inside, const IpbLayerUser *user,
                  GError **error)
{
    if (ipb_layer_is_interrupted(layer)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "a commit was interrupted: finish it first (ipybox changes commit)");
        return NULL;
    }
    const IpbLayerInside overlay = {inside, user};
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(layer, NULL);
    if (!ipb_layer_choose(changes, paths, false, error))
        return NULL;
    if (inside >= 0)
        undo_all_inside(layer, &overlay, changes->changes);
    else
        undo_in_layer(layer, paths, changes->changes);
    return g_steal_pointer(&changes);
}
