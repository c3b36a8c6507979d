/* SPDX-License-Identifier: Apache-2.0
 *
 * A small HTTP server that waits for the browser's redirect; see the header. Each connection has
 * one request and one answer.
 */
#include "oauth/callback.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/acceptor.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"
#include "http/request-head.h"

#define MAX_CONNECTIONS 16
#define HEAD_TIMEOUT_MS 10000
#define BACKLOG 8

typedef struct {
    IpbOAuthCallback *callback;
    int fd;
    IpbWatch *watch;
    IpbTimer *timer;
    IpbBuffer input;
    size_t scanned;
} Connection;

struct IpbOAuthCallback {
    IpbLoop *loop;
    IpbAcceptor *acceptor;
    GPtrArray *connections;
    char *uri;
    char *hosts[2]; /* the values of Host that browsers send */
    IpbOAuthCallbackFunc func;
    void *data;
};

static void
free_connection(void *data)
{
    Connection *connection = data;
    ipb_watch_free(connection->watch);
    ipb_timer_free(connection->timer);
    ipb_buffer_clear(&connection->input);
    ipb_fd_close(&connection->fd);
    g_free(connection);
}

static void
end_connection(Connection *connection)
{
    g_ptr_array_remove_fast(connection->callback->connections, connection);
}

/* The reply is so small that it always fits into the buffer of a new socket. */
static void
answer(int fd, const char *status, const char *text)
{
    g_autofree char *page = g_strdup_printf(
        "<!doctype html><meta charset=\"utf-8\"><title>ipybox</title><p>%s</p>\n", text);
    g_autofree char *reply = g_strdup_printf("HTTP/1.1 %s\r\n"
                                             "Content-Type: text/html; charset=utf-8\r\n"
                                             "Content-Length: %zu\r\n"
                                             "Content-Security-Policy: default-src 'none'\r\n"
                                             "Referrer-Policy: no-referrer\r\n"
                                             "Cache-Control: no-store\r\n"
                                             "Connection: close\r\n\r\n%s",
                                             status, strlen(page), page);
    ssize_t sent = send(fd, reply, strlen(reply), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void) sent; /* a peer that it does not reach is gone */
    shutdown(fd, SHUT_WR);
}

static bool
is_for_us(const IpbOAuthCallback *callback, const IpbHttpHead *head)
{
    return ipb_span_equal_nocase(head->host, callback->hosts[0]) ||
           ipb_span_equal_nocase(head->host, callback->hosts[1]);
}

/* The query of a request for /callback; NULL: the request is for something else. Caller frees. */
static char *
get_query(const IpbHttpHead *head)
{
    static const char PATH[] = "/callback?";
    size_t size = sizeof PATH - 1;
    if (head->target.size < size || memcmp(head->target.start, PATH, size) != 0)
        return NULL;
    return g_strndup(head->target.start + size, head->target.size - size);
}

/* Ends the connection. The receiver is called last, because it may free everything. */
static void
serve(Connection *connection, const IpbHttpHead *head)
{
    IpbOAuthCallback *callback = connection->callback;
    g_autofree char *query = get_query(head);
    const char *refusal = !is_for_us(callback, head)             ? "400 Bad Request"
                          : !ipb_span_equal(head->method, "GET") ? "405 Method Not Allowed"
                          : query == NULL                        ? "404 Not Found"
                                                                 : NULL;
    if (refusal != NULL) {
        answer(connection->fd, refusal, "This is not the answer that ipybox waits for.");
        end_connection(connection);
        return;
    }
    ipb_autofd fd = ipb_fd_duplicate(connection->fd, 0);
    end_connection(connection);
    if (callback->func(query, callback->data))
        answer(fd, "200 OK",
               "ipybox has the answer. You can close this page; the result is in the "
               "terminal.");
    else
        answer(fd, "400 Bad Request", "This is not the answer that ipybox waits for.");
}

