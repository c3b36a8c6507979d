/* SPDX-License-Identifier: Apache-2.0
 *
 * File descriptors: ownership, complete writes, and passing them over a socket. A closed or absent
 * fd is -1. Every fd made here is close-on-exec.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <glib.h>

/* How many fds one message can carry. */
#define IPB_FD_MAX_PASSED 8

/* Closes *@fd unless it is -1, and sets it to -1. errno is kept. */
void ipb_fd_close(int *fd);

/* Hands over the fd: returns *@fd and sets it to -1. */
int ipb_fd_steal(int *fd);

#define ipb_autofd __attribute__((cleanup(ipb_fd_close))) int

bool ipb_fd_set_nonblocking(int fd, bool nonblocking, GError **error);

/* A write to a pipe without a reader raises SIGPIPE, and a write beyond the limit of file sizes
 * (ulimit -f) raises SIGXFSZ. Either signal would end an application that does not expect it.
 * Between begin and end the calling thread gets neither. @has_failed: a write failed, so a signal
 * may be pending that end has to remove. Signals that were pending before remain. */
typedef struct {
    sigset_t blocked; /* the mask to restore */
    sigset_t pending;
} IpbQuiet;
void ipb_fd_begin_quiet(IpbQuiet *quiet);
void ipb_fd_end_quiet(const IpbQuiet *quiet, bool has_failed);

/* write(), without those signals. */
ssize_t ipb_fd_write(int fd, const void *data, size_t size);

/* Why only a part was written to a file: EFBIG if the limit of file sizes is reached, else
 * ENOSPC. */
int ipb_fd_explain_short_write(int fd);

/* Writes all of @data, and waits as long as @fd requires. Repeats after EINTR. */
bool ipb_fd_write_all(int fd, const void *data, size_t size, GError **error);

/* Waits for one of @events (POLLIN, POLLOUT; errors and hang-ups count), at most @timeout_ms.
 * Signals do not shorten the wait. Returns true if there is an event. */
bool ipb_fd_wait(int fd, short events, unsigned timeout_ms);

/* Returns a copy of @fd, close-on-exec, whose number is at least @lowest. Returns -1 with errno,
 * which is EMFILE also if the process may not have such high fds. Async-signal-safe. */
int ipb_fd_duplicate(int fd, int lowest);

/* Make a pipe, and a connected pair of AF_UNIX sockets (@type: SOCK_STREAM or SOCK_SEQPACKET). Both
 * are blocking. */
bool ipb_fd_pipe(int ret_fds[2], GError **error);
bool ipb_fd_socketpair(int type, int ret_fds[2], GError **error);

/* Sends one message with @n_fds file descriptors (borrowed), without blocking and without SIGPIPE.
 * Returns the bytes sent, or -1 with errno. */
ssize_t ipb_fd_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds);

/* Receives one message without blocking. The caller owns the fds that came with it, which are
 * close-on-exec. Fds beyond @max_fds are closed. Returns the bytes (0: end), or -1 with errno. */
ssize_t ipb_fd_receive(int sock, void *data, size_t size, int *ret_fds, size_t max_fds,
                       size_t *ret_n_fds);

/* waitid and kill by pidfd. */
bool ipb_pidfd_signal(int pidfd, int signal_number, GError **error);
int ipb_pidfd_open(pid_t pid);
/* Reaps a child that has ended. Returns false if it still runs. */
bool ipb_pidfd_reap(int pidfd);
/* The number here of the process; 0: it has ended, or is not visible here. */
pid_t ipb_pidfd_pid(int pidfd);
