/* SPDX-License-Identifier: Apache-2.0
 *
 * The name server; see the header.
 */
#include "egress/dns.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"

/* Addresses never change, so any value is correct. */
#define TTL_S 60
/* Queries that one wake-up serves. The next wake-up serves the rest. */
#define MAX_QUERIES 32

struct IpbDns {
    const IpbEgressContext *context;
    int fd;
    IpbWatch *watch;
};

/* Answers */

static bool
is_localhost(const IpbHost *name)
{
    return strcmp(name->text, "localhost") == 0 || g_str_has_suffix(name->text, ".localhost");
}

static bool
asks_for_address(const IpbDnsQuery *query)
{
    return query->class == IPB_DNS_CLASS_IN &&
           (query->type == IPB_DNS_TYPE_A || query->type == IPB_DNS_TYPE_AAAA);
}

static void
report(const IpbEgressContext *context, const IpbDnsQuery *query, const char *target,
       const char *reason)
{
    /* Programs query many kinds of records. The user is interested in the host that was wanted. */
    if (asks_for_address(query))
        ipb_violations_report(context->violations, "dns", target, reason);
}

static IpbDnsCode
answer(const IpbEgressContext *context, const IpbDnsQuery *query, uint8_t ret_address[4],
       bool *ret_has_address)
{
    static const uint8_t LOOPBACK[4] = {127, 0, 0, 1};
    IpbHost name;
    g_autofree char *reason = NULL;
    bool wants_address = query->class == IPB_DNS_CLASS_IN && query->type == IPB_DNS_TYPE_A;
    if (!query->is_host_name ||
        !ipb_hostname_parse(query->name, strlen(query->name), &name, NULL) ||
        name.kind != IPB_HOST_NAME)
        return IPB_DNS_NO_SUCH_NAME;
    if (is_localhost(&name)) {
        memcpy(ret_address, LOOPBACK, sizeof LOOPBACK);
        *ret_has_address = wants_address;
        return IPB_DNS_NO_ERROR;
    }
    if (!ipb_domain_rules_check_name(context->rules, &name, &reason)) {
        report(context, query, name.text, reason);
        return IPB_DNS_NO_SUCH_NAME;
    }
    if (!wants_address)
        return IPB_DNS_NO_ERROR;
    if (!ipb_synthetic_addresses_assign(context->addresses, &name, ret_address)) {
        report(context, query, name.text, "the program has asked for too many different names");
        return IPB_DNS_SERVER_FAILURE;
    }
    *ret_has_address = true;
    return IPB_DNS_NO_ERROR;
}

/* Returns the size of the reply; 0: the query gets none. */
static size_t
make_reply(const IpbEgressContext *context, const uint8_t *query, size_t size,
           uint8_t ret_reply[IPB_DNS_MAX_REPLY])
{
    IpbDnsQuery parsed;
    IpbDnsCode code;
    uint8_t address[4];
    bool has_address = false;
    if (!ipb_dns_query_parse(query, size, &parsed, &code))
        return 0;
    if (code == IPB_DNS_NO_ERROR)
        code = answer(context, &parsed, address, &has_address);
    return ipb_dns_reply_write(&parsed, code, has_address ? address : NULL, TTL_S, ret_reply);
}

/* UDP */

/* The reply must come from the address that was asked, which can be any. The control message of the
 * query names it; without the interface, the same control message sets it for the reply. */
static bool
set_source(struct msghdr *message)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    struct in_pktinfo info;
    if (control == NULL || control->cmsg_level != IPPROTO_IP || control->cmsg_type != IP_PKTINFO)
        return false;
    memcpy(&info, CMSG_DATA(control), sizeof info);
    info.ipi_spec_dst = info.ipi_addr;
    info.ipi_ifindex = 0;
    memcpy(CMSG_DATA(control), &info, sizeof info);
    return true;
}

