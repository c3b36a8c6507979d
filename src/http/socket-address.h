/* SPDX-License-Identifier: Apache-2.0
 *
 * An address of a TCP socket, in the form of the system calls. Plain data.
 */
#pragma once

#include <stdbool.h>

#include <netinet/in.h>
#include <sys/socket.h>

typedef union {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
} IpbSocketAddress;

static inline bool
ipb_socket_address_is_loopback(const IpbSocketAddress *address)
{
    if (address->any.sa_family == AF_INET)
        return ntohl(address->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address->in6.sin6_addr);
}
