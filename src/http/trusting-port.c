/* SPDX-License-Identifier: Apache-2.0
 *
 * Ports whose server trusts the processes of its own user; see the header.
 */
#include "http/trusting-port.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/fd.h"
#include "http/socket-address.h"

static socklen_t
make_name(unsigned port, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int size =
        snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "ipybox-trusts-user-%u", port);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) size);
}

int
ipb_trusting_port_claim(unsigned port, GError **error)
{
    struct sockaddr_un name;
    socklen_t size = make_name(port, &name);
    ipb_autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *) &name, size) == 0 && listen(fd, 1) == 0)
        return ipb_fd_steal(&fd);
    ipb_error_set_errno(error, errno, "port %u cannot be kept from sandboxes (socket @%s)", port,
                        name.sun_path + 1);
    return -1;
}

static bool
is_claimed(unsigned port)
{
    struct sockaddr_un name;
    socklen_t size = make_name(port, &name);
    ipb_autofd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* The socket never accepts, so connect() fails with EAGAIN when its queue is full. Only "no
     * such socket" means that the port is not claimed. */
    return fd < 0 || connect(fd, (struct sockaddr *) &name, size) == 0 || errno != ECONNREFUSED;
}

bool
ipb_trusting_port_is_peer(int fd)
{
    IpbSocketAddress peer;
    socklen_t size = sizeof peer;
    if (getpeername(fd, &peer.any, &size) < 0)
        return false;
    /* Both families have the port at the same offset. */
    unsigned port = ntohs(peer.in.sin_port);
    const struct in6_addr *address = &peer.in6.sin6_addr;
    bool is_mapped = peer.any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(address) &&
                     address->s6_addr[12] == IN_LOOPBACKNET;
    return (is_mapped || ipb_socket_address_is_loopback(&peer)) && is_claimed(port);
}
