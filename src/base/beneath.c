/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done below a directory; see the header. Each path is resolved in one call of openat2(),
 * or, where that call does not exist (in a sandbox, under valgrind), directory by directory without
 * following links, which has the same result.
 */
#include "base/beneath.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"

#define MAX_NAME_TRIES 100
#define DIRECTORY_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
/* O_NONBLOCK: opening a FIFO or a device does not wait. */
#define READ_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC)

struct IpbBeneath {
    int fd;
    char *path;
};

/* --- resolving -------------------------------------------------------------------------------- */

static bool
is_name(const char *name)
{
    return *name != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* Opens @path, whose directories are opened one after the other. */
static int
open_by_steps(int directory, const char *path, int flags)
{
    g_auto(GStrv) names = g_strsplit(path, "/", -1);
    ipb_autofd parent = -1;
    for (char **name = names; *name != NULL; name++) {
        bool is_last = name[1] == NULL;
        int fd = openat(parent >= 0 ? parent : directory, *name, is_last ? flags : DIRECTORY_FLAGS);
        if (is_last || fd < 0)
            return fd;
        ipb_fd_close(&parent);
        parent = fd;
    }
    errno = EINVAL;
    return -1;
}

static bool
is_below(const char *path)
{
    g_auto(GStrv) names = g_strsplit(path, "/", -1);
    for (char **name = names; *name != NULL; name++)
        if (!is_name(*name))
            return false;
    return names[0] != NULL;
}

/* Opens what is at @path below @directory; -1 with errno. @flags create nothing. */
static int
open_below(int directory, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t) flags,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd;
    if (!is_below(path)) {
        errno = EINVAL;
        return -1;
    }
    do
        fd = (int) syscall(SYS_openat2, directory, path, &how, sizeof how);
    while (fd < 0 && errno == EINTR); /* not EAGAIN: a file that has a lease would keep us here */
    bool is_missing = fd < 0 && (errno == ENOSYS || errno == EPERM);
    return is_missing ? open_by_steps(directory, path, flags) : fd;
}

const char *
ipb_beneath_describe_kind(mode_t kind)
{
    switch (kind & S_IFMT) {
    case S_IFREG:
        return "a file";
    case S_IFDIR:
        return "a directory";
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

/* Finds the first name of @path that has something else than a directory. Returns false if there is
 * none, as when it was there for a moment only. The caller frees *ret_path. */
static bool
find_obstacle(const IpbBeneath *beneath, const char *path, char **ret_path, mode_t *ret_kind)
{
    g_auto(GStrv) names = g_strsplit(path, "/", -1);
    g_autoptr(GString) way = g_string_new(beneath->path);
    ipb_autofd parent = -1;
    for (char **name = names; *name != NULL; name++) {
        int directory = parent >= 0 ? parent : beneath->fd;
        struct stat info;
        g_string_append_printf(way, "/%s", *name);
        if (fstatat(directory, *name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            return false;
        if (!S_ISDIR(info.st_mode)) {
            *ret_path = g_string_free(g_steal_pointer(&way), FALSE);
            *ret_kind = info.st_mode & S_IFMT;
            return true;
        }
        int fd = openat(directory, *name, DIRECTORY_FLAGS);
        if (fd < 0)
            return false;
        ipb_fd_close(&parent);
        parent = fd;
    }
    return false;
}

/* Explains errno, with which @path could not be opened. */
static void
set_open_error(const IpbBeneath *beneath, const char *path, const char *wanted, GError **error)
{
    int number = errno;
    g_autofree char *place = NULL;
    mode_t kind;
    if (number == ENOENT) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "no such %s: %s/%s", wanted,
                    beneath->path, path);
    } else if (number == EINVAL && !is_below(path)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s: not a path below %s", path,
                    beneath->path);
    } else if ((number == ELOOP || number == ENOTDIR || number == EXDEV || number == ENXIO) &&
               find_obstacle(beneath, path, &place, &kind)) {
        bool is_link = S_ISLNK(kind);
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED, "%s is %s%s: remove it%s", place,
                    ipb_beneath_describe_kind(kind),
                    is_link ? ", and links that code in a cell could have made are not followed"
                            : ", not a directory",
                    is_link ? ", or name the place that it leads to" : "");
    } else {
        ipb_error_set_errno(error, number, "cannot open %s/%s", beneath->path, path);
    }
}

/* --- the object ------------------------------------------------------------------------------- */

/* Takes @fd. */
static IpbBeneath *
new_beneath(int fd, char *path)
{
    IpbBeneath *beneath = g_new(IpbBeneath, 1);
    *beneath = (IpbBeneath){fd, path};
    return beneath;
}

IpbBeneath *
ipb_beneath_open(const char *path, GError **error)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        return new_beneath(fd, g_strdup(path));
    if (errno == ENOENT)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "no such directory: %s", path);
    else
        ipb_error_set_errno(error, errno, "cannot open the directory %s", path);
    return NULL;
}

