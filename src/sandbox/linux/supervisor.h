/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSupervisor: answers the system calls of a sandbox about which its seccomp filter asks (user
 * notification). Only one filter of a process can ask, so everything that is decided for each call
 * is decided here: file-calls.h (names in writable directories) and unix-connect.h (sockets).
 *
 * The supervisor performs each call itself, so that it does exactly what it checked. It has a
 * thread of its own: code inside can make some of the calls block, as a slow disk can, and that
 * must delay no other sandbox.
 *
 * The thread has the rights of the outer user for files, and no capability except to read its
 * callers. It works on the mounts of the sandbox.
 *
 * Ownership: the owner frees it. Callbacks come from the loop.
 */
#pragma once

#include "base/loop.h"
#include "sandbox/linux/sandbox-user.h"
#include "sandbox/sandbox.h"

typedef struct IpbSupervisor IpbSupervisor;

typedef struct {
    int notify_fd; /* seccomp's listener; the new object's, even if the call fails */
    /* NETLINK_SOCK_DIAG of the sandbox; borrowed. -1: it has no network of its own, so no socket is
     * its own. */
    int diag_fd;
    const IpbSandboxPlan *plan;         /* a reference is taken */
    const char *const *own_directories; /* the sandbox's own writable file systems */
    /* Whose rights count for files. If we are root, that is a different user from ours. */
    IpbSandboxUser user;
    bool are_sockets_confined; /* as in file-calls.h */
    /* May be NULL. */
    void (*on_denied)(const IpbSandboxDenial *denial, void *data);
    /* No process is left that could ask: free it. May be NULL. */
    void (*on_ended)(IpbSupervisor *supervisor, void *data);
    void *data;
} IpbSupervisorOptions;

IpbSupervisor *ipb_supervisor_new(IpbLoop *loop, const IpbSupervisorOptions *options,
                                  GError **error);
/* Reports the denials of all calls that have ended, now and not from the loop. on_denied must not
 * free the supervisor. */
void ipb_supervisor_report_denials(IpbSupervisor *supervisor);
/* Calls that wait fail with ENOSYS. */
void ipb_supervisor_free(IpbSupervisor *supervisor);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSupervisor, ipb_supervisor_free)
