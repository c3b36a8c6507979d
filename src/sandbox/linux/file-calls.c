/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of each call: read its arguments from the caller; check that it is still waiting; find
 * the path; ask the guard; perform the call on the directory and the name that were judged. Nothing
 * is read from the caller twice.
 *
 * Opening happens without O_NONBLOCK only where it cannot block: a thread that waited for the other
 * end of a FIFO could not serve anybody else.
 */
#include "sandbox/linux/file-calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/fd.h"
#include "sandbox/linux/proc-guard.h"

#define MAX_FD_PATH 32
#define MAX_XATTR_NAME 256
#define MAX_XATTR_VALUE 65536
/* Of a path that changes while it is looked up: how often to start again. */
#define MAX_RETRIES 100

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE (1 << 1)
#endif

/* What open() may be asked for. The kernel ignores other bits, too. */
#define OPEN_FLAGS                                                                                 \
    (O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_NONBLOCK | O_DSYNC | O_SYNC |           \
     O_DIRECT | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_TMPFILE | O_CLOEXEC | O_ASYNC)

/* One call under way. */
typedef struct {
    IpbFileCalls *calls;
    const IpbNotification *notification;
    IpbCaller *caller;
    IpbFifoWait *wait;
} Call;

typedef struct {
    int directory_fd;
    char text[PATH_MAX];
} PathArgument;

/* --- arguments and paths ---------------------------------------------------------------------- */

static uint64_t
arg(const Call *call, size_t i)
{
    return call->notification->args[i];
}

static int
int_arg(const Call *call, size_t i)
{
    return (int) (uint32_t) arg(call, i);
}

/* @directory: the index of the directory's argument; -1: there is none. */
static int
read_path(const Call *call, int directory, size_t i, PathArgument *ret_path)
{
    ret_path->directory_fd = directory >= 0 ? int_arg(call, (size_t) directory) : AT_FDCWD;
    return ipb_caller_read_text(call->caller, arg(call, i), ret_path->text, sizeof ret_path->text);
}

/* Everything was read from the caller. Does it belong to this call? */
static bool
is_valid(const Call *call)
{
    return ipb_notification_is_valid(call->notification);
}

static int
find(const Call *call, const PathArgument *argument, IpbCallerPath *ret_path)
{
    int result =
        ipb_caller_path_find(call->caller, argument->directory_fd, argument->text, ret_path);
    if (result == 0 && ret_path->is_too_deep) {
        ipb_caller_path_clear(ret_path);
        result = ENAMETOOLONG;
    }
    return result;
}

static int
find_target(const Call *call, const PathArgument *argument, bool is_followed,
            IpbCallerPath *ret_path, int *ret_fd, struct stat *ret_info)
{
    return ipb_caller_path_find_target(call->caller, argument->directory_fd, argument->text,
                                       is_followed, ret_path, ret_fd, ret_info);
}

static IpbNameKind
kind_of_mode(mode_t mode)
{
    if (S_ISDIR(mode))
        return IPB_NAME_DIRECTORY;
    if (S_ISLNK(mode))
        return IPB_NAME_LINK;
    return S_ISREG(mode) ? IPB_NAME_FILE : IPB_NAME_SPECIAL;
}

static int
judge(const Call *call, IpbNameAction action, IpbNameKind kind, const IpbCallerPath *path)
{
    const IpbNameAttempt attempt = {.action = action, .kind = kind, .path = path};
    return ipb_name_guard_judge(&call->calls->guard, call->caller, &attempt, NULL);
}

static bool
is_there(const IpbCallerPath *path)
{
    struct stat info;
    return fstatat(path->fd, path->name, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

/* As the kernel: that something exists already counts more than that it may not be created. */
static int
judge_new(const Call *call, IpbNameAction action, IpbNameKind kind, const IpbCallerPath *path)
{
    int result = judge(call, action, kind, path);
    return result != 0 && is_there(path) ? EEXIST : result;
}

static void
print_fd_path(char text[static MAX_FD_PATH], int fd)
{
    snprintf(text, MAX_FD_PATH, "/proc/self/fd/%d", fd);
}

/* As the kernel: that two directories are on different mounts counts more than that one of them is
 * read-only. Programs then copy. */
static int
prefer_exdev(int result, int a, int b)
{
    struct statx first, second;
    if (result == EROFS && statx(a, "", AT_EMPTY_PATH, STATX_MNT_ID, &first) == 0 &&
        statx(b, "", AT_EMPTY_PATH, STATX_MNT_ID, &second) == 0 &&
        first.stx_mnt_id != second.stx_mnt_id)
        return EXDEV;
    return result;
}

static int
errno_of(int result)
{
    return result < 0 ? errno : 0;
}

/* --- open ------------------------------------------------------------------------------------- */

typedef struct {
    int flags;
    mode_t mode; /* without the bits of the umask */
    bool can_read, can_write;
} Opening;

static int
open_again(int fd, int flags)
{
    char path[MAX_FD_PATH];
    print_fd_path(path, fd);
    return open(path, (flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW)) | O_NOCTTY | O_CLOEXEC);
}

/* /dev/tty is the terminal of the process that opens it, and that is not us. */
static int
open_terminal(const Call *call, int flags)
{
    dev_t terminal = ipb_caller_terminal(call->caller);
    if (terminal == 0)
        return -ENXIO;
    char path[64];
    snprintf(path, sizeof path, "/dev/pts/%u", minor(terminal));
    IpbCallerPath found;
    struct stat info;
    /* A terminal of the sandbox's own. */
    if (ipb_caller_path_find(call->caller, AT_FDCWD, path, &found) == 0) {
        ipb_autofd fd = ipb_caller_path_open(&found);
        ipb_caller_path_clear(&found);
        if (fd >= 0 && fstat(fd, &info) == 0 && info.st_rdev == terminal) {
            int result = open_again(fd, flags);
            return result < 0 ? -errno : result;
        }
    }
    /* The command shares our terminal. */
    ipb_autofd ours = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    unsigned device = 0;
    if (ours < 0 || ioctl(ours, TIOCGDEV, &device) < 0 || device != (unsigned) terminal)
        return -ENXIO;
    int result = open("/dev/tty", flags | O_NOCTTY | O_CLOEXEC);
    return result < 0 ? -errno : result;
}

static bool
is_tty_device(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISCHR(info.st_mode) && info.st_rdev == makedev(5, 0);
}

/* In /dev. Returns the fd, or a negative errno; ENODEV: it is not a device. */
static int
open_device(const Call *call, const IpbCallerPath *path, const Opening *opening)
{
    struct stat info;
    ipb_autofd fd = ipb_caller_path_open(path);
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISCHR(info.st_mode) || (opening->flags & O_EXCL) != 0)
        return -ENODEV;
    if (is_tty_device(fd))
        return open_terminal(call, opening->flags);
    int result = open_again(fd, opening->flags | O_NONBLOCK);
    return result < 0 ? -errno : result;
}

