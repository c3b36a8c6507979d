/* SPDX-License-Identifier: Apache-2.0
 *
 * connect(), which the supervisor performs on a copy of the caller's socket. So it connects exactly
 * what it checked, even if other threads inside change memory, descriptors or files at the same
 * time.
 *
 * AF_UNIX sockets of the host stay out of reach, while those of the sandbox work. Neither read-only
 * mounts nor Landlock prevent a connect by path. Allowed are sockets on the sandbox's own file
 * systems, sockets on which a process inside listens, and those that the plan names
 * (unix-sockets.h). docs/internals/sandbox.md has the whole rule.
 */
#pragma once

#include "sandbox/linux/caller.h"
#include "sandbox/linux/notification.h"
#include "sandbox/linux/unix-sockets.h"

typedef struct {
    IpbUnixSockets sockets;
    /* The outer user, who is not the user of this process: only we are root */
    bool has_outer_user;
    uint32_t uid, gid;
    /* Called in the supervisor's thread. */
    void (*on_denied)(const IpbCaller *caller, const char *path, void *data);
    void *data;
} IpbUnixConnect;

/* A connect() that has not been answered yet. */
typedef struct {
    IpbNotification notification;
    int copy;   /* owned: the caller's socket. It is ready when it can be written. */
    int target; /* owned: O_PATH of a socket file whose queue was full; -1: the network answers */
    bool is_named;
    int64_t deadline_us;
} IpbConnectWait;

/* Returns true if the call waits: *ret_wait. Otherwise it was answered. */
bool ipb_unix_connect_perform(IpbUnixConnect *connect, IpbCallers *callers,
                              const IpbNotification *notification, IpbConnectWait *ret_wait);
/* Tries again. Returns true if the call was answered, and clears @wait. */
bool ipb_connect_wait_go_on(const IpbUnixConnect *connect, IpbCallers *callers,
                            IpbConnectWait *wait, bool is_ready);
/* Answers with @errno_value, and clears @wait. */
void ipb_connect_wait_end(IpbConnectWait *wait, int errno_value);
/* From now on the rights of the outer user count for files in this thread. Returns false if the
 * system did not allow that: then the thread must not go on. */
bool ipb_unix_connect_become_outer_user(const IpbUnixConnect *connect);
