/* SPDX-License-Identifier: Apache-2.0
 *
 * A commit. What is frozen is in the layer's directory, in files with numbers for names. The
 * journal names the path of each, and what the workspace had there. It is written before the first
 * change of the workspace, and removed after the last one. Each change is noted when it was
 * attempted. If a kill comes in between, the next process continues with the first change that is
 * not noted. If that one is in the workspace already, it is recognized: it equals what is frozen,
 * or what was frozen was moved there.
 *
 * Each change is judged, and made while no sandbox of the user can move a directory. The directory
 * is open, and no link was followed on the way to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/error.h"
#include "base/file.h"
#include "sandbox/linux/layer-files.h"
#include "sandbox/linux/names-lock.h"

#define MAX_JOURNAL_BYTES ((size_t) 256 << 20)
/* Path, kind, type, mode, the stamps of both sides, a problem or "", is it a conflict? */
#define ROW_TYPE "(ayyyt" IPB_LAYER_STAMP_TYPE IPB_LAYER_STAMP_TYPE "ayb)"
#define JOURNAL_TYPE "a" ROW_TYPE
/* What becomes the journal. */
#define FROZEN IPB_LAYER_COMMIT "/frozen"
/* A byte for each change that was attempted. */
#define PROGRESS IPB_LAYER_COMMIT "/progress"
#define DIGEST_BLOCK 65536
#define CHANGES_PER_LOCK 32
#define PAUSE_US 100
#define DONE 'd'
#define FAILED 'f'

/* --- the journal ------------------------------------------------------------------------------ */

static GVariant *
pack_change(const IpbLayerChange *change)
{
    const char *problem = change->problem != NULL ? change->problem : "";
    return g_variant_new("(@ayyyt@" IPB_LAYER_STAMP_TYPE "@" IPB_LAYER_STAMP_TYPE "@ayb)",
                         g_variant_new_bytestring(change->path), (guint8) change->kind,
                         (guint8) change->type, (guint64) change->mode,
                         ipb_layer_files_pack_stamp(&change->base),
                         ipb_layer_files_pack_stamp(&change->written),
                         g_variant_new_bytestring(problem), (gboolean) change->is_conflict);
}

static IpbLayerChange *
unpack_change(GVariant *row)
{
    guint8 kind, type;
    guint64 mode;
    gboolean is_conflict;
    g_autoptr(GVariant) path = g_variant_get_child_value(row, 0);
    g_autoptr(GVariant) problem = g_variant_get_child_value(row, 6);
    g_variant_get_child(row, 1, "y", &kind);
    g_variant_get_child(row, 2, "y", &type);
    g_variant_get_child(row, 3, "t", &mode);
    IpbLayerChange *change = ipb_layer_change_new(g_variant_get_bytestring(path),
                                                  (IpbChangeKind) kind, (IpbNameKind) type);
    change->mode = (uint32_t) mode;
    change->base = ipb_layer_files_unpack_stamp(g_variant_get_child_value(row, 4));
    change->written = ipb_layer_files_unpack_stamp(g_variant_get_child_value(row, 5));
    g_variant_get_child(row, 7, "b", &is_conflict);
    change->is_conflict = is_conflict;
    if (*g_variant_get_bytestring(problem) != '\0')
        change->problem = g_strdup(g_variant_get_bytestring(problem));
    change->size = kind != IPB_CHANGE_REMOVED && type == IPB_NAME_FILE ? change->written.size : 0;
    change->old_size = change->base.exists && S_ISREG(change->base.mode) ? change->base.size : 0;
    return change;
}

static char *
file_of(const IpbLayer *layer, const char *name)
{
    return g_build_filename(layer->directory, name, NULL);
}

static bool
write_frozen(const IpbLayer *layer, const GPtrArray *changes, GError **error)
{
    GVariantBuilder builder;
    g_variant_builder_init(&builder, G_VARIANT_TYPE(JOURNAL_TYPE));
    for (guint i = 0; i < changes->len; i++)
        g_variant_builder_add_value(&builder, pack_change(g_ptr_array_index(changes, i)));
    g_autoptr(GVariant) value = g_variant_ref_sink(g_variant_builder_end(&builder));
    g_autofree char *file = file_of(layer, FROZEN);
    return ipb_file_write_atomic(file, g_variant_get_data(value), g_variant_get_size(value), 0600,
                                 error);
}

