/* SPDX-License-Identifier: Apache-2.0
 *
 * File descriptors; see the header.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

void
ipb_fd_close(int *fd)
{
    if (*fd < 0)
        return;
    int saved = errno;
    close(*fd); /* do not repeat after EINTR: Linux has closed the fd */
    *fd = -1;
    errno = saved;
}

int
ipb_fd_steal(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

bool
ipb_fd_set_nonblocking(int fd, bool nonblocking, GError **error)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return ipb_error_set_errno(error, errno, "cannot read the flags of fd %d", fd);
    int wanted = nonblocking ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    if (wanted != flags && fcntl(fd, F_SETFL, wanted) < 0)
        return ipb_error_set_errno(error, errno, "cannot set the flags of fd %d", fd);
    return true;
}

static const int WRITE_SIGNALS[] = {SIGPIPE, SIGXFSZ};

void
ipb_fd_begin_quiet(IpbQuiet *quiet)
{
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < G_N_ELEMENTS(WRITE_SIGNALS); i++)
        sigaddset(&signals, WRITE_SIGNALS[i]);
    sigpending(&quiet->pending);
    pthread_sigmask(SIG_BLOCK, &signals, &quiet->blocked);
}

/* Both signals are sent to the thread that writes, so no signal of another thread is removed. */
void
ipb_fd_end_quiet(const IpbQuiet *quiet, bool has_failed)
{
    int saved_errno = errno;
    for (size_t i = 0; has_failed && i < G_N_ELEMENTS(WRITE_SIGNALS); i++) {
        sigset_t signal;
        sigemptyset(&signal);
        sigaddset(&signal, WRITE_SIGNALS[i]);
        if (!sigismember(&quiet->pending, WRITE_SIGNALS[i]))
            sigtimedwait(&signal, NULL, &(struct timespec){0});
    }
    pthread_sigmask(SIG_SETMASK, &quiet->blocked, NULL);
    errno = saved_errno;
}

ssize_t
ipb_fd_write(int fd, const void *data, size_t size)
{
    IpbQuiet quiet;
    ipb_fd_begin_quiet(&quiet);
    ssize_t n = write(fd, data, size);
    ipb_fd_end_quiet(&quiet, n < 0);
    return n;
}

int
ipb_fd_explain_short_write(int fd)
{
    struct rlimit limit;
    struct stat status;
    bool is_at_limit = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                       fstat(fd, &status) == 0 && (rlim_t) status.st_size >= limit.rlim_cur;
    return is_at_limit ? EFBIG : ENOSPC;
}

bool
ipb_fd_write_all(int fd, const void *data, size_t size, GError **error)
{
    for (const char *p = data; size > 0;) {
        ssize_t n = ipb_fd_write(fd, p, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) { /* a terminal that another process made non-blocking */
            ipb_fd_wait(fd, POLLOUT, UINT_MAX);
            continue;
        }
        if (n < 0)
            return ipb_error_set_errno(error, errno, "cannot write");
        p += n;
        size -= (size_t) n;
    }
    return true;
}

bool
ipb_fd_wait(int fd, short events, unsigned timeout_ms)
{
    int64_t deadline = g_get_monotonic_time() + timeout_ms * INT64_C(1000);
    struct pollfd item = {.fd = fd, .events = events};
    int n;
    do {
        int64_t left_us = MAX(deadline - g_get_monotonic_time(), 0);
        struct timespec left = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
        n = ppoll(&item, 1, &left, NULL);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

int
ipb_fd_duplicate(int fd, int lowest)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, lowest);
    if (copy < 0 && errno == EINVAL)
        errno = EMFILE;
    return copy;
}

bool
ipb_fd_pipe(int ret_fds[2], GError **error)
{
    if (pipe2(ret_fds, O_CLOEXEC) < 0)
        return ipb_error_set_errno(error, errno, "cannot make a pipe");
    return true;
}

bool
ipb_fd_socketpair(int type, int ret_fds[2], GError **error)
{
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret_fds) < 0)
        return ipb_error_set_errno(error, errno, "cannot make a pair of sockets");
    return true;
}

typedef union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * IPB_FD_MAX_PASSED)];
} FdControl;

ssize_t
ipb_fd_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds)
{
    g_assert(n_fds <= IPB_FD_MAX_PASSED);
    FdControl control = {0};
    struct iovec iov = {.iov_base = (void *) data, .iov_len = size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * n_fds);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Keeps the first @max_fds fds of the message and closes the others. */
static size_t
take_fds(struct msghdr *message, int *ret_fds, size_t max_fds)
{
    size_t n_taken = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (n_taken < max_fds)
                ret_fds[n_taken++] = fd;
            else
                ipb_fd_close(&fd);
        }
    }
    return n_taken;
}

ssize_t
ipb_fd_receive(int sock, void *data, size_t size, int *ret_fds, size_t max_fds, size_t *ret_n_fds)
{
    FdControl control = {0};
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    ssize_t n;
    do
        n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    size_t n_fds = n < 0 ? 0 : take_fds(&message, ret_fds, max_fds);
    if (ret_n_fds != NULL)
        *ret_n_fds = n_fds;
    return n;
}

bool
ipb_pidfd_signal(int pidfd, int signal_number, GError **error)
{
    if (syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0) < 0)
        return ipb_error_set_errno(error, errno, "cannot send %s", strsignal(signal_number));
    return true;
}

int
ipb_pidfd_open(pid_t pid)
{
    return (int) syscall(SYS_pidfd_open, pid, 0); /* always close-on-exec */
}

bool
ipb_pidfd_reap(int pidfd)
{
    siginfo_t info = {0};
    int result;
    do
        result = waitid(P_PIDFD, (id_t) pidfd, &info, WEXITED | WNOHANG);
    while (result < 0 && errno == EINTR);
    /* ECHILD: the application reaps children that it does not know. */
    return result < 0 || info.si_pid != 0;
}

pid_t
ipb_pidfd_pid(int pidfd)
{
    g_autofree char *path = g_strdup_printf("/proc/self/fdinfo/%d", pidfd);
    g_autofree char *text = NULL;
    if (!g_file_get_contents(path, &text, NULL, NULL))
        return 0;
    const char *line = g_str_has_prefix(text, "Pid:") ? text : strstr(text, "\nPid:");
    if (line == NULL)
        return 0;
    int pid = atoi(strchr(line, ':') + 1);
    return pid > 0 ? pid : 0;
}