void
ipb_beneath_free(IpbBeneath *beneath)
{
    if (beneath == NULL)
        return;
    ipb_fd_close(&beneath->fd);
    g_free(beneath->path);
    g_free(beneath);
}

const char *
ipb_beneath_path(const IpbBeneath *beneath)
{
    return beneath->path;
}

int
ipb_beneath_fd(const IpbBeneath *beneath)
{
    return beneath->fd;
}

/* Makes the directories of @path that are missing. Stops at what cannot be a directory: opening it
 * fails, too. */
static bool
make_directories(const IpbBeneath *beneath, const char *path, mode_t mode, GError **error)
{
    g_auto(GStrv) names = g_strsplit(path, "/", -1);
    ipb_autofd parent = -1;
    for (char **name = names; is_below(path) && *name != NULL; name++) {
        int directory = parent >= 0 ? parent : beneath->fd;
        if (mkdirat(directory, *name, mode) < 0 && errno != EEXIST)
            return ipb_error_set_errno(error, errno, "cannot make the directory %s/%s",
                                       beneath->path, path);
        int fd = openat(directory, *name, DIRECTORY_FLAGS);
        if (fd < 0)
            return true;
        ipb_fd_close(&parent);
        parent = fd;
    }
    return true;
}

IpbBeneath *
ipb_beneath_descend(const IpbBeneath *beneath, const char *path, mode_t mode, GError **error)
{
    if (mode != 0 && !make_directories(beneath, path, mode, error))
        return NULL;
    int fd = open_below(beneath->fd, path, DIRECTORY_FLAGS);
    if (fd >= 0)
        return new_beneath(fd, g_strconcat(beneath->path, "/", path, NULL));
    set_open_error(beneath, path, "directory", error);
    return NULL;
}

bool
ipb_beneath_contains(const char *base, const char *path)
{
    size_t size = strlen(base);
    while (size > 1 && base[size - 1] == '/')
        size--;
    return base[0] == '/' && strncmp(path, base, size) == 0 &&
           (path[size] == '/' || path[size] == '\0' || size == 1);
}

/* Splits @path at the directory that is trusted. *ret_rest: "" or a path below. */
static void
split(const char *base, const char *path, char **ret_trusted, char **ret_rest)
{
    if (ipb_beneath_contains(base, path)) {
        const char *rest = path + MIN(strlen(base), strlen(path));
        *ret_trusted = g_strdup(base);
        *ret_rest = g_strdup(rest + strspn(rest, "/"));
        return;
    }
    *ret_trusted = g_path_get_dirname(path);
    *ret_rest = strcmp(path, "/") == 0 ? g_strdup("") : g_path_get_basename(path);
}

IpbBeneath *
ipb_beneath_open_in(const char *base, const char *path, mode_t mode, GError **error)
{
    g_autofree char *trusted = NULL, *rest = NULL;
    split(base, path, &trusted, &rest);
    if (mode != 0 && !ipb_file_make_directories(trusted, mode, error))
        return NULL;
    g_autoptr(IpbBeneath) top = ipb_beneath_open(trusted, error);
    if (top == NULL || *rest == '\0')
        return g_steal_pointer(&top);
    return ipb_beneath_descend(top, rest, mode, error);
}

/* --- files ------------------------------------------------------------------------------------ */

bool
ipb_beneath_read(const IpbBeneath *beneath, const char *path, size_t max_size, char **ret_text,
                 size_t *ret_size, GError **error)
{
    g_autofree char *shown = g_strconcat(beneath->path, "/", path, NULL);
    ipb_autofd fd = open_below(beneath->fd, path, READ_FLAGS);
    if (fd < 0) {
        set_open_error(beneath, path, "file", error);
        return false;
    }
    return ipb_file_read_fd(fd, shown, max_size, ret_text, ret_size, error);
}

bool
ipb_beneath_read_in(const char *base, const char *path, size_t max_size, char **ret_text,
                    size_t *ret_size, GError **error)
{
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    if (base == NULL || !ipb_beneath_contains(base, absolute))
        return ipb_file_read(absolute, max_size, ret_text, ret_size, error);
    g_autofree char *trusted = NULL, *rest = NULL;
    split(base, absolute, &trusted, &rest);
    g_autoptr(IpbBeneath) top = ipb_beneath_open(trusted, error);
    return top != NULL && ipb_beneath_read(top, rest, max_size, ret_text, ret_size, error);
}

