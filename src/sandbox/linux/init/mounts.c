/* SPDX-License-Identifier: Apache-2.0
 *
 * The new root: the host's tree cloned (read-only, unless all is writable), the plan's mounts on it in their order, and then the host's own tree detached. Until
 * then it lies under the new root: sources are looked up in it, and the kernel wants to see a whole /proc before it gives another.
 */
#include "sandbox/linux/init/mounts.h"

#include <fcntl.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

static bool
enter_new_root(IpbMounts *mounts, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(mounts->init->bytes, mounts->init->header->mounts);
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (rows[0].kind == IPB_MOUNT_READ_ONLY)
        attributes |= MOUNT_ATTR_RDONLY;
    /* What the host mounts later must not appear inside. */
    if (sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return ipb_step_fail(error, IPB_STEP_PRIVATE, 0);
    mounts->old_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int tree = sys_open_tree(AT_FDCWD, "/", AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (mounts->old_root < 0 || tree < 0 || !ipb_mount_set(tree, attributes))
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

/* The host's tree goes; only what was cloned stays. */
static bool
leave_old_root(IpbMounts *mounts, IpbStepError *error)
{
    if ((mounts->store >= 0 && !detach(mounts->store)) || !detach(mounts->old_root) ||
        chdir("/") < 0)
        return ipb_step_fail(error, IPB_STEP_DETACH, 0);
    if (mounts->store >= 0)
        close(mounts->store);
    close(mounts->old_root);
    return true;
}

static bool
close_covers(IpbMounts *mounts, IpbStepError *error)
{
    for (size_t i = 0; i < mounts->n_covers; i++) {
        struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
        if (sys_mount_setattr(mounts->covers[i], "", AT_EMPTY_PATH, &attr) < 0)
            return ipb_step_fail(error, IPB_STEP_MOUNT, 0);
        close(mounts->covers[i]);
    }
    return true;
}

bool
ipb_mounts_build(IpbInit *init, IpbStepError *error)
{
    if ((init->header->flags & IPB_BLOB_WEAKER) != 0)
        return true;
    static IpbMounts mounts;
    mounts.init = init;
    mounts.store = -1;
    if (!enter_new_root(&mounts, error))
        return false;
    for (uint32_t i = 1; i < init->header->mounts.count; i++)
        if (!ipb_mount_make(&mounts, i, error))
            return false;
    return close_covers(&mounts, error) && leave_old_root(&mounts, error);
}
