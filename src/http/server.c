/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server: its listening sockets, and which connections it accepts and keeps. One
 * connection is in http/connection.c. See the header.
 */
#include "http/server.h"

#include <arpa/inet.h>
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
#include "http/socket-address.h"
#include "http/trusting-port.h"

/* Connections accepted by one wake-up; the rest comes with the next. */
#define MAX_ACCEPTS 16
/* Refused peers are reported once in this time. */
#define REPORT_INTERVAL_US (60 * G_USEC_PER_SEC)
/* Connections that are examined when a new one needs a place. With many, each is a system call. */
#define MAX_ASKED 64
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
    Listener listeners[IPB_HTTP_MAX_LISTENERS];
    size_t n_listeners;
    /* While it runs, nothing is accepted */
    IpbTimer *accept_timer;
    /* NULL: all may connect */
    IpbPeerList *peers;
    void (*on_refused)(const char *address, void *data);
    void *refused_data;
    /* µs of monotonic time; 0: never */
    int64_t reported_at;
    /* Marks the port as one that trusts its user's processes; -1: it is none */
    int trusting_port;
    /* Every connection is in one of these, which own it. No request of a stranger was admitted yet.
     * The others wait for a request, or have one. In each, the one that came first is the first. */
    GQueue strangers, idle, busy;
};

static unsigned
count_connections(const IpbHttpServer *server)
{
    return server->strangers.length + server->idle.length + server->busy.length;
}

static void
unlist(IpbHttpListing *listing)
{
    if (listing->queue != NULL)
        g_queue_unlink(listing->queue, &listing->link);
    listing->queue = NULL;
}

static void
list(GQueue *queue, IpbHttpConnection *connection)
{
    IpbHttpListing *listing = ipb_http_connection_listing(connection);
    unlist(listing);
    listing->queue = queue;
    g_queue_push_tail_link(queue, &listing->link);
}

static void
on_changed(IpbHttpConnection *connection, void *data)
{
    IpbHttpServer *server = data;
    list(!ipb_http_connection_is_admitted(connection) ? &server->strangers
         : ipb_http_connection_is_idle(connection)    ? &server->idle
                                                      : &server->busy,
         connection);
}

/* It may be ending already. */
static void
end_connection(IpbHttpConnection *connection)
{
    IpbHttpListing *listing = ipb_http_connection_listing(connection);
    if (listing->queue == NULL)
        return;
    unlist(listing);
    ipb_http_connection_end(connection);
}

static void
on_over(IpbHttpConnection *connection, void *data)
{
    end_connection(connection);
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
        .turns = options->paces_large_requests ? ipb_http_turns_new(loop) : NULL,
        .on_over = on_over,
        .on_changed = on_changed,
        .data = server,
    };
    server->trusting_port = -1;
    g_queue_init(&server->strangers);
    g_queue_init(&server->idle);
    g_queue_init(&server->busy);
    return server;
}

static void
close_connections(IpbHttpServer *server)
{
    GQueue *const queues[] = {&server->strangers, &server->idle, &server->busy};
    for (size_t i = 0; i < G_N_ELEMENTS(queues); i++)
        while (queues[i]->head != NULL)
            end_connection(queues[i]->head->data);
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
    ipb_http_turns_free(server->shared.turns);
    g_rc_box_release(server->shared.places);
    ipb_tls_keys_unref(server->shared.keys);
    ipb_peer_list_free(server->peers);
    ipb_http_gate_free(server->shared.gate);
    ipb_loop_unref(server->shared.loop);
    g_free(server);
}

IpbHttpGate *
ipb_http_server_gate(IpbHttpServer *server)
{
    return server->shared.gate;
}

void
ipb_http_server_set_peers(IpbHttpServer *server, IpbPeerList *peers,
                          void (*on_refused)(const char *address, void *data), void *data)
{
    ipb_peer_list_free(server->peers);
    server->peers = peers;
    server->on_refused = on_refused;
    server->refused_data = data;
}

