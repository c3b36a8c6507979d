/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the new root: a clone of the host's tree (read-only, unless everything is writable), with
 * the blob's mounts on it, in their order. Then the host's own tree is detached. Until then it is
 * below the new root: sources are looked up in it, and the system's kernel only makes a new /proc
 * where it can see a complete one.
 *
 * Each mount is created detached, gets its attributes, and is then put into its place. So at no
 * moment does a place allow more than it should.
 *
 * Symbolic links are never followed: code that can write below a target could otherwise move the
 * mount elsewhere between plan and entry. Mount points are created only in file systems that were
 * made here, so the host's tree gets no placeholders.
 */
#include "sandbox/linux/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"
#include "sandbox/linux/init/text.h"

/* Maximum number of file systems that are made here. */
#define MAX_OWN_DEVICES 256
#define SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define STORE_SIZE_BYTES (UINT64_C(16) << 20)
/* An inode costs the kernel about 1 KiB, which the size does not count. One inode for each page is
 * enough. */
#define BYTES_PER_INODE 4096
#define MIN_INODES 1024
/* Linux has 4096 pseudo-terminals for the whole machine, and reserves 1024 of them for the host. */
#define MAX_TERMINALS "128"
#define COVER_SIZE_BYTES 65536
#define DEV_SIZE_BYTES 65536

/* Where the two parts of an overlay are mounted in the store while it is made. */
#define LOWER "lower"
#define LAYER "layer"

#define N_ELEMENTS(array) (sizeof(array) / sizeof *(array))

typedef struct {
    IpbInit *init;
    int old_root; /* the host's tree, in which sources are looked up until it is detached */
    /* a file system for files with content and for what hides others; -1 until it is needed */
    int store;
    uint32_t n_files; /* in the store */
    dev_t own[MAX_OWN_DEVICES];
    size_t n_own;
    int covers[MAX_OWN_DEVICES]; /* those that become read-only at the end */
    size_t n_covers;
} Builder;

/* --- detached mounts -------------------------------------------------------------------------- */

static int
close_keeping_errno(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static bool
configure_tmpfs(int fs, uint64_t size_bytes, const char *mode)
{
    if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", mode) < 0)
        return false;
    if (size_bytes > 0) {
        IpbText size = {0}, inodes = {0};
        uint64_t n_inodes = size_bytes / BYTES_PER_INODE;
        ipb_text_add_number(&size, size_bytes);
        ipb_text_add_number(&inodes, n_inodes > MIN_INODES ? n_inodes : MIN_INODES);
        if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", size.bytes) < 0 ||
            sys_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", inodes.bytes) < 0)
            return false;
    }
    return sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) == 0;
}

static int
new_tmpfs(uint64_t size_bytes, const char *mode)
{
    int fs = sys_fsopen("tmpfs");
    if (fs < 0)
        return -1;
    if (!configure_tmpfs(fs, size_bytes, mode))
        return close_keeping_errno(fs);
    int tree = sys_fsmount(fs, SAFE);
    close_keeping_errno(fs);
    return tree;
}

static bool
set_attributes(int tree, uint64_t attributes)
{
    struct mount_attr attr = {.attr_set = attributes};
    return sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) == 0;
}

