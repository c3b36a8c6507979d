/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/layer-files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/fs.h>
#include <linux/openat2.h>

#include "base/error.h"
#include "base/file.h"

#define COPY_BYTES ((size_t) 128 << 10)

#define RESOLVE (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV)

/* --- opening ---------------------------------------------------------------------------------- */

int
ipb_layer_files_open(int directory, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t) (flags | O_CLOEXEC | O_NOFOLLOW),
        .resolve = RESOLVE,
    };
    int fd;
    do
        fd = (int) syscall(SYS_openat2, directory, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    return fd;
}

int
ipb_layer_files_open_parent(int directory, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    g_autofree char *parent = slash != NULL ? g_strndup(path, (size_t) (slash - path)) : NULL;
    *ret_name = slash != NULL ? slash + 1 : path;
    return ipb_layer_files_open(directory, parent != NULL ? parent : ".", O_PATH | O_DIRECTORY);
}

/* --- stamps ----------------------------------------------------------------------------------- */

IpbFileStamp
ipb_layer_files_stamp_of(const struct stat *info)
{
    return (IpbFileStamp){
        .exists = true,
        .mode = info->st_mode,
        .inode = info->st_ino,
        .size = (uint64_t) info->st_size,
        .changed_ns =
            (int64_t) info->st_ctim.tv_sec * G_GINT64_CONSTANT(1000000000) + info->st_ctim.tv_nsec,
    };
}

IpbFileStamp
ipb_layer_files_stamp(int directory, const char *name)
{
    struct stat info;
    if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0)
        return ipb_layer_files_stamp_of(&info);
    return (IpbFileStamp){.exists = errno != ENOENT};
}

bool
ipb_layer_files_are_equal(const IpbFileStamp *a, const IpbFileStamp *b)
{
    if (!a->exists || !b->exists)
        return a->exists == b->exists;
    /* What is in a directory changes its time and size. */
    if (S_ISDIR(a->mode) && S_ISDIR(b->mode))
        return a->inode == b->inode;
    return a->inode == b->inode && a->size == b->size && a->changed_ns == b->changed_ns &&
           a->mode == b->mode;
}

GVariant *
ipb_layer_files_pack_stamp(const IpbFileStamp *stamp)
{
    return g_variant_new(IPB_LAYER_STAMP_TYPE, stamp->exists, (guint64) stamp->mode, stamp->inode,
                         stamp->size, stamp->changed_ns);
}

IpbFileStamp
ipb_layer_files_unpack_stamp(GVariant *value)
{
    gboolean exists;
    guint64 mode, inode, size;
    gint64 changed_ns;
    g_variant_get(value, IPB_LAYER_STAMP_TYPE, &exists, &mode, &inode, &size, &changed_ns);
    g_variant_unref(value);
    return (IpbFileStamp){exists, (uint32_t) mode, inode, size, changed_ns};
}

bool
ipb_layer_files_is_whiteout(const struct stat *info)
{
    return S_ISCHR(info->st_mode) && info->st_rdev == makedev(0, 0);
}

bool
ipb_layer_files_is_opaque(int directory)
{
    char value[2] = "";
    return fgetxattr(directory, IPB_LAYER_OPAQUE, value, sizeof value) > 0 && value[0] == 'y';
}

bool
ipb_layer_files_is_hidden(int upper, const char *path)
{
    g_autofree char *above = g_strdup(path);
    char *end;
    while ((end = strrchr(above, '/')) != NULL) {
        *end = '\0';
        ipb_autofd fd = ipb_layer_files_open(upper, above, O_RDONLY | O_DIRECTORY);
        if (fd >= 0 && ipb_layer_files_is_opaque(fd))
            return true;
    }
    return false;
}

