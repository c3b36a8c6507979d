/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/linux/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"

/* Linux 6.9: a pidfd of a thread, which may have a descriptor table of its own. */
#define PIDFD_THREAD O_EXCL
#define MAX_PROC_PATH 64
#define MAX_STATUS 4096
/* Most paths are shorter, and the rest of the memory is read only if they are not. */
#define FIRST_READ 256

/* --- what /proc says -------------------------------------------------------------------------- */

static ssize_t
read_file(int directory, const char *name, char *ret_text, size_t size)
{
    ipb_autofd fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret_text, size - 1) : -1;
    if (n >= 0)
        ret_text[n] = '\0';
    return n;
}

/* Returns what follows "\n@name:", or NULL. */
static const char *
find_field(const char *status, const char *name)
{
    size_t size = strlen(name);
    for (const char *line = status; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n')
            line++;
        if (strncmp(line, name, size) == 0 && line[size] == ':')
            return line + size + 1;
    }
    return NULL;
}

/* Of several ids the last one: that of the innermost namespace. */
static pid_t
parse_inner_id(const char *field)
{
    long id = 0;
    while (field != NULL && *field != '\0' && *field != '\n') {
        char *end;
        long next = strtol(field, &end, 10);
        if (end == field)
            break;
        id = next;
        field = end;
    }
    return (pid_t) id;
}

static bool
read_status(IpbCaller *caller)
{
    char status[MAX_STATUS];
    if (read_file(caller->proc_fd, "status", status, sizeof status) < 0)
        return false;
    const char *group = find_field(status, "Tgid"), *mask = find_field(status, "Umask");
    if (group == NULL || mask == NULL) {
        errno = ESRCH;
        return false;
    }
    caller->group = (pid_t) strtol(group, NULL, 10);
    caller->umask = (mode_t) strtol(mask, NULL, 8);
    caller->inner_pid = parse_inner_id(find_field(status, "NSpid"));
    caller->inner_group = parse_inner_id(find_field(status, "NStgid"));
    return true;
}

void
ipb_caller_name(const IpbCaller *caller, char ret_name[static IPB_CALLER_NAME_SIZE])
{
    if (read_file(caller->proc_fd, "comm", ret_name, IPB_CALLER_NAME_SIZE) < 0)
        *ret_name = '\0';
    ret_name[strcspn(ret_name, "\n")] = '\0';
}

bool
ipb_caller_has_signal(const IpbCaller *caller)
{
    char status[MAX_STATUS];
    if (read_file(caller->proc_fd, "status", status, sizeof status) < 0)
        return false;
    static const char *const FIELDS[] = {"SigPnd", "ShdPnd", "SigBlk", "SigCgt"};
    uint64_t sets[4] = {0};
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        const char *field = find_field(status, FIELDS[i]);
        sets[i] = field != NULL ? strtoull(field, NULL, 16) : 0;
    }
    return ((sets[0] | sets[1]) & ~sets[2] & sets[3]) != 0;
}

dev_t
ipb_caller_terminal(const IpbCaller *caller)
{
    char text[1024];
    if (read_file(caller->proc_fd, "stat", text, sizeof text) < 0)
        return 0;
    /* The name, in parentheses, may contain anything. */
    const char *after = strrchr(text, ')');
    int number = 0;
    if (after == NULL || sscanf(after + 1, " %*c %*d %*d %*d %d", &number) != 1)
        return 0;
    unsigned value = (unsigned) number;
    return makedev(value >> 8 & 0xfff, (value & 0xff) | (value >> 12 & 0xfff00));
}

/* --- the callers that are kept ---------------------------------------------------------------- */

static void
clear_caller(IpbCaller *caller)
{
    ipb_fd_close(&caller->pidfd);
    ipb_fd_close(&caller->proc_fd);
    ipb_fd_close(&caller->root_fd);
}

static bool
open_caller(IpbCaller *caller, pid_t pid)
{
    *caller = (IpbCaller){.pid = pid, .pidfd = -1, .proc_fd = -1, .root_fd = -1};
    char path[MAX_PROC_PATH];
    snprintf(path, sizeof path, "/proc/%d", pid);
    caller->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (caller->proc_fd < 0 || !read_status(caller))
        return false;
    caller->pidfd = (int) syscall(SYS_pidfd_open, pid, PIDFD_THREAD);
    caller->is_pidfd_of_thread = caller->pidfd >= 0;
    if (caller->pidfd < 0 && errno == EINVAL)
        caller->pidfd = (int) syscall(SYS_pidfd_open, caller->group, 0);
    return caller->pidfd >= 0;
}

