/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header. The upper layer is hostile, and may be written while it is copied: then a copy is
 * of a moment that no program intended. Nothing that is found in it leads out of it.
 */
#include "sandbox/linux/layer-copies.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/display-text.h"
#include "base/error.h"
#include "base/file.h"

/* Of one copy: files, directories and links; and bytes on the disk, without those that it shares
 * with the copy before. */
#define MAX_ENTRIES 20000u
#define MAX_BYTES (UINT64_C(1) << 30)
/* Of all copies of a layer. */
#define MAX_ALL_ENTRIES 400000u
#define MAX_ALL_BYTES (UINT64_C(4) << 30)
#define MAX_SKIPPED_BYTES ((size_t) 64 << 20)
#define BLOCK_BYTES 512
#define MIB ((uint64_t) 1 << 20)

/* Says that a restore runs, in the layer's directory: the number of the copy, and what is skipped.
 */
#define MARK "restoring"
#define MARK_TYPE "(taay)"
/* What was the upper layer until a restore was finished after a kill. */
#define REPLACED IPB_LAYER_COPIES "/replaced"

typedef struct {
    unsigned n_commits; /* before it was made */
    unsigned n_entries;
} Kept;

struct IpbCopies {
    GHashTable *kept; /* uint64_t → Kept */
    uint64_t n_bytes; /* of all, on the disk */
    unsigned n_entries;
    /* The last copy, with which the next one shares files. */
    uint64_t last;
    GHashTable *stamps; /* path → IpbFileStamp of the upper layer's file */
    int64_t settled_ns; /* a file that changes later gets another time than those before this one */
};

/* While a copy is made. */
typedef struct {
    IpbCopies *copies;
    size_t workspace_size; /* of its path */
    int before;            /* the last copy; -1: none */
    GHashTable *stamps;
    uint64_t n_bytes;
    unsigned n_entries;
} Copy;

typedef struct {
    char text[sizeof IPB_LAYER_COPIES + 24];
} Name;

static Name
name_of(uint64_t number)
{
    Name name;
    g_snprintf(name.text, sizeof name.text, IPB_LAYER_COPIES "/%" PRIu64, number);
    return name;
}

/* --- copying ---------------------------------------------------------------------------------- */

static bool
fail(const char *path, GError **error)
{
    int saved = errno;
    g_autofree char *valid = g_utf8_make_valid(path, -1);
    g_autofree char *printable = ipb_display_text_printable(valid);
    return ipb_error_set_errno(error, saved, "the file %s cannot be copied for a checkpoint",
                               printable);
}

static bool
check_size(const Copy *copy, GError **error)
{
    if (copy->n_entries <= MAX_ENTRIES && copy->n_bytes <= MAX_BYTES &&
        copy->copies->n_entries + copy->n_entries <= MAX_ALL_ENTRIES &&
        copy->copies->n_bytes + copy->n_bytes <= MAX_ALL_BYTES)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "the session has changed too many files for a checkpoint: %u files and %" PRIu64
                " MiB are allowed in one, %u files and %" PRIu64
                " MiB in all of a session; commit or discard changes, or drop checkpoints",
                MAX_ENTRIES, MAX_BYTES / MIB, MAX_ALL_ENTRIES, MAX_ALL_BYTES / MIB);
    return false;
}

static uint64_t
size_on_disk(const struct stat *info)
{
    return (uint64_t) info->st_blocks * BLOCK_BYTES;
}

/* Whether the last copy has the file as it is now. Its time must be older than that copy: a file
 * that is written twice within one tick of the clock has one time. */
static bool
share_file(const Copy *copy, int to, const char *name, const char *path, const IpbFileStamp *stamp)
{
    const IpbFileStamp *before =
        copy->before >= 0 ? g_hash_table_lookup(copy->copies->stamps, path) : NULL;
    return before != NULL && ipb_layer_files_are_equal(before, stamp) &&
           stamp->changed_ns < copy->copies->settled_ns &&
           linkat(copy->before, path, to, name, 0) == 0;
}