static GPtrArray *
read_journal(const IpbLayer *layer, const char *name, GError **error)
{
    g_autofree char *file = file_of(layer, name), *bytes = NULL;
    size_t size = 0;
    if (!ipb_file_read(file, MAX_JOURNAL_BYTES, &bytes, &size, error))
        return NULL;
    g_autoptr(GVariant) value = g_variant_ref_sink(
        g_variant_new_from_data(G_VARIANT_TYPE(JOURNAL_TYPE), bytes, size, FALSE, NULL, NULL));
    GPtrArray *changes = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_layer_change_free);
    for (gsize i = 0; i < g_variant_n_children(value); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(value, i);
        g_ptr_array_add(changes, unpack_change(row));
    }
    return changes;
}

/* --- freezing --------------------------------------------------------------------------------- */

typedef struct {
    char text[16];
} Number;

static Number
name_of(guint index)
{
    Number number;
    g_snprintf(number.text, sizeof number.text, "%u", index);
    return number;
}

static char *
freeze_file(const IpbLayer *layer, int frozen, const char *name, IpbLayerChange *change)
{
    struct stat info;
    ipb_autofd from = ipb_layer_files_open(layer->upper_fd, change->path, O_RDONLY | O_NONBLOCK);
    if (from < 0 || fstat(from, &info) < 0)
        return ipb_layer_files_problem("it cannot be read", errno);
    if (!S_ISREG(info.st_mode))
        return g_strdup("it is no file any more");
    ipb_autofd to = openat(frozen, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0 || !ipb_layer_files_copy(from, to, (uint64_t) info.st_size))
        return ipb_layer_files_problem("it cannot be copied", errno);
    change->written = ipb_layer_files_stamp_of(&info);
    change->size = change->written.size;
    change->mode = info.st_mode & 0777;
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    if (fchmod(to, info.st_mode & 0777) < 0 || futimens(to, times) < 0)
        return ipb_layer_files_problem("it cannot be copied", errno);
    return NULL;
}

static char *
freeze_link(const IpbLayer *layer, int frozen, const char *name, IpbLayerChange *change)
{
    const char *own;
    ipb_autofd parent = ipb_layer_files_open_parent(layer->upper_fd, change->path, &own);
    g_autofree char *target = parent >= 0 ? ipb_layer_files_read_link(parent, own) : NULL;
    if (target == NULL || symlinkat(target, frozen, name) < 0)
        return ipb_layer_files_problem("the link cannot be copied", errno);
    change->written = ipb_layer_files_stamp(parent, own);
    return NULL;
}

/* What was really copied is judged, not what was listed. */
static void
freeze_one(const IpbLayer *layer, const IpbSandboxPlan *plan, int frozen, guint index,
           IpbLayerChange *change)
{
    Number name = name_of(index);
    bool is_copied = change->kind != IPB_CHANGE_REMOVED && change->type != IPB_NAME_DIRECTORY &&
                     change->type != IPB_NAME_SPECIAL;
    if (change->problem == NULL && is_copied)
        change->problem = change->type == IPB_NAME_LINK
                              ? freeze_link(layer, frozen, name.text, change)
                              : freeze_file(layer, frozen, name.text, change);
    if (change->problem == NULL)
        change->problem = ipb_layer_files_judge(layer, plan, change->path, change->kind,
                                                change->type, frozen, name.text, true);
}

/* The first block from @offset on that may not be zeros: no one should wait for a hole of many
 * terabytes. -1: there is none. */
static off_t
next_block(int fd, off_t offset)
{
    off_t found = lseek(fd, offset, SEEK_DATA);
    if (found >= 0)
        return found - found % DIGEST_BLOCK;
    return errno == ENXIO ? -1 : offset;
}

/* Blocks of zeros are left out, whether they are holes or not, and the others have their place. The
 * size is in the digest already. So it depends on the contents only. */