/* Neither a pidfd nor a directory in /proc comes to life again when its pid is used again. */
static bool
is_alive(const IpbCaller *caller)
{
    if (caller->is_pidfd_of_thread)
        return syscall(SYS_pidfd_send_signal, caller->pidfd, 0, NULL, 0) == 0;
    return faccessat(caller->proc_fd, "comm", F_OK, 0) == 0;
}

static void
drop(IpbCallers *callers, size_t i)
{
    clear_caller(&callers->callers[i]);
    callers->callers[i] = callers->callers[--callers->n];
}

static size_t
find_oldest(const IpbCallers *callers)
{
    size_t oldest = 0;
    for (size_t i = 1; i < callers->n; i++)
        if (callers->callers[i].last_use < callers->callers[oldest].last_use)
            oldest = i;
    return oldest;
}

static bool
open_own_fds(IpbCallers *callers)
{
    if (callers->own_fds < 0)
        callers->own_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return callers->own_fds >= 0;
}

IpbCaller *
ipb_callers_get(IpbCallers *callers, pid_t pid)
{
    for (size_t i = 0; i < callers->n; i++) {
        if (callers->callers[i].pid != pid)
            continue;
        if (is_alive(&callers->callers[i])) {
            callers->callers[i].last_use = ++callers->n_uses;
            return &callers->callers[i];
        }
        drop(callers, i);
        break;
    }
    IpbCaller caller;
    if (!open_own_fds(callers))
        return NULL;
    if (!open_caller(&caller, pid)) {
        int saved = errno;
        clear_caller(&caller);
        errno = saved;
        return NULL;
    }
    caller.own_fds = callers->own_fds;
    /* A umask that was just announced may not be set yet. */
    for (size_t i = 0; i < callers->n; i++)
        if (callers->callers[i].group == caller.group)
            caller.umask = callers->callers[i].umask;
    if (callers->n == IPB_CALLERS_MAX)
        drop(callers, find_oldest(callers));
    caller.last_use = ++callers->n_uses;
    callers->callers[callers->n++] = caller;
    return &callers->callers[callers->n - 1];
}

void
ipb_callers_clear(IpbCallers *callers)
{
    while (callers->n > 0)
        drop(callers, callers->n - 1);
    ipb_fd_close(&callers->own_fds);
}

void
ipb_callers_set_umask(IpbCallers *callers, const IpbCaller *caller, mode_t mask)
{
    pid_t group = caller->group;
    for (size_t i = 0; i < callers->n; i++)
        if (callers->callers[i].group == group)
            callers->callers[i].umask = mask & 0777;
}

/* --- memory and descriptors ------------------------------------------------------------------- */

/* A kernel without CONFIG_CROSS_MEMORY_ATTACH has the second way only. */
static ssize_t
read_memory(const IpbCaller *caller, uint64_t address, void *bytes, size_t size)
{
    struct iovec here = {bytes, size}, there = {(void *) (uintptr_t) address, size};
    ssize_t n = process_vm_readv(caller->pid, &here, 1, &there, 1, 0);
    if (n >= 0 || errno != ENOSYS)
        return n;
    ipb_autofd memory = openat(caller->proc_fd, "mem", O_RDONLY | O_CLOEXEC);
    return memory < 0 ? -1 : pread(memory, bytes, size, (off_t) address);
}

bool
ipb_caller_read(const IpbCaller *caller, uint64_t address, void *ret_bytes, size_t size)
{
    if (size == 0 || read_memory(caller, address, ret_bytes, size) == (ssize_t) size)
        return true;
    errno = EFAULT;
    return false;
}

int
ipb_caller_read_text(const IpbCaller *caller, uint64_t address, char *ret_text, size_t size)
{
    size_t got = 0;
    while (got < size) {
        size_t wanted = got == 0 && size > FIRST_READ ? FIRST_READ : size - got;
        ssize_t n = read_memory(caller, address + got, ret_text + got, wanted);
        if (n <= 0)
            return EFAULT;
        if (memchr(ret_text + got, '\0', (size_t) n) != NULL)
            return 0;
        got += (size_t) n;
        /* Less than wanted: the next page cannot be read, unless the kernel stopped for another
         * reason. The next round finds out. */
    }
    return ENAMETOOLONG;
}

int
ipb_caller_copy_fd(const IpbCaller *caller, int fd)
{
    return (int) syscall(SYS_pidfd_getfd, caller->pidfd, fd, 0); /* close-on-exec */
}

int
ipb_caller_open_link(const IpbCaller *caller, const char *name)
{
    return openat(caller->proc_fd, name, O_PATH | O_CLOEXEC);
}

int
ipb_caller_root(IpbCaller *caller)
{
    if (caller->root_fd < 0)
        caller->root_fd = ipb_caller_open_link(caller, "root");
    return caller->root_fd;
}
