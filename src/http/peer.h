/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpPeer: who is at the other end of a TCP connection: the user whose process it is, and the socket, if that is on this machine.
 * The kernel tells this of each socket (sock_diag(7)); who connects cannot choose it.
 *
 * Plain struct, owned by value: the answer is kept, since it cannot change to something worse.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/types.h>

typedef struct {
    int fd; /* of the connection, borrowed */
    bool is_looked_up;
    bool is_found;
    uid_t uid;
    uint64_t inode; /* of its socket */
} IpbHttpPeer;

/* Is it certain that the other end belongs to a process of our effective user, in our network and user namespaces? */
bool ipb_http_peer_is_own(IpbHttpPeer *peer);
/* The same, and @ret_inode is that of its socket, as links in /proc/PID/fd have it. */
bool ipb_http_peer_get_own_socket(IpbHttpPeer *peer, uint64_t *ret_inode);