/* False: there is nothing to read now. */
static bool
serve_datagram(IpbDns *dns)
{
    uint8_t query[IPB_DNS_MAX_QUERY], reply[IPB_DNS_MAX_REPLY];
    struct sockaddr_in peer;
    union {
        char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
        struct cmsghdr align;
    } control;
    struct iovec in = {query, sizeof query}, out = {reply, 0};
    struct msghdr message = {
        .msg_name = &peer,
        .msg_namelen = sizeof peer,
        .msg_iov = &in,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof control,
    };
    ssize_t n = recvmsg(dns->fd, &message, MSG_DONTWAIT);
    if (n < 0)
        return errno == EINTR;
    if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || !set_source(&message))
        return true;
    out.iov_len = make_reply(dns->context, query, (size_t) n, reply);
    message.msg_iov = &out;
    message.msg_flags = 0;
    /* A client that does not read gets no answer. */
    if (out.iov_len > 0)
        sendmsg(dns->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return true;
}

static void
on_datagrams(uint32_t events, void *data)
{
    IpbDns *dns = data;
    for (int i = 0; i < MAX_QUERIES && serve_datagram(dns); i++)
        ;
}

IpbDns *
ipb_dns_new(const IpbEgressContext *context, int fd, GError **error)
{
    const int on = 1;
    IpbDns *dns = g_new0(IpbDns, 1);
    dns->context = context;
    dns->fd = fd;
    if (setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof on) < 0)
        ipb_error_set_errno(error, errno, "cannot prepare the socket of the name server");
    else
        dns->watch = ipb_watch_new(context->loop, fd, EPOLLIN, on_datagrams, dns, error);
    if (dns->watch == NULL)
        g_clear_pointer(&dns, ipb_dns_free);
    return dns;
}

void
ipb_dns_free(IpbDns *dns)
{
    if (dns == NULL)
        return;
    ipb_watch_free(dns->watch);
    ipb_fd_close(&dns->fd);
    g_free(dns);
}

/* TCP: the size of a message comes before the message. */

#define LENGTH_SIZE 2

/* The size of the first message in the input; 0 while it is incomplete. */
static size_t
whole_message(const IpbBuffer *input)
{
    size_t present = ipb_buffer_size(input);
    if (present < LENGTH_SIZE)
        return 0;
    const uint8_t *bytes = ipb_buffer_data(input);
    size_t size = (size_t) bytes[0] << 8 | bytes[1];
    return present - LENGTH_SIZE >= size ? size : 0;
}

static bool
is_too_long(const IpbBuffer *input)
{
    if (ipb_buffer_size(input) < LENGTH_SIZE)
        return false;
    const uint8_t *bytes = ipb_buffer_data(input);
    size_t size = (size_t) bytes[0] << 8 | bytes[1];
    return size == 0 || size > IPB_DNS_MAX_QUERY;
}

static void
on_tcp_input(IpbConnection *connection)
{
    IpbBuffer *input = ipb_connection_input(connection);
    uint8_t message[LENGTH_SIZE + IPB_DNS_MAX_REPLY];
    for (;;) {
        if (is_too_long(input)) {
            ipb_connection_close(connection);
            return;
        }
        size_t size = whole_message(input);
        if (size == 0)
            return;
        size_t n = make_reply(ipb_connection_context(connection),
                              ipb_buffer_data(input) + LENGTH_SIZE, size, message + LENGTH_SIZE);
        ipb_buffer_consume(input, LENGTH_SIZE + size);
        message[0] = (uint8_t) (n >> 8);
        message[1] = (uint8_t) n;
        if (n > 0 && !ipb_connection_send(connection, message, LENGTH_SIZE + n))
            return;
        ipb_connection_extend(connection);
    }
}

const IpbProtocol IPB_DNS_TCP = {
    .on_input = on_tcp_input,
    .max_input = 2 * (LENGTH_SIZE + IPB_DNS_MAX_QUERY),
};
