/* SPDX-License-Identifier: Apache-2.0
 *
 * Most paths are looked up by one openat2(). It fails for paths that lead through /proc/self, since
 * that would mean this thread, and through the links of procfs that lead anywhere. Such paths are
 * walked name by name.
 */
#include "sandbox/linux/caller-path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>
#include <linux/openat2.h>

#include "base/fd.h"

#define MAX_LINKS 40
#define MAX_TRIES 1000
/* Of a directory that is listed. */
#define MAX_ENTRIES 4096
#define MAX_FD_NUMBER 16

static int
open_below(int directory, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t) (flags | O_PATH | O_CLOEXEC),
                           .resolve = resolve | RESOLVE_NO_MAGICLINKS};
    int fd = -1;
    /* The system cannot tell where ".." leads while anything at all is renamed or mounted. */
    for (unsigned i = 0; i < MAX_TRIES && (i == 0 || (fd < 0 && errno == EAGAIN)); i++)
        fd = (int) syscall(SYS_openat2, directory, path, &how, sizeof how);
    return fd;
}

/* What the system calls an open file of ours. Returns 0 or an errno. */
static int
read_name_of(const IpbCaller *caller, int fd, char *ret_text, size_t size)
{
    char number[MAX_FD_NUMBER];
    snprintf(number, sizeof number, "%d", fd);
    ssize_t n = readlinkat(caller->own_fds, number, ret_text, size);
    if (n < 0)
        return errno;
    if ((size_t) n >= size || n >= PATH_MAX)
        return ENAMETOOLONG;
    ret_text[n] = '\0';
    return 0;
}

