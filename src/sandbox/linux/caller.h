/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCaller: the thread about whose system call the supervisor is asked. The supervisor takes
 * arguments out of its memory, and copies of its descriptors. All of it is hostile.
 *
 * To ask for the same facts again for each call would cost more than the call. So an IpbCallers
 * keeps the last few callers. It belongs to one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As in the system's kernel: sizeof(struct sockaddr_storage). */
#define IPB_CALLER_MAX_ADDRESS 128
#define IPB_CALLERS_MAX 8
#define IPB_CALLER_NAME_SIZE 17

typedef struct {
    pid_t pid;                    /* of the thread */
    pid_t group;                  /* of its process */
    pid_t inner_pid, inner_group; /* the same, as they are known inside */
    mode_t umask;
    int pidfd; /* owned */
    bool is_pidfd_of_thread;
    int proc_fd; /* owned: its directory in /proc */
    int root_fd; /* owned; -1 until it is needed */
    int own_fds; /* borrowed: that of the IpbCallers */
    uint64_t last_use;
} IpbCaller;

typedef struct {
    IpbCaller callers[IPB_CALLERS_MAX];
    size_t n;
    uint64_t n_uses;
    int own_fds; /* owned: our own directory /proc/self/fd; -1 until it is needed */
} IpbCallers;

#define IPB_CALLERS_INIT                                                                           \
    {                                                                                              \
        .own_fds = -1                                                                              \
    }

/* Returns the caller, borrowed until the next call of this function, or NULL with errno if the
 * thread has ended. It is known to be the one that asked only if the notification is still valid
 * afterwards. */
IpbCaller *ipb_callers_get(IpbCallers *callers, pid_t pid);
/* Closes everything. */
void ipb_callers_clear(IpbCallers *callers);
/* The caller is about to set its process's umask. */
void ipb_callers_set_umask(IpbCallers *callers, const IpbCaller *caller, mode_t mask);

/* Returns false with errno EFAULT unless all bytes could be read. */
bool ipb_caller_read(const IpbCaller *caller, uint64_t address, void *ret_bytes, size_t size);
/* Reads a text that ends in NUL. Returns 0 or an errno; ENAMETOOLONG if it does not fit. */
int ipb_caller_read_text(const IpbCaller *caller, uint64_t address, char *ret_text, size_t size);
/* Returns a copy of the caller's descriptor @fd, or -1 with errno. */
int ipb_caller_copy_fd(const IpbCaller *caller, int fd);
/* Returns the caller's root directory, borrowed, or -1 with errno. */
int ipb_caller_root(IpbCaller *caller);
/* Opens a magic link in the caller's directory in /proc, "cwd" or "exe", as O_PATH. Returns an fd
 * or -1 with errno. */
int ipb_caller_open_link(const IpbCaller *caller, const char *name);
/* The name of the thread, which it chooses itself; "" if it has ended. */
void ipb_caller_name(const IpbCaller *caller, char ret_name[static IPB_CALLER_NAME_SIZE]);
/* Does a signal wait for which the caller has a handler? Then a call that waits has to end with
 * EINTR. (A signal that kills ends it anyway.) */
bool ipb_caller_has_signal(const IpbCaller *caller);
/* The device number of its controlling terminal; 0: it has none. */
dev_t ipb_caller_terminal(const IpbCaller *caller);