static bool
copy_file(Copy *copy, int from, int to, const char *name, const char *path, GError **error)
{
    struct stat info, made;
    ipb_autofd source = ipb_layer_files_open(from, name, O_RDONLY | O_NONBLOCK);
    if (source < 0 || fstat(source, &info) < 0)
        return errno == ENOENT || fail(path, error); /* it was removed since */
    if (!S_ISREG(info.st_mode))
        return true;
    IpbFileStamp stamp = ipb_layer_files_stamp_of(&info);
    g_hash_table_insert(copy->stamps, g_strdup(path), g_memdup2(&stamp, sizeof stamp));
    if (share_file(copy, to, name, path, &stamp))
        return true;
    copy->n_bytes += size_on_disk(&info);
    if (!check_size(copy, error))
        return false;
    ipb_autofd target = openat(to, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    if (target < 0 || !ipb_layer_files_copy(source, target, (uint64_t) info.st_size) ||
        fchmod(target, info.st_mode & 0777) < 0 || futimens(target, times) < 0 ||
        fstat(target, &made) < 0)
        return fail(path, error);
    copy->n_bytes += size_on_disk(&made) - MIN(size_on_disk(&made), size_on_disk(&info));
    return check_size(copy, error);
}

static bool
copy_link(int from, int to, const char *name, const char *path, GError **error)
{
    g_autofree char *target = ipb_layer_files_read_link(from, name);
    return (target != NULL && symlinkat(target, to, name) == 0) || fail(path, error);
}

static bool copy_entries(Copy *copy, int from, int to, const char *path, unsigned depth,
                         GError **error);

/* We can always write it, or it could not be removed. */
static bool
copy_directory(Copy *copy, int from, int to, const char *name, const char *path, unsigned depth,
               GError **error)
{
    struct stat info;
    ipb_autofd source = ipb_layer_files_open(from, name, O_RDONLY | O_DIRECTORY);
    if (source < 0 || fstat(source, &info) < 0)
        return errno == ENOENT || fail(path, error);
    if (depth >= IPB_LAYER_MAX_DEPTH) {
        errno = ELOOP;
        return fail(path, error);
    }
    ipb_autofd target = mkdirat(to, name, 0700) == 0
                            ? openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
                            : -1;
    if (target < 0 || fchmod(target, (info.st_mode & 0777) | 0700) < 0 ||
        (ipb_layer_files_is_opaque(source) && fsetxattr(target, IPB_LAYER_OPAQUE, "y", 1, 0) < 0))
        return fail(path, error);
    return copy_entries(copy, source, target, path, depth + 1, error);
}

static bool
copy_entry(Copy *copy, int from, int to, const char *name, const char *path, unsigned depth,
           GError **error)
{
    struct stat info;
    if (fstatat(from, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || fail(path, error);
    if (strlen(path) >= PATH_MAX - copy->workspace_size - 1) {
        errno = ENAMETOOLONG; /* no list of changes would have it */
        return fail(path, error);
    }
    copy->n_entries++;
    if (!check_size(copy, error))
        return false;
    if (S_ISDIR(info.st_mode))
        return copy_directory(copy, from, to, name, path, depth, error);
    if (S_ISREG(info.st_mode))
        return copy_file(copy, from, to, name, path, error);
    if (S_ISLNK(info.st_mode))
        return copy_link(from, to, name, path, error);
    /* FIFOs, sockets, and the devices 0:0 that say what was removed. Others cannot be made. */
    return mknodat(to, name, info.st_mode & (S_IFMT | 0777), info.st_rdev) == 0 ||
           fail(path, error);
}

static bool
copy_entries(Copy *copy, int from, int to, const char *path, unsigned depth, GError **error)
{
    int again = ipb_layer_files_open(from, ".", O_RDONLY | O_DIRECTORY);
    DIR *names = again >= 0 ? fdopendir(again) : NULL;
    if (names == NULL) {
        ipb_fd_close(&again);
        return fail(path, error);
    }
    bool ok = true;
    for (const struct dirent *entry; ok && (entry = readdir(names)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        g_autofree char *inner =
            *path != '\0' ? g_build_filename(path, entry->d_name, NULL) : g_strdup(entry->d_name);
        ok = copy_entry(copy, from, to, entry->d_name, inner, depth, error);
    }
    closedir(names);
    return ok;
}

/* --- copies ----------------------------------------------------------------------------------- */

static IpbCopies *
make_copies(IpbLayer *layer)
{
    if (layer->copies != NULL)
        return layer->copies;
    IpbCopies *copies = layer->copies = g_new0(IpbCopies, 1);
    copies->kept = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    copies->stamps = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    return copies;
}

/* A copy is not mounted, so it can have the marks that the upper layer lacks. */
static void
add_marks(const IpbLayer *layer, int to)
{
    GHashTableIter iter;
    void *path, *committed;
    g_hash_table_iter_init(&iter, layer->committed);
    while (g_hash_table_iter_next(&iter, &path, &committed)) {
        ipb_autofd upper = -1, lower = -1;
        if (ipb_layer_files_is_unmarked(layer, to, path, committed, &upper, &lower))
            mknodat(upper, strrchr(path, '/') + 1, S_IFCHR, 0);
    }
}

static bool
make_copy(IpbLayer *layer, Copy *copy, int to, GError **error)
{
    struct stat upper, made;
    /* Its time is that of now. */
    if (fstat(layer->upper_fd, &upper) < 0 || fchmod(to, (upper.st_mode & 0777) | 0700) < 0 ||
        fstat(to, &made) < 0)
        return ipb_error_set_errno(error, errno, "cannot make a checkpoint in %s",
                                   layer->directory);
    IpbCopies *copies = copy->copies;
    if (!copy_entries(copy, layer->upper_fd, to, "", 1, error))
        return false;
    add_marks(layer, to);
    g_hash_table_unref(copies->stamps);
    copies->stamps = g_steal_pointer(&copy->stamps);
    copies->settled_ns = ipb_layer_files_stamp_of(&made).changed_ns;
    copies->n_bytes += copy->n_bytes;
    copies->n_entries += copy->n_entries;
    return true;
}

bool
ipb_layer_keep(IpbLayer *layer, uint64_t number, GError **error)
{
    IpbCopies *copies = make_copies(layer);
    Name name = name_of(number), last = name_of(copies->last);
    if ((mkdirat(layer->directory_fd, IPB_LAYER_COPIES, 0700) < 0 && errno != EEXIST) ||
        mkdirat(layer->directory_fd, name.text, 0700) < 0)
        return ipb_error_set_errno(error, errno, "cannot make a checkpoint in %s",
                                   layer->directory);
    ipb_autofd to = openat(layer->directory_fd, name.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ipb_autofd before =
        openat(layer->directory_fd, last.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    Copy copy = {
        .copies = copies,
        .workspace_size = strlen(layer->workspace),
        .before = before,
        .stamps = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free),
    };
    bool ok = make_copy(layer, &copy, to, error);
    if (ok) {
        Kept *kept = g_new(Kept, 1);
        *kept = (Kept){layer->n_commits, copy.n_entries};
        g_hash_table_insert(copies->kept, g_memdup2(&number, sizeof number), kept);
        copies->last = number;
    } else {
        ipb_file_remove_tree_at(layer->directory_fd, name.text);
    }
    g_clear_pointer(&copy.stamps, g_hash_table_unref);
    return ok;
}

/* What no other copy has. */
static uint64_t
size_alone(int directory, const char *name, unsigned depth)
{
    uint64_t sum = 0;
    int fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
    if (names == NULL) {
        ipb_fd_close(&fd);
        return 0;
    }
    for (const struct dirent *entry; (entry = readdir(names)) != NULL;) {
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(info.st_mode) && depth < IPB_LAYER_MAX_DEPTH)
            sum += size_alone(fd, entry->d_name, depth + 1);
        else if (S_ISREG(info.st_mode) && info.st_nlink == 1)
            sum += size_on_disk(&info);
    }
    closedir(names);
    return sum;
}

void
ipb_layer_drop(IpbLayer *layer, uint64_t number)
{
    IpbCopies *copies = layer->copies;
    const Kept *kept = copies != NULL ? g_hash_table_lookup(copies->kept, &number) : NULL;
    if (kept == NULL)
        return;
    Name name = name_of(number);
    copies->n_bytes -= MIN(copies->n_bytes, size_alone(layer->directory_fd, name.text, 0));
    copies->n_entries -= kept->n_entries;
    ipb_file_remove_tree_at(layer->directory_fd, name.text);
    g_hash_table_remove(copies->kept, &number);
}

int
ipb_copies_open(const IpbLayer *layer, uint64_t number, unsigned *ret_commits, GError **error)
{
    const Kept *kept =
        layer->copies != NULL ? g_hash_table_lookup(layer->copies->kept, &number) : NULL;
    Name name = name_of(number);
    int fd = kept != NULL ? openat(layer->directory_fd, name.text,
                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
                          : -1;
    if (fd < 0)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                            "the files of the checkpoint are gone");
    else
        *ret_commits = kept->n_commits;
    return fd;
}

void
ipb_copies_free(IpbLayer *layer)
{
    IpbCopies *copies = g_steal_pointer(&layer->copies);
    if (copies == NULL)
        return;
    ipb_file_remove_tree_at(layer->directory_fd, IPB_LAYER_COPIES);
    g_hash_table_unref(copies->kept);
    g_hash_table_unref(copies->stamps);
    g_free(copies);
}

/* --- a restore that a kill interrupts --------------------------------------------------------- */

static char *
mark_of(const IpbLayer *layer)
{
    return g_build_filename(layer->directory, MARK, NULL);
}

bool
ipb_copies_begin_restore(const IpbLayer *layer, uint64_t number, const char *const *skipped,
                         GError **error)
{
    g_autofree char *file = mark_of(layer);
    g_autoptr(GVariant) value =
        g_variant_ref_sink(g_variant_new("(t^aay)", (guint64) number, skipped));
    return ipb_file_write_atomic(file, g_variant_get_data(value), g_variant_get_size(value), 0600,
                                 error);
}

void
ipb_copies_end_restore(const IpbLayer *layer)
{
    unlinkat(layer->directory_fd, MARK, 0);
}

/* What was committed since is the workspace's. A directory stays. */
static void
remove_skipped(const IpbLayer *layer, char **skipped)
{
    ipb_autofd upper = openat(layer->directory_fd, IPB_LAYER_UPPER,
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    for (; upper >= 0 && *skipped != NULL; skipped++) {
        const char *name;
        ipb_autofd parent = ipb_layer_files_open_parent(upper, *skipped, &name);
        if (parent >= 0)
            unlinkat(parent, name, 0);
    }
}

static bool
exists(const IpbLayer *layer, const char *name)
{
    return ipb_layer_files_stamp(layer->directory_fd, name).exists;
}

/* A kill may interrupt this, too: each step can be seen in the directory. */
static bool
put_in_place(const IpbLayer *layer, uint64_t number, char **skipped, GError **error)
{
    Name name = name_of(number);
    int fd = layer->directory_fd;
    if (exists(layer, name.text) &&
        ((exists(layer, IPB_LAYER_UPPER) && renameat(fd, IPB_LAYER_UPPER, fd, REPLACED) < 0) ||
         renameat(fd, name.text, fd, IPB_LAYER_UPPER) < 0))
        return ipb_error_set_errno(error, errno, "cannot restore the files of a checkpoint in %s",
                                   layer->directory);
    remove_skipped(layer, skipped);
    return true;
}

bool
ipb_copies_recover(const IpbLayer *layer, GError **error)
{
    g_autofree char *file = mark_of(layer), *bytes = NULL;
    size_t size = 0;
    if (exists(layer, MARK)) {
        guint64 number;
        g_auto(GStrv) skipped = NULL;
        if (!ipb_file_read(file, MAX_SKIPPED_BYTES, &bytes, &size, error))
            return false;
        g_autoptr(GVariant) value = g_variant_ref_sink(
            g_variant_new_from_data(G_VARIANT_TYPE(MARK_TYPE), bytes, size, FALSE, NULL, NULL));
        g_variant_get(value, "(t^aay)", &number, &skipped);
        if (!put_in_place(layer, number, skipped, error))
            return false;
        ipb_copies_end_restore(layer);
    }
    ipb_file_remove_tree_at(layer->directory_fd, IPB_LAYER_COPIES);
    return true;
}