static int
judge_opening(const Call *call, const IpbCallerPath *path, const Opening *opening)
{
    int result = 0;
    if (opening->can_read)
        result = judge(call, IPB_NAME_READ, IPB_NAME_FILE, path);
    if (result == 0 && opening->can_write)
        result = judge(call, IPB_NAME_WRITE, IPB_NAME_FILE, path);
    return result;
}

/* Does the descriptor allow all that is asked for? */
static bool
is_as_open_as(int fd, bool can_read, bool can_write)
{
    int flags = fcntl(fd, F_GETFL), mode = flags & O_ACCMODE;
    return flags >= 0 && (flags & O_PATH) == 0 && (!can_read || mode != O_WRONLY) &&
           (!can_write || mode != O_RDONLY);
}

/* A descriptor of the caller, by a name in procfs. Pipes and files without a name have no rule. A
 * file of the host that was handed in, as a standard stream, is not what its path means inside: it
 * can be opened again as it is open already. */
static int
open_descriptor(const Call *call, const IpbCallerPath *path, const Opening *opening)
{
    struct stat info;
    if (fstat(path->fd, &info) < 0)
        return -errno;
    if (S_ISDIR(info.st_mode) && opening->can_write)
        return -EISDIR;
    bool has_name = path->real[0] == '/' && info.st_nlink > 0 &&
                    (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
    bool is_foreign = has_name && !ipb_caller_path_means(call->caller, path->real, &info);
    if (is_foreign && !is_as_open_as(path->fd, opening->can_read, opening->can_write))
        return -EACCES;
    int result = has_name && !is_foreign ? judge_opening(call, path, opening) : 0;
    if (result != 0)
        return -result;
    if (is_tty_device(path->fd))
        return open_terminal(call, opening->flags);
    result = open_again(path->fd, opening->flags | O_NONBLOCK);
    return result < 0 ? -errno : result;
}

/* "/", ".", "..": a directory. */
static int
open_whole(const Call *call, const IpbCallerPath *path, const Opening *opening)
{
    if (path->is_descriptor)
        return open_descriptor(call, path, opening);
    if ((opening->flags & O_CREAT) != 0 || opening->can_write)
        return (opening->flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) ? -EEXIST : -EISDIR;
    int result = judge(call, IPB_NAME_READ, IPB_NAME_DIRECTORY, path);
    if (result != 0)
        return -result;
    result = openat(path->fd, ".", opening->flags | O_CLOEXEC);
    return result < 0 ? -errno : result;
}

/* O_TMPFILE: the file has no name. When it gets one by link(), that is judged. */
static int
open_unnamed(const Call *call, const IpbCallerPath *path, const Opening *opening)
{
    ipb_autofd directory = ipb_caller_path_open(path);
    struct stat info;
    if (directory < 0 || fstat(directory, &info) < 0)
        return -errno;
    if (S_ISLNK(info.st_mode))
        return -ELOOP;
    if (!S_ISDIR(info.st_mode))
        return -ENOTDIR;
    if (!ipb_sandbox_plan_access(call->calls->guard.plan, path->real).is_writable)
        return -EROFS;
    int result = openat(directory, ".", opening->flags | O_CLOEXEC, opening->mode);
    return result < 0 ? -errno : result;
}

/* ELOOP: the name is a symbolic link. Not by O_NOFOLLOW, which fcntl() would show. */
static int
open_at(const IpbCallerPath *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t) (unsigned) (flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
        .mode = (flags & O_CREAT) != 0 ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    int fd = (int) syscall(SYS_openat2, path->fd, path->name, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

static bool
is_directory(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool
may_create(const Call *call, const IpbCallerPath *path)
{
    const IpbNameAttempt attempt = {
        .action = IPB_NAME_CREATE, .kind = IPB_NAME_FILE, .path = path, .is_quiet = true};
    return ipb_name_guard_judge(&call->calls->guard, call->caller, &attempt, NULL) == 0;
}

/* Unless the file may also be created, without O_CREAT first: what exists and what is created are
 * judged differently. */
static int
open_named(const Call *call, const IpbCallerPath *path, const Opening *opening)
{
    bool creates = (opening->flags & O_CREAT) != 0, is_new = (opening->flags & O_EXCL) != 0;
    if (creates && path->has_slash)
        return -EISDIR;
    for (unsigned i = 0; i < MAX_RETRIES; i++) {
        if (!creates || !is_new) {
            int result = judge_opening(call, path, opening);
            if (result != 0)
                return !creates && !is_there(path) ? -ENOENT : -result;
            if (creates && may_create(call, path))
                return open_at(path, opening->flags, opening->mode);
            int fd = open_at(path, opening->flags & ~(O_CREAT | O_EXCL), 0);
            if (fd >= 0 && creates && is_directory(fd)) {
                ipb_fd_close(&fd);
                return -EISDIR;
            }
            if (fd != -ENOENT || !creates)
                return fd;
        }
        int result = judge_new(call, IPB_NAME_CREATE, IPB_NAME_FILE, path);
        if (result != 0 && (result != EEXIST || is_new))
            return -result;
        int fd = open_at(path, opening->flags | O_EXCL, opening->mode);
        if (fd != -EEXIST || is_new)
            return fd;
    }
    return -EAGAIN;
}

/* Returns the fd, or a negative errno. ELOOP: the last name is a symbolic link. */
static int
open_once(const Call *call, const IpbCallerPath *path, const Opening *opening)
{
    int result = ipb_proc_guard_judge(call->caller, path, opening->can_write);
    if (result != 0)
        return -result;
    if ((opening->flags & O_TMPFILE) == O_TMPFILE)
        return open_unnamed(call, path, opening);
    if (path->is_whole)
        return open_whole(call, path, opening);
    if (g_str_has_prefix(path->real, "/dev/") && strchr(path->real + 5, '/') == NULL) {
        int fd = open_device(call, path, opening);
        if (fd != -ENODEV)
            return fd;
    }
    return open_named(call, path, opening);
}

/* Links at the end are followed one by one, so that each name is judged. */
static int
open_path(const Call *call, IpbCallerPath *path, const Opening *opening)
{
    for (;;) {
        Opening current = *opening;
        if (path->has_slash && (current.flags & O_CREAT) == 0)
            current.flags = (current.flags | O_DIRECTORY) & ~O_NOFOLLOW;
        int fd = open_once(call, path, &current);
        bool is_followed = (opening->flags & O_NOFOLLOW) == 0 || path->has_slash;
        if (fd != -ELOOP || path->is_whole || !is_followed)
            return fd;
        int result = ipb_caller_path_follow(call->caller, path);
        if (result != 0)
            return -result;
    }
}

/* Waits for the other end of a FIFO. Takes @fd. */
static IpbFileCallState
wait_for_fifo(const Call *call, int fd, int writer_flags, int flags)
{
    *call->wait = (IpbFifoWait){*call->notification, fd, writer_flags, (flags & O_CLOEXEC) != 0};
    return IPB_FILE_CALL_WAITS;
}

static IpbFileCallState
finish_open(const Call *call, const IpbCallerPath *path, int result, const Opening *opening)
{
    bool waits = (opening->flags & O_NONBLOCK) == 0;
    struct stat info;
    if (result == -ENXIO && waits && opening->can_write && !opening->can_read) {
        ipb_autofd fifo = ipb_caller_path_open(path);
        if (fifo >= 0 && fstat(fifo, &info) == 0 && S_ISFIFO(info.st_mode))
            return wait_for_fifo(call, ipb_fd_steal(&fifo), opening->flags, opening->flags);
    }
    if (result < 0) {
        ipb_notification_answer(call->notification, -result);
        return IPB_FILE_CALL_ANSWERED;
    }
    ipb_autofd fd = result;
    if (fstat(fd, &info) < 0)
        info.st_mode = S_IFREG | 0111;
    /* What F_SETFL can set, without O_NONBLOCK. */
    if (waits)
        fcntl(fd, F_SETFL, opening->flags & (O_APPEND | O_ASYNC | O_DIRECT | O_NOATIME));
    if (waits && !opening->can_write && S_ISFIFO(info.st_mode))
        return wait_for_fifo(call, ipb_fd_steal(&fd), -1, opening->flags);
    /* A file that becomes a program later does so by another call, which is served after this. */
    bool is_program = S_ISREG(info.st_mode) && (info.st_mode & 0111) != 0;
    ipb_notification_inject(call->notification, ipb_fd_steal(&fd), opening->can_write && is_program,
                            (opening->flags & O_CLOEXEC) != 0);
    return IPB_FILE_CALL_ANSWERED;
}

static IpbFileCallState
perform_open(const Call *call, int directory, size_t path_arg, int flags, mode_t mode)
{
    PathArgument argument;
    IpbCallerPath path;
    int result = read_path(call, directory, path_arg, &argument);
    if (!is_valid(call))
        return IPB_FILE_CALL_ANSWERED;
    flags &= OPEN_FLAGS;
    const Opening opening = {
        .flags = flags,
        .mode = mode & 01777 & ~call->caller->umask,
        .can_read = (flags & O_ACCMODE) != O_WRONLY,
        .can_write = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0,
    };
    if (result == 0 && (flags & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY))
        result = EINVAL; /* as from Linux 6.3 on; before, it made no sense either */
    if (result == 0)
        result = find(call, &argument, &path);
    if (result != 0) {
        ipb_notification_answer(call->notification, result);
        return IPB_FILE_CALL_ANSWERED;
    }
    result = open_path(call, &path, &opening);
    if (call->calls->guard.wants_to_be_alone) {
        ipb_caller_path_clear(&path);
        return IPB_FILE_CALL_ANSWERED;
    }
    IpbFileCallState state = finish_open(call, &path, result, &opening);
    ipb_caller_path_clear(&path);
    return state;
}

/* --- FIFOs ------------------------------------------------------------------------------------ */

void
ipb_fifo_wait_end(IpbFifoWait *wait, int errno_value)
{
    ipb_notification_answer(&wait->notification, errno_value);
    ipb_fd_close(&wait->fd);
}

/* Was the FIFO opened for writing since we opened it for reading? poll() says so if there is data,
 * or if all writers have closed it again. Otherwise, to duplicate nothing out of it tells a FIFO
 * without a writer from one without data. */
static bool
has_writer(int fifo)
{
    struct pollfd item = {.fd = fifo, .events = POLLIN};
    int scratch[2];
    if (poll(&item, 1, 0) > 0)
        return true;
    if (pipe2(scratch, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    ssize_t n = tee(fifo, scratch[1], 1, SPLICE_F_NONBLOCK);
    bool is_empty = n < 0 && errno == EAGAIN;
    ipb_fd_close(&scratch[0]);
    ipb_fd_close(&scratch[1]);
    return n > 0 || is_empty;
}

bool
ipb_fifo_wait_go_on(IpbFileCalls *calls, IpbFifoWait *wait)
{
    if (!ipb_notification_is_valid(&wait->notification)) {
        ipb_fd_close(&wait->fd);
        return true;
    }
    bool is_done = false;
    if (wait->writer_flags >= 0) {
        ipb_autofd fd = open_again(wait->fd, wait->writer_flags | O_NONBLOCK);
        if (fd < 0 && errno != ENXIO) {
            ipb_fifo_wait_end(wait, errno);
            return true;
        }
        if (fd >= 0) {
            fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
            ipb_notification_inject(&wait->notification, ipb_fd_steal(&fd), false,
                                    wait->close_on_exec);
            is_done = true;
        }
    } else if (has_writer(wait->fd)) {
        ipb_notification_inject(&wait->notification, ipb_fd_steal(&wait->fd), false,
                                wait->close_on_exec);
        is_done = true;
    }
    if (is_done) {
        ipb_fd_close(&wait->fd);
        return true;
    }
    const IpbCaller *caller = ipb_callers_get(&calls->callers, wait->notification.pid);
    if (caller != NULL && !ipb_caller_has_signal(caller))
        return false;
    ipb_fifo_wait_end(wait, EINTR);
    return true;
}

/* --- new names -------------------------------------------------------------------------------- */

static int
make_directory(const Call *call, int directory, size_t path_arg, mode_t mode)
{
    PathArgument argument;
    IpbCallerPath path;
    int result = read_path(call, directory, path_arg, &argument);
    if (result != 0 || !is_valid(call) || (result = find(call, &argument, &path)) != 0)
        return result;
    if (path.is_whole)
        result = EEXIST;
    else if ((result = judge_new(call, IPB_NAME_CREATE, IPB_NAME_DIRECTORY, &path)) == 0)
        result = errno_of(mkdirat(path.fd, path.name, mode & 01777 & ~call->caller->umask));
    ipb_caller_path_clear(&path);
    return result;
}

static int
make_node(const Call *call, int directory, size_t path_arg, mode_t mode, dev_t device)
{
    PathArgument argument;
    IpbCallerPath path;
    int result = read_path(call, directory, path_arg, &argument);
    if (result != 0 || !is_valid(call) || (result = find(call, &argument, &path)) != 0)
        return result;
    mode_t type = mode & S_IFMT;
    IpbNameKind kind = type == 0 || type == S_IFREG ? IPB_NAME_FILE : IPB_NAME_SPECIAL;
    if (path.is_whole)
        result = EEXIST;
    else if (type == S_IFDIR || type == S_IFCHR || type == S_IFBLK)
        result = EPERM;
    else if (kind == IPB_NAME_SPECIAL && type != S_IFIFO && type != S_IFSOCK)
        result = EINVAL;
    else if (path.has_slash)
        result = ENOENT;
    else if ((result = judge_new(call, IPB_NAME_CREATE, kind, &path)) == 0)
        result = errno_of(
            mknodat(path.fd, path.name, type | (mode & 01777 & ~call->caller->umask), device));
    ipb_caller_path_clear(&path);
    return result;
}

static int
make_symbolic_link(const Call *call, size_t target_arg, int directory, size_t path_arg)
{
    char target[PATH_MAX];
    PathArgument argument;
    IpbCallerPath path;
    int result = ipb_caller_read_text(call->caller, arg(call, target_arg), target, sizeof target);
    if (result == 0)
        result = read_path(call, directory, path_arg, &argument);
    if (result != 0 || !is_valid(call))
        return result;
    if (*target == '\0')
        return ENOENT;
    if ((result = find(call, &argument, &path)) != 0)
        return result;
    if (path.is_whole)
        result = EEXIST;
    else if (path.has_slash)
        result = is_there(&path) ? EEXIST : ENOENT;
    else if ((result = judge_new(call, IPB_NAME_PUT, IPB_NAME_LINK, &path)) == 0)
        result = errno_of(symlinkat(target, path.fd, path.name));
    ipb_caller_path_clear(&path);
    return result;
}

/* Finds what a descriptor of the caller means; one with O_PATH only is no good. */
static int
find_target_of_fd(const Call *call, int fd, IpbCallerPath *ret_path, int *ret_fd,
                  struct stat *ret_info)
{
    int result = ipb_caller_path_of_fd(call->caller, fd, ret_path);
    if (result != 0)
        return result;
    int flags = fcntl(ret_path->fd, F_GETFL);
    if (flags < 0 || (flags & O_PATH) != 0)
        result = EBADF;
    else if (fstat(ret_path->fd, ret_info) < 0 || (*ret_fd = ipb_fd_duplicate(ret_path->fd, 0)) < 0)
        result = errno;
    if (result != 0)
        ipb_caller_path_clear(ret_path);
    return result;
}

/* May the contents or attributes of what was found be changed? Files without a name may. */
static int
judge_change(const Call *call, const IpbCallerPath *path, const struct stat *info, bool is_mode)
{
    if (path->real[0] != '/' || (info->st_nlink == 0 && path->is_descriptor))
        return 0;
    /* A file of the host that was handed in. */
    if (path->is_descriptor && !ipb_caller_path_means(call->caller, path->real, info))
        return is_as_open_as(path->fd, false, true) ? 0 : EACCES;
    int result = ipb_proc_guard_judge(call->caller, path, true);
    const IpbNameAttempt attempt = {.action = IPB_NAME_WRITE,
                                    .kind = kind_of_mode(info->st_mode),
                                    .path = path,
                                    .is_mode = is_mode};
    return result != 0 ? result
                       : ipb_name_guard_judge(&call->calls->guard, call->caller, &attempt, NULL);
}

/* A second name for a file is a way to change it, unless that is refused by the first name. */
static int
make_link(const Call *call, int old_directory, size_t old_arg, int new_directory, size_t new_arg,
          int flags)
{
    PathArgument old_argument, new_argument;
    IpbCallerPath old_path, new_path;
    struct stat info;
    ipb_autofd source = -1;
    int result = read_path(call, old_directory, old_arg, &old_argument);
    if (result == 0)
        result = read_path(call, new_directory, new_arg, &new_argument);
    if (result != 0 || !is_valid(call))
        return result;
    if ((flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) != 0)
        return EINVAL;
    bool is_fd = (flags & AT_EMPTY_PATH) != 0 && old_argument.text[0] == '\0';
    if (is_fd) {
        result = ipb_caller_path_of_fd(call->caller, old_argument.directory_fd, &old_path);
        if (result == 0) {
            source = ipb_fd_steal(&old_path.fd);
            result = errno_of(fstat(source, &info));
        }
    } else {
        result = find_target(call, &old_argument, (flags & AT_SYMLINK_FOLLOW) != 0, &old_path,
                             &source, &info);
    }
    if (result != 0)
        return result;
    result = find(call, &new_argument, &new_path);
    if (result == 0) {
        IpbNameKind kind = kind_of_mode(info.st_mode);
        if (new_path.is_whole)
            result = EEXIST;
        else if (new_path.has_slash)
            result = ENOENT;
        else if (kind == IPB_NAME_DIRECTORY)
            result = EPERM;
        else
            result = judge_new(call, IPB_NAME_PUT, kind, &new_path);
        if (result == 0)
            result = prefer_exdev(judge_change(call, &old_path, &info, false), source, new_path.fd);
        if (result == 0 && info.st_nlink > 0)
            result = judge(call, IPB_NAME_READ, kind, &old_path);
        char text[MAX_FD_PATH];
        print_fd_path(text, source);
        if (result == 0)
            result =
                errno_of(linkat(AT_FDCWD, text, new_path.fd, new_path.name, AT_SYMLINK_FOLLOW));
        ipb_caller_path_clear(&new_path);
    }
    ipb_caller_path_clear(&old_path);
    return result;
}

/* --- names that go away or move --------------------------------------------------------------- */

/* What has a name. */
typedef struct {
    mode_t mode;
    bool is_mounted; /* something is mounted there, which protects it */
} Entry;

/* Returns 0 or an errno. The kernel itself looks for mounts of our own namespace only, when it
 * renames or removes. */
static int
look_at(const IpbCallerPath *path, Entry *ret_entry)
{
    struct statx info;
    if (statx(path->fd, path->name, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_MODE, &info) < 0)
        return errno;
    *ret_entry = (Entry){info.stx_mode, (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0};
    return 0;
}

static int
remove_found(const Call *call, const IpbCallerPath *path, int flags)
{
    Entry entry = {0};
    bool is_rmdir = (flags & AT_REMOVEDIR) != 0;
    int result = look_at(path, &entry);
    if (result != 0)
        return result;
    if (!is_rmdir && path->has_slash)
        return S_ISDIR(entry.mode) ? EISDIR : ENOTDIR;
    const IpbNameAttempt attempt = {.action = IPB_NAME_REMOVE,
                                    .kind = kind_of_mode(entry.mode),
                                    .path = path,
                                    .is_rmdir = is_rmdir};
    /* What is too deep to be judged can still be removed: mounts protect it. */
    if (!path->is_too_deep)
        result = ipb_name_guard_judge(&call->calls->guard, call->caller, &attempt, NULL);
    if (result == 0 && entry.is_mounted)
        result = EBUSY;
    return result != 0 ? result : errno_of(unlinkat(path->fd, path->name, flags));
}

/* "/", "." and ".." cannot be removed. */
static int
errno_of_whole(const char *text, bool is_rmdir)
{
    if (!is_rmdir)
        return EISDIR;
    if (g_str_has_suffix(text, ".."))
        return ENOTEMPTY;
    return g_str_has_suffix(text, ".") ? EINVAL : EBUSY;
}

static int
remove_name(const Call *call, int directory, size_t path_arg, int flags)
{
    PathArgument argument;
    IpbCallerPath path;
    int result = read_path(call, directory, path_arg, &argument);
    if (result != 0 || !is_valid(call))
        return result;
    if ((flags & ~AT_REMOVEDIR) != 0)
        return EINVAL;
    result = ipb_caller_path_find(call->caller, argument.directory_fd, argument.text, &path);
    if (result != 0)
        return result;
    result = path.is_whole ? errno_of_whole(argument.text, (flags & AT_REMOVEDIR) != 0)
                           : remove_found(call, &path, flags);
    ipb_caller_path_clear(&path);
    return result;
}

/* Reads a regular file for a parser. Returns 0 or an errno; EFBIG: it is too large. */
static int
read_contents(const IpbCallerPath *path, char **ret_contents, size_t *ret_size, mode_t *ret_mode)
{
    ipb_autofd fd = open_at(path, O_RDONLY, 0);
    struct stat info;
    if (fd < 0)
        return -fd;
    if (fstat(fd, &info) < 0)
        return errno;
    if (!S_ISREG(info.st_mode))
        return EACCES;
    g_autofree char *contents = g_malloc(IPB_NAME_MAX_PARSED_BYTES + 1);
    size_t size = 0;
    ssize_t n = 1;
    while (size <= IPB_NAME_MAX_PARSED_BYTES && n > 0) {
        n = read(fd, contents + size, IPB_NAME_MAX_PARSED_BYTES + 1 - size);
        if (n < 0)
            return errno;
        size += (size_t) n;
    }
    if (size > IPB_NAME_MAX_PARSED_BYTES)
        return EFBIG;
    contents[size] = '\0';
    *ret_contents = g_steal_pointer(&contents);
    *ret_size = size;
    *ret_mode = info.st_mode & 0777;
    return 0;
}

#define OWN_NAME_SIZE (sizeof IPB_NAME_OWN_PREFIX + 32)

/* Makes a name that code inside can neither guess nor use. */
static bool
make_own_name(char name[static OWN_NAME_SIZE])
{
    uint64_t number[2];
    if (getrandom(number, sizeof number, 0) != sizeof number)
        return false;
    snprintf(name, OWN_NAME_SIZE, "%s%016llx%016llx", IPB_NAME_OWN_PREFIX,
             (unsigned long long) number[0], (unsigned long long) number[1]);
    return true;
}

/* Writes a new file beside @path, and gives it the name of @path. */
static int
put_contents(const IpbCallerPath *path, const char *contents, size_t size, mode_t mode,
             unsigned flags)
{
    char name[OWN_NAME_SIZE];
    if (!make_own_name(name))
        return EIO;
    ipb_autofd fd =
        openat(path->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return errno;
    int result = ipb_fd_write_all(fd, contents, size, NULL) ? 0 : EIO;
    if (result == 0)
        result =
            errno_of((int) syscall(SYS_renameat2, path->fd, name, path->fd, path->name, flags));
    if (result != 0)
        unlinkat(path->fd, name, 0);
    return result;
}

/* The rule lets only some contents get this name. Code inside may have the file open, and change it
 * after it was read. So a copy gets the name, and the old file goes away. */
static int
rename_parsed(const Call *call, const IpbNameAttempt *attempt, const IpbNameRule *rule,
              unsigned flags)
{
    g_autofree char *contents = NULL;
    char *reason = NULL;
    size_t size = 0;
    mode_t mode = 0;
    IpbFileCalls *calls = call->calls;
    if ((flags & ~(unsigned) RENAME_NOREPLACE) != 0)
        return EACCES;
    int result = read_contents(attempt->source, &contents, &size, &mode);
    if (result == EFBIG)
        return ipb_name_guard_refuse_contents(&calls->guard, call->caller, attempt, rule,
                                              g_strdup("the file is too large to be checked"));
    if (result != 0)
        return result;
    IpbPlanAccess access = ipb_sandbox_plan_access(calls->guard.plan, attempt->path->real);
    if (!ipb_name_rule_accepts(rule, attempt->path->real, access.root_size, contents, size,
                               &reason))
        return ipb_name_guard_refuse_contents(&calls->guard, call->caller, attempt, rule, reason);
    result = put_contents(attempt->path, contents, size, mode, flags);
    return result != 0 ? result : errno_of(unlinkat(attempt->source->fd, attempt->source->name, 0));
}

/* May the name be given to one kind, and not to another? Between the judgement and the call,
 * another program may put another kind there. */
static bool
depends_on_kind(const Call *call, const IpbCallerPath *from, const IpbCallerPath *to)
{
    static const IpbNameKind KINDS[] = {IPB_NAME_FILE, IPB_NAME_DIRECTORY, IPB_NAME_LINK};
    for (size_t i = 0; i < G_N_ELEMENTS(KINDS); i++) {
        const IpbNameAttempt attempt = {
            .action = IPB_NAME_PUT, .kind = KINDS[i], .path = to, .source = from};
        if (ipb_name_guard_would_refuse(&call->calls->guard, call->caller, &attempt))
            return true;
    }
    return false;
}

/* In two steps. Between them it has a name that no code inside can touch, and is looked at. */
static int
rename_by_kind(const IpbCallerPath *from, const IpbCallerPath *to, IpbNameKind kind, unsigned flags)
{
    char name[OWN_NAME_SIZE];
    struct stat info;
    if ((flags & RENAME_EXCHANGE) != 0)
        return EACCES;
    if (!make_own_name(name))
        return EIO;
    if (syscall(SYS_renameat2, from->fd, from->name, to->fd, name, RENAME_NOREPLACE) < 0)
        return errno;
    int result = errno_of(fstatat(to->fd, name, &info, AT_SYMLINK_NOFOLLOW));
    if (result == 0 && kind_of_mode(info.st_mode) != kind)
        result = EACCES;
    if (result == 0)
        result = errno_of((int) syscall(SYS_renameat2, to->fd, name, to->fd, to->name, flags));
    if (result != 0)
        syscall(SYS_renameat2, to->fd, name, from->fd, from->name, RENAME_NOREPLACE);
    return result;
}

/* @from goes to where @to is. */
static int
judge_move(const Call *call, const IpbCallerPath *from, const IpbCallerPath *to, IpbNameKind kind,
           const IpbNameRule **ret_parsed)
{
    const IpbNameAttempt removal = {
        .action = IPB_NAME_REMOVE, .kind = kind, .path = from, .is_moved = true};
    const IpbNameAttempt put = {.action = IPB_NAME_PUT, .kind = kind, .path = to, .source = from};
    int result = ipb_name_guard_judge(&call->calls->guard, call->caller, &removal, NULL);
    return result != 0 ? result
                       : ipb_name_guard_judge(&call->calls->guard, call->caller, &put, ret_parsed);
}

static int
rename_found(const Call *call, const IpbCallerPath *from, const IpbCallerPath *to, unsigned flags)
{
    Entry entry = {0}, other = {0};
    const IpbNameRule *parsed = NULL;
    if (from->is_whole || to->is_whole)
        return EBUSY;
    int result = look_at(from, &entry);
    if (result != 0)
        return result;
    IpbNameKind kind = kind_of_mode(entry.mode);
    if ((from->has_slash || to->has_slash) && kind != IPB_NAME_DIRECTORY)
        return ENOTDIR;
    bool is_exchange = (flags & RENAME_EXCHANGE) != 0;
    bool has_other = look_at(to, &other) == 0;
    if (is_exchange && !has_other)
        return ENOENT;
    if (has_other && (flags & RENAME_NOREPLACE) != 0)
        return EEXIST;
    result = judge_move(call, from, to, kind, is_exchange ? NULL : &parsed);
    if (result == 0 && is_exchange)
        result = judge_move(call, to, from, kind_of_mode(other.mode), NULL);
    if (result == 0 && (entry.is_mounted || other.is_mounted))
        result = EBUSY;
    if (result != 0)
        return result;
    if (parsed == NULL && depends_on_kind(call, from, to))
        return rename_by_kind(from, to, kind, flags);
    if (parsed == NULL)
        return errno_of(
            (int) syscall(SYS_renameat2, from->fd, from->name, to->fd, to->name, flags));
    const IpbNameAttempt attempt = {
        .action = IPB_NAME_PUT, .kind = kind, .path = to, .source = from};
    return rename_parsed(call, &attempt, parsed, flags);
}

static int
rename_name(const Call *call, int old_directory, size_t old_arg, int new_directory, size_t new_arg,
            unsigned flags)
{
    PathArgument old_argument, new_argument;
    IpbCallerPath from, to;
    int result = read_path(call, old_directory, old_arg, &old_argument);
    if (result == 0)
        result = read_path(call, new_directory, new_arg, &new_argument);
    if (result != 0 || !is_valid(call))
        return result;
    if ((flags & ~(unsigned) (RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0 ||
        flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
        return EINVAL;
    if ((result = find(call, &old_argument, &from)) != 0)
        return result;
    result = find(call, &new_argument, &to);
    if (result == 0) {
        result = prefer_exdev(rename_found(call, &from, &to, flags), from.fd, to.fd);
        ipb_caller_path_clear(&to);
    }
    ipb_caller_path_clear(&from);
    return result;
}

/* --- what exists ------------------------------------------------------------------------------ */

static int
change_mode(const Call *call, int target, void *data)
{
    const mode_t *mode = data;
    char path[MAX_FD_PATH];
    struct stat info;
    if (fstat(target, &info) == 0 && S_ISLNK(info.st_mode))
        return EOPNOTSUPP;
    print_fd_path(path, target);
    return errno_of(chmod(path, *mode & 01777));
}

typedef int (*ChangeFunc)(const Call *call, int target, void *data);

/* @path_arg: of a path, or of a descriptor if @is_fd. */
static int
change(const Call *call, bool is_fd, int directory, size_t path_arg, int at_flags, ChangeFunc func,
       void *data)
{
    PathArgument argument;
    IpbCallerPath path;
    struct stat info;
    ipb_autofd target = -1;
    int result = is_fd ? 0 : read_path(call, directory, path_arg, &argument);
    if (result != 0 || !is_valid(call))
        return result;
    if ((at_flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) != 0)
        return EINVAL;
    if (!is_fd && (at_flags & AT_EMPTY_PATH) != 0 && argument.text[0] == '\0') {
        result = ipb_caller_path_of_fd(call->caller, argument.directory_fd, &path);
        if (result == 0 &&
            ((target = ipb_fd_duplicate(path.fd, 0)) < 0 || fstat(target, &info) < 0)) {
            result = errno;
            ipb_caller_path_clear(&path);
        }
    } else if (is_fd) {
        result = find_target_of_fd(call, int_arg(call, path_arg), &path, &target, &info);
    } else {
        result = find_target(call, &argument, (at_flags & AT_SYMLINK_NOFOLLOW) == 0, &path, &target,
                             &info);
    }
    if (result != 0)
        return result;
    /* Who could not write may not after it. */
    bool is_mode = func == change_mode && (*(const mode_t *) data & 0222 & ~info.st_mode) == 0;
    result = judge_change(call, &path, &info, is_mode);
    if (result == 0)
        result = func(call, target, data);
    ipb_caller_path_clear(&path);
    return result;
}

typedef struct {
    uint32_t uid, gid;
} Owner;

/* Only the one id of each kind is mapped inside. */
static bool
map_id(uint32_t *id, uint32_t inner, uint32_t outer)
{
    if (*id == UINT32_MAX)
        return true;
    if (*id != inner)
        return false;
    *id = outer;
    return true;
}

static int
change_owner(const Call *call, int target, void *data)
{
    Owner owner = *(const Owner *) data;
    const IpbFileCalls *calls = call->calls;
    if (!map_id(&owner.uid, calls->inner_uid, calls->outer_uid) ||
        !map_id(&owner.gid, calls->inner_gid, calls->outer_gid))
        return EINVAL;
    return errno_of(fchownat(target, "", owner.uid, owner.gid, AT_EMPTY_PATH));
}

typedef struct {
    char name[MAX_XATTR_NAME];
    char *value; /* NULL: it is removed */
    size_t size;
    int flags;
} Attribute;

static int
change_attribute(const Call *call, int target, void *data)
{
    const Attribute *attribute = data;
    char path[MAX_FD_PATH];
    print_fd_path(path, target);
    if (attribute->value == NULL)
        return errno_of(removexattr(path, attribute->name));
    return errno_of(
        setxattr(path, attribute->name, attribute->value, attribute->size, attribute->flags));
}

static int
perform_attribute(const Call *call, bool is_fd, bool is_followed, bool is_set)
{
    Attribute attribute = {.size = is_set ? arg(call, 3) : 0,
                           .flags = is_set ? int_arg(call, 4) : 0};
    int result =
        ipb_caller_read_text(call->caller, arg(call, 1), attribute.name, sizeof attribute.name);
    if (result != 0)
        return result == ENAMETOOLONG ? ERANGE : result;
    /* They contain ids, which are different ones inside. */
    if (g_str_has_prefix(attribute.name, "system.posix_acl_"))
        return EOPNOTSUPP;
    if (attribute.size > MAX_XATTR_VALUE)
        return E2BIG;
    g_autofree char *value = is_set ? g_malloc(attribute.size + 1) : NULL;
    attribute.value = value;
    if (is_set && !ipb_caller_read(call->caller, arg(call, 2), value, attribute.size))
        return EFAULT;
    return change(call, is_fd, -1, 0, is_followed ? 0 : AT_SYMLINK_NOFOLLOW, change_attribute,
                  &attribute);
}

static int
cut(const Call *call)
{
    PathArgument argument;
    IpbCallerPath path;
    struct stat info;
    ipb_autofd target = -1;
    int64_t size = (int64_t) arg(call, 1);
    int result = read_path(call, -1, 0, &argument);
    if (result != 0 || !is_valid(call))
        return result;
    if (size < 0)
        return EINVAL;
    if ((result = find_target(call, &argument, true, &path, &target, &info)) != 0)
        return result;
    if (S_ISDIR(info.st_mode))
        result = EISDIR;
    else if (!S_ISREG(info.st_mode))
        result = EINVAL;
    else
        result = judge_change(call, &path, &info, false);
    ipb_caller_path_clear(&path);
    /* Our own limit is not the caller's. */
    if (result == 0 && call->calls->max_file_bytes != 0 &&
        (uint64_t) size > call->calls->max_file_bytes)
        result = EFBIG;
    if (result != 0)
        return result;
    ipb_autofd fd = open_again(target, O_WRONLY | O_NONBLOCK);
    return fd < 0 ? errno : errno_of(ftruncate(fd, size));
}

/* --- sockets ---------------------------------------------------------------------------------- */

/* Binds by the last name, in the directory, which has to be this thread's own for that. */
static int
bind_in(const Call *call, int socket_fd, const IpbCallerPath *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path->name) >= sizeof address.sun_path)
        return ENAMETOOLONG;
    strcpy(address.sun_path, path->name);
    if (fchdir(path->fd) < 0)
        return errno;
    umask(call->caller->umask);
    int result = errno_of(bind(socket_fd, (struct sockaddr *) &address, sizeof address));
    umask(0);
    (void) !chdir("/");
    return result;
}

/* *ret_continue: the kernel may perform it. */
static int
bind_socket(const Call *call, bool *ret_continue)
{
    struct sockaddr_un address = {0};
    uint8_t bytes[IPB_CALLER_MAX_ADDRESS];
    size_t size = arg(call, 2) & UINT32_MAX;
    ipb_autofd copy = ipb_caller_copy_fd(call->caller, int_arg(call, 0));
    if (copy < 0)
        return errno;
    if (size > sizeof bytes)
        return EINVAL;
    if (!ipb_caller_read(call->caller, arg(call, 1), bytes, size))
        return EFAULT;
    if (!is_valid(call))
        return 0;
    size_t header = offsetof(struct sockaddr_un, sun_path);
    if (size > header && size <= sizeof address)
        memcpy(&address, bytes, size);
    int domain = AF_UNSPEC;
    socklen_t domain_size = sizeof domain;
    if (getsockopt(copy, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) < 0)
        return errno;
    bool has_path =
        domain == AF_UNIX && address.sun_family == AF_UNIX && address.sun_path[0] != '\0';
    if (!has_path) {
        *ret_continue = call->calls->are_sockets_confined;
        return *ret_continue ? 0
                             : errno_of(bind(copy, (struct sockaddr *) bytes, (socklen_t) size));
    }
    PathArgument argument = {.directory_fd = AT_FDCWD};
    memcpy(argument.text, address.sun_path, size - header);
    argument.text[size - header] = '\0';
    IpbCallerPath path;
    int result = find(call, &argument, &path);
    if (result != 0)
        return result;
    if (path.is_whole)
        result = EADDRINUSE;
    else if (call->calls->are_sockets_confined && ipb_name_guard_is_own(&call->calls->guard, &path))
        *ret_continue = true;
    else if ((result = judge_new(call, IPB_NAME_CREATE, IPB_NAME_SPECIAL, &path)) == 0)
        result = bind_in(call, copy, &path);
    ipb_caller_path_clear(&path);
    return result == EEXIST ? EADDRINUSE : result;
}

/* --- all calls -------------------------------------------------------------------------------- */

static mode_t
mode_arg(const Call *call, size_t i)
{
    return (mode_t) (uint32_t) arg(call, i);
}

static Owner
owner_args(const Call *call, size_t i)
{
    return (Owner){(uint32_t) arg(call, i), (uint32_t) arg(call, i + 1)};
}

/* Returns the errno with which the call is answered; 0: it has succeeded. */
static int
perform(const Call *call, bool *ret_continue, bool *ret_other)
{
    mode_t mode = 0;
    Owner owner;
    switch (call->notification->number) {
    case SYS_mkdirat:
        return make_directory(call, 0, 1, mode_arg(call, 2));
    case SYS_mknodat:
        return make_node(call, 0, 1, mode_arg(call, 2), (dev_t) (uint32_t) arg(call, 3));
    case SYS_symlinkat:
        return make_symbolic_link(call, 0, 1, 2);
    case SYS_linkat:
        return make_link(call, 0, 1, 2, 3, int_arg(call, 4));
    case SYS_unlinkat:
        return remove_name(call, 0, 1, int_arg(call, 2));
    case SYS_renameat2:
        return rename_name(call, 0, 1, 2, 3, (unsigned) arg(call, 4));
#ifdef SYS_renameat
    case SYS_renameat:
        return rename_name(call, 0, 1, 2, 3, 0);
#endif
    case SYS_truncate:
        return cut(call);
    case SYS_fchmodat:
        mode = mode_arg(call, 2);
        return change(call, false, 0, 1, 0, change_mode, &mode);
    case SYS_fchmodat2:
        mode = mode_arg(call, 2);
        return change(call, false, 0, 1, int_arg(call, 3), change_mode, &mode);
    case SYS_fchmod:
        mode = mode_arg(call, 1);
        return change(call, true, -1, 0, 0, change_mode, &mode);
    case SYS_fchownat:
        owner = owner_args(call, 2);
        return change(call, false, 0, 1, int_arg(call, 4), change_owner, &owner);
    case SYS_fchown:
        owner = owner_args(call, 1);
        return change(call, true, -1, 0, 0, change_owner, &owner);
    case SYS_setxattr:
        return perform_attribute(call, false, true, true);
    case SYS_lsetxattr:
        return perform_attribute(call, false, false, true);
    case SYS_fsetxattr:
        return perform_attribute(call, true, true, true);
    case SYS_removexattr:
        return perform_attribute(call, false, true, false);
    case SYS_lremovexattr:
        return perform_attribute(call, false, false, false);
    case SYS_fremovexattr:
        return perform_attribute(call, true, true, false);
    case SYS_bind:
        return bind_socket(call, ret_continue);
    case SYS_umask:
        ipb_callers_set_umask(&call->calls->callers, call->caller, mode_arg(call, 0));
        *ret_continue = true;
        return 0;
#ifdef SYS_mkdir /* the calls of older architectures */
    case SYS_mkdir:
        return make_directory(call, -1, 0, mode_arg(call, 1));
    case SYS_mknod:
        return make_node(call, -1, 0, mode_arg(call, 1), (dev_t) (uint32_t) arg(call, 2));
    case SYS_symlink:
        return make_symbolic_link(call, 0, -1, 1);
    case SYS_link:
        return make_link(call, -1, 0, -1, 1, 0);
    case SYS_unlink:
        return remove_name(call, -1, 0, 0);
    case SYS_rmdir:
        return remove_name(call, -1, 0, AT_REMOVEDIR);
    case SYS_rename:
        return rename_name(call, -1, 0, -1, 1, 0);
    case SYS_chmod:
        mode = mode_arg(call, 1);
        return change(call, false, -1, 0, 0, change_mode, &mode);
    case SYS_chown:
        owner = owner_args(call, 1);
        return change(call, false, -1, 0, 0, change_owner, &owner);
    case SYS_lchown:
        owner = owner_args(call, 1);
        return change(call, false, -1, 0, AT_SYMLINK_NOFOLLOW, change_owner, &owner);
#endif
    default:
        *ret_other = true;
        return 0;
    }
}

/* Answers, unless the guard wants to be alone. */
static IpbFileCallState
perform_once(IpbFileCalls *calls, const IpbNotification *notification, IpbFifoWait *ret_wait)
{
    Call call = {calls, notification, ipb_callers_get(&calls->callers, notification->pid),
                 ret_wait};
    if (call.caller == NULL) {
        ipb_notification_answer(notification, EACCES);
        return IPB_FILE_CALL_ANSWERED;
    }
    switch (notification->number) {
    case SYS_openat:
        return perform_open(&call, 0, 1, int_arg(&call, 2), mode_arg(&call, 3));
#ifdef SYS_open
    case SYS_open:
        return perform_open(&call, -1, 0, int_arg(&call, 1), mode_arg(&call, 2));
    case SYS_creat:
        return perform_open(&call, -1, 0, O_CREAT | O_WRONLY | O_TRUNC, mode_arg(&call, 1));
#endif
    default:
        break;
    }
    bool is_continued = false, is_other = false;
    int result = perform(&call, &is_continued, &is_other);
    if (calls->guard.wants_to_be_alone)
        return IPB_FILE_CALL_ANSWERED;
    if (is_other)
        return IPB_FILE_CALL_OTHER;
    if (is_continued)
        ipb_notification_continue(notification);
    else
        ipb_notification_answer(notification, result);
    return IPB_FILE_CALL_ANSWERED;
}

/* Can the call make a name? */
static bool
makes_names(const IpbNotification *notification)
{
    switch (notification->number) {
    case SYS_openat:
        return (notification->args[2] & O_CREAT) != 0;
    case SYS_mkdirat:
    case SYS_mknodat:
    case SYS_symlinkat:
    case SYS_linkat:
    case SYS_renameat2:
    case SYS_bind:
#ifdef SYS_renameat
    case SYS_renameat:
#endif
#ifdef SYS_mkdir
    case SYS_creat:
    case SYS_mkdir:
    case SYS_mknod:
    case SYS_symlink:
    case SYS_link:
    case SYS_rename:
#endif
        return true;
#ifdef SYS_open
    case SYS_open:
        return (notification->args[1] & O_CREAT) != 0;
#endif
    default:
        return false;
    }
}

IpbFileCallState
ipb_file_calls_perform(IpbFileCalls *calls, const IpbNotification *notification,
                       IpbFifoWait *ret_wait)
{
    IpbNameGuard *guard = &calls->guard;
    guard->lock = makes_names(notification) ? IPB_NAMES_SHARED : IPB_NAMES_UNLOCKED;
    for (;;) {
        if (guard->lock != IPB_NAMES_UNLOCKED && !ipb_names_lock(guard->lock)) {
            ipb_notification_answer(notification, EACCES);
            return IPB_FILE_CALL_ANSWERED;
        }
        guard->wants_to_be_alone = false;
        IpbFileCallState state = perform_once(calls, notification, ret_wait);
        if (guard->lock != IPB_NAMES_UNLOCKED)
            ipb_names_unlock(guard->lock);
        if (!guard->wants_to_be_alone)
            return state;
        guard->lock = IPB_NAMES_ALONE;
    }
}
