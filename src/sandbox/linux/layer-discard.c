/* SPDX-License-Identifier: Apache-2.0
 *
 * Undoing changes. If no sandbox uses the layer, what is in it is removed. Otherwise its overlay is
 * mounted, and must not be changed from below: then files get the contents of the workspace again,
 * in the overlay, as code inside could do it. Processes inside that have them open see that.
 *
 * Everything in the overlay is hostile, and may be exchanged at the same time. No link is followed,
 * and no other mount is entered.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "sandbox/linux/layer-files.h"

typedef struct {
    const IpbLayer *layer;
    int inside;
    const IpbLayerUser *user;
} Discard;

/* --- rights ----------------------------------------------------------------------------------- */

/* Inside, root's files belong to another user. The C library changes this thread only. */
static void
become_inner(const Discard *discard)
{
    if (geteuid() != 0)
        return;
    setfsgid(discard->user->gid);
    setfsuid(discard->user->uid);
}

static void
become_self(void)
{
    int saved = errno;
    if (geteuid() == 0) {
        setfsuid(0);
        setfsgid(0);
    }
    errno = saved;
}

/* --- in the overlay --------------------------------------------------------------------------- */

static bool
copy_file(int from, int to)
{
    struct stat info;
    return fstat(from, &info) == 0 && ftruncate(to, 0) == 0 &&
           ipb_layer_files_copy(from, to, (uint64_t) info.st_size) &&
           fchmod(to, info.st_mode & 0777) == 0;
}

static bool
restore_file(const Discard *discard, const char *path, int parent, const char *name, bool is_there)
{
    ipb_autofd from =
        ipb_layer_files_open(discard->layer->workspace_fd, path, O_RDONLY | O_NONBLOCK);
    if (from < 0)
        return false;
    become_inner(discard);
    ipb_autofd to =
        is_there ? ipb_layer_files_open(parent, name, O_RDWR | O_NONBLOCK)
                 : openat(parent, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ok = to >= 0 && copy_file(from, to);
    become_self();
    return ok;
}

static bool
restore_link(const Discard *discard, const char *path, int parent, const char *name)
{
    const char *own;
    ipb_autofd directory = ipb_layer_files_open_parent(discard->layer->workspace_fd, path, &own);
    g_autofree char *target = directory >= 0 ? ipb_layer_files_read_link(directory, own) : NULL;
    if (target == NULL)
        return false;
    become_inner(discard);
    bool ok = symlinkat(target, parent, name) == 0;
    become_self();
    return ok;
}

static bool
remove_inside(const Discard *discard, int parent, const char *name, bool is_directory)
{
    become_inner(discard);
    bool ok = unlinkat(parent, name, is_directory ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT;
    become_self();
    return ok;
}

static bool
make_inside(const Discard *discard, int parent, const char *name, uint32_t mode)
{
    become_inner(discard);
    bool ok = (mkdirat(parent, name, 0700) == 0 || errno == EEXIST) &&
              fchmodat(parent, name, mode & 0777, 0) == 0;
    become_self();
    return ok;
}

static bool
undo_inside(const Discard *discard, const IpbLayerChange *change)
{
    const char *name;
    become_inner(discard);
    ipb_autofd parent = ipb_layer_files_open_parent(discard->inside, change->path, &name);
    become_self();
    if (parent < 0)
        return errno == ENOENT && change->kind == IPB_CHANGE_ADDED;
    if (change->kind == IPB_CHANGE_ADDED)
        return remove_inside(discard, parent, name, change->type == IPB_NAME_DIRECTORY);
    if (S_ISDIR(change->base.mode))
        return make_inside(discard, parent, name, change->base.mode);
    bool is_file = S_ISREG(change->base.mode);
    bool stays = change->kind == IPB_CHANGE_CHANGED && is_file && S_ISREG(change->written.mode);
    if (!stays && !remove_inside(discard, parent, name, false))
        return false;
    if (is_file)
        return restore_file(discard, change->path, parent, name, stays);
    return S_ISLNK(change->base.mode) && restore_link(discard, change->path, parent, name);
}

/* What was added goes first, from below; then comes back what was there, from above. */
static void
undo_all_inside(const Discard *discard, GPtrArray *changes)
{
    for (int round = 0; round < 2; round++) {
        for (guint i = changes->len; i > 0; i--) {
            IpbLayerChange *change = g_ptr_array_index(changes, i - 1);
            if ((change->kind == IPB_CHANGE_ADDED) != (round == 0))
                continue;
            g_clear_pointer(&change->problem, g_free);
            change->is_conflict = false;
            change->is_done = undo_inside(discard, change);
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

/* What is still a change afterwards belongs to a directory that was removed or replaced as a
 * whole. */
static void
undo_in_layer(IpbLayer *layer, const char *const *paths, GPtrArray *changes)
{
    if (paths == NULL)
        remove_all(layer);
    for (; paths != NULL && *paths != NULL; paths++)
        remove_at(layer, *paths);
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
    Discard discard = {layer, inside, user};
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(layer, NULL);
    if (!ipb_layer_choose(changes, paths, false, error))
        return NULL;
    if (inside >= 0)
        undo_all_inside(&discard, changes->changes);
    else
        undo_in_layer(layer, paths, changes->changes);
    return g_steal_pointer(&changes);
}
