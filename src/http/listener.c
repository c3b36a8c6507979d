/* SPDX-License-Identifier: Apache-2.0
 *
 * Listening sockets; see the header.
 */
#include "http/listener.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "http/socket-address.h"

#define LISTEN_BACKLOG 512
/* A free port must be free on all addresses. */
#define MAX_TRIES 16

typedef struct {
    IpbSocketAddress addresses[IPB_LISTENER_MAX];
    size_t n;
    /* ::1 may be missing */
    bool is_localhost;
} Addresses;

static void
add_loopback(Addresses *found)
{
    found->addresses[0].in =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    found->addresses[1].in6 =
        (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    found->n = 2;
    found->is_localhost = true;
}

static bool
look_up(const char *host, Addresses *found, GError **error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    if (strcmp(host, "localhost") == 0) {
        add_loopback(found);
        return true;
    }
    int status = getaddrinfo(host[0] != '\0' ? host : NULL, "0", &hints, &list);
    if (status != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "cannot listen on \"%s\": %s; give a name or an address of this machine", host,
                    gai_strerror(status));
        return false;
    }
    for (struct addrinfo *item = list; item != NULL && found->n < IPB_LISTENER_MAX;
         item = item->ai_next)
        if (item->ai_addrlen <= sizeof(IpbSocketAddress))
            memcpy(&found->addresses[found->n++], item->ai_addr, item->ai_addrlen);
    freeaddrinfo(list);
    return true;
}

/* Listens on @address, and sets its port to the actual one. -1: see errno. */
static int
open_one(IpbSocketAddress *address)
{
    int on = 1;
    socklen_t size = address->any.sa_family == AF_INET ? sizeof address->in : sizeof address->in6;
    ipb_autofd fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0)
        return -1;
    if (address->any.sa_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) < 0)
        return -1;
    if (bind(fd, &address->any, size) < 0 || listen(fd, LISTEN_BACKLOG) < 0 ||
        getsockname(fd, &address->any, &size) < 0)
        return -1;
    return ipb_fd_steal(&fd);
}

static void
close_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ipb_fd_close(&fds[i]);
}

/* Listens on all addresses at *@port, which is set to a free one if it is 0. Returns 0 or errno. */
static int
open_all(Addresses *found, unsigned *port, int *ret_fds, size_t *ret_n_fds)
{
    size_t n = 0;
    for (size_t i = 0; i < found->n; i++) {
        IpbSocketAddress *address = &found->addresses[i];
        /* sin_port and sin6_port are at the same offset. */
        address->in.sin_port = htons((uint16_t) *port);
        int fd = open_one(address);
        if (fd < 0) {
            int saved = errno;
            bool is_missing = saved == EADDRNOTAVAIL || saved == EAFNOSUPPORT;
            if (is_missing && found->is_localhost && i > 0)
                continue;
            close_all(ret_fds, n);
            return saved;
        }
        *port = ntohs(address->in.sin_port);
        ret_fds[n++] = fd;
    }
    *ret_n_fds = n;
    return 0;
}

bool
ipb_http_listener_open(const char *host, unsigned port, int ret_fds[IPB_LISTENER_MAX],
                       size_t *ret_n_fds, unsigned *ret_port, bool *ret_is_public, GError **error)
{
    Addresses found = {0};
    unsigned got = port;
    if (port > 65535) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%u is no port", port);
        return false;
    }
    if (!look_up(host, &found, error))
        return false;
    int saved = open_all(&found, &got, ret_fds, ret_n_fds);
    for (int i = 1; i < MAX_TRIES && port == 0 && saved == EADDRINUSE; i++) {
        got = 0;
        saved = open_all(&found, &got, ret_fds, ret_n_fds);
    }
    if (saved != 0)
        return ipb_error_set_errno(error, saved, "cannot listen on %s, port %u",
                                   host[0] != '\0' ? host : "all addresses", port);
    *ret_port = got;
    *ret_is_public = false;
    for (size_t i = 0; i < found.n; i++)
        *ret_is_public |= !ipb_socket_address_is_loopback(&found.addresses[i]);
    return true;
}

bool
ipb_http_listener_examine(int fd, IpbListenerInfo *ret_info, GError **error)
{
    union {
        IpbSocketAddress address;
        struct sockaddr_storage storage;
    } own;
    int type = 0, listens = 0;
    socklen_t type_size = sizeof type, listens_size = sizeof listens, size = sizeof own;
    bool is_listener = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0 &&
                       type == SOCK_STREAM &&
                       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) == 0 &&
                       listens != 0 && getsockname(fd, &own.address.any, &size) == 0;
    int family = is_listener ? own.address.any.sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "file descriptor %d is no stream socket of TCP or Unix that listens", fd);
        return false;
    }
    bool is_unix = family == AF_UNIX;
    *ret_info = (IpbListenerInfo){
        .is_unix = is_unix,
        .is_public = !is_unix && !ipb_socket_address_is_loopback(&own.address),
        /* sin_port and sin6_port are at the same offset. */
        .port = is_unix ? 0 : ntohs(own.address.in.sin_port),
    };
    return true;
}
