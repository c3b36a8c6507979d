/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbUnixSockets: the AF_UNIX sockets to which code inside may connect. A socket is judged by its
 * inode. Used by the supervisor's thread, without GLib's loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include <glib.h>

typedef struct {
    int diag_fd;     /* owned; -1: the sandbox has no network of its own */
    uint64_t cookie; /* of its network; 0: an older kernel does not report it */
    char **allowed;  /* host paths */
    char **own;      /* paths inside of the sandbox's own file systems */
} IpbUnixSockets;

typedef enum {
    IPB_UNIX_DENIED,
    IPB_UNIX_OWN,   /* it belongs to the sandbox */
    IPB_UNIX_NAMED, /* it belongs to the host, and the plan names it */
} IpbUnixVerdict;

/* @diag_fd: a NETLINK_SOCK_DIAG socket of the sandbox, borrowed; or -1. @allowed: char *. */
bool ipb_unix_sockets_init(IpbUnixSockets *sockets, int diag_fd, const GPtrArray *allowed,
                           const char *const *own, GError **error);
void ipb_unix_sockets_clear(IpbUnixSockets *sockets);
/* Does the socket belong to the sandbox's network? A socket of the host may have been handed in, as
 * a standard stream. */
bool ipb_unix_sockets_are_inside(const IpbUnixSockets *sockets, int socket_fd);
/* @root_fd: the root of the caller. @info: of the socket file. */
IpbUnixVerdict ipb_unix_sockets_judge(const IpbUnixSockets *sockets, int root_fd,
                                      const struct stat *info);
