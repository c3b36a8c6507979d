/* SPDX-License-Identifier: Apache-2.0
 *
 * One end of a WebSocket after its handshake; see the header. States:
 *
 *     CONNECTING → OPEN → CLOSING → DRAIN → ENDED     CONNECTING: a client's, see websocket-connect.c
 *
 * CLOSING: a close was queued, by us or for an answer to the peer's. DRAIN: both were exchanged (or ours was, after the peer broke the
 * protocol); what comes still is read and thrown away for a while, because closing a socket with unread bytes would destroy
 * what we sent last. on_closed comes from the timer, so never from within a call of the owner.
 *
 * Each ping is answered; so that a peer that does not read cannot make the queue of answers grow, nothing is read while many wait.
 */
#include "http/websocket.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"
#include "http/websocket-private.h"

/* Answers to pings and a close, beyond max_queue. */
#define MAX_QUEUED_CONTROL (64 * 1024)
#define MAX_DRAINED (4 * 1024 * 1024)
/* Of a reason that is sent. */
#define MAX_REASON 120

const IpbWebSocketOptions IPB_WEBSOCKET_OPTIONS = {
    .max_message = 16 * 1024 * 1024,
    .max_queue = 64 * 1024 * 1024,
    .ping_ms = 30 * 1000,
    .write_ms = 60 * 1000,
    .handshake_ms = 10 * 1000,
    .close_ms = 5 * 1000,
};

static void update(IpbWebSocket *socket);

static void
clear(void *data)
{
    IpbWebSocket *socket = data;
    ipb_frames_clear(&socket->frames);
    ipb_buffer_clear(&socket->in);
    ipb_buffer_clear(&socket->out);
    g_free(socket->protocol);
    g_free(socket->reason);
    ipb_loop_unref(socket->loop);
}

/* Whoever calls the owner's functions holds a reference meanwhile. */
static void
unref(IpbWebSocket *socket)
{
    g_rc_box_release_full(socket, clear);
}

/* Ends */

static void on_timer(void *data);

static void
set_timer(IpbWebSocket *socket, int64_t at)
{
    if (socket->timer != NULL && socket->timer_at <= at)
        return;
    int64_t delay = (at - g_get_monotonic_time()) / 1000 + 1;
    ipb_timer_free(socket->timer);
    socket->timer_at = at;
    socket->timer =
        ipb_timer_new(socket->loop, (unsigned) CLAMP(delay, 0, G_MAXINT), on_timer, socket);
}

static int64_t
in_ms(unsigned ms)
{
    return g_get_monotonic_time() + ms * INT64_C(1000);
}

static void
close_fd(IpbWebSocket *socket)
{
    g_clear_pointer(&socket->watch, ipb_watch_free);
    ipb_fd_close(&socket->fd);
    g_clear_pointer(&socket->place, ipb_http_place_free);
    if (socket->dial != NULL)
        socket->free_dial(g_steal_pointer(&socket->dial));
}

/* Nothing more comes or goes. @reason: NULL keeps what is known. */
static void
end(IpbWebSocket *socket, unsigned code, const char *reason)
{
    if (socket->state == IPB_WEBSOCKET_ENDED)
        return;
    socket->state = IPB_WEBSOCKET_ENDED;
    if (socket->code == 0)
        socket->code = code;
    if (reason != NULL && socket->reason == NULL)
        socket->reason = g_strdup(reason);
    close_fd(socket);
    g_clear_pointer(&socket->timer, ipb_timer_free);
    set_timer(socket, 0);
}

void
ipb_websocket_fail(IpbWebSocket *socket, const char *reason)
{
    end(socket, IPB_CLOSE_NO_CLOSE, reason);
}

static void
tell_closed(IpbWebSocket *socket)
{
    if (socket->is_told || socket->funcs.on_closed == NULL)
        return;
    socket->is_told = true;
    socket->funcs.on_closed(socket, socket->code, socket->reason != NULL ? socket->reason : "",
                            socket->data);
}

/* Deadlines */

