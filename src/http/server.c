/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server: its listening sockets, and which connections it accepts and keeps. One
 * connection is in http/connection.c. See the header.
 */
#include "http/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "http/connection.h"
#include "http/listener.h"
#include "http/output.h"
#include "http/trusting-port.h"

/* Connections accepted by one wake-up; the rest comes with the next. */
#define MAX_ACCEPTS 16
/* How long nothing is accepted when the process has no fd left. */
#define ACCEPT_RETRY_MS 200

const IpbHttpServerOptions IPB_HTTP_SERVER_OPTIONS = {
    .error_member = "error",
    .max_connections = 64,
    .max_body = 64ul * 1024 * 1024,
    .max_held_bodies = 256ul * 1024 * 1024,
    .max_held_answers = 512ul * 1024 * 1024,
    .timeouts =
        {
            .head_ms = 10 * 1000,
            .body_ms = 60 * 1000,
            .write_ms = 60 * 1000,
            .idle_ms = 5 * 60 * 1000,
            .drain_ms = 2 * 1000,
        },
};

typedef struct {
    IpbHttpServer *server;
    int fd;
    IpbWatch *watch;
} Listener;

struct IpbHttpServer {
    IpbHttpShared shared;
    Listener listeners[IPB_LISTENER_MAX];
    size_t n_listeners;
    /* While it runs, nothing is accepted */
    IpbTimer *accept_timer;
    /* Marks the port as one that trusts its user's processes; -1: it is none */
    int trusting_port;
    /* IpbHttpConnection, owned, the oldest first */
    GPtrArray *connections;
};

/* The connection may be gone from the array already. */
static void
end_connection(IpbHttpServer *server, IpbHttpConnection *connection)
{
    if (g_ptr_array_remove(server->connections, connection))
        ipb_http_connection_end(connection);
}

static void
on_over(IpbHttpConnection *connection, void *data)
{
    end_connection(data, connection);
}

IpbHttpServer *
ipb_http_server_new(IpbLoop *loop, const IpbHttpServerOptions *options, IpbHttpGate *gate)
{
    IpbHttpServer *server = g_new0(IpbHttpServer, 1);
    server->shared = (IpbHttpShared){
        .loop = ipb_loop_ref(loop),
        .options = *options,
        .gate = gate,
        .places = g_rc_box_new0(IpbHttpPlaces),
        .on_over = on_over,
        .data = server,
    };
    server->trusting_port = -1;
    server->connections = g_ptr_array_new();
    return server;
}

static void
close_connections(IpbHttpServer *server)
{
    while (server->connections->len > 0)
        end_connection(server, g_ptr_array_index(server->connections, 0));
}

static void
close_listeners(IpbHttpServer *server)
{
    g_clear_pointer(&server->accept_timer, ipb_timer_free);
    for (size_t i = 0; i < server->n_listeners; i++) {
        ipb_watch_free(server->listeners[i].watch);
        ipb_fd_close(&server->listeners[i].fd);
    }
    server->n_listeners = 0;
    server->shared.port = 0;
    ipb_fd_close(&server->trusting_port);
}

void
ipb_http_server_free(IpbHttpServer *server)
{
    if (server == NULL)
        return;
    close_listeners(server);
    close_connections(server);
    g_ptr_array_unref(server->connections);
    g_rc_box_release(server->shared.places);
    ipb_http_gate_free(server->shared.gate);
    ipb_loop_unref(server->shared.loop);
    g_free(server);
}

IpbHttpGate *
ipb_http_server_gate(IpbHttpServer *server)
{
    return server->shared.gate;
}

unsigned
ipb_http_server_port(const IpbHttpServer *server)
{
    return server->shared.port;
}

void
ipb_http_server_set_timeouts(IpbHttpServer *server, const IpbHttpTimeouts *timeouts)
{
    server->shared.options.timeouts = *timeouts;
}

/* --- accepting -------------------------------------------------------------------------------- */

/* The connection that is given up for a new one: the oldest that was not admitted, else the one
 * that is idle for the longest time. NULL: all are needed. */
static IpbHttpConnection *
find_least_needed(const IpbHttpServer *server)
{
    IpbHttpConnection *found = NULL;
    for (guint i = 0; i < server->connections->len; i++) {
        IpbHttpConnection *connection = g_ptr_array_index(server->connections, i);
        if (ipb_http_connection_has_unread(connection))
            continue; /* it may be a request with the token */
        if (!ipb_http_connection_is_admitted(connection))
            return connection;
        if (ipb_http_connection_is_idle(connection) &&
            (found == NULL ||
             ipb_http_connection_idle_since(connection) < ipb_http_connection_idle_since(found)))
            found = connection;
    }
    return found;
}

static void
turn_away(const IpbHttpServer *server, int fd, const char *reason)
{
    g_autoptr(GBytes) body = ipb_http_shared_describe_error(&server->shared, 503, reason);
    IpbHttpAnswer answer = {.status = 503, .body = body, .is_last = true};
    IpbHttpOutput output = {0};
    char unread[4096];
    ipb_http_output_set(&output, &answer, &(IpbHttpOutputExtras){0});
    ipb_http_output_write(&output, fd);
    ipb_http_output_clear(&output);
    /* With unread bytes, the close would be a reset, which discards the answer. */
    shutdown(fd, SHUT_WR);
    while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) == sizeof unread)
        ;
}