static int
open_source(const Builder *builder, const char *path)
{
    /* Looked up below the old root, because the new one may already cover the path. */
    int place = sys_openat2(builder->old_root, path[1] != '\0' ? path + 1 : ".", O_PATH | O_CLOEXEC,
                            RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
    if (place < 0)
        return -1;
    int tree = sys_open_tree(place, "",
                             AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    close_keeping_errno(place);
    return tree;
}

/* --- places to mount at ----------------------------------------------------------------------- */

static void
add_own(Builder *builder, int fd)
{
    struct stat info;
    if (builder->n_own < MAX_OWN_DEVICES && fstat(fd, &info) == 0)
        builder->own[builder->n_own++] = info.st_dev;
}

static bool
is_own(const Builder *builder, int fd)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return false;
    for (size_t i = 0; i < builder->n_own; i++)
        if (builder->own[i] == info.st_dev)
            return true;
    return false;
}

/* Mounts an empty file system over a directory that the outer user may not enter, so that the
 * target can be created in it. */
static bool
cover(Builder *builder, int directory)
{
    if (builder->n_covers == MAX_OWN_DEVICES) {
        errno = E2BIG;
        return false;
    }
    int tree = new_tmpfs(COVER_SIZE_BYTES, "755");
    if (tree < 0)
        return false;
    if (sys_move_mount(tree, "", directory, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
        0) {
        close(tree);
        return false;
    }
    add_own(builder, tree);
    builder->covers[builder->n_covers++] = tree;
    return true;
}

static int
open_part(int parent, const char *name)
{
    return sys_openat2(parent, name, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
}

static int
make_part(const Builder *builder, int parent, const char *name, bool is_directory)
{
    if (!is_own(builder, parent)) {
        errno = ENOENT;
        return -1;
    }
    if (is_directory) {
        if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
            return -1;
    } else {
        int fd = openat(parent, name, O_CREAT | O_EXCL | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
        if (fd < 0 && errno != EEXIST)
            return -1;
        if (fd >= 0)
            close(fd);
    }
    return open_part(parent, name);
}

/* Goes one step down from @parent, whose path is @path up to @name. */
static int
step_down(Builder *builder, int parent, const char *path, const char *name, bool is_directory)
{
    int fd = open_part(parent, name);
    if (fd >= 0)
        return fd;
    if (errno == EACCES && (builder->init->header->flags & IPB_BLOB_MAP_ROOT) != 0) {
        if (!cover(builder, parent))
            return -1;
        int covered = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
        if (covered < 0)
            return -1;
        fd = make_part(builder, covered, name, is_directory);
        close(covered);
        return fd;
    }
    return errno == ENOENT ? make_part(builder, parent, name, is_directory) : -1;
}

static int
open_target(Builder *builder, const char *path, bool is_directory)
{
    int fd = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
    if (fd >= 0 || (errno != ENOENT && errno != EACCES))
        return fd;
    char copy[PATH_MAX];
    size_t size = strlen(path);
    if (size >= sizeof copy) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(copy, path, size + 1);
    fd = open("/", O_PATH | O_CLOEXEC);
    for (char *name = copy + 1; fd >= 0 && *name != '\0';) {
        char *slash = strchr(name, '/');
        if (slash != NULL)
            *slash = '\0';
        /* The parent's path is the text before the slash. */
        name[-1] = '\0';
        int next = step_down(builder, fd, name - 1 == copy ? "/" : copy, name,
                             slash != NULL || is_directory);
        name[-1] = '/';
        int saved = errno;
        close(fd);
        errno = saved;
        fd = next;
        name += strlen(name);
        if (slash != NULL) {
            *slash = '/';
            name++;
        }
    }
    return fd;
}

static bool
is_directory(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Moves @tree, which it takes, onto the target. */
static bool
place(Builder *builder, uint32_t index, int tree, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(builder->init->bytes, builder->init->header->mounts);
    const char *path = ipb_blob_string(builder->init->bytes, rows[index].target);
    int target = open_target(builder, path, is_directory(tree));
    if (target < 0) {
        ipb_step_fail(error, IPB_STEP_TARGET, index);
        close(tree);
        return false;
    }
    bool ok = sys_move_mount(tree, "", target, "",
                             MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0 ||
              ipb_step_fail(error, IPB_STEP_MOUNT, index);
    close(target);
    close(tree);
    return ok;
}

/* --- binds and file systems ------------------------------------------------------------------- */

typedef struct {
    const char *path, *mode;
} TmpfsMode;

/* The modes that programs expect. Other directories are writable by the owner; there is only one
 * user. */
static const TmpfsMode TMPFS_MODES[] = {
    {"/tmp", "1777"},
    {"/var/tmp", "1777"},
    {"/dev/shm", "1777"},
};

static bool
make_bind(Builder *builder, uint32_t index, const IpbBlobMount *row, IpbStepError *error)
{
    const char *source = ipb_blob_string(builder->init->bytes, row->source);
    int tree = builder->init->trees[index];
    if (tree < 0)
        tree = open_source(builder, source);
    /* What the outer user cannot access needs no protection from it. */
    if (tree < 0 && errno == EACCES && row->is_denial != 0)
        return true;
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_SOURCE, index);
    bool is_read_only = row->kind == IPB_MOUNT_READ_ONLY;
    if (!set_attributes(tree, is_read_only ? SAFE | MOUNT_ATTR_RDONLY : SAFE)) {
        ipb_step_fail(error, IPB_STEP_MOUNT, index);
        close(tree);
        return false;
    }
    return place(builder, index, tree, error);
}

static bool
make_tmpfs(Builder *builder, uint32_t index, const IpbBlobMount *row, IpbStepError *error)
{
    const char *path = ipb_blob_string(builder->init->bytes, row->target);
    const char *mode = "755";
    for (size_t i = 0; i < sizeof TMPFS_MODES / sizeof *TMPFS_MODES; i++)
        if (strcmp(path, TMPFS_MODES[i].path) == 0)
            mode = TMPFS_MODES[i].mode;
    int tree = new_tmpfs(row->size_bytes, mode);
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    add_own(builder, tree);
    return place(builder, index, tree, error);
}

/* The store is mounted over the old root, because only a mounted file system can be cloned. Sources
 * are looked up from an fd below it. */
static bool
open_store(Builder *builder)
{
    if (builder->store >= 0)
        return true;
    int tree = new_tmpfs(STORE_SIZE_BYTES, "755");
    if (tree < 0)
        return false;
    if (sys_move_mount(tree, "", builder->old_root, "",
                       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
        close_keeping_errno(tree);
        return false;
    }
    builder->store = tree;
    return true;
}

static bool
fill_file(int directory, const char *name, mode_t mode, const uint8_t *content, size_t size)
{
    int fd = openat(directory, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    if (fd < 0)
        return false;
    bool ok = true;
    while (ok && size > 0) {
        ssize_t n = write(fd, content, size);
        ok = n > 0 || (n < 0 && errno == EINTR);
        if (n > 0) {
            content += n;
            size -= (size_t) n;
        }
    }
    close_keeping_errno(fd);
    return ok;
}

/* Creates an entry in the store, and returns a read-only clone of it. */
static int
store_entry(Builder *builder, const IpbBlobMount *row)
{
    IpbText name = {0};
    if (!open_store(builder))
        return -1;
    ipb_text_add_number(&name, builder->n_files++);
    bool ok;
    if (row->kind == IPB_MOUNT_HIDE_DIR)
        ok = mkdirat(builder->store, name.bytes, 0555) == 0;
    else if (row->kind == IPB_MOUNT_HIDE_FILE)
        ok = fill_file(builder->store, name.bytes, 0, NULL, 0);
    else
        ok = fill_file(builder->store, name.bytes, 0444, builder->init->bytes + row->content,
                       row->content_size);
    if (!ok)
        return -1;
    int tree = sys_open_tree(builder->store, name.bytes, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree >= 0 && !set_attributes(tree, SAFE | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC))
        return close_keeping_errno(tree);
    return tree;
}

/* A path that cannot be seen anyway need not be hidden: it is below a directory that is closed to
 * the outer user, or below one that is covered. */
static bool
is_hidden_already(Builder *builder, const IpbBlobMount *row)
{
    if ((builder->init->header->flags & IPB_BLOB_MAP_ROOT) == 0)
        return false;
    int fd = sys_openat2(AT_FDCWD, ipb_blob_string(builder->init->bytes, row->target),
                         O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
    if (fd >= 0)
        close(fd);
    return fd < 0 && (errno == EACCES || (errno == ENOENT && builder->n_covers > 0));
}

/* Later mounts create their targets in it. Then it becomes read-only. */
static bool
make_holder(Builder *builder, uint32_t index, const IpbBlobMount *row, IpbStepError *error)
{
    int tree = new_tmpfs(row->size_bytes, "755");
    int later = tree < 0 ? -1 : fcntl(tree, F_DUPFD_CLOEXEC, 3);
    if (later < 0 || builder->n_covers == MAX_OWN_DEVICES)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    add_own(builder, tree);
    builder->covers[builder->n_covers++] = later;
    return place(builder, index, tree, error);
}

static bool
make_from_store(Builder *builder, uint32_t index, const IpbBlobMount *row, IpbStepError *error)
{
    if (row->kind != IPB_MOUNT_FILE && is_hidden_already(builder, row))
        return true;
    int tree = store_entry(builder, row);
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    return place(builder, index, tree, error);
}

/* If a mount of the host hides parts of /proc, as containers do, the kernel refuses a new one with
 * EPERM. */
static bool
make_proc(Builder *builder, uint32_t index, IpbStepError *error)
{
    int fs = sys_fsopen("proc");
    if (fs < 0 || sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return ipb_step_fail(error, IPB_STEP_PROC, index);
    int tree = sys_fsmount(fs, SAFE | MOUNT_ATTR_NOEXEC);
    close_keeping_errno(fs);
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_PROC, index);
    return place(builder, index, tree, error);
}

static bool
make_devpts(Builder *builder, uint32_t index, IpbStepError *error)
{
    int fs = sys_fsopen("devpts");
    if (fs < 0 || sys_fsconfig(fs, FSCONFIG_SET_STRING, "ptmxmode", "0666") < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0620") < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_STRING, "max", MAX_TERMINALS) < 0 ||
        sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    int tree = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    close_keeping_errno(fs);
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    return place(builder, index, tree, error);
}

/* --- overlays --------------------------------------------------------------------------------- */

/* Mounts what the row shows at @name in the store. */
static bool
put_part(Builder *builder, uint32_t index, const char *name, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(builder->init->bytes, builder->init->header->mounts);
    int tree = builder->init->trees[index];
    if (tree < 0)
        tree = open_source(builder, ipb_blob_string(builder->init->bytes, rows[index].source));
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_SOURCE, index);
    bool ok = open_store(builder) && mkdirat(builder->store, name, 0700) == 0 &&
              sys_move_mount(tree, "", builder->store, name, MOVE_MOUNT_F_EMPTY_PATH) == 0;
    if (!ok)
        ipb_step_fail(error, IPB_STEP_MOUNT, index);
    close(tree);
    return ok;
}

static int
new_overlay(void)
{
    int fs = sys_fsopen("overlay");
    if (fs < 0)
        return -1;
    /* Short relative names: paths of the host may have characters that mean something here. With
     * userxattr nothing that code could have left in the source redirects a name. */
    if (sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", LOWER) < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", LAYER "/upper") < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", LAYER "/work") < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL) < 0 ||
        sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return close_keeping_errno(fs);
    int tree = sys_fsmount(fs, SAFE);
    close_keeping_errno(fs);
    return tree;
}

/* The overlay keeps its parts, so they need not stay mounted. */
static bool
take_parts_away(const Builder *builder)
{
    return fchdir(builder->store) == 0 && sys_umount2(LAYER, MNT_DETACH) == 0 &&
           sys_umount2(LOWER, MNT_DETACH) == 0 &&
           unlinkat(builder->store, LAYER, AT_REMOVEDIR) == 0 &&
           unlinkat(builder->store, LOWER, AT_REMOVEDIR) == 0;
}

/* The row before says where the layer is. */
static bool
make_overlay(Builder *builder, uint32_t index, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(builder->init->bytes, builder->init->header->mounts);
    errno = EINVAL;
    if (rows[index - 1].kind != IPB_MOUNT_LAYER)
        return ipb_step_fail(error, IPB_STEP_BLOB, index);
    if (!put_part(builder, index - 1, LAYER, error) || !put_part(builder, index, LOWER, error))
        return false;
    int tree = fchdir(builder->store) == 0 ? new_overlay() : -1;
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_OVERLAY, index - 1);
    if (!take_parts_away(builder)) {
        ipb_step_fail(error, IPB_STEP_MOUNT, index);
        close(tree);
        return false;
    }
    return place(builder, index, tree, error);
}

/* --- /dev ------------------------------------------------------------------------------------- */

static const char *const DEVICES[] = {"null", "zero", "full", "random", "urandom", "tty"};

/* Mount points for later mounts of the plan. */
static const char *const DIRECTORIES[] = {"shm", "pts"};

static const struct {
    const char *name, *target;
} LINKS[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static bool
bind_device(const Builder *builder, int dev, const char *name)
{
    char path[32] = "/dev/";
    strcat(path, name);
    int fd = openat(dev, name, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0444);
    if (fd < 0)
        return false;
    close(fd);
    int tree = open_source(builder, path);
    if (tree < 0)
        return false;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    bool ok = sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr) == 0 &&
              sys_move_mount(tree, "", dev, name, MOVE_MOUNT_F_EMPTY_PATH) == 0;
    int saved = errno;
    close(tree);
    errno = saved;
    return ok;
}

static bool
fill_dev(const Builder *builder, int dev)
{
    for (size_t i = 0; i < N_ELEMENTS(DIRECTORIES); i++)
        if (mkdirat(dev, DIRECTORIES[i], 0755) < 0)
            return false;
    for (size_t i = 0; i < N_ELEMENTS(LINKS); i++)
        if (symlinkat(LINKS[i].target, dev, LINKS[i].name) < 0)
            return false;
    for (size_t i = 0; i < N_ELEMENTS(DEVICES); i++)
        /* A container may lack a device. Without a terminal, tty is not needed. */
        if (!bind_device(builder, dev, DEVICES[i]) && errno != ENOENT)
            return false;
    return true;
}

static bool
make_dev(Builder *builder, uint32_t index, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(builder->init->bytes, builder->init->header->mounts);
    int target =
        open_target(builder, ipb_blob_string(builder->init->bytes, rows[index].target), true);
    if (target < 0)
        return ipb_step_fail(error, IPB_STEP_TARGET, index);
    /* It is attached first: mounts cannot be made in a detached file system. */
    int dev = new_tmpfs(DEV_SIZE_BYTES, "755");
    bool ok = dev >= 0 && sys_move_mount(dev, "", target, "",
                                         MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
    if (!ok)
        ipb_step_fail(error, IPB_STEP_MOUNT, index);
    ok = ok && (fill_dev(builder, dev) || ipb_step_fail(error, IPB_STEP_DEVICE, index));
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC};
    ok = ok && (sys_mount_setattr(dev, "", AT_EMPTY_PATH, &attr) == 0 ||
                ipb_step_fail(error, IPB_STEP_MOUNT, index));
    close(dev);
    close(target);
    return ok;
}

/* --- the new root ----------------------------------------------------------------------------- */

static bool
make_mount(Builder *builder, uint32_t index, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(builder->init->bytes, builder->init->header->mounts);
    const IpbBlobMount *row = &rows[index];
    switch ((IpbMountKind) row->kind) {
    case IPB_MOUNT_READ_ONLY:
    case IPB_MOUNT_WRITABLE:
        return make_bind(builder, index, row, error);
    case IPB_MOUNT_LAYER:
        return true;
    case IPB_MOUNT_STAGED:
        return make_overlay(builder, index, error);
    case IPB_MOUNT_TMPFS:
        return make_tmpfs(builder, index, row, error);
    case IPB_MOUNT_HIDE_DIR:
        if (row->size_bytes > 0)
            return make_holder(builder, index, row, error);
        return make_from_store(builder, index, row, error);
    case IPB_MOUNT_HIDE_FILE:
    case IPB_MOUNT_FILE:
        return make_from_store(builder, index, row, error);
    case IPB_MOUNT_PROC:
        return make_proc(builder, index, error);
    case IPB_MOUNT_DEV:
        return make_dev(builder, index, error);
    case IPB_MOUNT_DEVPTS:
        return make_devpts(builder, index, error);
    }
    errno = EINVAL;
    return ipb_step_fail(error, IPB_STEP_MOUNT, index);
}

static bool
enter_new_root(Builder *builder, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(builder->init->bytes, builder->init->header->mounts);
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (rows[0].kind == IPB_MOUNT_READ_ONLY)
        attributes |= MOUNT_ATTR_RDONLY;
    /* Later mounts of the host must not appear inside. */
    if (sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return ipb_step_fail(error, IPB_STEP_PRIVATE, 0);
    builder->old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int tree = sys_open_tree(AT_FDCWD, "/", AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (builder->old_root < 0 || tree < 0 || !set_attributes(tree, attributes))
        return ipb_step_fail(error, IPB_STEP_ROOT, 0);
    if (sys_move_mount(tree, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(tree) < 0 ||
        sys_pivot_root(".", ".") < 0)
        return ipb_step_fail(error, IPB_STEP_PIVOT, 0);
    close(tree);
    return true;
}

static bool
detach(int fd)
{
    return fchdir(fd) == 0 && sys_umount2(".", MNT_DETACH) == 0;
}

/* Detaches the host's tree. Only what was cloned remains. */
static bool
leave_old_root(Builder *builder, IpbStepError *error)
{
    if ((builder->store >= 0 && !detach(builder->store)) || !detach(builder->old_root) ||
        chdir("/") < 0)
        return ipb_step_fail(error, IPB_STEP_DETACH, 0);
    if (builder->store >= 0)
        close(builder->store);
    close(builder->old_root);
    return true;
}

static bool
close_covers(Builder *builder, IpbStepError *error)
{
    for (size_t i = 0; i < builder->n_covers; i++) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
        if (sys_mount_setattr(builder->covers[i], "", AT_EMPTY_PATH, &attr) < 0)
            return ipb_step_fail(error, IPB_STEP_MOUNT, 0);
        close(builder->covers[i]);
    }
    return true;
}

bool
ipb_mounts_build(IpbInit *init, IpbStepError *error)
{
    if ((init->header->flags & IPB_BLOB_WEAKER) != 0)
        return true;
    static Builder builder;
    builder.init = init;
    builder.store = -1;
    if (!enter_new_root(&builder, error))
        return false;
    for (uint32_t i = 1; i < init->header->mounts.count; i++)
        if (!make_mount(&builder, i, error))
            return false;
    return close_covers(&builder, error) && leave_old_root(&builder, error);
}
