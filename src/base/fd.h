/* SPDX-License-Identifier: Apache-2.0
 *
 * File descriptors: ownership, whole writes, and passing them over a socket. A closed or absent fd
 * is -1. Every fd made here is close-on-exec.
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

/* Hands the fd over: returns *@fd and leaves -1. */
int ipb_fd_steal(int *fd);

#define ipb_autofd __attribute__((cleanup(ipb_fd_close))) int

bool ipb_fd_set_nonblocking(int fd, bool nonblocking, GError **error);

/* A write to a pipe without a reader raises SIGPIPE, and one beyond the limit of file sizes (ulimit
 * -f) raises SIGXFSZ. Either signal would end an application that did not expect it. Between begin
 * and end the calling thread gets neither. @has_failed: a write failed, so a signal may be pending
 * that end has to remove. Signals that were pending before remain. */
typedef struct {
    sigset_t blocked; /* what is to be blocked again afterwards */
    sigset_t pending;
} IpbQuiet;
void ipb_fd_begin_quiet(IpbQuiet *quiet);
void ipb_fd_end_quiet(const IpbQuiet *quiet, bool has_failed);

/* write(), without those signals. */
ssize_t ipb_fd_write(int fd, const void *data, size_t size);

/* Why a file took only a part of what was written: EFBIG where the limit of file sizes is reached, else ENOSPC. */
int ipb_fd_explain_short_write(int fd);

/* Writes all of @data, however long @fd makes it wait; goes on after EINTR. */
bool ipb_fd_write_all(int fd, const void *data, size_t size, GError **error);

/* Waits until one of @events (POLLIN, POLLOUT; errors and hang-ups count) or for @timeout_ms, whatever signals come
 * meanwhile. True: there is an event. */
bool ipb_fd_wait(int fd, short events, unsigned timeout_ms);

/* A copy of @fd, close-on-exec, with a number from @lowest on. -1: errno, which is EMFILE also if the process may have no fds that
 * high. Async-signal-safe. */
int ipb_fd_duplicate(int fd, int lowest);

/* A pipe and a connected pair of AF_UNIX sockets (@type is SOCK_STREAM or SOCK_SEQPACKET); blocking. */
bool ipb_fd_pipe(int ret_fds[2], GError **error);
bool ipb_fd_socketpair(int type, int ret_fds[2], GError **error);

/* Sends one message with @n_fds file descriptors (borrowed) without blocking and without SIGPIPE.
 * Returns the bytes sent, or -1 with errno. */
ssize_t ipb_fd_send(int sock, const void *data, size_t size, const int *fds, size_t n_fds);

/* Receives one message without blocking; the fds that came with it, close-on-exec, are the caller's.
 * Fds beyond @max_fds are closed. Returns the bytes (0 = end), or -1 with errno. */
ssize_t ipb_fd_receive(int sock, void *data, size_t size, int *ret_fds, size_t max_fds,
                       size_t *ret_n_fds);

/* waitid and kill by pidfd. */
bool ipb_pidfd_signal(int pidfd, int signal_number, GError **error);
int ipb_pidfd_open(pid_t pid);
