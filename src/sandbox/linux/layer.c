/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a layer, and the list of what differs from the workspace. In the layer's directory
 * are:
 *
 * - lock: held by the process that has the layer open
 * - workspace: the path of the workspace
 * - starts: when code began that had seen the workspace as it was then
 * - committed: what both sides had when a path was committed
 * - upper, work: of the overlay; what is in them is hostile
 * - commit: what is frozen, and the journal of a commit
 * - copies: those of checkpoints; see layer-copies.h
 *
 * Overlayfs marks what was removed by a device 0:0, and a directory that hides the one below by an
 * attribute. Code inside can make neither.
 */
#include "sandbox/layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "sandbox/linux/layer-copies.h"

#define MAX_STARTS 100000
#define MAX_STATE_BYTES ((size_t) 64 << 20)
/* Bytes that one look at a layer compares. What would be compared after them counts as changed. The
 * second is for a look that asks only whether something has changed, which the loop waits for. */
#define MAX_COMPARED_BYTES (UINT64_C(4) << 30)
#define MAX_COMPARED_BYTES_BRIEF (UINT64_C(4) << 20)

#define LOCK_FILE "lock"
#define WORKSPACE_FILE "workspace"
#define STARTS_FILE "starts"
#define COMMITTED_FILE "committed"
#define COMMITTED_TYPE "a(ay" IPB_LAYER_STAMP_TYPE IPB_LAYER_STAMP_TYPE ")"

/* --- its state -------------------------------------------------------------------------------- */

static char *
file_of(const IpbLayer *layer, const char *name)
{
    return g_build_filename(layer->directory, name, NULL);
}

static int64_t
to_ns(const struct timespec *time)
{
    return (int64_t) time->tv_sec * G_GINT64_CONSTANT(1000000000) + time->tv_nsec;
}

/* What time the system would give to a change of a file now. Files have the times of a coarse clock
 * or, since Linux 6.13, sometimes exact ones, which may be ahead of that clock. But no change gets
 * a time before that of an earlier change. So @fd, a file of ours, is changed. */
static int64_t
file_time(int fd)
{
    struct stat info;
    struct timespec now;
    /* A time that was read is not given again. */
    if (fd >= 0 && fstat(fd, &info) == 0 && fchmod(fd, 0600) == 0 && fstat(fd, &info) == 0)
        return to_ns(&info.st_ctim);
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return to_ns(&now);
}

void
ipb_layer_note_start(IpbLayer *layer)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&layer->starts_mutex);
    if (layer->starts->len >= MAX_STARTS)
        return; /* later changes of the host count as conflicts */
    ipb_autofd fd = openat(layer->directory_fd, STARTS_FILE,
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    /* What the host changes in the same tick as the beginning of a layer was there before: no code
     * runs yet. */
    int64_t now = layer->starts->len == 0 ? to_ns(&exact) : file_time(fd);
    g_array_append_val(layer->starts, now);
    /* If it is lost, the layer of a killed process has more conflicts, not fewer. */
    if (fd >= 0)
        ipb_fd_write(fd, &now, sizeof now);
}

static void
read_starts(IpbLayer *layer)
{
    g_autofree char *path = file_of(layer, STARTS_FILE), *bytes = NULL;
    size_t size = 0;
    if (!ipb_file_read(path, sizeof(int64_t) * MAX_STARTS, &bytes, &size, NULL))
        return;
    g_array_append_vals(layer->starts, bytes, (guint) (size / sizeof(int64_t)));
}

bool
ipb_layer_save_committed(IpbLayer *layer, GError **error)
{
    GVariantBuilder builder;
    GHashTableIter iter;
    void *path, *entry;
    g_variant_builder_init(&builder, G_VARIANT_TYPE(COMMITTED_TYPE));
    g_hash_table_iter_init(&iter, layer->committed);
    while (g_hash_table_iter_next(&iter, &path, &entry)) {
        const IpbCommitted *committed = entry;
        g_variant_builder_add(&builder, "(@ay@" IPB_LAYER_STAMP_TYPE "@" IPB_LAYER_STAMP_TYPE ")",
                              g_variant_new_bytestring(path),
                              ipb_layer_files_pack_stamp(&committed->real),
                              ipb_layer_files_pack_stamp(&committed->written));
    }
    g_autoptr(GVariant) value = g_variant_ref_sink(g_variant_builder_end(&builder));
    g_autofree char *file = file_of(layer, COMMITTED_FILE);
    return ipb_file_write_atomic(file, g_variant_get_data(value), g_variant_get_size(value), 0600,
                                 error);
}

