/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpPeer: the peer of a TCP connection on this machine: the user whose process it is, and its
 * socket. The kernel reports this for each socket (sock_diag(7)); the peer cannot choose it.
 *
 * Plain struct, owned by value. The answer is kept, because it cannot change to a less trusted one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

typedef struct {
    /* Of the connection, borrowed */
    int fd;
    bool is_looked_up;
    bool is_found;
    uid_t uid;
    /* Of its socket */
    uint64_t inode;
} IpbHttpPeer;

/* Is it certain that the other end belongs to a process of our effective user, in our network and
 * user namespaces? */
bool ipb_http_peer_is_own(IpbHttpPeer *peer);
/* The same; @ret_inode is the inode of its socket, as in the links of /proc/PID/fd. */
bool ipb_http_peer_get_own_socket(IpbHttpPeer *peer, uint64_t *ret_inode);
