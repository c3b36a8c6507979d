/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/fd.h"

/* Linux 6.9: a pidfd of a thread, which may have a descriptor table of its own. */
#define PIDFD_THREAD O_EXCL
#define MAX_PROC_PATH 64

static pid_t
find_thread_group(pid_t pid)
{
    char path[MAX_PROC_PATH], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *file = fopen(path, "re");
    long group = -1;
    if (file == NULL)
        return -1;
    while (group < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "Tgid:", 5) == 0)
            group = strtol(line + 5, NULL, 10);
    fclose(file);
    return (pid_t) group;
}

bool
ipb_caller_open(IpbCaller *caller, pid_t pid)
{
    *caller = (IpbCaller){pid, -1, -1};
    caller->pidfd = (int) syscall(SYS_pidfd_open, pid, PIDFD_THREAD);
    if (caller->pidfd < 0 && errno == EINVAL)
        caller->pidfd = (int) syscall(SYS_pidfd_open, find_thread_group(pid), 0);
    return caller->pidfd >= 0;
}

void
ipb_caller_clear(IpbCaller *caller)
{
    ipb_fd_close(&caller->pidfd);
    ipb_fd_close(&caller->root_fd);
}

bool
ipb_caller_read(const IpbCaller *caller, uint64_t address, void *ret_bytes, size_t size)
{
    struct iovec here = {ret_bytes, size}, there = {(void *) (uintptr_t) address, size};
    ssize_t n = process_vm_readv(caller->pid, &here, 1, &there, 1, 0);
    if (n == (ssize_t) size)
        return true;
    errno = n < 0 ? errno : EFAULT;
    return false;
}

int
ipb_caller_copy_fd(const IpbCaller *caller, int fd)
{
    return (int) syscall(SYS_pidfd_getfd, caller->pidfd, fd, 0); /* close-on-exec */
}

static int
open_link(const IpbCaller *caller, const char *name)
{
    char path[MAX_PROC_PATH];
    snprintf(path, sizeof path, "/proc/%d/%s", caller->pid, name);
    return open(path, O_PATH | O_CLOEXEC | O_DIRECTORY);
}

int
ipb_caller_root(IpbCaller *caller)
{
    if (caller->root_fd < 0)
        caller->root_fd = open_link(caller, "root");
    return caller->root_fd;
}

static int
open_below(int directory, const char *path, uint64_t resolve)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = resolve};
    return (int) syscall(SYS_openat2, directory, path, &how, sizeof how);
}

/* Does not follow magic links: they lead out of any root. ipb_caller_find() handles the useful
 * ones. */
static int
find_absolute(IpbCaller *caller, const char *path)
{
    int root = ipb_caller_root(caller);
    return root < 0 ? -1 : open_below(root, path, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static int
find_relative(IpbCaller *caller, const char *path)
{
    ipb_autofd cwd = open_link(caller, "cwd");
    if (cwd < 0)
        return -1;
    int fd = open_below(cwd, path, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    if (fd >= 0 || errno != EXDEV)
        return fd;
    /* ".." or an absolute link leads out of the working directory. Resolve the path by the
     * directory's name, within the root. */
    char link[MAX_PROC_PATH], full[PATH_MAX * 2];
    snprintf(link, sizeof link, "/proc/%d/cwd", caller->pid);
    ssize_t size = readlink(link, full, PATH_MAX);
    if (size <= 0 || size >= PATH_MAX || full[0] != '/') {
        errno = EACCES;
        return -1;
    }
    snprintf(full + size, sizeof full - (size_t) size, "/%s", path);
    return find_absolute(caller, full);
}

/* Parses "/proc/self/fd/7/name" and the like, with which programs avoid the 107-byte limit of a
 * socket's path. Returns the number, and *ret_rest, the text after it. Returns -1 for other
 * paths. */
static int
parse_fd_path(const char *path, const char **ret_rest)
{
    static const char *const PREFIXES[] = {"/proc/self/fd/", "/dev/fd/", "/proc/thread-self/fd/"};
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++) {
        size_t size = strlen(PREFIXES[i]);
        if (strncmp(path, PREFIXES[i], size) != 0)
            continue;
        const char *digits = path + size;
        size_t n = strspn(digits, "0123456789");
        if (n == 0 || n > 9 || (digits[n] != '\0' && digits[n] != '/'))
            return -1;
        *ret_rest = digits + n + strspn(digits + n, "/");
        return (int) strtol(digits, NULL, 10);
    }
    return -1;
}

int
ipb_caller_find(IpbCaller *caller, const char *path)
{
    const char *rest = NULL;
    int number = parse_fd_path(path, &rest);
    if (number >= 0) {
        ipb_autofd fd = ipb_caller_copy_fd(caller, number);
        if (fd < 0)
            return -1;
        return *rest == '\0' ? ipb_fd_steal(&fd)
                             : open_below(fd, rest, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    }
    return path[0] == '/' ? find_absolute(caller, path) : find_relative(caller, path);
}
