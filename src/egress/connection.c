/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections out of a sandbox; see the header.
 */
#include "egress/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "egress/dial.h"

/* How long a client may take to say what it wants. Some clients connect in advance and wait. */
#define INPUT_TIMEOUT_MS (60 * 1000)
#define LINGER_TIMEOUT_MS (2 * 1000)
#define MAX_DRAINED (4ul * 1024 * 1024)
#define READ_SIZE 4096

typedef enum {
    STATE_INPUT,
    STATE_OPENING,
    STATE_RELAY,
    STATE_LINGER,
} State;

struct IpbConnection {
    const IpbEgressContext *context;
    const IpbProtocol *protocol;
    void (*on_end)(IpbConnection *connection, void *data);
    void *data;
    State state;
    int client_fd, server_fd;
    IpbWatch *watch; /* for the client's socket; the relay has its own */
    IpbTimer *deadline;
    IpbBuffer input;
    size_t progress;
    IpbDestination destination;
    bool is_http;                  /* the connection was opened for one HTTP request */
    const IpbUpstreamProxy *proxy; /* the machine's proxy that leads to the destination; or NULL */
    IpbDial *dial;
    IpbUpstreamTunnel *tunnel;
    IpbRelay *relay;
    size_t n_drained;
};

static void
on_deadline(void *data)
{
    ipb_connection_close(data);
}

static void
set_deadline(IpbConnection *connection, unsigned delay_ms)
{
    g_clear_pointer(&connection->deadline, ipb_timer_free);
    if (delay_ms > 0)
        connection->deadline =
            ipb_timer_new(connection->context->loop, delay_ms, on_deadline, connection);
}

static void
read_input(IpbConnection *connection)
{
    size_t room_left = connection->input.max_size - ipb_buffer_size(&connection->input);
    size_t wanted = MIN(room_left, READ_SIZE);
    if (wanted == 0) {
        /* The buffer is full. The protocol's parser should have refused the message before. */
        ipb_connection_close(connection);
        return;
    }
    uint8_t *room = ipb_buffer_reserve(&connection->input, wanted);
    ssize_t n = recv(connection->client_fd, room, wanted, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        ipb_connection_close(connection);
        return;
    }
    ipb_buffer_commit(&connection->input, (size_t) n);
    connection->protocol->on_input(connection);
}

static void
drain(IpbConnection *connection)
{
    char unread[65536];
    ssize_t n = recv(connection->client_fd, unread, sizeof unread, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    connection->n_drained += (size_t) MAX(n, 0);
    if (n <= 0 || connection->n_drained > MAX_DRAINED)
        ipb_connection_close(connection);
}

static void
on_ready(uint32_t events, void *data)
{
    IpbConnection *connection = data;
    if (connection->state == STATE_LINGER)
        drain(connection);
    else
        read_input(connection);
}

IpbConnection *
ipb_connection_new(int fd, const IpbConnectionOptions *options, GError **error)
{
    const int on = 1;
    IpbConnection *connection = g_new0(IpbConnection, 1);
    connection->context = options->context;
    connection->protocol = options->protocol;
    connection->on_end = options->on_end;
    connection->data = options->data;
    connection->client_fd = fd;
    connection->server_fd = -1;
    ipb_buffer_init(&connection->input, options->protocol->max_input);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connection->watch =
        ipb_watch_new(options->context->loop, fd, EPOLLIN, on_ready, connection, error);
    if (connection->watch == NULL) {
        ipb_connection_free(connection);
        return NULL;
    }
    set_deadline(connection, INPUT_TIMEOUT_MS);
    return connection;
}

void
ipb_connection_free(IpbConnection *connection)
{
    if (connection == NULL)
        return;
    ipb_timer_free(connection->deadline);
    ipb_dial_free(connection->dial);
    ipb_upstream_tunnel_free(connection->tunnel);
    ipb_relay_free(connection->relay);
    ipb_watch_free(connection->watch);
    ipb_fd_close(&connection->client_fd);
    ipb_fd_close(&connection->server_fd);
    ipb_buffer_clear(&connection->input);
    g_free(connection);
}

/* Access for protocols */

const IpbEgressContext *
ipb_connection_context(const IpbConnection *connection)
{
    return connection->context;
}

IpbBuffer *
ipb_connection_input(IpbConnection *connection)
{
    return &connection->input;
}

size_t *
ipb_connection_progress(IpbConnection *connection)
{
    return &connection->progress;
}

const IpbDestination *
ipb_connection_destination(const IpbConnection *connection)
{
    return &connection->destination;
}

bool
ipb_connection_is_open(const IpbConnection *connection)
{
    return connection->server_fd >= 0;
}

const IpbUpstreamProxy *
ipb_connection_proxy(const IpbConnection *connection)
{
    return connection->is_http ? connection->proxy : NULL;
}

bool
ipb_connection_local(const IpbConnection *connection, IpbDestination *ret_destination)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } local;
    socklen_t size = sizeof local;
    if (getsockname(connection->client_fd, &local.any, &size) < 0)
        return false;
    if (local.any.sa_family == AF_INET) {
        ipb_hostname_from_address(&local.v4.sin_addr, 4, &ret_destination->host);
        ret_destination->port = ntohs(local.v4.sin_port);
        return true;
    }
    if (local.any.sa_family == AF_INET6) {
        ipb_hostname_from_address(&local.v6.sin6_addr, 16, &ret_destination->host);
        ret_destination->port = ntohs(local.v6.sin6_port);
        return true;
    }
    return false;
}