static void
read_committed(IpbLayer *layer)
{
    g_autofree char *file = file_of(layer, COMMITTED_FILE), *bytes = NULL;
    size_t size = 0;
    if (!ipb_file_read(file, MAX_STATE_BYTES, &bytes, &size, NULL))
        return;
    g_autoptr(GVariant) value = g_variant_ref_sink(
        g_variant_new_from_data(G_VARIANT_TYPE(COMMITTED_TYPE), bytes, size, FALSE, NULL, NULL));
    for (gsize i = 0; i < g_variant_n_children(value); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(value, i);
        g_autoptr(GVariant) path = g_variant_get_child_value(row, 0);
        IpbCommitted *committed = g_new0(IpbCommitted, 1);
        committed->real = ipb_layer_files_unpack_stamp(g_variant_get_child_value(row, 1));
        committed->written = ipb_layer_files_unpack_stamp(g_variant_get_child_value(row, 2));
        g_hash_table_insert(layer->committed, g_strdup(g_variant_get_bytestring(path)), committed);
    }
}

/* --- opening and closing ---------------------------------------------------------------------- */

static bool
lock(IpbLayer *layer, GError **error)
{
    layer->lock_fd =
        openat(layer->directory_fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (layer->lock_fd < 0)
        return ipb_error_set_errno(error, errno, "cannot open the lock in %s", layer->directory);
    if (flock(layer->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return true;
    if (errno != EWOULDBLOCK)
        return ipb_error_set_errno(error, errno, "cannot lock %s", layer->directory);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                "the changes in %s belong to a session that runs", layer->directory);
    return false;
}

static IpbLayer *
open_directory(const char *directory, GError **error)
{
    IpbLayer *layer = g_new0(IpbLayer, 1);
    layer->directory = g_strdup(directory);
    layer->lock_fd = layer->workspace_fd = layer->upper_fd = -1;
    g_mutex_init(&layer->starts_mutex);
    layer->starts = g_array_new(FALSE, FALSE, sizeof(int64_t));
    layer->committed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    layer->directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (layer->directory_fd < 0) {
        if (errno == ENOENT)
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "there are no changes in %s",
                        directory);
        else
            ipb_error_set_errno(error, errno, "cannot open %s", directory);
    } else if (lock(layer, error)) {
        return layer;
    }
    ipb_layer_close(layer, false);
    return NULL;
}

static bool
open_sides(IpbLayer *layer, GError **error)
{
    layer->workspace_fd = open(layer->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (layer->workspace_fd < 0)
        return ipb_error_set_errno(error, errno, "cannot open the workspace %s", layer->workspace);
    layer->upper_fd = openat(layer->directory_fd, IPB_LAYER_UPPER,
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (layer->upper_fd < 0)
        return ipb_error_set_errno(error, errno, "cannot open the layer in %s", layer->directory);
    return true;
}

/* The root of the overlay has the mode of the layer's. */
static bool
make_sides(const IpbLayer *layer, GError **error)
{
    struct stat info;
    if (stat(layer->workspace, &info) < 0)
        return ipb_error_set_errno(error, errno, "cannot find the workspace %s", layer->workspace);
    if (mkdirat(layer->directory_fd, IPB_LAYER_UPPER, 0700) < 0 ||
        mkdirat(layer->directory_fd, IPB_LAYER_WORK, 0700) < 0 ||
        fchmodat(layer->directory_fd, IPB_LAYER_UPPER, info.st_mode & 0777, 0) < 0)
        return ipb_error_set_errno(error, errno, "cannot make a layer in %s", layer->directory);
    return true;
}

IpbLayer *
ipb_layer_new(const char *directory, const char *workspace, GError **error)
{
    if (!ipb_file_make_directories(directory, 0700, error))
        return NULL;
    IpbLayer *layer = open_directory(directory, error);
    if (layer == NULL)
        return NULL;
    layer->workspace = g_strdup(workspace);
    g_autofree char *file = file_of(layer, WORKSPACE_FILE);
    ipb_layer_note_start(layer);
    /* The file comes last: what has none is no layer yet. */
    if (make_sides(layer, error) && open_sides(layer, error) &&
        ipb_file_write_atomic(file, workspace, strlen(workspace), 0600, error))
        return layer;
    ipb_layer_close(layer, true);
    return NULL;
}

IpbLayer *
ipb_layer_open(const char *directory, GError **error)
{
    IpbLayer *layer = open_directory(directory, error);
    if (layer == NULL)
        return NULL;
    g_autofree char *file = file_of(layer, WORKSPACE_FILE);
    size_t size;
    if (ipb_file_read(file, PATH_MAX, &layer->workspace, &size, error) &&
        ipb_copies_recover(layer, error) && open_sides(layer, error)) {
        read_starts(layer);
        read_committed(layer);
        return layer;
    }
    ipb_layer_close(layer, false);
    return NULL;
}

/* Overlayfs leaves a directory without any rights, which may have a device 0:0 in it. */
static void
open_work(const IpbLayer *layer)
{
    ipb_autofd work = openat(layer->directory_fd, IPB_LAYER_WORK "/work",
                             O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[64];
    g_snprintf(path, sizeof path, "/proc/self/fd/%d", work);
    if (work >= 0)
        chmod(path, 0700);
}

void
ipb_layer_close(IpbLayer *layer, bool is_removed)
{
    if (layer == NULL)
        return;
    ipb_copies_free(layer);
    if (is_removed) {
        open_work(layer);
        ipb_file_remove_tree(layer->directory, NULL);
    } else if (layer->is_frozen) {
        ipb_layer_thaw(layer);
    }
    ipb_fd_close(&layer->upper_fd);
    ipb_fd_close(&layer->workspace_fd);
    ipb_fd_close(&layer->lock_fd);
    ipb_fd_close(&layer->directory_fd);
    g_array_unref(layer->starts);
    g_mutex_clear(&layer->starts_mutex);
    g_hash_table_unref(layer->committed);
    g_free(layer->directory);
    g_free(layer->workspace);
    g_free(layer);
}

const char *
ipb_layer_directory(const IpbLayer *layer)
{
    return layer->directory;
}

const char *
ipb_layer_workspace(const IpbLayer *layer)
{
    return layer->workspace;
}

int64_t
ipb_layer_started(const IpbLayer *layer)
{
    return layer->starts->len > 0
               ? g_array_index(layer->starts, int64_t, 0) / G_GINT64_CONSTANT(1000000000)
               : 0;
}

/* From now on overlayfs makes marks there, and needs those of before. */
static bool
mark_removed(const IpbLayer *layer, const char *path, const IpbCommitted *committed)
{
    ipb_autofd upper = -1, lower = -1;
    if (!ipb_layer_files_is_unmarked(layer, layer->upper_fd, path, committed, &upper, &lower))
        return false;
    mknodat(upper, strrchr(path, '/') + 1, S_IFCHR, 0);
    return true;
}

void
ipb_layer_prune(IpbLayer *layer)
{
    GHashTableIter iter;
    void *path, *entry;
    g_hash_table_iter_init(&iter, layer->committed);
    while (g_hash_table_iter_next(&iter, &path, &entry)) {
        IpbCommitted *committed = entry;
        const char *name;
        struct stat info;
        if (mark_removed(layer, path, committed))
            continue;
        ipb_autofd parent = ipb_layer_files_open_parent(layer->upper_fd, path, &name);
        if (parent < 0 || fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
            S_ISDIR(info.st_mode))
            continue;
        IpbFileStamp now = ipb_layer_files_stamp_of(&info);
        /* Not a mark that was made after the commit of a file. */
        bool is_committed = committed->written.exists
                                ? ipb_layer_files_are_equal(&committed->written, &now)
                                : !committed->real.exists && ipb_layer_files_is_whiteout(&info);
        /* The workspace's takes its place, if code can see that. */
        if (is_committed && !ipb_layer_files_is_hidden(layer->upper_fd, path))
            unlinkat(parent, name, 0);
        if (!ipb_layer_files_stamp(parent, name).exists)
            ipb_layer_files_forget_written(committed);
    }
    ipb_layer_save_committed(layer, NULL);
}

/* --- looking ---------------------------------------------------------------------------------- */

typedef struct {
    IpbLayer *layer;
    const IpbSandboxPlan *plan; /* or NULL */
    GPtrArray *removed, *directories, *others;
    bool is_hidden; /* the workspace's entries of this directory, by an opaque one */
    uint64_t n_compared;
    char *cut;
    bool is_brief; /* it ends with the first change */
} Look;

static void
cut(Look *look, const char *why, const char *path)
{
    if (look->cut == NULL)
        look->cut = g_strdup_printf("%s: %s", *path != '\0' ? path : ".", why);
}

static guint
count(const Look *look)
{
    return look->removed->len + look->directories->len + look->others->len;
}

static bool
is_enough(const Look *look)
{
    return look->is_brief && count(look) > 0;
}

static gint
compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

/* The names in a directory, sorted. NULL with errno. */
static GPtrArray *
read_names(int directory, Look *look, const char *path)
{
    int copy = ipb_layer_files_open(directory, ".", O_RDONLY | O_DIRECTORY);
    DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
    if (stream == NULL) {
        ipb_fd_close(&copy);
        return NULL;
    }
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (names->len >= IPB_LAYER_MAX_CHANGES) {
            cut(look, "the directory has too many entries", path);
            break;
        }
        g_ptr_array_add(names, g_strdup(entry->d_name));
    }
    closedir(stream);
    g_ptr_array_sort(names, compare_names);
    return names;
}

/* NULL: there are too many. */
static IpbLayerChange *
add_change(Look *look, const char *path, IpbChangeKind kind, IpbNameKind type,
           const IpbFileStamp *base, const IpbFileStamp *written)
{
    if (count(look) >= IPB_LAYER_MAX_CHANGES) {
        cut(look, "there are more changes than can be listed", path);
        return NULL;
    }
    IpbLayerChange *change = ipb_layer_change_new(path, kind, type);
    const IpbFileStamp *shown = kind == IPB_CHANGE_REMOVED ? base : written;
    change->base = *base;
    change->written = *written;
    change->mode = shown->mode & 0777;
    change->size = kind != IPB_CHANGE_REMOVED && type == IPB_NAME_FILE ? written->size : 0;
    change->old_size = base->exists && S_ISREG(base->mode) ? base->size : 0;
    g_ptr_array_add(kind == IPB_CHANGE_REMOVED   ? look->removed
                    : type == IPB_NAME_DIRECTORY ? look->directories
                                                 : look->others,
                    change);
    return change;
}

/* Since when the session may have known what the workspace has, if it wrote at @written_ns. */
static int64_t
known_since(IpbLayer *layer, int64_t written_ns)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&layer->starts_mutex);
    int64_t since = 0;
    guint low = 0, high = layer->starts->len;
    while (low < high) {
        guint middle = (low + high) / 2;
        if (g_array_index(layer->starts, int64_t, middle) <= written_ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0)
        since = g_array_index(layer->starts, int64_t, low - 1);
    else if (layer->starts->len > 0)
        since = g_array_index(layer->starts, int64_t, 0);
    return since;
}

/* When a file of the layer was made; before that the session had that of the workspace. If the file
 * system does not say it, it is the beginning of the layer, which gives more conflicts. */
static int64_t
find_since(IpbLayer *layer, int directory, const char *name)
{
    struct statx info;
    if (statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &info) < 0 ||
        (info.stx_mask & STATX_BTIME) == 0)
        return known_since(layer, 0);
    return known_since(layer, (int64_t) info.stx_btime.tv_sec * G_GINT64_CONSTANT(1000000000) +
                                  info.stx_btime.tv_nsec);
}

static void
note_conflict(const Look *look, IpbLayerChange *change, int64_t since)
{
    const IpbCommitted *committed = g_hash_table_lookup(look->layer->committed, change->path);
    bool is_ours = committed != NULL && ipb_layer_files_are_equal(&committed->real, &change->base);
    if (!change->base.exists || S_ISDIR(change->base.mode) || is_ours ||
        change->base.changed_ns <= since)
        return;
    change->is_conflict = true;
    if (change->problem == NULL)
        change->problem = g_strdup("the workspace's file was changed outside, too: discard the "
                                   "session's, or copy one of them away");
}

static void
judge(const Look *look, IpbLayerChange *change)
{
    if (look->plan == NULL || change->problem != NULL)
        return;
    change->problem =
        ipb_layer_files_judge(look->layer, look->plan, change->path, change->kind, change->type,
                              look->layer->upper_fd, change->path, true);
}

/* What is in a directory comes before the directory. */
static void
add_removed(Look *look, int directory, const char *name, const char *path, int64_t since,
            unsigned depth)
{
    static const IpbFileStamp nothing = {0};
    IpbFileStamp base = ipb_layer_files_stamp(directory, name);
    char *problem = NULL;
    if (!base.exists || count(look) >= IPB_LAYER_MAX_CHANGES)
        return;
    if (S_ISDIR(base.mode)) {
        ipb_autofd inner = ipb_layer_files_open(directory, name, O_RDONLY | O_DIRECTORY);
        g_autoptr(GPtrArray) names =
            inner >= 0 && depth < IPB_LAYER_MAX_DEPTH ? read_names(inner, look, path) : NULL;
        if (names == NULL)
            problem = depth < IPB_LAYER_MAX_DEPTH
                          ? ipb_layer_files_problem("the directory cannot be read", errno)
                          : g_strdup("it is too deep");
        for (guint i = 0; names != NULL && i < names->len && !is_enough(look); i++) {
            const char *below = g_ptr_array_index(names, i);
            g_autofree char *inner_path = g_build_filename(path, below, NULL);
            add_removed(look, inner, below, inner_path, since, depth + 1);
        }
    }
    IpbLayerChange *change = add_change(look, path, IPB_CHANGE_REMOVED,
                                        ipb_layer_files_kind(base.mode), &base, &nothing);
    if (change == NULL) {
        g_free(problem);
        return;
    }
    /* What was no file before it was removed was not made by us. */
    change->problem = problem;
    note_conflict(look, change, since);
    judge(look, change);
}

static bool
is_same_file(Look *look, int lower, int upper, const char *name, const IpbFileStamp *base,
             const IpbFileStamp *written)
{
    if ((base->mode & 0777) != (written->mode & 0777) || base->size != written->size)
        return false;
    if (look->n_compared + base->size >
        (look->is_brief ? MAX_COMPARED_BYTES_BRIEF : MAX_COMPARED_BYTES))
        return false;
    look->n_compared += base->size;
    ipb_autofd a = ipb_layer_files_open(lower, name, O_RDONLY | O_NONBLOCK);
    ipb_autofd b = ipb_layer_files_open(upper, name, O_RDONLY | O_NONBLOCK);
    return a >= 0 && b >= 0 && ipb_layer_files_have_same_bytes(a, b, base->size);
}

static bool
is_same_link(int lower, int upper, const char *name)
{
    g_autofree char *a = ipb_layer_files_read_link(lower, name);
    g_autofree char *b = ipb_layer_files_read_link(upper, name);
    return a != NULL && g_strcmp0(a, b) == 0;
}

static void look_at(Look *look, int lower, int upper, const char *path, unsigned depth);

/* What an opaque directory hides was removed, unless something new has its name. */
static void
add_hidden(Look *look, int lower, int upper, const char *path, int64_t since, unsigned depth)
{
    g_autoptr(GPtrArray) names = read_names(lower, look, path);
    if (names == NULL)
        cut(look, g_strerror(errno), path);
    for (guint i = 0; names != NULL && i < names->len && !is_enough(look); i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autofree char *inner =
            *path != '\0' ? g_build_filename(path, name, NULL) : g_strdup(name);
        if (!ipb_layer_files_stamp(upper, name).exists)
            add_removed(look, lower, name, inner, since, depth + 1);
    }
}

static void
look_into(Look *look, int lower, int upper, const char *name, const char *path,
          const IpbFileStamp *base, const IpbFileStamp *written, int64_t since, unsigned depth)
{
    IpbLayerChange *change = NULL;
    bool is_new = !base->exists || !S_ISDIR(base->mode);
    if (base->exists && is_new)
        add_removed(look, lower, name, path, since, depth);
    if (is_new) {
        static const IpbFileStamp nothing = {0};
        change = add_change(look, path, IPB_CHANGE_ADDED, IPB_NAME_DIRECTORY, &nothing, written);
        if (change == NULL)
            return;
        judge(look, change);
    }
    ipb_autofd inner_upper = ipb_layer_files_open(upper, name, O_RDONLY | O_DIRECTORY);
    ipb_autofd inner_lower =
        is_new ? -1 : ipb_layer_files_open(lower, name, O_RDONLY | O_DIRECTORY);
    if (inner_upper < 0 || depth >= IPB_LAYER_MAX_DEPTH || (!is_new && inner_lower < 0)) {
        const char *why = depth >= IPB_LAYER_MAX_DEPTH ? "it is too deep" : g_strerror(errno);
        cut(look, why, path);
        if (change != NULL && change->problem == NULL)
            change->problem = g_strdup_printf("what is in it cannot be read: %s", why);
        return;
    }
    /* It hides what is below directories in it, too, and overlayfs makes no marks there. */
    bool was_hidden = look->is_hidden;
    look->is_hidden |= inner_lower >= 0 && ipb_layer_files_is_opaque(inner_upper);
    if (inner_lower >= 0 && look->is_hidden)
        add_hidden(look, inner_lower, inner_upper, path, since, depth);
    look_at(look, inner_lower, inner_upper, path, depth + 1);
    look->is_hidden = was_hidden;
}

static void
look_at_entry(Look *look, int lower, int upper, const char *name, const char *path, unsigned depth)
{
    struct stat info;
    if (fstatat(upper, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* it is gone */
    IpbFileStamp written = ipb_layer_files_stamp_of(&info);
    IpbFileStamp base = lower >= 0 ? ipb_layer_files_stamp(lower, name) : (IpbFileStamp){0};
    int64_t since = find_since(look->layer, upper, name);
    if (ipb_layer_files_is_whiteout(&info)) {
        if (lower >= 0)
            add_removed(look, lower, name, path, since, depth);
        return;
    }
    if (S_ISDIR(info.st_mode)) {
        look_into(look, lower, upper, name, path, &base, &written, since, depth);
        return;
    }
    /* Whatever the host did with it after the commit is no change of the session's. */
    const IpbCommitted *known = g_hash_table_lookup(look->layer->committed, path);
    if (known != NULL && known->written.exists &&
        ipb_layer_files_are_equal(&known->written, &written))
        return;
    IpbNameKind type = ipb_layer_files_kind(info.st_mode);
    bool has_same_type = base.exists && ipb_layer_files_kind(base.mode) == type;
    if (has_same_type && type == IPB_NAME_FILE &&
        is_same_file(look, lower, upper, name, &base, &written))
        return;
    if (has_same_type && type == IPB_NAME_LINK && is_same_link(lower, upper, name))
        return;
    if (base.exists && S_ISDIR(base.mode)) {
        add_removed(look, lower, name, path, since, depth);
        base = (IpbFileStamp){0};
    }
    IpbLayerChange *change = add_change(
        look, path, base.exists ? IPB_CHANGE_CHANGED : IPB_CHANGE_ADDED, type, &base, &written);
    if (change == NULL)
        return;
    note_conflict(look, change, since);
    judge(look, change);
}

/* @lower: -1: there is no such directory. */
static void
look_at(Look *look, int lower, int upper, const char *path, unsigned depth)
{
    g_autoptr(GPtrArray) names = read_names(upper, look, path);
    if (names == NULL)
        cut(look, g_strerror(errno), path);
    for (guint i = 0; names != NULL && i < names->len && !is_enough(look); i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autofree char *inner =
            *path != '\0' ? g_build_filename(path, name, NULL) : g_strdup(name);
        if (strlen(inner) >= PATH_MAX - strlen(look->layer->workspace) - 1) {
            cut(look, "the path is too long", path);
            continue;
        }
        look_at_entry(look, lower, upper, name, inner, depth);
    }
}

static int
compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* What was removed without a mark. */
static void
add_unmarked(Look *look, int upper)
{
    guint n = 0;
    g_autofree const char **paths =
        (const char **) g_hash_table_get_keys_as_array(look->layer->committed, &n);
    qsort(paths, n, sizeof *paths, compare_paths);
    for (guint i = 0; i < n && !is_enough(look); i++) {
        const char *path = paths[i];
        const IpbCommitted *committed = g_hash_table_lookup(look->layer->committed, path);
        ipb_autofd in_upper = -1, in_lower = -1;
        if (ipb_layer_files_is_unmarked(look->layer, upper, path, committed, &in_upper, &in_lower))
            add_removed(look, in_lower, strrchr(path, '/') + 1, path, 0, 1);
    }
}

static IpbLayerChanges *
examine(IpbLayer *layer, const IpbSandboxPlan *plan, int upper, bool is_brief)
{
    Look look = {
        .layer = layer,
        .plan = plan,
        .is_brief = is_brief,
        .removed = g_ptr_array_new(),
        .directories = g_ptr_array_new(),
        .others = g_ptr_array_new(),
    };
    look_at(&look, layer->workspace_fd, upper, "", 1);
    add_unmarked(&look, upper);
    IpbLayerChanges *changes = g_new0(IpbLayerChanges, 1);
    changes->changes = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_layer_change_free);
    changes->cut = look.cut;
    /* Directories come before what is in them, and after what has their names now. */
    g_ptr_array_extend_and_steal(changes->changes, look.removed);
    g_ptr_array_extend_and_steal(changes->changes, look.directories);
    g_ptr_array_extend_and_steal(changes->changes, look.others);
    return changes;
}

IpbLayerChanges *
ipb_layer_list(IpbLayer *layer, const IpbSandboxPlan *plan)
{
    return examine(layer, plan, layer->upper_fd, /* is_brief= */ false);
}

IpbLayerChanges *
ipb_layer_list_copy(IpbLayer *layer, int upper)
{
    return examine(layer, NULL, upper, /* is_brief= */ false);
}

bool
ipb_layer_is_empty(IpbLayer *layer)
{
    if (ipb_layer_is_interrupted(layer))
        return false;
    g_autoptr(IpbLayerChanges) changes =
        examine(layer, NULL, layer->upper_fd, /* is_brief= */ true);
    return changes->changes->len == 0 && changes->cut == NULL;
}

void
ipb_layer_changes_free(IpbLayerChanges *changes)
{
    if (changes == NULL)
        return;
    g_ptr_array_unref(changes->changes);
    g_free(changes->cut);
    g_free(changes);
}

static char *
read_side(int directory, const char *path, size_t max, bool *ret_ok)
{
    g_autofree char *text = NULL;
    size_t size = 0;
    struct stat info;
    ipb_autofd fd = ipb_layer_files_open(directory, path, O_RDONLY | O_NONBLOCK);
    *ret_ok = true;
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
        return NULL;
    *ret_ok = ipb_file_read_fd(fd, path, max, &text, &size, NULL) && strlen(text) == size &&
              g_utf8_validate(text, (gssize) size, NULL);
    return *ret_ok ? g_steal_pointer(&text) : NULL;
}

bool
ipb_layer_read_both(IpbLayer *layer, const char *path, size_t max, char **ret_old, char **ret_new)
{
    bool has_old, has_new;
    *ret_old = read_side(layer->workspace_fd, path, max, &has_old);
    *ret_new = read_side(layer->upper_fd, path, max, &has_new);
    if (has_old && has_new)
        return true;
    g_clear_pointer(ret_old, g_free);
    g_clear_pointer(ret_new, g_free);
    return false;
}