bool
ipb_layer_files_is_unmarked(const IpbLayer *layer, int upper, const char *path,
                            const IpbCommitted *committed, int *ret_upper, int *ret_lower)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    g_autofree char *above = slash != NULL ? g_strndup(path, (size_t) (slash - path)) : NULL;
    if (!committed->written.exists || above == NULL)
        return false;
    ipb_autofd in_upper = ipb_layer_files_open(upper, above, O_RDONLY | O_DIRECTORY);
    ipb_autofd in_lower =
        in_upper >= 0 ? ipb_layer_files_open(layer->workspace_fd, above, O_PATH | O_DIRECTORY) : -1;
    if (in_lower < 0 || ipb_layer_files_stamp(in_upper, name).exists ||
        !ipb_layer_files_stamp(in_lower, name).exists || ipb_layer_files_is_hidden(upper, path))
        return false;
    *ret_upper = ipb_fd_steal(&in_upper);
    *ret_lower = ipb_fd_steal(&in_lower);
    return true;
}

void
ipb_layer_files_forget_written(IpbCommitted *committed)
{
    /* It remains known that a file was committed, also if what the workspace got is not. */
    committed->real.exists |= committed->written.exists;
    committed->written = (IpbFileStamp){0};
}

IpbNameKind
ipb_layer_files_kind(mode_t mode)
{
    return S_ISDIR(mode)   ? IPB_NAME_DIRECTORY
           : S_ISLNK(mode) ? IPB_NAME_LINK
           : S_ISREG(mode) ? IPB_NAME_FILE
                           : IPB_NAME_SPECIAL;
}

/* --- contents --------------------------------------------------------------------------------- */

static bool
write_at(int to, const char *bytes, size_t size, off_t offset)
{
    while (size > 0) {
        ssize_t n = pwrite(to, bytes, size, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t) n;
        offset += n;
    }
    return true;
}

/* Copies [@start, @end). */
static bool
copy_range(int from, int to, off_t start, off_t end)
{
    g_autofree char *bytes = g_malloc(COPY_BYTES);
    while (start < end) {
        ssize_t n = pread(from, bytes, MIN(COPY_BYTES, (size_t) (end - start)), start);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (n == 0) /* it became shorter; the rest is a hole */
            return true;
        if (!write_at(to, bytes, (size_t) n, start))
            return false;
        start += n;
    }
    return true;
}

bool
ipb_layer_files_copy(int from, int to, uint64_t size)
{
    struct stat info;
    off_t end = (off_t) size;
    /* A clone takes no time, but copies what is there now, which may be more. */
    if (ioctl(to, FICLONE, from) == 0)
        return fstat(to, &info) == 0 && (info.st_size <= end || ftruncate(to, end) == 0);
    for (off_t data = 0; data < end;) {
        off_t start = lseek(from, data, SEEK_DATA);
        if (start < 0 && errno == ENXIO) /* only a hole is left */
            break;
        off_t hole = start < 0 ? end : lseek(from, start, SEEK_HOLE);
        if (start < 0) /* the file system does not know holes */
            start = data;
        hole = hole < 0 || hole > end ? end : hole;
        if (start >= end)
            break;
        if (!copy_range(from, to, start, hole))
            return false;
        data = MAX(hole, start + 1);
    }
    return ftruncate(to, end) == 0;
}

bool
ipb_layer_files_have_same_bytes(int a, int b, uint64_t size)
{
    g_autofree char *left = g_malloc(COPY_BYTES), *right = g_malloc(COPY_BYTES);
    for (uint64_t offset = 0; offset < size;) {
        size_t wanted = (size_t) MIN((uint64_t) COPY_BYTES, size - offset);
        ssize_t n = pread(a, left, wanted, (off_t) offset);
        if (n <= 0 || pread(b, right, (size_t) n, (off_t) offset) != n ||
            memcmp(left, right, (size_t) n) != 0)
            return false;
        offset += (uint64_t) n;
    }
    return true;
}

char *
ipb_layer_files_read_link(int directory, const char *name)
{
    char target[PATH_MAX + 1];
    ssize_t n = readlinkat(directory, name, target, sizeof target);
    if (n >= (ssize_t) sizeof target)
        errno = ENAMETOOLONG;
    return n >= 0 && n < (ssize_t) sizeof target ? g_strndup(target, (size_t) n) : NULL;
}

char *
ipb_layer_files_problem(const char *what, int saved_errno)
{
    return g_strdup_printf("%s: %s", what, g_strerror(saved_errno));
}