static void
add_connection(IpbHttpServer *server, int accepted)
{
    ipb_autofd fd = accepted;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (server->connections->len + server->shared.places->n >=
        server->shared.options.max_connections) {
        IpbHttpConnection *least = find_least_needed(server);
        if (least == NULL) {
            g_autofree char *reason = g_strdup_printf("too many at once: %u connections are in use",
                                                      server->shared.options.max_connections);
            turn_away(server, fd, reason);
            return;
        }
        end_connection(server, least);
    }
    IpbHttpConnection *connection =
        ipb_http_connection_new(&server->shared, ipb_fd_steal(&fd), NULL);
    if (connection != NULL)
        g_ptr_array_add(server->connections, connection);
}

static void
set_accepting(IpbHttpServer *server, bool is_accepting)
{
    for (size_t i = 0; i < server->n_listeners; i++)
        ipb_watch_set_events(server->listeners[i].watch, is_accepting ? EPOLLIN : 0);
}

static void
on_accept_timer(void *data)
{
    IpbHttpServer *server = data;
    g_clear_pointer(&server->accept_timer, ipb_timer_free);
    set_accepting(server, true);
}

/* The process has no fd left. The peer gets an error instead of waiting. False: there is no fd even
 * for that. */
static bool
turn_away_one(IpbHttpServer *server, int listener)
{
    if (!ipb_loop_give_spare_fd(server->shared.loop)) {
        ipb_loop_take_spare_fd(server->shared.loop);
        return false;
    }
    ipb_autofd fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    bool is_accepted = fd >= 0;
    if (is_accepted) {
        g_autoptr(GError) reason = NULL;
        ipb_error_set_errno(&reason, EMFILE, "the request cannot be accepted");
        turn_away(server, fd, reason->message);
        ipb_fd_close(&fd);
    }
    ipb_loop_take_spare_fd(server->shared.loop);
    return is_accepted;
}

static void
on_acceptable(uint32_t events, void *data)
{
    const Listener *listener = data;
    IpbHttpServer *server = listener->server;
    for (int i = 0; i < MAX_ACCEPTS; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        int saved = errno;
        if (fd >= 0) {
            add_connection(server, fd);
        } else if (saved == EMFILE && turn_away_one(server, listener->fd)) {
            continue;
        } else if (saved == EMFILE || saved == ENFILE || saved == ENOMEM || saved == ENOBUFS) {
            /* The socket stays acceptable: without a pause the loop would do nothing else. */
            set_accepting(server, false);
            if (server->accept_timer == NULL)
                server->accept_timer =
                    ipb_timer_new(server->shared.loop, ACCEPT_RETRY_MS, on_accept_timer, server);
            return;
        } else if (saved == EAGAIN) {
            return;
        }
    }
}

static bool
watch_listener(IpbHttpServer *server, int fd, GError **error)
{
    ipb_autofd owned = fd;
    Listener *listener = &server->listeners[server->n_listeners];
    *listener = (Listener){.server = server, .fd = -1};
    listener->watch =
        ipb_watch_new(server->shared.loop, fd, EPOLLIN, on_acceptable, listener, error);
    if (listener->watch == NULL)
        return false;
    listener->fd = ipb_fd_steal(&owned);
    server->n_listeners++;
    return true;
}

bool
ipb_http_server_take_listener(IpbHttpServer *server, int fd, unsigned port, GError **error)
{
    close_listeners(server);
    close_connections(server);
    if (!watch_listener(server, fd, error))
        return false;
    server->shared.port = port;
    return true;
}

/* The gate accepts these, with our port only. */
static bool
is_loopback_name(const char *host)
{
    return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
           strcmp(host, "::1") == 0;
}

/* A connection made before the port was claimed may come from a sandbox's egress: it is dropped. */
static bool
keep_from_sandboxes(IpbHttpServer *server, const int *fds, size_t n_fds, unsigned port,
                    GError **error)
{
    if (!ipb_http_gate_trusts_own_user(server->shared.gate))
        return true;
    server->trusting_port = ipb_trusting_port_claim(port, error);
    if (server->trusting_port < 0)
        return false;
    for (size_t i = 0; i < n_fds; i++)
        for (int early; (early = accept4(fds[i], NULL, NULL, SOCK_CLOEXEC)) >= 0;)
            close(early);
    return true;
}

bool
ipb_http_server_listen(IpbHttpServer *server, const char *host, unsigned port, GError **error)
{
    int fds[IPB_LISTENER_MAX];
    size_t n_fds;
    unsigned got;
    bool is_public;
    if (server->shared.port != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the server listens already");
        return false;
    }
    if (!ipb_http_listener_open(host, port, fds, &n_fds, &got, &is_public, error))
        return false;
    bool ok = keep_from_sandboxes(server, fds, n_fds, got, error);
    for (size_t i = 0; i < n_fds; i++) {
        if (ok)
            ok = watch_listener(server, fds[i], error);
        else
            ipb_fd_close(&fds[i]);
    }
    if (!ok) {
        close_listeners(server);
        return false;
    }
    server->shared.port = got;
    if (is_public)
        ipb_http_gate_set_public(server->shared.gate);
    if (host[0] != '\0' && !is_loopback_name(host))
        ipb_http_gate_allow_host(server->shared.gate, host);
    return true;
}
