/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/layer-inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <unistd.h>

/* --- rights ----------------------------------------------------------------------------------- */

/* Inside, root's files belong to another user. The C library changes this thread only. */
static void
become_inner(const IpbLayerInside *inside)
{
    if (geteuid() != 0)
        return;
    setfsgid(inside->user->gid);
    setfsuid(inside->user->uid);
}

static void
become_self(void)
{
    int saved = errno;
    if (geteuid() == 0) {
        setfsuid(0);
        setfsgid(0);
    }
    errno = saved;
}

/* --- files ------------------------------------------------------------------------------------ */

bool
ipb_layer_inside_stat(const IpbLayerInside *inside, const char *path, struct stat *ret_info)
{
    const char *name;
    become_inner(inside);
    ipb_autofd parent = ipb_layer_files_open_parent(inside->fd, path, &name);
    bool ok = parent >= 0 && fstatat(parent, name, ret_info, AT_SYMLINK_NOFOLLOW) == 0;
    become_self();
    return ok;
}

bool
ipb_layer_inside_remove(const IpbLayerInside *inside, const char *path, bool is_directory)
{
    const char *name;
    become_inner(inside);
    ipb_autofd parent = ipb_layer_files_open_parent(inside->fd, path, &name);
    bool ok = parent >= 0 && unlinkat(parent, name, is_directory ? AT_REMOVEDIR : 0) == 0;
    become_self();
    return ok || errno == ENOENT;
}

bool
ipb_layer_inside_make_directory(const IpbLayerInside *inside, const char *path, uint32_t mode)
{
    const char *name;
    become_inner(inside);
    ipb_autofd parent = ipb_layer_files_open_parent(inside->fd, path, &name);
    bool ok = parent >= 0 && (mkdirat(parent, name, 0700) == 0 || errno == EEXIST);
    ipb_autofd made = ok ? ipb_layer_files_open(parent, name, O_RDONLY | O_DIRECTORY) : -1;
    ok = made >= 0 && fchmod(made, mode & 0777) == 0;
    become_self();
    return ok;
}

/* Only a file with one name is written in place: its other names would get the contents, too. */
static int
open_for_writing(int parent, const char *name)
{
    struct stat info;
    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISREG(info.st_mode) && info.st_nlink == 1) {
            int fd = ipb_layer_files_open(parent, name, O_RDWR | O_NONBLOCK);
            if (fd >= 0 || errno != EACCES)
                return fd;
        }
        if (unlinkat(parent, name, 0) < 0)
            return -1;
    }
    return openat(parent, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static bool
copy_file(int from, int to)
{
    struct stat info;
    if (fstat(from, &info) < 0)
        return false;
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    return ftruncate(to, 0) == 0 && ipb_layer_files_copy(from, to, (uint64_t) info.st_size) &&
           fchmod(to, info.st_mode & 0777) == 0 && futimens(to, times) == 0;
}

bool
ipb_layer_inside_put_file(const IpbLayerInside *inside, const char *path, int from)
{
    const char *name;
    become_inner(inside);
    ipb_autofd parent = ipb_layer_files_open_parent(inside->fd, path, &name);
    ipb_autofd to = parent >= 0 ? open_for_writing(parent, name) : -1;
    bool ok = to >= 0 && copy_file(from, to);
    become_self();
    return ok;
}

bool
ipb_layer_inside_has_file(const IpbLayerInside *inside, const char *path, int from)
{
    struct stat wanted, info;
    become_inner(inside);
    ipb_autofd fd = ipb_layer_files_open(inside->fd, path, O_RDONLY | O_NONBLOCK);
    bool has = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
               fstat(from, &wanted) == 0 && info.st_size == wanted.st_size &&
               (info.st_mode & 0777) == (wanted.st_mode & 0777) &&
               ipb_layer_files_have_same_bytes(fd, from, (uint64_t) wanted.st_size);
    become_self();
    return has;
}

bool
ipb_layer_inside_has_link(const IpbLayerInside *inside, const char *path, const char *target)
{
    const char *name;
    become_inner(inside);
    ipb_autofd parent = ipb_layer_files_open_parent(inside->fd, path, &name);
    g_autofree char *found = parent >= 0 ? ipb_layer_files_read_link(parent, name) : NULL;
    become_self();
    return found != NULL && g_str_equal(found, target);
}

bool
ipb_layer_inside_put_link(const IpbLayerInside *inside, const char *path, const char *target)
{
    const char *name;
    become_inner(inside);
    ipb_autofd parent = ipb_layer_files_open_parent(inside->fd, path, &name);
    bool ok = parent >= 0 && (unlinkat(parent, name, 0) == 0 || errno == ENOENT) &&
              symlinkat(target, parent, name) == 0;
    become_self();
    return ok;
}

bool
ipb_layer_inside_make_special(const IpbLayerInside *inside, const char *path, mode_t mode)
{
    const char *name;
    become_inner(inside);
    ipb_autofd parent = ipb_layer_files_open_parent(inside->fd, path, &name);
    bool ok = parent >= 0 && mknodat(parent, name, mode & (S_IFMT | 0777), 0) == 0;
    become_self();
    return ok;
}
