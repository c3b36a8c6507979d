/* SPDX-License-Identifier: Apache-2.0
 *
 * A look makes a table of all entries of the layer, and compares it with that of the look before.
 * An entry of a path that was not in the layer before is compared with the workspace's file.
 */
#include "sandbox/layer-watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "sandbox/linux/layer-files.h"

/* Bytes that one look compares. What would be compared after them counts as changed. */
#define MAX_COMPARED_BYTES (UINT64_C(4) << 20)

typedef struct {
    IpbFileStamp stamp;
    bool is_whiteout; /* the path was removed */
    bool is_opaque;   /* a directory that hides the workspace's */
} Entry;

struct IpbLayerWatch {
    int upper_fd, workspace_fd;
    GHashTable *known; /* path → Entry; NULL: there were too many */
};

typedef struct {
    IpbLayerWatch *watch;
    GHashTable *entries;
    bool is_cut;
    uint64_t n_compared;
} Look;

/* --- the table -------------------------------------------------------------------------------- */

static GHashTable *
new_table(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

static void walk(Look *look, int directory, const char *path, unsigned depth);

static void
add_entry(Look *look, int directory, const char *name, char *path, unsigned depth)
{
    struct stat info;
    if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
        g_free(path);
        return;
    }
    Entry *entry = g_new0(Entry, 1);
    entry->stamp = ipb_layer_files_stamp_of(&info);
    entry->is_whiteout = ipb_layer_files_is_whiteout(&info);
    g_hash_table_replace(look->entries, path, entry);
    if (!S_ISDIR(info.st_mode))
        return;
    ipb_autofd inner = ipb_layer_files_open(directory, name, O_RDONLY | O_DIRECTORY);
    if (inner < 0 || depth >= IPB_LAYER_MAX_DEPTH) {
        look->is_cut = inner >= 0 || errno != ENOENT; /* it may have been removed since */
        return;
    }
    entry->is_opaque = ipb_layer_files_is_opaque(inner);
    walk(look, inner, path, depth + 1);
}

/* Ends with the first entry that is too many. */
static void
walk(Look *look, int directory, const char *path, unsigned depth)
{
    int copy = ipb_layer_files_open(directory, ".", O_RDONLY | O_DIRECTORY);
    DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *found;
    if (stream == NULL) {
        ipb_fd_close(&copy);
        look->is_cut = true;
        return;
    }
    while (!look->is_cut && (found = readdir(stream)) != NULL) {
        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0)
            continue;
        if (g_hash_table_size(look->entries) >= IPB_LAYER_WATCH_MAX_ENTRIES)
            look->is_cut = true;
        else
            add_entry(look, directory, found->d_name,
                      *path != '\0' ? g_build_filename(path, found->d_name, NULL)
                                    : g_strdup(found->d_name),
                      depth);
    }
    closedir(stream);
}

