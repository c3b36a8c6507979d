/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken from the process whose connect() is asked about: the address out of its memory, copies of its descriptors, and files as it
 * would find them. All of it is hostile. For the thread of unix-connect.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As the kernel: sizeof(struct sockaddr_storage). */
#define IPB_UNIX_MAX_ADDRESS 128

typedef struct {
    pid_t pid;   /* of the thread that called */
    int pidfd;   /* owned */
    int root_fd; /* owned; -1 until asked for */
} IpbUnixCaller;

/* False with errno: it is gone. */
bool ipb_unix_caller_open(IpbUnixCaller *caller, pid_t pid);
void ipb_unix_caller_clear(IpbUnixCaller *caller);
bool ipb_unix_caller_read(const IpbUnixCaller *caller, uint64_t address, void *ret_bytes,
                          size_t size);
/* A copy of its descriptor @fd; -1 with errno. */
int ipb_unix_caller_copy_fd(const IpbUnixCaller *caller, int fd);
/* The root of the caller; -1 with errno. */
int ipb_unix_caller_root(IpbUnixCaller *caller);
/* An O_PATH fd of what @path names to the caller; -1 with errno. */
int ipb_unix_caller_find(IpbUnixCaller *caller, const char *path);