static bool
add_contents(GChecksum *checksum, int frozen, const char *name)
{
    static const guchar zeros[DIGEST_BLOCK];
    g_autofree guchar *bytes = g_malloc(DIGEST_BLOCK);
    ipb_autofd fd = openat(frozen, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    off_t offset = 0;
    if (fd < 0)
        return false;
    while ((offset = next_block(fd, offset)) >= 0) {
        ssize_t n = pread(fd, bytes, DIGEST_BLOCK, offset);
        if (n <= 0)
            return n == 0;
        if (memcmp(bytes, zeros, (size_t) n) != 0) {
            g_autofree char *place = g_strdup_printf("%" G_GINT64_FORMAT "\n", (int64_t) offset);
            g_checksum_update(checksum, (const guchar *) place, -1);
            g_checksum_update(checksum, bytes, n);
        }
        if (n < DIGEST_BLOCK)
            return true;
        offset += DIGEST_BLOCK;
    }
    return true;
}

/* Of everything that will be committed; each part with its size, so that none can be taken for
 * another. */
static char *
make_digest(int frozen, const GPtrArray *changes)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    for (guint i = 0; i < changes->len; i++) {
        IpbLayerChange *change = g_ptr_array_index(changes, i);
        Number name = name_of(i);
        if (change->problem != NULL)
            continue;
        g_autofree char *target =
            change->type == IPB_NAME_LINK && change->kind != IPB_CHANGE_REMOVED
                ? ipb_layer_files_read_link(frozen, name.text)
                : g_strdup("");
        g_autofree char *head = g_strdup_printf(
            "%d %d %o %zu %" G_GUINT64_FORMAT " %zu\n", change->kind, change->type, change->mode,
            strlen(change->path), change->size, target != NULL ? strlen(target) : 0);
        g_checksum_update(checksum, (const guchar *) head, -1);
        g_checksum_update(checksum, (const guchar *) change->path, -1);
        g_checksum_update(checksum, (const guchar *) (target != NULL ? target : ""), -1);
        bool has_contents = change->type == IPB_NAME_FILE && change->kind != IPB_CHANGE_REMOVED;
        if (has_contents && !add_contents(checksum, frozen, name.text))
            change->problem = g_strdup("what was frozen cannot be read");
    }
    return g_strdup(g_checksum_get_string(checksum));
}

static int
make_frozen(IpbLayer *layer, GError **error)
{
    ipb_layer_thaw(layer);
    int frozen = mkdirat(layer->directory_fd, IPB_LAYER_COMMIT, 0700) == 0
                     ? openat(layer->directory_fd, IPB_LAYER_COMMIT,
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
                     : -1;
    if (frozen < 0)
        ipb_error_set_errno(error, errno, "cannot freeze changes in %s", layer->directory);
    return frozen;
}

IpbLayerChanges *
ipb_layer_freeze(IpbLayer *layer, const IpbSandboxPlan *plan, const char *const *paths,
                 char **ret_digest, GError **error)
{
    *ret_digest = NULL;
    if (ipb_layer_is_interrupted(layer)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "a commit was interrupted: finish it first (ipybox changes commit)");
        return NULL;
    }
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(layer, NULL); /* judged below */
    if (changes->cut != NULL && paths == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "not all changes can be listed (%s): commit them in parts, by paths",
                    changes->cut);
        return NULL;
    }
    if (!ipb_layer_choose(changes, paths, true, error))
        return NULL;
    ipb_autofd frozen = make_frozen(layer, error);
    if (frozen < 0)
        return NULL;
    layer->is_frozen = true;
    for (guint i = 0; i < changes->changes->len; i++)
        freeze_one(layer, plan, frozen, i, g_ptr_array_index(changes->changes, i));
    *ret_digest = make_digest(frozen, changes->changes);
    /* It is called a journal once the commit begins. */
    return write_frozen(layer, changes->changes, error) ? g_steal_pointer(&changes) : NULL;
}

/* --- into the workspace ----------------------------------------------------------------------- */

