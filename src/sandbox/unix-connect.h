/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbUnixConnect: answers the connect() calls of a sandbox, about which seccomp asks, so that AF_UNIX sockets of the host stay out of reach
 * while those of the inside work. Neither read-only mounts nor Landlock stop a connect by path.
 *
 * Each connect() is done here, on a copy of the caller's socket: what was checked is what is connected, whatever other threads of the
 * inside do meanwhile to memory, descriptors or files. Allowed are sockets on the session's own file systems, sockets that somebody inside
 * listens on, and those that the plan names; docs/internals/sandbox.md has the whole rule.
 *
 * It has a thread of its own: some of this may block at the inside's will, and then only that sandbox shall wait.
 * Ownership: the owner frees it. The callback comes from the loop.
 */
#pragma once

#include "base/loop.h"
#include "sandbox/plan.h"

typedef struct IpbUnixConnect IpbUnixConnect;

typedef struct {
    int notify_fd; /* seccomp's listener; the new object's, whatever becomes of the call */
    int diag_fd; /* NETLINK_SOCK_DIAG of the inside; borrowed; -1: the inside has no network of its own, nothing is its own */
    const IpbSandboxPlan *plan;
    /* As root: the outer user, whose rights count for what the plan does not name; else our own. */
    uint32_t uid, gid;
    void (*on_denied)(const char *path, void *data); /* may be NULL */
    /* Nobody is left who could ask: time to free it. May be NULL. */
    void (*on_ended)(IpbUnixConnect *connect, void *data);
    void *data;
} IpbUnixConnectOptions;

IpbUnixConnect *ipb_unix_connect_new(IpbLoop *loop, const IpbUnixConnectOptions *options,
                                     GError **error);
/* Calls that wait fail with ENOSYS. */
void ipb_unix_connect_free(IpbUnixConnect *connect);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbUnixConnect, ipb_unix_connect_free)
