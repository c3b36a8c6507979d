/* SPDX-License-Identifier: Apache-2.0
 *
 * The tool channel: the listening socket, how many may connect, and who may ask. One connection is
 * tool-connection.c. See the header and docs/internals/tool-channel.md.
 */
#include "tools/tool-channel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "tools/tool-channel-private.h"

#define MAX_CONNECTIONS 64
#define LISTEN_BACKLOG 128
/* Connections accepted by one wake-up; the rest comes with the next. */
#define MAX_ACCEPTS 16
/* How long nothing is accepted when the process has no fd left. */
#define ACCEPT_RETRY_MS 200
#define TOKEN_BYTES 32
/* What the bodies of all requests, until their calls end, and all results that wait to be read may
 * hold. One result of the largest size always fits. */
#define MAX_HELD_REQUESTS (256ul * 1024 * 1024)
#define MAX_HELD_RESULTS (512ul * 1024 * 1024)

static const IpbToolTimeouts TIMEOUTS = {
    .head_ms = 10 * 1000,
    .body_ms = 60 * 1000,
    .write_ms = 60 * 1000,
    .idle_ms = 5 * 60 * 1000,
    .drain_ms = 2 * 1000,
};

struct IpbToolChannel {
    IpbLoop *loop;
    IpbToolHost *host;
    IpbToolTimeouts timeouts;
    int fd;
    IpbWatch *watch;
    IpbTimer *accept_timer; /* accepting stands still */
    unsigned port;
    char token[2 * TOKEN_BYTES + 1];
    GPtrArray *connections; /* IpbToolConnection, owned, the oldest first */
    size_t held_requests;
    size_t held_results;
};

static void
free_connection(void *connection)
{
    ipb_tool_connection_free(connection);
}

IpbToolChannel *
ipb_tool_channel_new(IpbLoop *loop, IpbToolHost *host)
{
    IpbToolChannel *channel = g_new0(IpbToolChannel, 1);
    channel->loop = ipb_loop_ref(loop);
    channel->host = host;
    channel->timeouts = TIMEOUTS;
    channel->fd = -1;
    channel->connections = g_ptr_array_new_with_free_func(free_connection);
    return channel;
}

void
ipb_tool_channel_free(IpbToolChannel *channel)
{
    if (channel == NULL)
        return;
    g_ptr_array_unref(channel->connections);
    ipb_timer_free(channel->accept_timer);
    ipb_watch_free(channel->watch);
    ipb_fd_close(&channel->fd);
    ipb_loop_unref(channel->loop);
    g_free(channel);
}

IpbLoop *
ipb_tool_channel_loop(IpbToolChannel *channel)
{
    return channel->loop;
}

IpbToolHost *
ipb_tool_channel_host(IpbToolChannel *channel)
{
    return channel->host;
}

const IpbToolTimeouts *
ipb_tool_channel_timeouts(const IpbToolChannel *channel)
{
    return &channel->timeouts;
}

void
ipb_tool_channel_set_timeouts(IpbToolChannel *channel, const IpbToolTimeouts *timeouts)
{
    channel->timeouts = *timeouts;
}

unsigned
ipb_tool_channel_port(const IpbToolChannel *channel)
{
    return channel->port;
}

const char *
ipb_tool_channel_token(const IpbToolChannel *channel)
{
    return channel->token;
}

void
ipb_tool_channel_forget(IpbToolChannel *channel, IpbToolConnection *connection)
{
    g_ptr_array_remove(channel->connections, connection);
}

/* Memory */

static bool
claim(size_t *held, size_t size, size_t max)
{
    if (size > max - *held)
        return false;
    *held += size;
    return true;
}

bool
ipb_tool_channel_claim_request(IpbToolChannel *channel, size_t size)
{
    return claim(&channel->held_requests, size, MAX_HELD_REQUESTS);
}

bool
ipb_tool_channel_claim_result(IpbToolChannel *channel, size_t size)
{
    return claim(&channel->held_results, size, MAX_HELD_RESULTS);
}

void
ipb_tool_channel_release_request(IpbToolChannel *channel, size_t size)
{
    channel->held_requests -= size;
}