typedef struct {
    IpbLayer *layer;
    const IpbSandboxPlan *plan;
    int frozen;
    struct stat workspace;
    char *id; /* of the layer; for names of temporary files */
    /* The directory of the change before, while names are locked, because many have the same */
    char *parent; /* its path; NULL: none */
    int parent_fd;
    unsigned n_locked; /* changes since names were locked; 0: they are not */
} Commit;

static int
rename_to(int from, const char *name, int to, const char *new_name, bool replaces)
{
    return (int) syscall(SYS_renameat2, from, name, to, new_name, replaces ? 0 : RENAME_NOREPLACE);
}

/* Root gives files to the owner of the workspace, as in a workspace that is not staged. */
static bool
give_away(const Commit *commit, int directory, const char *name)
{
    return geteuid() != 0 || fchownat(directory, name, commit->workspace.st_uid,
                                      commit->workspace.st_gid, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The workspace is on another file system. */
static bool
copy_over(const Commit *commit, const IpbLayerChange *change, const char *frozen, int directory,
          const char *name)
{
    g_autofree char *temporary = g_strconcat(IPB_NAME_OWN_PREFIX, commit->id, "-", frozen, NULL);
    bool ok = unlinkat(directory, temporary, 0) == 0 || errno == ENOENT;
    if (ok && change->type == IPB_NAME_LINK) {
        g_autofree char *target = ipb_layer_files_read_link(commit->frozen, frozen);
        ok = target != NULL && symlinkat(target, directory, temporary) == 0;
    } else if (ok) {
        struct stat info;
        ipb_autofd from = openat(commit->frozen, frozen, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        ipb_autofd to =
            openat(directory, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        ok = from >= 0 && to >= 0 && fstat(from, &info) == 0 &&
             ipb_layer_files_copy(from, to, (uint64_t) info.st_size);
        const struct timespec times[2] = {info.st_atim, info.st_mtim};
        ok = ok && fchmod(to, info.st_mode & 0777) == 0 && futimens(to, times) == 0;
    }
    ok = ok && give_away(commit, directory, temporary) &&
         rename_to(directory, temporary, directory, name, change->base.exists) == 0;
    int saved = errno;
    if (ok)
        unlinkat(commit->frozen, frozen, 0);
    else
        unlinkat(directory, temporary, 0);
    errno = saved;
    return ok;
}

static bool
put(const Commit *commit, const IpbLayerChange *change, const char *frozen, int directory,
    const char *name)
{
    if (!give_away(commit, commit->frozen, frozen))
        return false;
    return rename_to(commit->frozen, frozen, directory, name, change->base.exists) == 0 ||
           (errno == EXDEV && copy_over(commit, change, frozen, directory, name));
}

static bool
make_directory(const Commit *commit, const IpbLayerChange *change, int directory, const char *name)
{
    return mkdirat(directory, name, 0700) == 0 && give_away(commit, directory, name) &&
           fchmodat(directory, name, change->mode & 0777, 0) == 0;
}

/* Is what the commit wants there already, because an earlier attempt has made it? */
static bool
is_there(const Commit *commit, const IpbLayerChange *change, const char *frozen,
         const IpbFileStamp *now, int directory, const char *name)
{
    if (change->kind == IPB_CHANGE_REMOVED)
        return !now->exists;
    if (change->type == IPB_NAME_DIRECTORY)
        return now->exists && S_ISDIR(now->mode);
    IpbFileStamp source = ipb_layer_files_stamp(commit->frozen, frozen);
    if (!source.exists) /* it was moved there; later changes of the host are the host's */
        return true;
    if (!now->exists || ipb_layer_files_kind(now->mode) != change->type || now->size != source.size)
        return false;
    if (change->type == IPB_NAME_LINK) {
        g_autofree char *a = ipb_layer_files_read_link(commit->frozen, frozen);
        g_autofree char *b = ipb_layer_files_read_link(directory, name);
        return a != NULL && g_strcmp0(a, b) == 0;
    }
    ipb_autofd a = openat(commit->frozen, frozen, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ipb_autofd b = ipb_layer_files_open(directory, name, O_RDONLY | O_NONBLOCK);
    return a >= 0 && b >= 0 && (now->mode & 0777) == (change->mode & 0777) &&
           ipb_layer_files_have_same_bytes(a, b, source.size);
}

static char *
judge(const Commit *commit, const IpbLayerChange *change, const char *frozen)
{
    return ipb_layer_files_judge(commit->layer, commit->plan, change->path, change->kind,
                                 change->type, commit->frozen, frozen, false);
}

static bool
perform(const Commit *commit, const IpbLayerChange *change, const char *frozen, int directory,
        const char *name)
{
    bool is_directory = change->type == IPB_NAME_DIRECTORY;
    if (change->kind == IPB_CHANGE_REMOVED)
        return unlinkat(directory, name, is_directory ? AT_REMOVEDIR : 0) == 0;
    return is_directory ? make_directory(commit, change, directory, name)
                        : put(commit, change, frozen, directory, name);
}

static char *
describe_failure(const IpbLayerChange *change)
{
    if (errno == ENOTEMPTY)
        return g_strdup("the directory has files that were not removed");
    if (errno == EEXIST)
        return g_strdup("the workspace has a file of this name now");
    return ipb_layer_files_problem(change->kind == IPB_CHANGE_REMOVED ? "it cannot be removed"
                                                                      : "it cannot be written",
                                   errno);
}

static void
forget_parent(Commit *commit)
{
    g_clear_pointer(&commit->parent, g_free);
    ipb_fd_close(&commit->parent_fd);
}

/* The open directory of @path; borrowed until the next call. -1 with errno. */
static int
find_parent(Commit *commit, const char *path, const char **ret_name)
{
    g_autofree char *parent = g_path_get_dirname(path);
    const char *slash = strrchr(path, '/');
    *ret_name = slash != NULL ? slash + 1 : path;
    if (g_strcmp0(parent, commit->parent) == 0)
        return commit->parent_fd;
    forget_parent(commit);
    commit->parent_fd = ipb_layer_files_open_parent(commit->layer->workspace_fd, path, ret_name);
    if (commit->parent_fd >= 0)
        commit->parent = g_steal_pointer(&parent);
    return commit->parent_fd;
}

/* Nothing else of this user moves directories while this runs. */
static void
commit_locked(Commit *commit, IpbLayerChange *change, const char *frozen)
{
    const char *name;
    int directory = find_parent(commit, change->path, &name);
    if (directory < 0) {
        change->is_conflict = errno == ELOOP || errno == ENOTDIR || errno == EXDEV;
        change->problem = ipb_layer_files_problem("its directory cannot be opened", errno);
        return;
    }
    IpbFileStamp now = ipb_layer_files_stamp(directory, name);
    bool is_known = ipb_layer_files_are_equal(&now, &change->base);
    change->is_done = !is_known && is_there(commit, change, frozen, &now, directory, name);
    if (!is_known && !change->is_done) {
        change->is_conflict = true;
        change->problem = g_strdup("the workspace's file was changed outside, too");
    }
    if (change->problem == NULL && !change->is_done)
        change->problem = judge(commit, change, frozen);
    if (change->problem == NULL && !change->is_done) {
        change->is_done = perform(commit, change, frozen, directory, name);
        if (!change->is_done)
            change->problem = describe_failure(change);
    }
    if (!change->is_done)
        return;
    IpbCommitted *committed = g_new(IpbCommitted, 1);
    *committed = (IpbCommitted){ipb_layer_files_stamp(directory, name), change->written,
                                commit->layer->n_commits};
    g_hash_table_replace(commit->layer->committed, g_strdup(change->path), committed);
}

static void
unlock_names(Commit *commit)
{
    if (commit->n_locked == 0)
        return;
    forget_parent(commit);
    ipb_names_unlock(IPB_NAMES_ALONE);
    commit->n_locked = 0;
}

/* Names are locked for some changes at a time. Others, who try again every 200 µs, get time. */
static void
commit_one(Commit *commit, IpbLayerChange *change, const char *frozen)
{
    if (commit->n_locked >= CHANGES_PER_LOCK) {
        unlock_names(commit);
        g_usleep(PAUSE_US);
    }
    if (commit->n_locked == 0 && !ipb_names_lock(IPB_NAMES_ALONE)) {
        change->problem = g_strdup("another sandbox keeps the workspace locked: try again");
        return;
    }
    commit->n_locked++;
    commit_locked(commit, change, frozen);
}

/* Attempted before a kill. */
static void
note_earlier(const Commit *commit, IpbLayerChange *change, char progress)
{
    change->is_done = progress == DONE;
    if (!change->is_done && change->problem == NULL)
        change->problem = g_strdup("it was not committed before ipybox was killed: try again");
    if (!change->is_done)
        return;
    /* What the workspace had then is not known: it may have been changed since. */
    IpbCommitted *committed = g_new0(IpbCommitted, 1);
    committed->written = change->written;
    committed->commit = commit->layer->n_commits;
    g_hash_table_replace(commit->layer->committed, g_strdup(change->path), committed);
}

static bool
commit_all(Commit *commit, const GPtrArray *changes, GError **error)
{
    g_autofree char *file = file_of(commit->layer, PROGRESS), *earlier = NULL;
    size_t n_earlier = 0;
    ipb_file_read(file, IPB_LAYER_MAX_CHANGES, &earlier, &n_earlier, NULL);
    ipb_autofd progress = openat(commit->layer->directory_fd, PROGRESS,
                                 O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    for (guint i = 0; i < changes->len; i++) {
        IpbLayerChange *change = g_ptr_array_index(changes, i);
        Number name = name_of(i);
        if (i < n_earlier) {
            note_earlier(commit, change, earlier[i]);
            continue;
        }
        if (change->problem == NULL)
            commit_one(commit, change, name.text);
        if (!ipb_fd_write_all(progress, change->is_done ? (char[]){DONE} : (char[]){FAILED}, 1,
                              error))
            return false;
    }
    return true;
}

/* Begins, or continues after a kill. */
static bool
begin(IpbLayer *layer, GError **error)
{
    if (ipb_layer_is_interrupted(layer))
        return true;
    if (renameat(layer->directory_fd, FROZEN, layer->directory_fd, IPB_LAYER_JOURNAL) == 0)
        return true;
    if (errno == ENOENT)
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                            "nothing is ready to be committed");
    else
        ipb_error_set_errno(error, errno, "cannot begin the commit in %s", layer->directory);
    return false;
}

/* What was committed is known before the journal is gone. */
static bool
finish(IpbLayer *layer, GError **error)
{
    if (!ipb_layer_save_committed(layer, error))
        return false;
    if (unlinkat(layer->directory_fd, IPB_LAYER_JOURNAL, 0) < 0)
        return ipb_error_set_errno(error, errno, "cannot end the commit in %s", layer->directory);
    ipb_layer_thaw(layer);
    return true;
}

IpbLayerChanges *
ipb_layer_commit(IpbLayer *layer, const IpbSandboxPlan *plan, GError **error)
{
    Commit commit = {.layer = layer, .plan = plan, .parent_fd = -1};
    if (!begin(layer, error))
        return NULL;
    g_autoptr(IpbLayerChanges) result = g_new0(IpbLayerChanges, 1);
    result->changes = read_journal(layer, IPB_LAYER_JOURNAL, error);
    ipb_autofd frozen = openat(layer->directory_fd, IPB_LAYER_COMMIT,
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (result->changes == NULL) {
        result->changes = g_ptr_array_new();
        return NULL;
    }
    if (frozen < 0 || fstat(layer->workspace_fd, &commit.workspace) < 0) {
        ipb_error_set_errno(error, errno, "cannot open what is frozen in %s", layer->directory);
        return NULL;
    }
    g_autofree char *id = g_path_get_basename(layer->directory);
    layer->n_commits++;
    commit.frozen = frozen;
    commit.id = id;
    ipb_names_lock_open();
    bool ok = commit_all(&commit, result->changes, error);
    unlock_names(&commit);
    ipb_names_lock_close();
    return ok && finish(layer, error) ? g_steal_pointer(&result) : NULL;
}