static void
on_input(uint32_t events, void *data)
{
    Connection *connection = data;
    uint8_t *room = ipb_buffer_reserve(&connection->input, 4096);
    ssize_t size = room != NULL ? recv(connection->fd, room, 4096, MSG_DONTWAIT) : 0;
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0) {
        end_connection(connection);
        return;
    }
    ipb_buffer_commit(&connection->input, (size_t) size);
    IpbHttpHead head;
    IpbHttpHeadState state =
        ipb_http_head_parse((const char *) ipb_buffer_data(&connection->input),
                            ipb_buffer_size(&connection->input), &connection->scanned, &head);
    if (state == IPB_HTTP_HEAD_BAD) {
        answer(connection->fd, "400 Bad Request", "The request is malformed.");
        end_connection(connection);
    } else if (state == IPB_HTTP_HEAD_WHOLE) {
        serve(connection, &head);
    }
}

static void
on_timeout(void *data)
{
    end_connection(data);
}

static void
on_connection(int fd, void *data)
{
    IpbOAuthCallback *callback = data;
    ipb_autofd socket = fd;
    if (callback->connections->len == MAX_CONNECTIONS)
        return;
    Connection *connection = g_new0(Connection, 1);
    connection->callback = callback;
    connection->fd = ipb_fd_steal(&socket);
    ipb_buffer_init(&connection->input, IPB_HTTP_MAX_HEAD + 4096);
    g_ptr_array_add(callback->connections, connection);
    connection->watch =
        ipb_watch_new(callback->loop, connection->fd, EPOLLIN, on_input, connection, NULL);
    connection->timer = ipb_timer_new(callback->loop, HEAD_TIMEOUT_MS, on_timeout, connection);
    if (connection->watch == NULL)
        end_connection(connection);
}

/* -1 and @error: it failed. */
static int
listen_on(unsigned port, unsigned *ret_port, GError **error)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t) port),
        .sin_addr = {htonl(INADDR_LOOPBACK)},
    };
    socklen_t size = sizeof address;
    int one = 1;
    ipb_autofd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd >= 0 && bind(fd, (struct sockaddr *) &address, size) == 0 && listen(fd, BACKLOG) == 0 &&
        getsockname(fd, (struct sockaddr *) &address, &size) == 0) {
        *ret_port = ntohs(address.sin_port);
        return ipb_fd_steal(&fd);
    }
    if (errno == EADDRINUSE)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY,
                    "another program listens on port %u of 127.0.0.1: choose one with --port",
                    port);
    else
        ipb_error_set_errno(error, errno, "cannot listen on port %u of 127.0.0.1", port);
    return -1;
}

IpbOAuthCallback *
ipb_oauth_callback_new(IpbLoop *loop, unsigned port, IpbOAuthCallbackFunc func, void *data,
                       GError **error)
{
    unsigned bound;
    int fd = listen_on(port, &bound, error);
    if (fd < 0)
        return NULL;
    g_autoptr(IpbOAuthCallback) callback = g_new0(IpbOAuthCallback, 1);
    callback->loop = ipb_loop_ref(loop);
    callback->connections = g_ptr_array_new_with_free_func(free_connection);
    callback->uri = g_strdup_printf("http://127.0.0.1:%u/callback", bound);
    callback->hosts[0] = g_strdup_printf("127.0.0.1:%u", bound);
    callback->hosts[1] = g_strdup_printf("localhost:%u", bound);
    callback->func = func;
    callback->data = data;
    callback->acceptor = ipb_acceptor_new(loop, fd, on_connection, callback, error);
    return callback->acceptor != NULL ? g_steal_pointer(&callback) : NULL;
}

void
ipb_oauth_callback_free(IpbOAuthCallback *callback)
{
    if (callback == NULL)
        return;
    ipb_acceptor_free(callback->acceptor);
    g_ptr_array_unref(callback->connections);
    g_free(callback->uri);
    g_free(callback->hosts[0]);
    g_free(callback->hosts[1]);
    ipb_loop_unref(callback->loop);
    g_free(callback);
}

const char *
ipb_oauth_callback_uri(const IpbOAuthCallback *callback)
{
    return callback->uri;
}
