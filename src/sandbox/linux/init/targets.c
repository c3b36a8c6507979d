/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding, and if need be making, the place where something is mounted. Symbolic links are never followed: who can write below a
 * target could otherwise move the mount elsewhere between plan and entry. Mount points are made in file systems of
 * ours only, so the host's tree gets no placeholder.
 */
#include "sandbox/linux/init/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/linux/init/syscalls.h"

#define COVER_SIZE_BYTES 65536

void
ipb_target_add_own(IpbMounts *mounts, int fd)
{
    struct stat info;
    if (mounts->n_own < MAX_OWN_DEVICES && fstat(fd, &info) == 0)
        mounts->own[mounts->n_own++] = info.st_dev;
}

static bool
is_own(const IpbMounts *mounts, int fd)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return false;
    for (size_t i = 0; i < mounts->n_own; i++)
        if (mounts->own[i] == info.st_dev)
            return true;
    return false;
}

/* Over a directory that the outer user may not enter: an empty file system in which the target can be made. */
static bool
cover(IpbMounts *mounts, int directory)
{
    if (mounts->n_covers == MAX_OWN_DEVICES) {
        errno = E2BIG;
        return false;
    }
    int tree = ipb_mount_make_tmpfs(COVER_SIZE_BYTES, "755");
    if (tree < 0)
        return false;
    if (sys_move_mount(tree, "", directory, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
        0) {
        close(tree);
        return false;
    }
    ipb_target_add_own(mounts, tree);
    mounts->covers[mounts->n_covers++] = tree;
    return true;
}

static int
open_part(int parent, const char *name)
{
    return sys_openat2(parent, name, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
}

static int
make_part(const IpbMounts *mounts, int parent, const char *name, bool is_directory)
{
    if (!is_own(mounts, parent)) {
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

/* One step down from @parent, whose path is @path up to @name. */
static int
step_down(IpbMounts *mounts, int parent, const char *path, const char *name, bool is_directory)
{
    int fd = open_part(parent, name);
    if (fd >= 0)
        return fd;
    if (errno == EACCES && (mounts->init->header->flags & IPB_BLOB_MAP_ROOT) != 0) {
        if (!cover(mounts, parent))
            return -1;
        int covered = sys_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
        if (covered < 0)
            return -1;
        fd = make_part(mounts, covered, name, is_directory);
        close(covered);
        return fd;
    }
    return errno == ENOENT ? make_part(mounts, parent, name, is_directory) : -1;
}

int
ipb_target_open(IpbMounts *mounts, const char *path, bool is_directory)
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
        /* The parent's path: up to the slash before the name. */
        name[-1] = '\0';
        int next = step_down(mounts, fd, name - 1 == copy ? "/" : copy, name,
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
