/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose process a peer is; see the header. We ask the kernel for the socket that is the other end
 * of ours: it has our two addresses, swapped.
 */
#include "http/peer.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/socket-address.h"

/* The uid that the kernel reports for users that our user namespace does not map. */
#define OVERFLOW_UID 65534

typedef struct {
    struct nlmsghdr header;
    struct inet_diag_req_v2 body;
} Question;

static void
put(const IpbSocketAddress *address, __be32 *ret_address, __be16 *ret_port)
{
    if (address->any.sa_family == AF_INET) {
        memcpy(ret_address, &address->in.sin_addr, sizeof address->in.sin_addr);
        *ret_port = address->in.sin_port;
    } else {
        memcpy(ret_address, &address->in6.sin6_addr, sizeof address->in6.sin6_addr);
        *ret_port = address->in6.sin6_port;
    }
}

static bool
ask(int diag, const IpbSocketAddress *remote, const IpbSocketAddress *local, IpbHttpPeer *peer)
{
    Question question = {
        .header = {.nlmsg_len = sizeof question,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = (uint8_t) remote->any.sa_family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = ~0u,
                 .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}},
    };
    union {
        struct nlmsghdr header;
        char bytes[4096];
    } answer;
    put(remote, question.body.id.idiag_src, &question.body.id.idiag_sport);
    put(local, question.body.id.idiag_dst, &question.body.id.idiag_dport);
    if (send(diag, &question, sizeof question, MSG_NOSIGNAL) != sizeof question)
        return false;
    /* The kernel answers within the send. */
    ssize_t size = recv(diag, &answer, sizeof answer, MSG_DONTWAIT);
    if (size < (ssize_t) NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
        answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    const struct inet_diag_msg *found = NLMSG_DATA(&answer.header);
    /* A socket that is being closed has no owner, which reads as root. */
    if (found->idiag_state != TCP_ESTABLISHED)
        return false;
    peer->uid = found->idiag_uid;
    peer->inode = found->idiag_inode;
    return true;
}

/* While ours is established, no other socket can have the addresses of its other end. */
static bool
is_established(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           info.tcpi_state == TCP_ESTABLISHED;
}

static bool
look_up(IpbHttpPeer *peer)
{
    int fd = peer->fd;
    IpbSocketAddress local, remote;
    socklen_t local_size = sizeof local, remote_size = sizeof remote;
    if (getsockname(fd, &local.any, &local_size) < 0 ||
        getpeername(fd, &remote.any, &remote_size) < 0 || !ipb_socket_address_is_loopback(&local) ||
        !ipb_socket_address_is_loopback(&remote))
        return false;
    ipb_autofd diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    return diag >= 0 && ask(diag, &remote, &local, peer) && is_established(fd);
}

bool
ipb_http_peer_is_own(IpbHttpPeer *peer)
{
    if (!peer->is_looked_up) {
        peer->is_found = look_up(peer);
        peer->is_looked_up = true;
    }
    return peer->is_found && peer->uid == geteuid() && peer->uid != OVERFLOW_UID;
}

bool
ipb_http_peer_get_own_socket(IpbHttpPeer *peer, uint64_t *ret_inode)
{
    if (!ipb_http_peer_is_own(peer))
        return false;
    *ret_inode = peer->inode;
    return peer->inode != 0;
}
