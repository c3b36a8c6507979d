/* SPDX-License-Identifier: Apache-2.0
 *
 * A minimal /dev: a file system of ours with a few devices of the host, bound one by one.
 */
#include "sandbox/linux/init/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

#define DEV_SIZE_BYTES 65536

static const char *const DEVICES[] = {"null", "zero", "full", "random", "urandom", "tty"};

/* Mount points for what else the plan puts there. */
static const char *const DIRECTORIES[] = {"shm", "pts"};

static const struct {
    const char *name, *target;
} LINKS[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

#define N_ELEMENTS(array) (sizeof(array) / sizeof *(array))

static bool
bind_device(const IpbMounts *mounts, int dev, const char *name)
{
    char path[32] = "/dev/";
    strcat(path, name);
    int fd = openat(dev, name, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0444);
    if (fd < 0)
        return false;
    close(fd);
    int tree = ipb_mount_open_source(mounts, path);
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
fill(const IpbMounts *mounts, int dev)
{
    for (size_t i = 0; i < N_ELEMENTS(DIRECTORIES); i++)
        if (mkdirat(dev, DIRECTORIES[i], 0755) < 0)
            return false;
    for (size_t i = 0; i < N_ELEMENTS(LINKS); i++)
        if (symlinkat(LINKS[i].target, dev, LINKS[i].name) < 0)
            return false;
    for (size_t i = 0; i < N_ELEMENTS(DEVICES); i++)
        /* A container may lack one; without a terminal nobody needs tty. */
        if (!bind_device(mounts, dev, DEVICES[i]) && errno != ENOENT)
            return false;
    return true;
}

bool
ipb_dev_make(IpbMounts *mounts, uint32_t index, IpbStepError *error)
{
    const IpbBlobMount *rows = ipb_blob_at(mounts->init->bytes, mounts->init->header->mounts);
    int target =
        ipb_target_open(mounts, ipb_blob_string(mounts->init->bytes, rows[index].target), true);
    if (target < 0)
        return ipb_step_fail(error, IPB_STEP_TARGET, index);
    /* Attached first: mounts cannot be made in a detached one. */
    int dev = ipb_mount_make_tmpfs(DEV_SIZE_BYTES, "755");
    bool ok = dev >= 0 && sys_move_mount(dev, "", target, "",
                                         MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
    if (!ok)
        ipb_step_fail(error, IPB_STEP_MOUNT, index);
    ok = ok && (fill(mounts, dev) || ipb_step_fail(error, IPB_STEP_DEVICE, index));
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC};
    ok = ok && (sys_mount_setattr(dev, "", AT_EMPTY_PATH, &attr) == 0 ||
                ipb_step_fail(error, IPB_STEP_MOUNT, index));
    close(dev);
    close(target);
    return ok;
}
