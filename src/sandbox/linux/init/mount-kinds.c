/* SPDX-License-Identifier: Apache-2.0
 *
 * How each kind of mount is made. Everything is a detached mount first, gets its attributes, and then its place: at no moment is
 * something in place that may more than it should.
 */
#include "sandbox/linux/init/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"
#include "sandbox/linux/init/text.h"

#define SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define STORE_SIZE_BYTES (UINT64_C(16) << 20)
/* An inode costs the kernel about 1 KiB that no size counts: one for each page is plenty. */
#define BYTES_PER_INODE 4096
#define MIN_INODES 1024

typedef struct {
    const char *path, *mode;
} TmpfsMode;

/* What programs expect of these; of others: writable by the owner. There is only one user anyway. */
static const TmpfsMode TMPFS_MODES[] = {
    {"/tmp", "1777"},
    {"/var/tmp", "1777"},
    {"/dev/shm", "1777"},
};

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

int
ipb_mount_make_tmpfs(uint64_t size_bytes, const char *mode)
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

bool
ipb_mount_set(int tree, uint64_t attributes)
{
    struct mount_attr attr = {.attr_set = attributes};
    return sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr) == 0;
}

int
ipb_mount_open_source(const IpbMounts *mounts, const char *path)
{
    /* Below the old root, whatever the new one already covers. */
    int place = sys_openat2(mounts->old_root, path[1] != '\0' ? path + 1 : ".", O_PATH | O_CLOEXEC,
                            RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
    if (place < 0)
        return -1;
    int tree = sys_open_tree(place, "",
                             AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    close_keeping_errno(place);
    return tree;
}

static bool
is_directory(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Puts @tree (taken) onto the target. */
static bool
place(IpbMounts *mounts, uint32_t index, int tree, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(mounts->init->bytes, mounts->init->header->mounts);
    const char *path = ipb_blob_string(mounts->init->bytes, rows[index].target);
    int target = ipb_target_open(mounts, path, is_directory(tree));
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

static bool
make_bind(IpbMounts *mounts, uint32_t index, const IpbBlobMount *row, IpbStepError *error)
{
    const char *source = ipb_blob_string(mounts->init->bytes, row->source);
    int tree = mounts->init->trees[index];
    if (tree < 0)
        tree = ipb_mount_open_source(mounts, source);
    /* What is closed to the outer user needs no protection from it. */
    if (tree < 0 && errno == EACCES && row->is_denial != 0)
        return true;
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_SOURCE, index);
    bool is_read_only = row->kind == IPB_MOUNT_READ_ONLY;
    if (!ipb_mount_set(tree, is_read_only ? SAFE | MOUNT_ATTR_RDONLY : SAFE)) {
        ipb_step_fail(error, IPB_STEP_MOUNT, index);
        close(tree);
        return false;
    }
    return place(mounts, index, tree, error);
}

static bool
make_tmpfs(IpbMounts *mounts, uint32_t index, const IpbBlobMount *row, IpbStepError *error)
{
    const char *path = ipb_blob_string(mounts->init->bytes, row->target);
    const char *mode = "755";
    for (size_t i = 0; i < sizeof TMPFS_MODES / sizeof *TMPFS_MODES; i++)
        if (strcmp(path, TMPFS_MODES[i].path) == 0)
            mode = TMPFS_MODES[i].mode;
    int tree = ipb_mount_make_tmpfs(row->size_bytes, mode);
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    ipb_target_add_own(mounts, tree);
    return place(mounts, index, tree, error);
}

/* The store is put over the old root, since only what is mounted somewhere can be cloned; sources are looked up from an fd below it. */
static bool
open_store(IpbMounts *mounts)
{
    if (mounts->store >= 0)
        return true;
    int tree = ipb_mount_make_tmpfs(STORE_SIZE_BYTES, "755");
    if (tree < 0)
        return false;
    if (sys_move_mount(tree, "", mounts->old_root, "",
                       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
        close_keeping_errno(tree);
        return false;
    }
    mounts->store = tree;
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

/* Makes an entry of the store and returns a read-only clone of it. */
static int
store_entry(IpbMounts *mounts, const IpbBlobMount *row)
{
    IpbText name = {0};
    if (!open_store(mounts))
        return -1;
    ipb_text_add_number(&name, mounts->n_files++);
    bool ok;
    if (row->kind == IPB_MOUNT_HIDE_DIR)
        ok = mkdirat(mounts->store, name.bytes, 0555) == 0;
    else if (row->kind == IPB_MOUNT_HIDE_FILE)
        ok = fill_file(mounts->store, name.bytes, 0, NULL, 0);
    else
        ok = fill_file(mounts->store, name.bytes, 0444, mounts->init->bytes + row->content,
                       row->content_size);
    if (!ok)
        return -1;
    int tree = sys_open_tree(mounts->store, name.bytes, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree >= 0 && !ipb_mount_set(tree, SAFE | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC))
        return close_keeping_errno(tree);
    return tree;
}

/* What is to be hidden but cannot be seen anyway needs nothing: below a directory closed to the outer user, or one that is covered. */
static bool
is_hidden_already(IpbMounts *mounts, const IpbBlobMount *row)
{
    if ((mounts->init->header->flags & IPB_BLOB_MAP_ROOT) == 0)
        return false;
    int fd = sys_openat2(AT_FDCWD, ipb_blob_string(mounts->init->bytes, row->target),
                         O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
    if (fd >= 0)
        close(fd);
    return fd < 0 && (errno == EACCES || (errno == ENOENT && mounts->n_covers > 0));
}

/* What later mounts need is made in it; then it becomes read-only. */
static bool
make_holder(IpbMounts *mounts, uint32_t index, const IpbBlobMount *row, IpbStepError *error)
{
    int tree = ipb_mount_make_tmpfs(row->size_bytes, "755");
    int later = tree < 0 ? -1 : fcntl(tree, F_DUPFD_CLOEXEC, 3);
    if (later < 0 || mounts->n_covers == MAX_OWN_DEVICES)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    ipb_target_add_own(mounts, tree);
    mounts->covers[mounts->n_covers++] = later;
    return place(mounts, index, tree, error);
}

static bool
make_from_store(IpbMounts *mounts, uint32_t index, const IpbBlobMount *row, IpbStepError *error)
{
    if (row->kind != IPB_MOUNT_FILE && is_hidden_already(mounts, row))
        return true;
    int tree = store_entry(mounts, row);
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    return place(mounts, index, tree, error);
}

/* Where a mount of the host hides parts of /proc (containers do that), the kernel refuses a fresh one with EPERM. */
static bool
make_proc(IpbMounts *mounts, uint32_t index, IpbStepError *error)
{
    int fs = sys_fsopen("proc");
    if (fs < 0 || sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return ipb_step_fail(error, IPB_STEP_PROC, index);
    int tree = sys_fsmount(fs, SAFE | MOUNT_ATTR_NOEXEC);
    close_keeping_errno(fs);
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_PROC, index);
    return place(mounts, index, tree, error);
}

static bool
make_devpts(IpbMounts *mounts, uint32_t index, IpbStepError *error)
{
    int fs = sys_fsopen("devpts");
    if (fs < 0 || sys_fsconfig(fs, FSCONFIG_SET_STRING, "ptmxmode", "0666") < 0 ||
        sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0620") < 0 ||
        sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL) < 0)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    int tree = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    close_keeping_errno(fs);
    if (tree < 0)
        return ipb_step_fail(error, IPB_STEP_MOUNT, index);
    return place(mounts, index, tree, error);
}

bool
ipb_mount_make(IpbMounts *mounts, uint32_t index, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(mounts->init->bytes, mounts->init->header->mounts);
    const IpbBlobMount *row = &rows[index];
    switch ((IpbMountKind) row->kind) {
    case IPB_MOUNT_READ_ONLY:
    case IPB_MOUNT_WRITABLE:
        return make_bind(mounts, index, row, error);
    case IPB_MOUNT_TMPFS:
        return make_tmpfs(mounts, index, row, error);
    case IPB_MOUNT_HIDE_DIR:
        if (row->size_bytes > 0)
            return make_holder(mounts, index, row, error);
        return make_from_store(mounts, index, row, error);
    case IPB_MOUNT_HIDE_FILE:
    case IPB_MOUNT_FILE:
        return make_from_store(mounts, index, row, error);
    case IPB_MOUNT_PROC:
        return make_proc(mounts, index, error);
    case IPB_MOUNT_DEV:
        return ipb_dev_make(mounts, index, error);
    case IPB_MOUNT_DEVPTS:
        return make_devpts(mounts, index, error);
    }
    errno = EINVAL;
    return ipb_step_fail(error, IPB_STEP_MOUNT, index);
}