/* --- what may have which name ----------------------------------------------------------------- */

typedef struct {
    const IpbLayer *layer;
    bool is_planned;
} Looking;

/* The part of an absolute path that is below the workspace. */
static const char *
below(const IpbLayer *layer, const char *path)
{
    size_t size = strlen(layer->workspace);
    return strncmp(path, layer->workspace, size) == 0 && path[size] == '/' ? path + size + 1 : NULL;
}

static bool
is_there(int directory, const char *path)
{
    const char *name;
    ipb_autofd parent = ipb_layer_files_open_parent(directory, path, &name);
    return parent >= 0 && ipb_layer_files_stamp(parent, name).exists;
}

static bool
has_entry(const char *path, size_t directory_size, const char *name, void *data)
{
    const Looking *looking = data;
    g_autofree char *entry = g_strdup_printf("%.*s/%s", (int) directory_size, path, name);
    const char *relative = below(looking->layer, entry);
    /* Above the workspace, nothing that a commit does makes a repository. */
    if (relative == NULL)
        return g_file_test(entry, G_FILE_TEST_EXISTS);
    return is_there(looking->layer->workspace_fd, relative) ||
           (looking->is_planned && is_there(looking->layer->upper_fd, relative));
}

static char *
describe_rule(const IpbNameRule *rule, const char *reason)
{
    bool has_key = rule->key != NULL && *rule->key != '\0';
    return g_strdup_printf("a protected name: %s (%s)%s%s%s%s%s", rule->who, rule->pattern,
                           reason != NULL ? ": " : "", reason != NULL ? reason : "",
                           has_key ? "; filesystem." : "", has_key ? rule->key : "",
                           has_key ? " can allow it" : "");
}

static char *
judge_contents(const IpbNameRule *rule, const char *path, size_t root_size, int directory,
               const char *contents)
{
    g_autofree char *bytes = g_malloc(IPB_NAME_MAX_PARSED_BYTES + 1);
    ipb_autofd fd = ipb_layer_files_open(directory, contents, O_RDONLY | O_NONBLOCK);
    ssize_t n = fd >= 0 ? pread(fd, bytes, IPB_NAME_MAX_PARSED_BYTES + 1, 0) : -1;
    g_autofree char *reason = NULL;
    if (n < 0)
        return describe_rule(rule, "its contents cannot be read");
    return ipb_name_rule_accepts(rule, path, root_size, bytes, (size_t) n, &reason)
               ? NULL
               : describe_rule(rule, reason);
}

char *
ipb_layer_files_judge(const IpbLayer *layer, const IpbSandboxPlan *plan, const char *path,
                      IpbChangeKind kind, IpbNameKind type, int directory, const char *contents,
                      bool is_planned)
{
    g_autofree char *absolute = g_build_filename(layer->workspace, path, NULL);
    IpbPlanAccess access = ipb_sandbox_plan_access(plan, absolute);
    if (type == IPB_NAME_SPECIAL)
        return g_strdup("only files, directories and symbolic links are committed");
    if (!access.is_writable || !access.is_readable || access.is_own)
        return g_strdup_printf("the sandbox does not allow it%s%s",
                               access.reason != NULL ? ": " : "",
                               access.reason != NULL ? access.reason : "");
    if (type != IPB_NAME_FILE && ipb_sandbox_plan_has_denial_below(plan, absolute) &&
        (type == IPB_NAME_LINK || kind == IPB_CHANGE_REMOVED))
        return g_strdup("something that the sandbox protects is below it");
    Looking looking = {layer, is_planned};
    bool is_directory = type == IPB_NAME_DIRECTORY;
    IpbNameQuestion question = {
        /* A file was written elsewhere and gets its name now. A directory is made empty. */
        .action = kind == IPB_CHANGE_REMOVED ? IPB_NAME_REMOVE
                  : is_directory             ? IPB_NAME_CREATE
                                             : IPB_NAME_PUT,
        .kind = type,
        .path = absolute,
        .root_size = access.root_size,
        .is_rmdir = is_directory && kind == IPB_CHANGE_REMOVED,
        .has_entry = has_entry,
        .data = &looking,
    };
    IpbNameJudgement judgement = ipb_name_rules_judge(plan->names, &question);
    switch (judgement.verdict) {
    case IPB_NAME_ALLOWED:
        return NULL;
    case IPB_NAME_REFUSED:
        return describe_rule(judgement.rule, NULL);
    case IPB_NAME_PARSED:
        return judge_contents(judgement.rule, absolute, access.root_size, directory, contents);
    }
    return g_strdup("its name cannot be judged");
}