/* When something is to be done at the latest; G_MAXINT64: never. */
static int64_t
next_deadline(const IpbWebSocket *socket)
{
    int64_t at = socket->deadline != 0 ? socket->deadline : G_MAXINT64;
    if (socket->state == IPB_WEBSOCKET_OPEN && socket->options.ping_ms > 0)
        at = MIN(at,
                 MAX(socket->read_at, socket->pinged_at) + socket->options.ping_ms * INT64_C(1000));
    if (socket->state == IPB_WEBSOCKET_OPEN && socket->was_queued)
        at = MIN(at, socket->written_at + socket->options.write_ms * INT64_C(1000));
    return at;
}

bool
ipb_websocket_queue(IpbWebSocket *socket, IpbFrameKind kind, const void *payload, size_t size)
{
    uint8_t mask[4];
    if (socket->has_sent_close)
        return false;
    if (socket->is_client && getrandom(mask, sizeof mask, 0) != sizeof mask)
        return false;
    return ipb_frames_append(&socket->out, kind, payload, size, socket->is_client ? mask : NULL);
}

/* The last thing that is sent. NO_CODE: without a code. */
void
ipb_websocket_queue_close(IpbWebSocket *socket, unsigned code, const char *reason)
{
    char payload[IPB_FRAMES_MAX_CONTROL];
    size_t size = MIN(strlen(reason), MAX_REASON);
    while (!ipb_frames_is_utf8(reason, size))
        size--;
    payload[0] = (char) (code >> 8);
    payload[1] = (char) code;
    memcpy(payload + 2, reason, size);
    ipb_websocket_queue(socket, IPB_FRAME_CLOSE, payload, code != IPB_CLOSE_NO_CODE ? size + 2 : 0);
    socket->has_sent_close = true;
}

static void
ping(IpbWebSocket *socket, int64_t now)
{
    if (socket->is_paused) {
        socket->read_at = now; /* its answers cannot be seen */
    } else if (socket->pinged_at > socket->read_at) {
        ipb_websocket_fail(socket, "the peer does not answer pings");
    } else {
        socket->pinged_at = now;
        ipb_websocket_queue(socket, IPB_FRAME_PING, NULL, 0);
    }
}

static void
check_deadlines(IpbWebSocket *socket)
{
    int64_t now = g_get_monotonic_time();
    if (socket->deadline != 0 && now >= socket->deadline) {
        end(socket, IPB_CLOSE_NO_CLOSE,
            socket->state == IPB_WEBSOCKET_CONNECTING
                ? "the server does not answer the handshake in time"
                : "the peer does not answer the close in time");
        return;
    }
    if (socket->state != IPB_WEBSOCKET_OPEN)
        return;
    if (socket->was_queued &&
        now >= socket->written_at + socket->options.write_ms * INT64_C(1000)) {
        ipb_websocket_fail(socket, "the peer does not read what is sent");
        return;
    }
    if (socket->options.ping_ms > 0 &&
        now >= MAX(socket->read_at, socket->pinged_at) + socket->options.ping_ms * INT64_C(1000))
        ping(socket, now);
}

static void
on_timer(void *data)
{
    IpbWebSocket *socket = data;
    g_clear_pointer(&socket->timer, ipb_timer_free);
    g_rc_box_acquire(socket);
    if (socket->state == IPB_WEBSOCKET_ENDED) {
        tell_closed(socket);
    } else {
        check_deadlines(socket);
        update(socket);
    }
    unref(socket);
}

/* Frames out */

static void
flush(IpbWebSocket *socket)
{
    while (ipb_buffer_size(&socket->out) > 0) {
        ssize_t n = send(socket->fd, ipb_buffer_data(&socket->out), ipb_buffer_size(&socket->out),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            ipb_websocket_fail(socket, "the connection broke while something was sent");
            return;
        }
        socket->written_at = g_get_monotonic_time();
        ipb_buffer_consume(&socket->out, (size_t) n);
    }
}

/* What follows from what happened */

static void
start_draining(IpbWebSocket *socket)
{
    socket->state = IPB_WEBSOCKET_DRAIN;
    shutdown(socket->fd, SHUT_WR);
    socket->deadline = in_ms(socket->options.close_ms);
    ipb_watch_set_events(socket->watch, EPOLLIN);
    set_timer(socket, socket->deadline);
}