static bool
is_in_proc(int fd)
{
    struct statfs info;
    return fstatfs(fd, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

/* --- walking name by name --------------------------------------------------------------------- */

typedef struct {
    IpbCaller *caller;
    char real[PATH_MAX + NAME_MAX + 2]; /* what was walked so far; "" is the root */
    char rest[2 * PATH_MAX + 2];        /* what is left */
    unsigned n_links;
    int target; /* owned: the walk ended at a descriptor of the caller; else -1 */
} Walk;

/* Puts @text before what is left. An absolute text starts again at the root. */
static int
go_to(Walk *walk, const char *text)
{
    char rest[sizeof walk->rest];
    int n = snprintf(rest, sizeof rest, "%s/%s", text, walk->rest);
    if (n < 0 || (size_t) n >= sizeof rest || n >= PATH_MAX)
        return ENAMETOOLONG;
    if (++walk->n_links > MAX_LINKS)
        return ELOOP;
    if (*text == '/')
        walk->real[0] = '\0';
    memcpy(walk->rest, rest, (size_t) n + 1);
    return 0;
}

/* Splits "/proc/12/rest" or "/proc/12/task/34/rest". */
static const char *
match_own_proc(const IpbCaller *caller, const char *path)
{
    char prefix[64];
    int n = snprintf(prefix, sizeof prefix, "/proc/%d/", caller->inner_group);
    if (strncmp(path, prefix, (size_t) n) != 0)
        return NULL;
    const char *rest = path + n;
    if (strncmp(rest, "task/", 5) != 0)
        return rest;
    /* The threads of a process may have different descriptor tables, but only those of the thread
     * that asks can be copied. */
    n = snprintf(prefix, sizeof prefix, "task/%d/", caller->inner_pid);
    return strncmp(rest, prefix, (size_t) n) == 0 ? rest + n : NULL;
}

/* The walk arrived at a descriptor of the caller. */
static int
take_target(Walk *walk, int fd)
{
    if (fd < 0)
        return errno == EBADF ? ENOENT : errno;
    ipb_autofd target = fd;
    if (walk->rest[strspn(walk->rest, "/")] == '\0') {
        walk->target = ipb_fd_steal(&target);
        return 0;
    }
    char name[PATH_MAX + 1];
    int result = read_name_of(walk->caller, target, name, sizeof name);
    if (result != 0)
        return result;
    return name[0] == '/' ? go_to(walk, name) : ENOTDIR;
}

/* @path is a symbolic link in procfs. */
static int
follow_in_proc(Walk *walk, int parent_fd, const char *name, const char *path)
{
    char text[PATH_MAX + 1];
    IpbCaller *caller = walk->caller;
    if (strcmp(path, "/proc/self") == 0 || strcmp(path, "/proc/thread-self") == 0) {
        bool is_thread = path[6] == 't';
        snprintf(text, sizeof text, is_thread ? "/proc/%d/task/%d" : "/proc/%d",
                 caller->inner_group, caller->inner_pid);
        return go_to(walk, text);
    }
    const char *own = match_own_proc(caller, path);
    if (own != NULL && strncmp(own, "fd/", 3) == 0)
        return take_target(walk, ipb_caller_copy_fd(caller, atoi(own + 3)));
    if (own != NULL && (strcmp(own, "cwd") == 0 || strcmp(own, "exe") == 0))
        return take_target(walk, ipb_caller_open_link(caller, own));
    if (own != NULL && strcmp(own, "root") == 0)
        return go_to(walk, "/");
    /* "mounts", "net" and the like lead to another name in procfs. What else is there belongs to
     * other processes, or leads to what a name does not show. */
    ssize_t n = strchr(path + 6, '/') == NULL ? readlinkat(parent_fd, name, text, PATH_MAX) : -1;
    if (n < 0 || text[0] == '/')
        return EACCES;
    text[n] = '\0';
    return go_to(walk, text);
}

/* Takes the next name, which is not the last one unless @is_last_followed. */
static int
take_step(Walk *walk, const char *name)
{
    char path[sizeof walk->real];
    int n = snprintf(path, sizeof path, "%s/%s", walk->real, name);
    if (n < 0 || n >= PATH_MAX + NAME_MAX)
        return ENAMETOOLONG;
    int root = ipb_caller_root(walk->caller);
    ipb_autofd parent = root < 0 ? -1
                                 : open_below(root, walk->real[0] != '\0' ? walk->real : "/",
                                              O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    ipb_autofd fd = parent < 0 ? -1 : openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0)
        return errno;
    if (!S_ISLNK(info.st_mode)) {
        memcpy(walk->real, path, (size_t) n + 1);
        return 0;
    }
    if (is_in_proc(parent))
        return follow_in_proc(walk, parent, name, path);
    char text[PATH_MAX + 1];
    ssize_t size = readlinkat(parent, name, text, PATH_MAX);
    if (size < 0)
        return errno;
    text[size] = '\0';
    return size == 0 ? ENOENT : go_to(walk, text);
}

/* Walks all that is left. */
static int
walk_all(Walk *walk)
{
    while (walk->target < 0) {
        char *start = walk->rest + strspn(walk->rest, "/");
        size_t size = strcspn(start, "/");
        char name[NAME_MAX + 1];
        if (size == 0)
            return 0;
        if (size > NAME_MAX)
            return ENAMETOOLONG;
        memcpy(name, start, size);
        name[size] = '\0';
        memmove(walk->rest, start + size, strlen(start + size) + 1);
        int result = 0;
        char *slash = strrchr(walk->real, '/');
        if (strcmp(name, "..") == 0 && slash != NULL)
            *slash = '\0';
        else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            result = take_step(walk, name);
        if (result != 0)
            return result;
    }
    return 0;
}

/* Walks @path, absolute or relative to @base. *ret_is_target: it ended at a descriptor of the
 * caller. Returns 0 or an errno. */
static int
walk_to(IpbCaller *caller, int base, const char *path, unsigned *n_links, int *ret_fd,
        bool *ret_is_target)
{
    Walk walk = {.caller = caller, .n_links = *n_links, .target = -1};
    int result = 0;
    if (path[0] != '/')
        result = read_name_of(caller, base, walk.real, sizeof walk.real);
    if (result == 0 && path[0] != '/' && walk.real[0] != '/')
        result = ENOTDIR;
    if (strcmp(walk.real, "/") == 0)
        walk.real[0] = '\0';
    if (result == 0)
        result = strlen(path) < PATH_MAX ? 0 : ENAMETOOLONG;
    if (result == 0) {
        strcpy(walk.rest, path);
        result = walk_all(&walk);
    }
    *n_links = walk.n_links;
    *ret_is_target = walk.target >= 0;
    *ret_fd = walk.target;
    if (result != 0 || walk.target >= 0)
        return result;
    int root = ipb_caller_root(caller);
    *ret_fd = root < 0 ? -1
                       : open_below(root, walk.real[0] != '\0' ? walk.real : "/", 0,
                                    RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    return *ret_fd < 0 ? errno : 0;
}

/* --- looking up ------------------------------------------------------------------------------- */

/* The directory from which a relative path starts. Returns an fd or -1 with errno. */
static int
open_base(const IpbCaller *caller, int directory_fd)
{
    return directory_fd == AT_FDCWD ? ipb_caller_open_link(caller, "cwd")
                                    : ipb_caller_copy_fd(caller, directory_fd);
}

static int
look_up_at_once(IpbCaller *caller, int base, const char *path, int *ret_fd)
{
    int root = ipb_caller_root(caller);
    if (root < 0)
        return errno;
    if (path[0] == '/') {
        *ret_fd = open_below(root, path, 0, RESOLVE_IN_ROOT);
        return *ret_fd < 0 ? errno : 0;
    }
    *ret_fd = open_below(base, path, 0, RESOLVE_BENEATH);
    if (*ret_fd >= 0 || errno != EXDEV)
        return *ret_fd < 0 ? errno : 0;
    /* ".." or an absolute link leads out of the directory: start at the root. */
    char full[2 * PATH_MAX + 2];
    int result = read_name_of(caller, base, full, PATH_MAX + 1);
    if (result != 0)
        return result;
    size_t size = strlen(full);
    if (full[0] != '/' || size + strlen(path) + 2 > PATH_MAX)
        return full[0] != '/' ? EACCES : ENAMETOOLONG;
    full[size] = '/';
    strcpy(full + size + 1, path);
    *ret_fd = open_below(root, full, 0, RESOLVE_IN_ROOT);
    return *ret_fd < 0 ? errno : 0;
}

static int
look_up(IpbCaller *caller, int base, const char *path, unsigned *n_links, int *ret_fd,
        bool *ret_is_target)
{
    *ret_is_target = false;
    int result = look_up_at_once(caller, base, path, ret_fd);
    if (result != ENOENT && result != ELOOP && result != EXDEV)
        return result;
    return walk_to(caller, base, path, n_links, ret_fd, ret_is_target);
}

/* Fills @path, whose fd was found. */
static int
finish(const IpbCaller *caller, IpbCallerPath *path)
{
    int result = read_name_of(caller, path->fd, path->real, PATH_MAX + 1);
    path->is_too_deep = result == ENAMETOOLONG && !path->is_whole;
    if (path->is_too_deep)
        path->real[0] = '\0';
    if (path->is_too_deep || result != 0 || path->is_whole)
        return path->is_too_deep ? 0 : result;
    size_t size = strlen(path->real);
    if (path->real[0] != '/')
        return ENOTDIR;
    if (size == 1)
        size = 0;
    path->real[size] = '/';
    strcpy(path->real + size + 1, path->name);
    return 0;
}

/* Cuts the last name off @text, which is a copy. What remains is the directory. */
static int
split(char *text, IpbCallerPath *path, const char **ret_directory)
{
    size_t size = strlen(text);
    while (size > 1 && text[size - 1] == '/') {
        text[--size] = '\0';
        path->has_slash = true;
    }
    char *slash = strrchr(text, '/');
    char *name = slash != NULL ? slash + 1 : text;
    path->is_whole = *name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
    if (path->is_whole) {
        *ret_directory = text;
        return 0;
    }
    if (strlen(name) > NAME_MAX)
        return ENAMETOOLONG;
    strcpy(path->name, name);
    if (slash == NULL)
        *ret_directory = NULL;
    else if (slash == text)
        *ret_directory = "/";
    else {
        *slash = '\0';
        *ret_directory = text;
    }
    return 0;
}

/* Takes *@base if it is the directory. */
static int
find_from(IpbCaller *caller, int *base, const char *text, IpbCallerPath *path)
{
    char copy[PATH_MAX + 1];
    const char *directory = NULL;
    bool is_target = false;
    if (*text == '\0')
        return ENOENT;
    if (strlen(text) >= PATH_MAX)
        return ENAMETOOLONG;
    strcpy(copy, text);
    int result = split(copy, path, &directory);
    if (result != 0)
        return result;
    if (directory == NULL) {
        path->fd = ipb_fd_steal(base);
    } else {
        result = look_up(caller, *base, directory, &path->n_links, &path->fd, &is_target);
    }
    if (result == 0)
        result = finish(caller, path);
    if (result != 0)
        ipb_caller_path_clear(path);
    return result;
}

int
ipb_caller_path_find(IpbCaller *caller, int directory_fd, const char *text, IpbCallerPath *ret_path)
{
    ret_path->fd = -1;
    ret_path->is_whole = ret_path->is_descriptor = ret_path->has_slash = false;
    ret_path->is_too_deep = false;
    ret_path->n_links = 0;
    ipb_autofd base = -1;
    if (text[0] != '/' && text[0] != '\0') {
        base = open_base(caller, directory_fd);
        if (base < 0)
            return errno;
    }
    return find_from(caller, &base, text, ret_path);
}

/* In procfs a link may lead anywhere: to the caller's own descriptors it is followed. */
static int
follow_last_in_proc(IpbCaller *caller, IpbCallerPath *path)
{
    bool is_target;
    int fd = -1;
    unsigned n_links = path->n_links + 1;
    int result = walk_to(caller, -1, path->real, &n_links, &fd, &is_target);
    if (result != 0)
        return result;
    ipb_fd_close(&path->fd);
    path->fd = fd;
    path->is_whole = true;
    path->is_descriptor = is_target;
    path->n_links = n_links;
    return finish(caller, path);
}

int
ipb_caller_path_follow(IpbCaller *caller, IpbCallerPath *path)
{
    if (path->n_links >= MAX_LINKS)
        return ELOOP;
    if (is_in_proc(path->fd))
        return follow_last_in_proc(caller, path);
    char text[PATH_MAX + 1];
    ssize_t size = readlinkat(path->fd, path->name, text, PATH_MAX);
    if (size < 0)
        return errno;
    text[size] = '\0';
    ipb_autofd base = ipb_fd_steal(&path->fd);
    bool has_slash = path->has_slash;
    path->n_links++;
    int result = find_from(caller, &base, text, path);
    path->has_slash = path->has_slash || has_slash;
    return result;
}

int
ipb_caller_path_of_fd(IpbCaller *caller, int fd, IpbCallerPath *ret_path)
{
    ret_path->is_whole = ret_path->is_descriptor = true;
    ret_path->has_slash = false;
    ret_path->n_links = 0;
    ret_path->name[0] = '\0';
    ret_path->is_too_deep = false;
    ret_path->fd = open_base(caller, fd);
    if (ret_path->fd < 0)
        return errno;
    int result = finish(caller, ret_path);
    if (result != 0)
        ipb_caller_path_clear(ret_path);
    return result;
}

int
ipb_caller_path_open(const IpbCallerPath *path)
{
    if (path->is_whole)
        return ipb_fd_duplicate(path->fd, 0);
    return openat(path->fd, path->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

int
ipb_caller_path_find_target(IpbCaller *caller, int directory_fd, const char *text, bool is_followed,
                            IpbCallerPath *ret_path, int *ret_fd, struct stat *ret_info)
{
    int result = ipb_caller_path_find(caller, directory_fd, text, ret_path);
    while (result == 0) {
        if (ret_path->is_too_deep) {
            ipb_caller_path_clear(ret_path);
            return ENAMETOOLONG;
        }
        ipb_autofd fd = ipb_caller_path_open(ret_path);
        if (fd < 0 || fstat(fd, ret_info) < 0) {
            result = errno;
        } else if (S_ISLNK(ret_info->st_mode) && !ret_path->is_whole &&
                   (is_followed || ret_path->has_slash)) {
            result = ipb_caller_path_follow(caller, ret_path);
        } else if (ret_path->has_slash && !S_ISDIR(ret_info->st_mode)) {
            result = ENOTDIR;
        } else {
            *ret_fd = ipb_fd_steal(&fd);
            return 0;
        }
        if (result != 0)
            ipb_caller_path_clear(ret_path);
    }
    return result;
}

void
ipb_caller_path_clear(IpbCallerPath *path)
{
    ipb_fd_close(&path->fd);
}

bool
ipb_caller_path_exists(IpbCaller *caller, const char *real)
{
    int root = ipb_caller_root(caller);
    ipb_autofd fd =
        root < 0 ? -1 : open_below(root, real, O_NOFOLLOW, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    return fd >= 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool
ipb_caller_path_is_in_proc(const IpbCallerPath *path)
{
    return is_in_proc(path->fd);
}

bool
ipb_caller_path_means(IpbCaller *caller, const char *real, const struct stat *info)
{
    struct stat found;
    int root = ipb_caller_root(caller);
    ipb_autofd fd =
        root < 0 ? -1 : open_below(root, real, O_NOFOLLOW, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    return fd >= 0 && fstat(fd, &found) == 0 && found.st_dev == info->st_dev &&
           found.st_ino == info->st_ino;
}

bool
ipb_caller_path_has_other(IpbCaller *caller, const char *real, const char *suffix)
{
    int root = ipb_caller_root(caller);
    ipb_autofd fd =
        root < 0 ? -1 : open_below(root, real, O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    int readable = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = readable < 0 ? NULL : fdopendir(readable);
    if (stream == NULL) {
        ipb_fd_close(&readable);
        return true;
    }
    bool found = false;
    size_t n = 0;
    const struct dirent *entry;
    while (!found && (entry = readdir(stream)) != NULL) {
        size_t size = strlen(entry->d_name), suffix_size = strlen(suffix);
        bool is_itself = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        found = ++n > MAX_ENTRIES ||
                (!is_itself &&
                 (size < suffix_size || strcmp(entry->d_name + size - suffix_size, suffix) != 0));
    }
    closedir(stream);
    return found;
}