/* --- changes ---------------------------------------------------------------------------------- */

IpbLayerChange *
ipb_layer_change_new(const char *path, IpbChangeKind kind, IpbNameKind type)
{
    IpbLayerChange *change = g_new0(IpbLayerChange, 1);
    change->path = g_strdup(path);
    change->kind = kind;
    change->type = type;
    return change;
}

void
ipb_layer_change_free(IpbLayerChange *change)
{
    g_free(change->path);
    g_free(change->problem);
    g_free(change);
}

bool
ipb_layer_is_chosen(const char *path, const char *const *paths)
{
    for (; paths != NULL && *paths != NULL; paths++) {
        size_t size = strlen(*paths);
        while (size > 0 && (*paths)[size - 1] == '/')
            size--;
        if (strncmp(path, *paths, size) == 0 && (path[size] == '\0' || path[size] == '/'))
            return true;
    }
    return paths == NULL;
}

/* Every one of @paths must name a change. */
static bool
are_all_found(const IpbLayerChanges *changes, const char *const *paths, GError **error)
{
    for (const char *const *path = paths; path != NULL && *path != NULL; path++) {
        const char *const one[] = {*path, NULL};
        bool has_one = false;
        for (guint i = 0; i < changes->changes->len && !has_one; i++) {
            const IpbLayerChange *change = g_ptr_array_index(changes->changes, i);
            has_one = ipb_layer_is_chosen(change->path, one);
        }
        if (has_one)
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "nothing has changed at \"%s\"",
                    *path);
        return false;
    }
    return true;
}

/* A file in a new directory needs the directory. */
static bool
is_needed(const IpbLayerChange *change, const char *const *paths)
{
    size_t size = strlen(change->path);
    if (change->kind != IPB_CHANGE_ADDED || change->type != IPB_NAME_DIRECTORY)
        return false;
    for (; paths != NULL && *paths != NULL; paths++)
        if (strncmp(*paths, change->path, size) == 0 && (*paths)[size] == '/')
            return true;
    return false;
}

static void
keep_chosen(IpbLayerChanges *changes, const char *const *paths, bool has_parents)
{
    GPtrArray *all = changes->changes;
    changes->changes = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_layer_change_free);
    for (guint i = 0; i < all->len; i++) {
        IpbLayerChange *change = g_ptr_array_index(all, i);
        if (!ipb_layer_is_chosen(change->path, paths) && !(has_parents && is_needed(change, paths)))
            continue;
        g_ptr_array_add(changes->changes, change);
        all->pdata[i] = NULL;
    }
    for (guint i = 0; i < all->len; i++)
        if (g_ptr_array_index(all, i) != NULL)
            ipb_layer_change_free(g_ptr_array_index(all, i));
    g_ptr_array_set_free_func(all, NULL);
    g_ptr_array_unref(all);
}

bool
ipb_layer_choose(IpbLayerChanges *changes, const char *const *paths, bool has_parents,
                 GError **error)
{
    if (!are_all_found(changes, paths, error))
        return false;
    keep_chosen(changes, paths, has_parents);
    return true;
}

/* --- what is frozen --------------------------------------------------------------------------- */

bool
ipb_layer_is_interrupted(const IpbLayer *layer)
{
    g_autofree char *file = g_build_filename(layer->directory, IPB_LAYER_JOURNAL, NULL);
    return g_file_test(file, G_FILE_TEST_EXISTS);
}

void
ipb_layer_thaw(IpbLayer *layer)
{
    if (!ipb_layer_is_interrupted(layer))
        ipb_file_remove_tree_at(layer->directory_fd, IPB_LAYER_COMMIT);
    layer->is_frozen = false;
}