void
ipb_tool_channel_release_result(IpbToolChannel *channel, size_t size)
{
    channel->held_results -= size;
}

/* Who may ask */

static bool
refuse(IpbHttpHead *head, unsigned status, const char *reason)
{
    head->status = status;
    head->reason = reason;
    return false;
}

/* A browser that was lured to a name that resolves to us sends that name: only ours are taken. */
static bool
is_our_host(const IpbToolChannel *channel, IpbSpan host)
{
    static const char *const NAMES[] = {"127.0.0.1", "localhost"};
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++) {
        char expected[64];
        g_snprintf(expected, sizeof expected, "%s:%u", NAMES[i], channel->port);
        if (ipb_http_span_equal_nocase(host, expected))
            return true;
    }
    return false;
}

/* In a time that tells nothing about the bytes. */
static bool
is_token(const IpbToolChannel *channel, IpbSpan text)
{
    unsigned difference = 0;
    if (text.size != 2 * TOKEN_BYTES)
        return false;
    for (size_t i = 0; i < text.size; i++)
        difference |= (unsigned char) (text.start[i] ^ channel->token[i]);
    return difference == 0;
}

static bool
is_authorized(const IpbToolChannel *channel, const IpbHttpHead *head)
{
    static const char SCHEME[] = "Bearer ";
    const size_t scheme_size = sizeof SCHEME - 1;
    IpbSpan value;
    if (!ipb_http_head_get(head, "Authorization", &value) || value.size < scheme_size ||
        g_ascii_strncasecmp(value.start, SCHEME, scheme_size) != 0)
        return false;
    return is_token(channel, (IpbSpan){value.start + scheme_size, value.size - scheme_size});
}

bool
ipb_tool_channel_admits(const IpbToolChannel *channel, IpbHttpHead *head)
{
    IpbSpan origin;
    if (ipb_http_head_get(head, "Origin", &origin))
        return refuse(head, 403, "requests of web pages (with an Origin) are not taken");
    if (!is_our_host(channel, head->host))
        return refuse(head, 403, "the Host header does not name this server");
    if (channel->token[0] != '\0' && !is_authorized(channel, head))
        return refuse(head, 401,
                      "the session's token is missing or wrong: the kernel has it in "
                      "IPYBOX_TOOL_TOKEN");
    return true;
}

/* Accepting */

static IpbToolConnection *
get_connection(const IpbToolChannel *channel, guint i)
{
    return g_ptr_array_index(channel->connections, i);
}

/* Somebody who did not show the token for the longest time, else who idles for the longest time. */
static IpbToolConnection *
find_least_needed(const IpbToolChannel *channel)
{
    IpbToolConnection *found = NULL;
    for (guint i = 0; i < channel->connections->len; i++) {
        IpbToolConnection *connection = get_connection(channel, i);
        if (ipb_tool_connection_has_unread(connection))
            continue; /* that may be a request with the token */
        if (!ipb_tool_connection_is_authenticated(connection))
            return connection;
        if (ipb_tool_connection_is_idle(connection) &&
            (found == NULL ||
             ipb_tool_connection_idle_since(connection) < ipb_tool_connection_idle_since(found)))
            found = connection;
    }
    return found;
}

/* @reason: without characters that JSON escapes. */
static void
turn_away(int fd, const char *reason)
{
    g_autofree char *body = g_strdup_printf("{\"error\":\"%s\"}\n", reason);
    g_autofree char *response =
        g_strdup_printf("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                        strlen(body), body);
    char unread[4096];
    send(fd, response, strlen(response), MSG_NOSIGNAL | MSG_DONTWAIT);
    /* What was sent already would make the close a reset, which destroys the answer. */
    shutdown(fd, SHUT_WR);
    while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) == sizeof unread)
        ;
}