int
ipb_beneath_create(const IpbBeneath *beneath, const char *name, mode_t mode)
{
    if (!is_name(name)) {
        errno = EINVAL;
        return -1;
    }
    return openat(beneath->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

bool
ipb_beneath_write(const IpbBeneath *beneath, const char *name, const char *text, size_t size,
                  mode_t mode, GError **error)
{
    ipb_autofd fd = ipb_beneath_create(beneath, name, mode);
    if (fd < 0)
        return ipb_error_set_errno(error, errno, "cannot write %s/%s", beneath->path, name);
    if (ipb_fd_write_all(fd, text, size, error))
        return true;
    g_prefix_error(error, "%s/%s: ", beneath->path, name);
    return false;
}

IpbBeneath *
ipb_beneath_make_temporary(const IpbBeneath *beneath, const char *prefix, char **ret_name,
                           GError **error)
{
    errno = EEXIST;
    for (int tries = 0; tries < MAX_NAME_TRIES && errno == EEXIST; tries++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            break;
        g_autofree char *name = g_strdup_printf("%s%016" G_GINT64_MODIFIER "x", prefix, random);
        if (mkdirat(beneath->fd, name, 0700) < 0)
            continue;
        IpbBeneath *made = ipb_beneath_descend(beneath, name, 0, error);
        if (made != NULL)
            *ret_name = g_steal_pointer(&name);
        return made;
    }
    ipb_error_set_errno(error, errno, "cannot make a directory %s… in %s", prefix, beneath->path);
    return NULL;
}

/* The directory itself, opened to be read; -1 with errno. */
static int
reopen(const IpbBeneath *beneath)
{
    return openat(beneath->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

bool
ipb_beneath_set_mode(const IpbBeneath *beneath, mode_t mode, GError **error)
{
    ipb_autofd fd = reopen(beneath);
    if (fd < 0 || fchmod(fd, mode) < 0)
        return ipb_error_set_errno(error, errno, "cannot set the mode of %s", beneath->path);
    return true;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

GPtrArray *
ipb_beneath_list(const IpbBeneath *beneath, size_t max, GError **error)
{
    int fd = reopen(beneath);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL; /* takes the fd */
    if (stream == NULL) {
        ipb_error_set_errno(error, errno, "cannot read the directory %s", beneath->path);
        ipb_fd_close(&fd);
        return NULL;
    }
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL && names->len <= max)
        if (is_name(entry->d_name))
            g_ptr_array_add(names, g_strdup(entry->d_name));
    closedir(stream);
    if (names->len > max) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s has more than %zu entries",
                    beneath->path, max);
        return NULL;
    }
    g_ptr_array_sort(names, compare_names);
    return g_steal_pointer(&names);
}

mode_t
ipb_beneath_kind(const IpbBeneath *beneath, const char *name)
{
    struct stat info;
    return fstatat(beneath->fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 ? info.st_mode & S_IFMT : 0;
}

/* --- names ------------------------------------------------------------------------------------ */

int
ipb_beneath_move(const IpbBeneath *from, const char *name, const IpbBeneath *to,
                 const char *new_name)
{
    if (renameat2(from->fd, name, to->fd, new_name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS) /* a file system without RENAME_NOREPLACE */
        return errno;
    if (ipb_beneath_kind(to, new_name) != 0)
        return EEXIST;
    return renameat(from->fd, name, to->fd, new_name) == 0 ? 0 : errno;
}

/* For file systems without RENAME_EXCHANGE. @target is missing for a moment. */
static bool
swap_by_renames(const IpbBeneath *beneath, const char *source, const char *target, GError **error)
{
    int fd = beneath->fd;
    g_autofree char *aside = g_strconcat(source, ".old", NULL);
    bool is_there = renameat(fd, target, fd, aside) == 0;
    if (!is_there && errno != ENOENT)
        return ipb_error_set_errno(error, errno, "cannot move %s/%s aside", beneath->path, target);
    if (renameat(fd, source, fd, target) < 0) {
        int saved = errno;
        (void) !renameat(fd, aside, fd, target);
        return ipb_error_set_errno(error, saved, "cannot put the new %s/%s in place", beneath->path,
                                   target);
    }
    if (is_there && renameat(fd, aside, fd, source) < 0)
        return ipb_error_set_errno(error, errno, "cannot move %s/%s to %s", beneath->path, aside,
                                   source);
    return true;
}

bool
ipb_beneath_swap(const IpbBeneath *beneath, const char *source, const char *target, GError **error)
{
    int fd = beneath->fd;
    if (renameat2(fd, source, fd, target, RENAME_EXCHANGE) == 0)
        return true;
    if (errno == EINVAL || errno == ENOSYS)
        return swap_by_renames(beneath, source, target, error);
    if (errno == ENOENT && renameat(fd, source, fd, target) == 0)
        return true;
    return ipb_error_set_errno(error, errno, "cannot put the new %s/%s in place", beneath->path,
                               target);
}

bool
ipb_beneath_remove_tree(const IpbBeneath *beneath, const char *name, GError **error)
{
    if (!ipb_file_remove_tree_at(beneath->fd, name))
        return ipb_error_set_errno(error, errno, "cannot remove %s/%s", beneath->path, name);
    return true;
}
