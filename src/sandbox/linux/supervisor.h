/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSupervisor: answers the system calls of a sandbox about which its seccomp filter asks (user
 * notification). Only one filter of a process can ask, so everything that is decided for each call
 * is decided here.
 *
 * At present that is connect(). AF_UNIX sockets of the host stay out of reach, while those of the
 * sandbox work. Neither read-only mounts nor Landlock prevent a connect by path. Allowed are
 * sockets on the sandbox's own file systems, sockets on which a process inside listens, and those
 * that the plan names (unix-sockets.h). docs/internals/sandbox.md has the whole rule.
 *
 * The supervisor performs each call itself, on a copy of the caller's socket. So it connects
 * exactly what it checked, even if other threads inside change memory, descriptors or files at the
 * same time.
 *
 * It has a thread of its own: code inside can make some of the calls block, and that must delay no
 * other sandbox.
 *
 * Ownership: the owner frees it. Callbacks come from the loop.
 */
#pragma once

#include "base/loop.h"

typedef struct IpbSupervisor IpbSupervisor;

typedef struct {
    int notify_fd; /* seccomp's listener; the new object's, even if the call fails */
    /* NETLINK_SOCK_DIAG of the sandbox; borrowed. -1: it has no network of its own, so no socket is
     * its own. */
    int diag_fd;
    const GPtrArray *unix_sockets;      /* char *: host paths that the plan names */
    const char *const *own_directories; /* the sandbox's own writable file systems */
    /* The outer user, whose rights count for sockets that the plan does not name. If we are root,
     * that is a different user from ours. */
    uint32_t uid, gid;
    void (*on_denied)(const char *path, void *data); /* may be NULL */
    /* No process is left that could ask: free it. May be NULL. */
    void (*on_ended)(IpbSupervisor *supervisor, void *data);
    void *data;
} IpbSupervisorOptions;

IpbSupervisor *ipb_supervisor_new(IpbLoop *loop, const IpbSupervisorOptions *options,
                                  GError **error);
/* Calls that wait fail with ENOSYS. */
void ipb_supervisor_free(IpbSupervisor *supervisor);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSupervisor, ipb_supervisor_free)
