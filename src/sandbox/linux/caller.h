/* SPDX-License-Identifier: Apache-2.0
 *
 * What is taken from the process whose connect() is asked about: the address out of its memory, copies of its descriptors, and files as it
 * would find them. All of it is hostile. For the thread of supervisor.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As the kernel: sizeof(struct sockaddr_storage). */
#define IPB_CALLER_MAX_ADDRESS 128

typedef struct {
    pid_t pid;   /* of the thread that called */
    int pidfd;   /* owned */
    int root_fd; /* owned; -1 until asked for */
} IpbCaller;

/* False with errno: it is gone. */
bool ipb_caller_open(IpbCaller *caller, pid_t pid);
void ipb_caller_clear(IpbCaller *caller);
bool ipb_caller_read(const IpbCaller *caller, uint64_t address, void *ret_bytes, size_t size);
/* A copy of its descriptor @fd; -1 with errno. */
int ipb_caller_copy_fd(const IpbCaller *caller, int fd);
/* The root of the caller; -1 with errno. */
int ipb_caller_root(IpbCaller *caller);
/* An O_PATH fd of what @path names to the caller; -1 with errno. */
int ipb_caller_find(IpbCaller *caller, const char *path);