void
ipb_http_server_set_tls(IpbHttpServer *server, IpbTlsKeys *keys)
{
    IpbTlsKeys *former = server->shared.keys;
    server->shared.keys = keys != NULL ? ipb_tls_keys_ref(keys) : NULL;
    ipb_tls_keys_unref(former);
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

/* The first that has sent nothing since its last request. What others have sent may be a request
 * with the token. NULL: there is none among the first. */
static IpbHttpConnection *
find_silent(const GQueue *queue)
{
    const GList *link = queue->head;
    for (unsigned i = 0; link != NULL && i < MAX_ASKED; i++, link = link->next)
        if (!ipb_http_connection_has_unread(link->data))
            return link->data;
    return NULL;
}

/* The connection that is given up for a new one: the oldest that was not admitted, else the one
 * that is idle for the longest time. NULL: all are needed. */
static IpbHttpConnection *
find_least_needed(const IpbHttpServer *server)
{
    IpbHttpConnection *stranger = find_silent(&server->strangers);
    return stranger != NULL ? stranger : find_silent(&server->idle);
}

static void
turn_away(const IpbHttpServer *server, int fd, const char *reason)
{
    g_autoptr(GBytes) body = ipb_http_shared_describe_error(&server->shared, 503, reason);
    IpbHttpAnswer answer = {
        .status = 503, .headers = IPB_HTTP_RETRY_AFTER, .body = body, .is_last = true};
    IpbHttpOutput output = {0};
    char unread[4096];
    if (server->shared.keys != NULL) {
        ipb_tls_turn_away(fd);
    } else {
        ipb_http_output_set(&output, &answer, &(IpbHttpOutputExtras){0});
        ipb_http_output_write(&output, fd, /* tls= */ NULL);
        ipb_http_output_clear(&output);
    }
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
    if (count_connections(server) + server->shared.places->n >=
        server->shared.options.max_connections) {
        IpbHttpConnection *least = find_least_needed(server);
        if (least == NULL) {
            g_autofree char *reason = g_strdup_printf("too many at once: %u connections are in use",
                                                      server->shared.options.max_connections);
            turn_away(server, fd, reason);
            return;
        }
        end_connection(least);
    }
    IpbHttpConnection *connection =
        ipb_http_connection_new(&server->shared, ipb_fd_steal(&fd), NULL);
    if (connection != NULL)
        list(&server->strangers, connection);
}

static void
report_refused(IpbHttpServer *server, const IpbSocketAddress *address)
{
    char text[INET6_ADDRSTRLEN] = "?";
    int64_t now = g_get_monotonic_time();
    if (server->on_refused == NULL ||
        (server->reported_at != 0 && now - server->reported_at < REPORT_INTERVAL_US))
        return;
    server->reported_at = now;
    inet_ntop(address->any.sa_family,
              address->any.sa_family == AF_INET ? (const void *) &address->in.sin_addr
                                                : (const void *) &address->in6.sin6_addr,
              text, sizeof text);
    server->on_refused(text, server->refused_data);
}

/* Who may connect to a Unix socket is decided by the mode of its file. */
static bool
may_connect(IpbHttpServer *server, int fd)
{
    union {
        IpbSocketAddress address;
        struct sockaddr_storage storage;
    } peer;
    socklen_t size = sizeof peer;
    if (server->peers == NULL)
        return true;
    if (getpeername(fd, &peer.address.any, &size) < 0)
        return false; /* it has left */
    if (peer.address.any.sa_family == AF_UNIX ||
        ipb_peer_list_contains(server->peers, &peer.address))
        return true;
    report_refused(server, &peer.address);
    return false;
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
        if (fd >= 0 && !may_connect(server, fd)) {
            close(fd);
        } else if (fd >= 0) {
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
    G_STATIC_ASSERT(IPB_LISTENER_MAX <= IPB_HTTP_MAX_LISTENERS);
    int fds[IPB_LISTENER_MAX];
    size_t n_fds;
    unsigned got;
    bool is_public;
    if (server->n_listeners > 0) {
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

static bool
adopt_one(IpbHttpServer *server, int fd, GError **error)
{
    ipb_autofd owned = fd;
    IpbListenerInfo info;
    if (!ipb_http_listener_examine(fd, &info, error) ||
        !watch_listener(server, ipb_fd_steal(&owned), error))
        return false;
    if (info.is_unix)
        ipb_http_gate_allow_host(server->shared.gate, "localhost");
    if (info.is_public)
        ipb_http_gate_set_public(server->shared.gate);
    if (server->shared.port == 0)
        server->shared.port = info.port;
    return true;
}

bool
ipb_http_server_adopt(IpbHttpServer *server, const int *fds, size_t n_fds, GError **error)
{
    bool ok = server->n_listeners == 0 && n_fds > 0 && n_fds <= IPB_HTTP_MAX_LISTENERS;
    if (!ok)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the server can listen on 1 to %d sockets, not %zu", IPB_HTTP_MAX_LISTENERS,
                    n_fds);
    for (size_t i = 0; i < n_fds; i++) {
        int fd = fds[i];
        if (ok)
            ok = adopt_one(server, fd, error);
        else
            ipb_fd_close(&fd);
    }
    if (!ok)
        close_listeners(server);
    return ok;
}