static GHashTable *
make_table(Look *look)
{
    look->entries = new_table();
    walk(look, look->watch->upper_fd, "", 1);
    if (look->is_cut)
        g_clear_pointer(&look->entries, g_hash_table_unref);
    return look->entries;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* Whether a directory above @path hides the workspace's file from a session with this table. */
static bool
is_hidden(GHashTable *table, const char *path)
{
    g_autofree char *parent = g_strdup(path);
    char *slash;
    while ((slash = strrchr(parent, '/')) != NULL) {
        *slash = '\0';
        const Entry *entry = g_hash_table_lookup(table, parent);
        if (entry != NULL && (entry->is_opaque || !S_ISDIR(entry->stamp.mode)))
            return true;
    }
    return false;
}

/* What a session with this table sees at @path. *@ret_is_below: it is the workspace's. */
static IpbFileStamp
find(const Look *look, GHashTable *table, const char *path, bool *ret_is_below)
{
    static const IpbFileStamp nothing = {0};
    const Entry *entry = g_hash_table_lookup(table, path);
    const char *name;
    *ret_is_below = entry == NULL;
    if (entry != NULL)
        return entry->is_whiteout ? nothing : entry->stamp;
    if (is_hidden(table, path))
        return nothing;
    ipb_autofd parent = ipb_layer_files_open_parent(look->watch->workspace_fd, path, &name);
    return parent >= 0 ? ipb_layer_files_stamp(parent, name) : nothing;
}

/* A file that was copied up only, and not changed. */
static bool
is_copy(Look *look, const char *path, const IpbFileStamp *below, const IpbFileStamp *now)
{
    IpbNameKind type = ipb_layer_files_kind(now->mode);
    if (ipb_layer_files_kind(below->mode) != type || below->size != now->size ||
        (below->mode & 0777) != (now->mode & 0777) || type != IPB_NAME_FILE ||
        look->n_compared + now->size > MAX_COMPARED_BYTES)
        return false;
    look->n_compared += now->size;
    ipb_autofd a = ipb_layer_files_open(look->watch->workspace_fd, path, O_RDONLY | O_NONBLOCK);
    ipb_autofd b = ipb_layer_files_open(look->watch->upper_fd, path, O_RDONLY | O_NONBLOCK);
    return a >= 0 && b >= 0 && ipb_layer_files_have_same_bytes(a, b, now->size);
}

/* A directory is another one if it hides the workspace's, and did not before. */
static bool
is_replaced(GHashTable *before, GHashTable *now, const char *path)
{
    const Entry *old = g_hash_table_lookup(before, path);
    const Entry *new = g_hash_table_lookup(now, path);
    return new != NULL &&new->is_opaque && (old == NULL || !old->is_opaque);
}

static bool
is_changed(Look *look, const char *path, const IpbFileStamp *before, bool was_below,
           const IpbFileStamp *now)
{
    if (S_ISDIR(before->mode) && S_ISDIR(now->mode))
        return is_replaced(look->watch->known, look->entries, path);
    return was_below ? !is_copy(look, path, before, now) : !ipb_layer_files_are_equal(before, now);
}

/* NULL: nothing has changed at @path. */
static IpbLayerChange *
compare(Look *look, const char *path)
{
    bool was_below, is_below;
    IpbFileStamp before = find(look, look->watch->known, path, &was_below);
    IpbFileStamp now = find(look, look->entries, path, &is_below);
    IpbChangeKind kind = IPB_CHANGE_CHANGED;
    if (!before.exists && !now.exists)
        return NULL;
    if (!before.exists)
        kind = IPB_CHANGE_ADDED;
    else if (!now.exists)
        kind = IPB_CHANGE_REMOVED;
    else if (is_below || !is_changed(look, path, &before, was_below, &now))
        return NULL;
    return ipb_layer_change_new(path, kind,
                                ipb_layer_files_kind(now.exists ? now.mode : before.mode));
}

/* Is the directory of @path not there any more? Then it is reported, and not what was in it. */
static bool
is_in_removed(const Look *look, const char *path)
{
    const char *slash = strrchr(path, '/');
    bool is_below;
    if (slash == NULL)
        return false;
    g_autofree char *parent = g_strndup(path, (size_t) (slash - path));
    IpbFileStamp stamp = find(look, look->entries, parent, &is_below);
    return !S_ISDIR(stamp.mode);
}

static gint
compare_paths(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* All paths of both tables that may have changed, sorted; borrowed. */
static GPtrArray *
list_paths(const Look *look)
{
    GPtrArray *paths = g_ptr_array_new();
    GHashTableIter iter;
    void *path, *value;
    g_hash_table_iter_init(&iter, look->entries);
    while (g_hash_table_iter_next(&iter, &path, &value)) {
        const Entry *old = g_hash_table_lookup(look->watch->known, path);
        const Entry *now = value;
        if (old == NULL || old->is_whiteout != now->is_whiteout ||
            old->is_opaque != now->is_opaque ||
            !ipb_layer_files_are_equal(&old->stamp, &now->stamp))
            g_ptr_array_add(paths, path);
    }
    g_hash_table_iter_init(&iter, look->watch->known);
    while (g_hash_table_iter_next(&iter, &path, &value))
        if (!g_hash_table_contains(look->entries, path) && !is_in_removed(look, path))
            g_ptr_array_add(paths, path);
    g_ptr_array_sort(paths, compare_paths);
    return paths;
}

static void
compare_all(Look *look, IpbLayerChanges *changes)
{
    g_autoptr(GPtrArray) paths = list_paths(look);
    guint n_more = 0;
    for (guint i = 0; i < paths->len; i++) {
        IpbLayerChange *change = compare(look, g_ptr_array_index(paths, i));
        if (change == NULL)
            continue;
        if (changes->changes->len < IPB_LAYER_WATCH_MAX_CHANGES) {
            g_ptr_array_add(changes->changes, change);
        } else {
            ipb_layer_change_free(change);
            n_more++;
        }
    }
    if (n_more > 0)
        changes->cut = g_strdup_printf("%u more are not listed", n_more);
}

IpbLayerChanges *
ipb_layer_watch_look(IpbLayerWatch *watch)
{
    Look look = {.watch = watch};
    IpbLayerChanges *changes = g_new0(IpbLayerChanges, 1);
    changes->changes = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_layer_change_free);
    GHashTable *now = make_table(&look);
    if (now != NULL && watch->known != NULL)
        compare_all(&look, changes);
    else
        changes->cut = g_strdup_printf("what changed is not known, because the session has changed "
                                       "more than %d files, or too deep ones",
                                       IPB_LAYER_WATCH_MAX_ENTRIES);
    g_clear_pointer(&watch->known, g_hash_table_unref);
    watch->known = now;
    return changes;
}

void
ipb_layer_watch_skip(IpbLayerWatch *watch)
{
    Look look = {.watch = watch};
    g_clear_pointer(&watch->known, g_hash_table_unref);
    watch->known = make_table(&look);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbLayerWatch *
ipb_layer_watch_new(const IpbLayer *layer)
{
    IpbLayerWatch *watch = g_new0(IpbLayerWatch, 1);
    watch->upper_fd = ipb_fd_duplicate(layer->upper_fd, 0);
    watch->workspace_fd = ipb_fd_duplicate(layer->workspace_fd, 0);
    watch->known = new_table();
    return watch;
}

void
ipb_layer_watch_free(IpbLayerWatch *watch)
{
    if (watch == NULL)
        return;
    ipb_fd_close(&watch->upper_fd);
    ipb_fd_close(&watch->workspace_fd);
    g_clear_pointer(&watch->known, g_hash_table_unref);
    g_free(watch);
}