void
ipb_connection_report(IpbConnection *connection, const IpbDestination *destination,
                      const char *reason)
{
    g_autofree char *target = ipb_destination_to_text(destination);
    ipb_violations_report(connection->context->violations, "network-outbound", target, reason);
}

bool
ipb_connection_agrees(IpbConnection *connection, const IpbDestination *destination,
                      const IpbDestination *named, char **ret_reason)
{
    if (ipb_destination_equal(destination, named))
        return true;
    if (destination->host.kind != IPB_HOST_NAME && named->port == destination->port)
        return ipb_domain_rules_check(connection->context->rules, named, ret_reason);
    g_autofree char *target = ipb_destination_to_text(destination);
    g_autofree char *other = ipb_destination_to_text(named);
    *ret_reason = g_strdup_printf("the connection is to %s, but what is sent on it asks for %s",
                                  target, other);
    return false;
}

/* Opening */

static void
set_open(IpbConnection *connection, int fd)
{
    connection->server_fd = fd;
    connection->state = STATE_INPUT;
    set_deadline(connection, INPUT_TIMEOUT_MS);
    ipb_watch_set_events(connection->watch, EPOLLIN);
    connection->protocol->on_open(connection);
}

static void
fail(IpbConnection *connection, const GError *error)
{
    if (g_error_matches(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED))
        ipb_connection_report(connection, &connection->destination, error->message);
    connection->protocol->on_failure(connection, error);
}

/* Reports the failure to the owner as well as to the program inside, because the user's setting is
 * wrong. */
static void
fail_proxy(IpbConnection *connection, const char *reason)
{
    g_autofree char *target = ipb_destination_to_text(&connection->destination);
    g_autoptr(GError) error =
        g_error_new(IPYBOX_ERROR, IPYBOX_ERROR_UNAVAILABLE, "the proxy of %s: %s",
                    connection->proxy->variable, reason);
    ipb_violations_report(connection->context->violations, IPB_VIOLATION_PROXY, target,
                          error->message);
    connection->protocol->on_failure(connection, error);
}

static void
on_tunnel(int fd, const GError *error, void *data)
{
    IpbConnection *connection = data;
    g_autofree char *reason = error != NULL ? g_strdup(error->message) : NULL;
    g_clear_pointer(&connection->tunnel, ipb_upstream_tunnel_free);
    if (reason == NULL)
        set_open(connection, fd);
    else
        fail_proxy(connection, reason);
}

static void
on_dialled(int fd, const GError *error, void *data)
{
    IpbConnection *connection = data;
    g_autoptr(GError) copy = error != NULL ? g_error_copy(error) : NULL;
    g_clear_pointer(&connection->dial, ipb_dial_free);
    if (copy == NULL && connection->proxy != NULL && !connection->is_http)
        connection->tunnel =
            ipb_upstream_tunnel_new(connection->context->loop, fd, connection->proxy,
                                    &connection->destination, on_tunnel, connection, &copy);
    else if (copy == NULL)
        set_open(connection, fd);
    if (copy != NULL && connection->proxy != NULL)
        fail_proxy(connection, copy->message);
    else if (copy != NULL)
        fail(connection, copy);
}

