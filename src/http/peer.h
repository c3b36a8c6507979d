/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbHttpPeer: who is at the other end of a TCP connection: the user whose process it is, if that is on this machine. The kernel tells
 * this of each socket (sock_diag(7)); who connects cannot choose it.
 *
 * Plain struct, owned by value: the answer is kept, since it cannot change to something worse.
 */
#pragma once

#include <stdbool.h>

#include <sys/types.h>

typedef struct {
    int fd; /* of the connection, borrowed */
    bool is_looked_up;
    bool has_uid;
    uid_t uid;
} IpbHttpPeer;

/* Is it certain that the other end belongs to a process of our effective user, in our network and user namespaces? */
bool ipb_http_peer_is_own(IpbHttpPeer *peer);
