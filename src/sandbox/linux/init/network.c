/* SPDX-License-Identifier: Apache-2.0
 *
 * The network inside a sandbox: a loopback device, and the listeners. If a listener needs it, every
 * IPv4 address is local (AnyIP). The listeners are opened here, and the core accepts their
 * connections. So the core knows the sandbox by the socket, and no process between a client and the
 * core passes data on.
 */
#include "sandbox/linux/init/init.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#define LISTEN_BACKLOG 512
/* Always the first device of a network namespace. */
#define LOOPBACK_INDEX 1

static bool
raise_loopback(IpbStepError *error)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return ipb_step_fail(error, IPB_STEP_LOOPBACK, 0);
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    bool ok = ioctl(fd, SIOCSIFFLAGS, &request) == 0 || ipb_step_fail(error, IPB_STEP_LOOPBACK, 0);
    close(fd);
    return ok;
}

typedef struct {
    struct nlmsghdr header;
    struct rtmsg route;
    struct {
        struct rtattr head;
        uint32_t value;
    } device;
} RouteRequest;

/* `ip route add local default dev lo table local` */
static int
send_route(int fd)
{
    RouteRequest request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = RTM_NEWROUTE,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK},
        .route = {.rtm_family = AF_INET,
                  .rtm_table = RT_TABLE_LOCAL,
                  .rtm_protocol = RTPROT_BOOT,
                  .rtm_scope = RT_SCOPE_HOST,
                  .rtm_type = RTN_LOCAL},
        .device = {.head = {.rta_len = RTA_LENGTH(sizeof(uint32_t)), .rta_type = RTA_OIF},
                   .value = LOOPBACK_INDEX},
    };
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } reply = {0};
    if (send(fd, &request, sizeof request, 0) < 0)
        return -1;
    ssize_t n = recv(fd, &reply, sizeof reply, MSG_TRUNC);
    if (n < (ssize_t) sizeof reply.header || reply.header.nlmsg_type != NLMSG_ERROR) {
        errno = n < 0 ? errno : EPROTO;
        return -1;
    }
    errno = -reply.error.error;
    return reply.error.error == 0 ? 0 : -1;
}

static bool
make_every_address_local(IpbStepError *error)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return ipb_step_fail(error, IPB_STEP_ROUTE, 0);
    bool ok = send_route(fd) == 0 || ipb_step_fail(error, IPB_STEP_ROUTE, 0);
    close(fd);
    return ok;
}

static int
open_listener(const IpbBlobListener *listener)
{
    int type = (listener->is_udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(AF_INET, type, 0);
    if (fd < 0)
        return -1;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t) listener->port),
        .sin_addr.s_addr = htonl(listener->is_any_address ? INADDR_ANY : INADDR_LOOPBACK),
    };
    int on = 1;
    /* A UDP socket on every address needs to know which address a packet was sent to. */
    if (listener->is_udp && listener->is_any_address &&
        setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) < 0)
        return -1;
    if (bind(fd, (struct sockaddr *) &address, sizeof address) < 0 ||
        (!listener->is_udp && listen(fd, LISTEN_BACKLOG) < 0))
        return -1;
    return fd;
}

/* With this socket the core can ask which sockets are bound inside. */
static bool
send_diag(const IpbInit *init, IpbStepError *error)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return ipb_step_fail(error, IPB_STEP_DIAG, 0);
    IpbPacket packet = {.type = IPB_PACKET_DIAG};
    bool ok = ipb_report(init->control, &packet, fd) || ipb_step_fail(error, IPB_STEP_CONTROL, 0);
    close(fd);
    return ok;
}

bool
ipb_network_set_up(const IpbInit *init, IpbStepError *error)
{
    const IpbBlobHeader *header = init->header;
    if ((header->flags & IPB_BLOB_WEAKER) != 0)
        return true;
    if (!raise_loopback(error))
        return false;
    if ((header->flags & IPB_BLOB_ANY_ADDRESS) != 0 && !make_every_address_local(error))
        return false;
    const IpbBlobListener *listeners = ipb_blob_at(init->bytes, header->listeners);
    for (uint32_t i = 0; i < header->listeners.count; i++) {
        int fd = open_listener(&listeners[i]);
        if (fd < 0)
            return ipb_step_fail(error, IPB_STEP_LISTENER, i);
        IpbPacket packet = {.type = IPB_PACKET_LISTENER, .index = i};
        bool is_sent = ipb_report(init->control, &packet, fd);
        close(fd);
        if (!is_sent)
            return ipb_step_fail(error, IPB_STEP_CONTROL, 0);
    }
    return (header->flags & IPB_BLOB_CONNECT) == 0 || send_diag(init, error);
}
