/* SPDX-License-Identifier: Apache-2.0
 *
 * A Unix socket at a path; see the header. Two programs that open the same path at the same time
 * could each take the other's socket for a stale one. So the directory is locked (flock) until the
 * socket listens.
 */
#include "http/unix-listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#define LISTEN_BACKLOG 512
#define MODE 0600
#define MODE_OF_GROUP 0660
#define MAX_GROUP_BUFFER (1024 * 1024)

struct IpbUnixListener {
    int fd;
    struct sockaddr_un address;
    /* The file is known when it exists. */
    bool has_file;
    dev_t device;
    ino_t inode;
};

/* --- before ----------------------------------------------------------------------------------- */

static bool
find_group(const char *name, gid_t *ret_group, GError **error)
{
    guint64 number;
    struct group entry, *found = NULL;
    if (g_ascii_string_to_unsigned(name, 10, 0, G_MAXUINT32 - 1, &number, NULL)) {
        *ret_group = (gid_t) number;
        return true;
    }
    g_autofree char *buffer = g_malloc(MAX_GROUP_BUFFER);
    int problem = getgrnam_r(name, &entry, buffer, MAX_GROUP_BUFFER, &found);
    if (problem != 0)
        return ipb_error_set_errno(error, problem, "cannot look up the group %s", name);
    if (found == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "there is no group %s", name);
        return false;
    }
    *ret_group = found->gr_gid;
    return true;
}

/* -1 with @error. The lock ends when the fd is closed. */
static int
lock_directory(const char *path, GError **error)
{
    struct stat status;
    g_autofree char *directory = g_path_get_dirname(path);
    ipb_autofd fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0) {
        ipb_error_set_errno(error, errno, "cannot open the directory %s", directory);
        return -1;
    }
    if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "all users can replace files in %s: choose another directory for the socket",
                    directory);
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "another program has locked the directory %s: try again", directory);
        return -1;
    }
    return ipb_fd_steal(&fd);
}

/* Does no program listen to the socket at the path? */
static bool
is_stale(const struct sockaddr_un *address)
{
    ipb_autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, (const struct sockaddr *) address, sizeof *address) < 0 &&
           errno == ECONNREFUSED;
}

static bool
remove_stale(const struct sockaddr_un *address, GError **error)
{
    struct stat status;
    const char *path = address->sun_path;
    if (lstat(path, &status) < 0 && errno == ENOENT)
        return true;
    if (!S_ISSOCK(status.st_mode)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "%s exists and is no socket: remove it, or choose another path", path);
        return false;
    }
    if (!is_stale(address)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "another program listens at %s: choose another path", path);
        return false;
    }
    if (unlink(path) < 0)
        return ipb_error_set_errno(error, errno, "cannot remove the old socket %s", path);
    return true;
}

/* --- the socket ------------------------------------------------------------------------------- */

/* By the inode, because another file could be put at the path. */
static bool
give_to_group(int file, gid_t group, const char *path, GError **error)
{
    g_autofree char *link = g_strdup_printf("/proc/self/fd/%d", file);
    if (fchownat(file, "", (uid_t) -1, group, AT_EMPTY_PATH) < 0)
        return ipb_error_set_errno(error, errno, "cannot give the socket %s to its group", path);
    if (chmod(link, MODE_OF_GROUP) < 0)
        return ipb_error_set_errno(error, errno, "cannot set the mode of the socket %s", path);
    return true;
}

/* @group: NULL: none. */
static bool
bind_and_listen(IpbUnixListener *listener, const gid_t *group, GError **error)
{
    struct stat status;
    const char *path = listener->address.sun_path;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* The file gets the mode that the socket has. */
    if (listener->fd < 0 || fchmod(listener->fd, MODE) < 0 ||
        bind(listener->fd, (struct sockaddr *) &listener->address, sizeof listener->address) < 0)
        return ipb_error_set_errno(error, errno, "cannot listen at %s", path);
    ipb_autofd file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) < 0 || !S_ISSOCK(status.st_mode) ||
        status.st_uid != geteuid())
        return ipb_error_set_errno(error, ENOENT, "cannot open the new socket %s", path);
    listener->has_file = true;
    listener->device = status.st_dev;
    listener->inode = status.st_ino;
    if (group != NULL && !give_to_group(file, *group, path, error))
        return false;
    if (listen(listener->fd, LISTEN_BACKLOG) < 0)
        return ipb_error_set_errno(error, errno, "cannot listen at %s", path);
    return true;
}

IpbUnixListener *
ipb_unix_listener_open(const char *path, const char *group, GError **error)
{
    g_autoptr(IpbUnixListener) listener = g_new0(IpbUnixListener, 1);
    gid_t id;
    listener->fd = -1;
    listener->address.sun_family = AF_UNIX;
    if (*path == '\0' || strlen(path) >= sizeof listener->address.sun_path) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the path of a socket has 1 to %zu bytes: %s",
                    sizeof listener->address.sun_path - 1, path);
        return NULL;
    }
    strcpy(listener->address.sun_path, path);
    if (group != NULL && !find_group(group, &id, error))
        return NULL;
    ipb_autofd lock = lock_directory(path, error);
    if (lock < 0 || !remove_stale(&listener->address, error) ||
        !bind_and_listen(listener, group != NULL ? &id : NULL, error))
        return NULL;
    return g_steal_pointer(&listener);
}

int
ipb_unix_listener_take_fd(IpbUnixListener *listener)
{
    return ipb_fd_steal(&listener->fd);
}

void
ipb_unix_listener_free(IpbUnixListener *listener)
{
    struct stat status;
    if (listener == NULL)
        return;
    const char *path = listener->address.sun_path;
    if (listener->has_file && lstat(path, &status) == 0 && status.st_dev == listener->device &&
        status.st_ino == listener->inode)
        unlink(path);
    ipb_fd_close(&listener->fd);
    g_free(listener);
}