/* @rules: NULL to dial without rules. */
static void
dial(IpbConnection *connection, IpbDomainRules *rules, const IpbDestination *destination)
{
    connection->state = STATE_OPENING;
    /* What the client sends until then waits in the socket. */
    ipb_watch_set_events(connection->watch, 0);
    set_deadline(connection, 0);
    connection->dial = ipb_dial_new(connection->context->loop, connection->context->resolver, rules,
                                    destination, on_dialled, connection);
}

static void
dial_proxy(IpbConnection *connection)
{
    if (connection->proxy->problem != NULL)
        fail_proxy(connection, connection->proxy->problem);
    else
        dial(connection, NULL, &connection->proxy->address);
}

static void
deny(IpbConnection *connection, const char *reason)
{
    g_autoptr(GError) error = g_error_new_literal(IPYBOX_ERROR, IPYBOX_ERROR_REFUSED, reason);
    ipb_connection_report(connection, &connection->destination, reason);
    connection->protocol->on_failure(connection, error);
}

void
ipb_connection_open(IpbConnection *connection, const IpbDestination *destination, bool is_http)
{
    const IpbEgressContext *context = connection->context;
    g_autofree char *reason = NULL;
    connection->destination = *destination;
    connection->is_http = is_http;
    if (ipb_synthetic_addresses_is_in_range(&destination->host) &&
        !ipb_synthetic_addresses_look_up(context->addresses, &destination->host,
                                         &connection->destination.host))
        deny(connection, "no name has this address");
    else if (!ipb_domain_rules_check(context->rules, &connection->destination, &reason))
        deny(connection, reason);
    else if (context->upstream != NULL &&
             (connection->proxy =
                  ipb_upstream_find(context->upstream, &connection->destination, is_http)) != NULL)
        dial_proxy(connection);
    else
        dial(connection, context->rules, &connection->destination);
}

void
ipb_connection_open_unchecked(IpbConnection *connection, const IpbDestination *destination)
{
    connection->destination = *destination;
    dial(connection, NULL, &connection->destination);
}

/* Continuing and ending */

void
ipb_connection_become(IpbConnection *connection, const IpbProtocol *protocol)
{
    connection->protocol = protocol;
    connection->progress = 0;
    ipb_connection_extend(connection);
    protocol->on_input(connection);
}

void
ipb_connection_extend(IpbConnection *connection)
{
    set_deadline(connection, INPUT_TIMEOUT_MS);
}

bool
ipb_connection_send(IpbConnection *connection, const void *bytes, size_t size)
{
    ssize_t n = send(connection->client_fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n == (ssize_t) size)
        return true;
    /* If a socket has no room for a few bytes, its peer does not read. */
    ipb_connection_close(connection);
    return false;
}

void
ipb_connection_close(IpbConnection *connection)
{
    connection->on_end(connection, connection->data);
}

void
ipb_connection_finish(IpbConnection *connection, const void *bytes, size_t size)
{
    if (size > 0 && !ipb_connection_send(connection, bytes, size))
        return;
    /* Closing a socket that has unread bytes would discard the answer. */
    shutdown(connection->client_fd, SHUT_WR);
    ipb_fd_close(&connection->server_fd);
    ipb_buffer_clear(&connection->input);
    connection->state = STATE_LINGER;
    set_deadline(connection, LINGER_TIMEOUT_MS);
    ipb_watch_set_events(connection->watch, EPOLLIN);
}

static void
on_relay_end(void *data)
{
    ipb_connection_close(data);
}

void
ipb_connection_relay(IpbConnection *connection, IpbRelayMode mode, const IpbHttpBody *body,
                     const void *first, size_t first_size)
{
    IpbRelayOptions options = {
        .client_fd = ipb_fd_steal(&connection->client_fd),
        .server_fd = ipb_fd_steal(&connection->server_fd),
        .mode = mode,
        .first = first,
        .first_size = first_size,
        .second = ipb_buffer_data(&connection->input),
        .second_size = ipb_buffer_size(&connection->input),
        .on_end = on_relay_end,
        .data = connection,
    };
    if (body != NULL)
        options.body = *body;
    set_deadline(connection, 0);
    g_clear_pointer(&connection->watch, ipb_watch_free);
    connection->state = STATE_RELAY;
    connection->relay = ipb_relay_new(connection->context->loop, &options, NULL);
    ipb_buffer_clear(&connection->input);
    if (connection->relay == NULL)
        ipb_connection_close(connection);
}
