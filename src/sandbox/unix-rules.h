/* SPDX-License-Identifier: Apache-2.0
 *
 * Which AF_UNIX socket may be connected to: decided by inode. For the thread of unix-connect.c, without GLib's loop.
 */
#pragma once

#include <sys/stat.h>

#include "sandbox/plan.h"

typedef struct {
    int diag_fd;     /* owned; -1: the inside has no network of its own */
    uint64_t cookie; /* of its network; 0: an older kernel does not tell */
    char **allowed;  /* host paths */
    char **own;      /* paths inside of the session's own file systems */
} IpbUnixRules;

typedef enum {
    IPB_UNIX_DENIED,
    IPB_UNIX_OWN,   /* of the inside */
    IPB_UNIX_NAMED, /* of the host, and the plan names it */
} IpbUnixVerdict;

bool ipb_unix_rules_init(IpbUnixRules *rules, const IpbSandboxPlan *plan, int diag_fd,
                         GError **error);
void ipb_unix_rules_clear(IpbUnixRules *rules);
/* Does the socket belong to the network of the inside? One of the host's may have been handed in, as a standard stream. */
bool ipb_unix_rules_is_inside(const IpbUnixRules *rules, int socket_fd);
/* @root_fd: the root of the inside. @info: of the socket file. */
IpbUnixVerdict ipb_unix_rules_decide(const IpbUnixRules *rules, int root_fd,
                                     const struct stat *info);
