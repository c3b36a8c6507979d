/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbCaller: the process about whose system call the supervisor is asked. The supervisor takes an
 * address out of its memory, copies of its descriptors, and files as the process would find them.
 * All of it is hostile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As in the system's kernel: sizeof(struct sockaddr_storage). */
#define IPB_CALLER_MAX_ADDRESS 128

typedef struct {
    pid_t pid;   /* of the thread that called */
    int pidfd;   /* owned */
    int root_fd; /* owned; -1 until it is needed */
} IpbCaller;

/* Returns false with errno if the process has ended. */
bool ipb_caller_open(IpbCaller *caller, pid_t pid);
void ipb_caller_clear(IpbCaller *caller);
bool ipb_caller_read(const IpbCaller *caller, uint64_t address, void *ret_bytes, size_t size);
/* Returns a copy of the caller's descriptor @fd, or -1 with errno. */
int ipb_caller_copy_fd(const IpbCaller *caller, int fd);
/* Returns the caller's root directory, borrowed, or -1 with errno. */
int ipb_caller_root(IpbCaller *caller);
/* Returns an O_PATH fd of the file that @path means to the caller, or -1 with errno. */
int ipb_caller_find(IpbCaller *caller, const char *path);