static void
add_connection(IpbToolChannel *channel, int accepted)
{
    ipb_autofd fd = accepted;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (channel->connections->len >= MAX_CONNECTIONS) {
        IpbToolConnection *least = find_least_needed(channel);
        if (least == NULL) {
            turn_away(fd, "too many tool calls at once: " G_STRINGIFY(
                              MAX_CONNECTIONS) " connections are in use");
            return;
        }
        ipb_tool_channel_forget(channel, least);
    }
    IpbToolConnection *connection = ipb_tool_connection_new(channel, ipb_fd_steal(&fd), NULL);
    if (connection != NULL)
        g_ptr_array_add(channel->connections, connection);
}

static void
on_accept_timer(void *data)
{
    IpbToolChannel *channel = data;
    g_clear_pointer(&channel->accept_timer, ipb_timer_free);
    ipb_watch_set_events(channel->watch, EPOLLIN);
}

/* The process has no fd left: who asks is told so, not left waiting. False: not even one for that. */
static bool
turn_away_one(IpbToolChannel *channel)
{
    if (!ipb_loop_give_spare_fd(channel->loop)) {
        ipb_loop_take_spare_fd(channel->loop);
        return false;
    }
    ipb_autofd fd = accept4(channel->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    bool is_accepted = fd >= 0;
    if (is_accepted) {
        g_autoptr(GError) reason = NULL;
        ipb_error_set_errno(&reason, EMFILE, "the tool call cannot be taken");
        turn_away(fd, reason->message);
        ipb_fd_close(&fd);
    }
    ipb_loop_take_spare_fd(channel->loop);
    return is_accepted;
}

static void
on_acceptable(uint32_t events, void *data)
{
    IpbToolChannel *channel = data;
    for (int i = 0; i < MAX_ACCEPTS; i++) {
        int fd = accept4(channel->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        int saved = errno;
        if (fd >= 0) {
            add_connection(channel, fd);
        } else if (saved == EMFILE && turn_away_one(channel)) {
            continue;
        } else if (saved == EMFILE || saved == ENFILE || saved == ENOMEM || saved == ENOBUFS) {
            /* It stays acceptable: without a pause we would do nothing else. */
            ipb_watch_set_events(channel->watch, 0);
            channel->accept_timer =
                ipb_timer_new(channel->loop, ACCEPT_RETRY_MS, on_accept_timer, channel);
            return;
        } else if (saved == EAGAIN) {
            return;
        }
    }
}

static bool
make_token(char *ret_token, GError **error)
{
    uint8_t bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return ipb_error_set_errno(error, errno, "cannot get random bytes");
    for (size_t i = 0; i < sizeof bytes; i++)
        g_snprintf(ret_token + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static int
open_listener(unsigned *ret_port, GError **error)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    socklen_t size = sizeof address;
    ipb_autofd fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *) &address, size) < 0 ||
        listen(fd, LISTEN_BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *) &address, &size) < 0) {
        ipb_error_set_errno(error, errno, "cannot listen on 127.0.0.1 for tool calls");
        return -1;
    }
    *ret_port = ntohs(address.sin_port);
    return ipb_fd_steal(&fd);
}

static bool
watch_listener(IpbToolChannel *channel, int listener, unsigned port, GError **error)
{
    ipb_autofd fd = listener;
    channel->watch = ipb_watch_new(channel->loop, fd, EPOLLIN, on_acceptable, channel, error);
    if (channel->watch == NULL)
        return false;
    channel->fd = ipb_fd_steal(&fd);
    channel->port = port;
    return true;
}

bool
ipb_tool_channel_take_listener(IpbToolChannel *channel, int fd, unsigned port, GError **error)
{
    g_ptr_array_set_size(channel->connections, 0);
    g_clear_pointer(&channel->accept_timer, ipb_timer_free);
    g_clear_pointer(&channel->watch, ipb_watch_free);
    ipb_fd_close(&channel->fd);
    return watch_listener(channel, fd, port, error);
}

bool
ipb_tool_channel_listen(IpbToolChannel *channel, GError **error)
{
    unsigned port = 0;
    if (channel->fd >= 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the tool channel listens already");
        return false;
    }
    if (!make_token(channel->token, error))
        return false;
    int fd = open_listener(&port, error);
    return fd >= 0 && watch_listener(channel, fd, port, error);
}
