/* SPDX-License-Identifier: Apache-2.0
 *
 * Files and directories; see the header.
 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

/* Directories below this depth are not removed: each level keeps an fd open. */
#define MAX_TREE_DEPTH 256

static int
open_to_read(const char *path, int flags, GError **error)
{
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | flags);
    while (fd < 0 && errno == EINTR);
    /* ENOTDIR: such as a path below /dev/null */
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "no such file: %s", path);
    else if (fd < 0)
        ipb_error_set_errno(error, errno, "cannot open %s", path);
    return fd;
}

static bool
read_all(int fd, const char *path, size_t max_size, char **ret_text, size_t *ret_size,
         GError **error)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    uint8_t chunk[16384];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ipb_error_set_errno(error, errno, "cannot read %s", path);
        if ((size_t) n > max_size - bytes->len) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s is larger than %zu bytes",
                        path, max_size);
            return false;
        }
        g_byte_array_append(bytes, chunk, (guint) n);
    }
    *ret_size = bytes->len;
    g_byte_array_append(bytes, (const guint8 *) "", 1);
    *ret_text = (char *) g_byte_array_free(g_steal_pointer(&bytes), FALSE);
    return true;
}

bool
ipb_file_read_fd(int fd, const char *path, size_t max_size, char **ret_text, size_t *ret_size,
                 GError **error)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return ipb_error_set_errno(error, errno, "cannot read %s", path);
    if (!S_ISREG(status.st_mode)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s is not a regular file", path);
        return false;
    }
    return read_all(fd, path, max_size, ret_text, ret_size, error);
}

bool
ipb_file_read(const char *path, size_t max_size, char **ret_text, size_t *ret_size, GError **error)
{
    /* O_NONBLOCK: opening a FIFO or a device does not wait. */
    ipb_autofd fd = open_to_read(path, O_NONBLOCK, error);
    return fd >= 0 && ipb_file_read_fd(fd, path, max_size, ret_text, ret_size, error);
}

bool
ipb_file_read_to_end(const char *path, size_t max_size, char **ret_text, size_t *ret_size,
                     GError **error)
{
    ipb_autofd fd = open_to_read(path, 0, error);
    return fd >= 0 && read_all(fd, path, max_size, ret_text, ret_size, error);
}

static bool
write_and_sync(int fd, const char *text, size_t size, mode_t mode, GError **error)
{
    if (fchmod(fd, mode) < 0)
        return ipb_error_set_errno(error, errno, "cannot set the mode");
    if (!ipb_fd_write_all(fd, text, size, error))
        return false;
    if (fsync(fd) < 0)
        return ipb_error_set_errno(error, errno, "cannot sync");
    return true;
}

bool
ipb_file_write_atomic(const char *path, const char *text, size_t size, mode_t mode, GError **error)
{
    g_autofree char *temporary = g_strconcat(path, ".XXXXXX", NULL);
    ipb_autofd fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return ipb_error_set_errno(error, errno, "cannot write beside %s", path);
    if (!write_and_sync(fd, text, size, mode, error)) {
        g_prefix_error(error, "%s: ", path);
    } else if (rename(temporary, path) < 0) {
        ipb_error_set_errno(error, errno, "cannot replace %s", path);
    } else {
        return true;
    }
    unlink(temporary);
    return false;
}

bool
ipb_file_check_current_directory(GError **error)
{
    char *path = getcwd(NULL, 0);
    if (path == NULL)
        return ipb_error_set_errno(error, errno,
                                   "the current directory was removed: change to another one");
    free(path);
    return true;
}

bool
ipb_file_make_directories(const char *path, mode_t mode, GError **error)
{
    if (g_mkdir_with_parents(path, (int) mode) < 0)
        return ipb_error_set_errno(error, errno, "cannot make the directory %s", path);
    return true;
}

char *
ipb_file_make_temp_directory(const char *parent, const char *prefix, GError **error)
{
    g_autofree char *path =
        g_strdup_printf("%s/%sXXXXXX", parent != NULL ? parent : g_get_tmp_dir(), prefix);
    if (g_mkdtemp(path) == NULL) {
        ipb_error_set_errno(error, errno, "cannot make a directory like %s", path);
        return NULL;
    }
    return g_steal_pointer(&path);
}

/* Removes @name in @dir_fd. Sets errno if that fails. */
static bool
remove_at(int dir_fd, const char *name, unsigned depth)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR && errno != EPERM)
        return false;
    if (depth == 0) {
        errno = ELOOP;
        return false;
    }
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL; /* takes the fd */
    if (dir == NULL) {
        ipb_fd_close(&fd);
        return false;
    }
    bool is_empty = true;
    int saved = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (g_str_equal(entry->d_name, ".") || g_str_equal(entry->d_name, ".."))
            continue;
        if (!remove_at(fd, entry->d_name, depth - 1)) {
            saved = errno;
            is_empty = false;
        }
    }
    closedir(dir);
    if (!is_empty) {
        errno = saved;
        return false;
    }
    return unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

bool
ipb_file_remove_tree_at(int directory, const char *name)
{
    return remove_at(directory, name, MAX_TREE_DEPTH);
}

bool
ipb_file_remove_tree(const char *path, GError **error)
{
    if (!remove_at(AT_FDCWD, path, MAX_TREE_DEPTH))
        return ipb_error_set_errno(error, errno, "cannot remove %s", path);
    return true;
}