static void
drain(IpbWebSocket *socket)
{
    char bytes[65536];
    ssize_t n = recv(socket->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    socket->n_drained += (size_t) MAX(n, 0);
    if (n <= 0 || socket->n_drained > MAX_DRAINED)
        end(socket, socket->code, NULL);
}

static void
tell_drained(IpbWebSocket *socket)
{
    bool is_queued = ipb_buffer_size(&socket->out) > 0;
    bool is_drained = socket->was_queued && !is_queued;
    if (is_queued && !socket->was_queued)
        socket->written_at = g_get_monotonic_time();
    socket->was_queued = is_queued;
    if (!is_queued)
        socket->n_pongs = 0;
    if (is_drained && socket->state == IPB_WEBSOCKET_OPEN && socket->funcs.on_drained != NULL)
        socket->funcs.on_drained(socket, socket->data);
}

/* What was read and is to be taken apart comes by the next turn of the loop: the socket can be written then. */
static void
watch(IpbWebSocket *socket)
{
    bool wants_turn = ipb_buffer_size(&socket->out) > 0 ||
                      (ipb_websocket_may_take(socket) && ipb_buffer_size(&socket->in) > 0);
    ipb_watch_set_events(socket->watch, (ipb_websocket_may_take(socket) ? EPOLLIN : 0u) |
                                            (wants_turn ? EPOLLOUT : 0u));
}

static void
update(IpbWebSocket *socket)
{
    if (socket->is_freed || socket->state == IPB_WEBSOCKET_CONNECTING ||
        socket->state >= IPB_WEBSOCKET_DRAIN) {
        if (!socket->is_freed && socket->state < IPB_WEBSOCKET_ENDED && socket->deadline != 0)
            set_timer(socket, socket->deadline);
        return;
    }
    flush(socket);
    if (socket->state == IPB_WEBSOCKET_ENDED)
        return;
    if (socket->has_sent_close && socket->reads_no_more && ipb_buffer_size(&socket->out) == 0) {
        start_draining(socket);
        return;
    }
    watch(socket);
    int64_t at = next_deadline(socket);
    if (at != G_MAXINT64)
        set_timer(socket, at);
}

static void
on_ready(uint32_t events, void *data)
{
    IpbWebSocket *socket = data;
    g_rc_box_acquire(socket);
    if (socket->state == IPB_WEBSOCKET_DRAIN) {
        drain(socket);
    } else {
        if ((events & ~(uint32_t) EPOLLOUT) != 0 || ipb_buffer_size(&socket->in) > 0)
            ipb_websocket_receive(socket);
        if (!socket->is_freed && socket->state < IPB_WEBSOCKET_DRAIN)
            flush(socket);
        if (!socket->is_freed && socket->state < IPB_WEBSOCKET_DRAIN)
            tell_drained(socket);
        update(socket);
    }
    unref(socket);
}

/* Life */

IpbWebSocket *
ipb_websocket_new(IpbLoop *loop, const IpbWebSocketOptions *options, const IpbWebSocketFuncs *funcs,
                  void *data)
{
    IpbWebSocket *socket = g_rc_box_new0(IpbWebSocket);
    socket->loop = ipb_loop_ref(loop);
    socket->options = *options;
    socket->funcs = *funcs;
    socket->data = data;
    socket->fd = -1;
    socket->protocol = g_strdup("");
    ipb_buffer_init(&socket->in, IPB_HTTP_MAX_HEAD + 2 * IPB_WEBSOCKET_MAX_READ);
    ipb_buffer_init(&socket->out, options->max_queue + MAX_QUEUED_CONTROL);
    socket->deadline = in_ms(options->handshake_ms);
    set_timer(socket, socket->deadline);
    return socket;
}

bool
ipb_websocket_start(IpbWebSocket *socket, int fd, bool is_server, const char *unread,
                    size_t unread_size, const char *protocol, GError **error)
{
    socket->fd = fd;
    socket->watch = ipb_watch_new(socket->loop, fd, EPOLLIN, on_ready, socket, error);
    if (socket->watch == NULL)
        return false;
    socket->is_client = !is_server;
    ipb_frames_init(&socket->frames, is_server, socket->options.max_message);
    if (protocol != NULL) {
        g_free(socket->protocol);
        socket->protocol = g_strdup(protocol);
    }
    socket->state = IPB_WEBSOCKET_OPEN;
    socket->deadline = 0;
    socket->read_at = socket->written_at = g_get_monotonic_time();
    if (next_deadline(socket) != G_MAXINT64)
        set_timer(socket, next_deadline(socket));
    if (unread_size > 0) {
        ipb_buffer_append(&socket->in, unread, unread_size);
        /* Nothing tells of these bytes but us; the socket can be written. */
        ipb_watch_set_events(socket->watch, EPOLLIN | EPOLLOUT);
    }
    return true;
}

void
ipb_websocket_tell_open(IpbWebSocket *socket)
{
    update(socket);
    if (socket->state == IPB_WEBSOCKET_OPEN && socket->funcs.on_open != NULL)
        socket->funcs.on_open(socket, socket->data);
}

void
ipb_websocket_set_place(IpbWebSocket *socket, IpbHttpPlace *place)
{
    socket->place = place;
}

void
ipb_websocket_set_dial(IpbWebSocket *socket, void *dial, GDestroyNotify free_dial)
{
    socket->dial = dial;
    socket->free_dial = free_dial;
}

IpbLoop *
ipb_websocket_loop(IpbWebSocket *socket)
{
    return socket->loop;
}

void
ipb_websocket_free(IpbWebSocket *socket)
{
    if (socket == NULL)
        return;
    socket->is_freed = true;
    close_fd(socket);
    g_clear_pointer(&socket->timer, ipb_timer_free);
    unref(socket);
}

const char *
ipb_websocket_protocol(const IpbWebSocket *socket)
{
    return socket->protocol;
}

bool
ipb_websocket_send(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text,
                   GError **error)
{
    if (socket->state != IPB_WEBSOCKET_OPEN) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the WebSocket is not open");
        return false;
    }
    if (is_text && !ipb_frames_is_utf8(bytes, size)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the text for the WebSocket is not valid UTF-8");
        return false;
    }
    size_t queued = ipb_buffer_size(&socket->out);
    if (size > socket->options.max_queue - MIN(queued, socket->options.max_queue) ||
        !ipb_websocket_queue(socket, is_text ? IPB_FRAME_TEXT : IPB_FRAME_BINARY, bytes, size)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "more than %zu MiB would wait to be sent over the WebSocket",
                    socket->options.max_queue >> 20);
        return false;
    }
    /* on_drained comes from the loop, also if all of it goes out at once: the watch says so. */
    if (!socket->was_queued)
        socket->written_at = g_get_monotonic_time();
    flush(socket);
    socket->was_queued = true;
    if (socket->state == IPB_WEBSOCKET_OPEN) {
        ipb_watch_set_events(socket->watch, EPOLLIN | EPOLLOUT);
        set_timer(socket, next_deadline(socket));
    }
    return true;
}

size_t
ipb_websocket_queued(const IpbWebSocket *socket)
{
    return ipb_buffer_size(&socket->out);
}

void
ipb_websocket_pause(IpbWebSocket *socket, bool is_paused)
{
    socket->is_paused = is_paused;
    socket->read_at = g_get_monotonic_time();
    if (socket->state == IPB_WEBSOCKET_OPEN || socket->state == IPB_WEBSOCKET_CLOSING)
        watch(socket);
}

void
ipb_websocket_close(IpbWebSocket *socket, unsigned code, const char *reason)
{
    if (socket->state == IPB_WEBSOCKET_CONNECTING) {
        end(socket, code, reason);
        return;
    }
    if (socket->state != IPB_WEBSOCKET_OPEN)
        return;
    ipb_websocket_queue_close(socket, code, reason);
    socket->state = IPB_WEBSOCKET_CLOSING;
    socket->deadline = in_ms(socket->options.close_ms);
    socket->is_paused = false;
    set_timer(socket, socket->deadline);
    ipb_watch_set_events(socket->watch, EPOLLIN | EPOLLOUT);
}
