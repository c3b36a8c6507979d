/* SPDX-License-Identifier: Apache-2.0
 *
 * One end of a WebSocket; see the header. States:
 *
 *     CONNECTING → OPEN → CLOSING → DRAIN → ENDED     CONNECTING: a client, see websocket-dial.h
 *
 * CLOSING: a close was queued, ours or the reply to the peer's. DRAIN: both were exchanged (or ours
 * was sent, after the peer broke the protocol). Bytes that still arrive are read and discarded for
 * a while, because closing a socket with unread bytes would discard what we sent last.
 *
 * on_closed is called from the timer, so never from within a call of the owner. While the owner
 * handles a message, the next one waits until the owner's function returns. While the socket is
 * paused, messages stay in the input.
 *
 * Each ping is answered. Nothing is read while many answers wait, so that a peer that does not read
 * cannot make the queue grow.
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
#include "http/frames.h"
#include "http/handshake.h"
#include "http/websocket-dial.h"

#define READ_SIZE (64 * 1024)
/* Bytes read by one wake-up; the rest is read by the next one. */
#define MAX_READ (1024 * 1024)
/* Bytes of pongs and a close, beyond max_queue. */
#define MAX_QUEUED_CONTROL (64 * 1024)
/* Pongs that wait while the peer is still read. */
#define MAX_QUEUED_PONGS 256
#define MAX_DRAINED (4 * 1024 * 1024)
/* Bytes of a reason that is sent. */
#define MAX_REASON 120

typedef enum {
    STATE_CONNECTING,
    STATE_OPEN,
    STATE_CLOSING,
    STATE_DRAIN,
    STATE_ENDED,
} State;

struct IpbWebSocket {
    IpbLoop *loop;
    IpbWebSocketOptions options;
    IpbWebSocketFuncs funcs;
    void *data;
    bool is_freed;
    State state;
    int fd;
    IpbWatch *watch;
    IpbHttpPlace *place;
    /* Of a client that is connecting */
    IpbWebSocketDial *dial;
    char *protocol;
    IpbFrames frames;
    /* Bytes that were read and not parsed yet, and bytes to be sent */
    IpbBuffer in, out;
    bool is_client;
    bool is_paused;
    /* The close is the last frame in @out, or was sent. */
    bool has_sent_close;
    /* A close or a malformed frame was received: nothing after it is parsed. */
    bool has_received_last;
    bool was_queued;
    /* Pongs queued since the queue was empty */
    unsigned n_pongs;
    size_t n_drained;
    /* How it ended */
    unsigned code;
    char *reason;
    bool is_reported;
    /* Monotonic time; 0: none */
    int64_t read_at, written_at, pinged_at, deadline;
    int64_t timer_at;
    IpbTimer *timer;
};

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

/* A function that calls the owner's functions holds a reference while it does. */
static void
unref(IpbWebSocket *socket)
{
    g_rc_box_release_full(socket, clear);
}

/* --- the end ---------------------------------------------------------------------------------- */

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
    g_clear_pointer(&socket->dial, ipb_websocket_dial_free);
}

/* Nothing more is received or sent. @reason: NULL keeps the known one. */
static void
end(IpbWebSocket *socket, unsigned code, const char *reason)
{
    if (socket->state == STATE_ENDED)
        return;
    socket->state = STATE_ENDED;
    if (socket->code == 0)
        socket->code = code;
    if (reason != NULL && socket->reason == NULL)
        socket->reason = g_strdup(reason);
    close_fd(socket);
    g_clear_pointer(&socket->timer, ipb_timer_free);
    set_timer(socket, 0);
}

static void
fail(IpbWebSocket *socket, const char *reason)
{
    end(socket, IPB_CLOSE_NO_CLOSE, reason);
}

static void
report_closed(IpbWebSocket *socket)
{
    if (socket->is_reported || socket->funcs.on_closed == NULL)
        return;
    socket->is_reported = true;
    socket->funcs.on_closed(socket, socket->code, socket->reason != NULL ? socket->reason : "",
                            socket->data);
}

/* --- what is sent ----------------------------------------------------------------------------- */

static bool
queue_frame(IpbWebSocket *socket, IpbFrameKind kind, const void *payload, size_t size)
{
    uint8_t mask[4];
    if (socket->has_sent_close)
        return false;
    if (socket->is_client && getrandom(mask, sizeof mask, 0) != sizeof mask)
        return false;
    return ipb_frames_append(&socket->out, kind, payload, size, socket->is_client ? mask : NULL);
}

/* Queues the last frame. NO_CODE: without a code. */
static void
queue_close(IpbWebSocket *socket, unsigned code, const char *reason)
{
    char payload[IPB_FRAMES_MAX_CONTROL];
    size_t size = MIN(strlen(reason), MAX_REASON);
    while (!ipb_frames_is_utf8(reason, size))
        size--;
    payload[0] = (char) (code >> 8);
    payload[1] = (char) code;
    memcpy(payload + 2, reason, size);
    queue_frame(socket, IPB_FRAME_CLOSE, payload, code != IPB_CLOSE_NO_CODE ? size + 2 : 0);
    socket->has_sent_close = true;
}

static void
flush(IpbWebSocket *socket)
{
    while (ipb_buffer_size(&socket->out) > 0) {
        ssize_t n = send(socket->fd, ipb_buffer_data(&socket->out), ipb_buffer_size(&socket->out),
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            fail(socket, "the connection broke while something was sent");
            return;
        }
        socket->written_at = g_get_monotonic_time();
        ipb_buffer_consume(&socket->out, (size_t) n);
    }
}

/* --- deadlines -------------------------------------------------------------------------------- */

/* When the timer must fire at the latest; G_MAXINT64: never. */
static int64_t
next_deadline(const IpbWebSocket *socket)
{
    int64_t at = socket->deadline != 0 ? socket->deadline : G_MAXINT64;
    if (socket->state == STATE_OPEN && socket->options.ping_ms > 0)
        at = MIN(at,
                 MAX(socket->read_at, socket->pinged_at) + socket->options.ping_ms * INT64_C(1000));
    if (socket->state == STATE_OPEN && socket->was_queued)
        at = MIN(at, socket->written_at + socket->options.write_ms * INT64_C(1000));
    return at;
}

static void
ping(IpbWebSocket *socket, int64_t now)
{
    if (socket->is_paused) {
        socket->read_at = now; /* its pongs cannot be read */
    } else if (socket->pinged_at > socket->read_at) {
        fail(socket, "the peer does not answer pings");
    } else {
        socket->pinged_at = now;
        queue_frame(socket, IPB_FRAME_PING, NULL, 0);
    }
}

static void
check_deadlines(IpbWebSocket *socket)
{
    int64_t now = g_get_monotonic_time();
    if (socket->deadline != 0 && now >= socket->deadline) {
        end(socket, IPB_CLOSE_NO_CLOSE,
            socket->state == STATE_CONNECTING ? "the server does not answer the handshake in time"
                                              : "the peer does not answer the close in time");
        return;
    }
    if (socket->state != STATE_OPEN)
        return;
    if (socket->was_queued &&
        now >= socket->written_at + socket->options.write_ms * INT64_C(1000)) {
        fail(socket, "the peer does not read what is sent");
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
    if (socket->state == STATE_ENDED) {
        report_closed(socket);
    } else {
        check_deadlines(socket);
        update(socket);
    }
    unref(socket);
}

/* --- what is received ------------------------------------------------------------------------- */

/* The reply to the peer's close, or to its malformed frame, is queued. */
static void
start_closing(IpbWebSocket *socket, unsigned code, const char *reason, size_t reason_size)
{
    socket->has_received_last = true;
    if (socket->code == 0) {
        socket->code = code;
        socket->reason = g_strndup(reason, reason_size);
    }
    if (socket->state == STATE_OPEN) {
        socket->state = STATE_CLOSING;
        socket->deadline = g_get_monotonic_time() + socket->options.close_ms * INT64_C(1000);
    }
}

static void
take_control(IpbWebSocket *socket)
{
    const IpbFrames *frames = &socket->frames;
    const char *payload = (const char *) frames->control;
    if (frames->kind == IPB_FRAME_PING) {
        socket->n_pongs++;
        queue_frame(socket, IPB_FRAME_PONG, payload, frames->control_size);
    } else if (frames->kind == IPB_FRAME_CLOSE) {
        if (!socket->has_sent_close)
            queue_close(socket, frames->code, "");
        start_closing(socket, frames->code, payload + 2,
                      frames->control_size > 2 ? frames->control_size - 2 : 0);
    }
}

static void
take_message(IpbWebSocket *socket)
{
    const IpbBuffer *message = &socket->frames.message;
    if (socket->state == STATE_OPEN && socket->funcs.on_message != NULL)
        socket->funcs.on_message(socket, (const char *) ipb_buffer_data(message),
                                 ipb_buffer_size(message),
                                 socket->frames.message_kind == IPB_FRAME_TEXT, socket->data);
}

static bool
may_take(const IpbWebSocket *socket)
{
    return !socket->is_freed && socket->state < STATE_DRAIN && !socket->is_paused &&
           !socket->has_received_last && socket->n_pongs <= MAX_QUEUED_PONGS;
}

/* Parses what was read. */
static void
take_frames(IpbWebSocket *socket)
{
    while (may_take(socket)) {
        const uint8_t *start = ipb_buffer_data(&socket->in);
        const uint8_t *at = start;
        size_t left = ipb_buffer_size(&socket->in);
        IpbFramesEvent event = ipb_frames_take(&socket->frames, &at, &left);
        ipb_buffer_consume(&socket->in, (size_t) (at - start));
        switch (event) {
        case IPB_FRAMES_MESSAGE:
            take_message(socket);
            break;
        case IPB_FRAMES_CONTROL:
            take_control(socket);
            break;
        case IPB_FRAMES_BAD:
            if (!socket->has_sent_close)
                queue_close(socket, socket->frames.code, socket->frames.reason);
            start_closing(socket, socket->frames.code, socket->frames.reason,
                          strlen(socket->frames.reason));
            return;
        case IPB_FRAMES_MORE:
        default:
            return;
        }
    }
}

/* False: there is nothing more to read now. */
static bool
read_some(IpbWebSocket *socket)
{
    uint8_t *room = ipb_buffer_reserve(&socket->in, READ_SIZE);
    ssize_t n = recv(socket->fd, room, READ_SIZE, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        fail(socket, n == 0 ? "the peer closed the connection" : g_strerror(errno));
        return false;
    }
    socket->read_at = g_get_monotonic_time();
    ipb_buffer_commit(&socket->in, (size_t) n);
    take_frames(socket);
    return n == READ_SIZE;
}

static void
receive(IpbWebSocket *socket)
{
    take_frames(socket);
    for (size_t n = 0; n < MAX_READ && may_take(socket); n += READ_SIZE)
        if (!read_some(socket))
            return;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void
start_draining(IpbWebSocket *socket)
{
    socket->state = STATE_DRAIN;
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
report_drained(IpbWebSocket *socket)
{
    bool is_queued = ipb_buffer_size(&socket->out) > 0;
    bool is_drained = socket->was_queued && !is_queued;
    if (is_queued && !socket->was_queued)
        socket->written_at = g_get_monotonic_time();
    socket->was_queued = is_queued;
    if (!is_queued)
        socket->n_pongs = 0;
    if (is_drained && socket->state == STATE_OPEN && socket->funcs.on_drained != NULL)
        socket->funcs.on_drained(socket, socket->data);
}

/* Bytes that were read and can be parsed are parsed in the next iteration of the loop: since the
 * socket is writable, waiting for that calls us again. */
static void
watch(IpbWebSocket *socket)
{
    bool wants_turn =
        ipb_buffer_size(&socket->out) > 0 || (may_take(socket) && ipb_buffer_size(&socket->in) > 0);
    ipb_watch_set_events(socket->watch,
                         (may_take(socket) ? EPOLLIN : 0u) | (wants_turn ? EPOLLOUT : 0u));
}

static void
update(IpbWebSocket *socket)
{
    if (socket->is_freed || socket->state == STATE_CONNECTING || socket->state >= STATE_DRAIN) {
        if (!socket->is_freed && socket->state < STATE_ENDED && socket->deadline != 0)
            set_timer(socket, socket->deadline);
        return;
    }
    flush(socket);
    if (socket->state == STATE_ENDED)
        return;
    if (socket->has_sent_close && socket->has_received_last && ipb_buffer_size(&socket->out) == 0) {
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
    if (socket->state == STATE_DRAIN) {
        drain(socket);
    } else {
        if ((events & ~(uint32_t) EPOLLOUT) != 0 || ipb_buffer_size(&socket->in) > 0)
            receive(socket);
        if (!socket->is_freed && socket->state < STATE_DRAIN)
            flush(socket);
        if (!socket->is_freed && socket->state < STATE_DRAIN)
            report_drained(socket);
        update(socket);
    }
    unref(socket);
}

/* --- life ------------------------------------------------------------------------------------- */

static IpbWebSocket *
new_socket(IpbLoop *loop, const IpbWebSocketOptions *options, const IpbWebSocketFuncs *funcs,
           void *data)
{
    IpbWebSocket *socket = g_rc_box_new0(IpbWebSocket);
    socket->loop = ipb_loop_ref(loop);
    socket->options = *options;
    socket->funcs = *funcs;
    socket->data = data;
    socket->fd = -1;
    socket->protocol = g_strdup("");
    ipb_buffer_init(&socket->in, IPB_HTTP_MAX_HEAD + 2 * MAX_READ);
    ipb_buffer_init(&socket->out, options->max_queue + MAX_QUEUED_CONTROL);
    socket->deadline = in_ms(options->handshake_ms);
    set_timer(socket, socket->deadline);
    return socket;
}

static bool
start(IpbWebSocket *socket, int fd, bool is_server, const char *protocol, IpbSpan unread,
      GError **error)
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
    socket->state = STATE_OPEN;
    socket->deadline = 0;
    socket->read_at = socket->written_at = g_get_monotonic_time();
    if (next_deadline(socket) != G_MAXINT64)
        set_timer(socket, next_deadline(socket));
    if (unread.size > 0) {
        ipb_buffer_append(&socket->in, unread.start, unread.size);
        /* The socket is not readable for these bytes, but it is writable. */
        ipb_watch_set_events(socket->watch, EPOLLIN | EPOLLOUT);
    }
    return true;
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

/* --- the server's handshake ------------------------------------------------------------------- */

static void
answer_refusal(IpbHttpRequest *request, const IpbHttpHead *head)
{
    ipb_http_request_refuse_error(
        request, head->status, head->reason,
        head->status == 426 ? "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" : NULL);
}

/* It is short and the first thing that is sent, so the socket's buffer has room for it. */
static bool
send_answer(int fd, const char *accept, const char *protocol)
{
    g_autofree char *text = g_strdup_printf(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: %s\r\n%s%s%s\r\n",
        accept, protocol != NULL ? "Sec-WebSocket-Protocol: " : "",
        protocol != NULL ? protocol : "", protocol != NULL ? "\r\n" : "");
    return send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t) strlen(text);
}

IpbWebSocket *
ipb_websocket_accept(IpbLoop *loop, IpbHttpRequest *request, const char *const *protocols,
                     const IpbWebSocketOptions *options, const IpbWebSocketFuncs *funcs, void *data)
{
    char accept[IPB_HANDSHAKE_ACCEPT_SIZE];
    const char *protocol;
    g_autoptr(GBytes) unread = NULL;
    g_autoptr(IpbHttpPlace) place = NULL;
    IpbHttpHead head = *ipb_http_request_head(request);
    if (!ipb_handshake_check_request(&head, protocols, &protocol, accept)) {
        answer_refusal(request, &head);
        return NULL;
    }
    ipb_autofd fd = ipb_http_request_steal(request, &unread, &place);
    if (!send_answer(fd, accept, protocol))
        return NULL;
    g_autoptr(IpbWebSocket) socket = new_socket(loop, options, funcs, data);
    socket->place = g_steal_pointer(&place);
    IpbSpan bytes = {0};
    bytes.start = g_bytes_get_data(unread, &bytes.size);
    if (!start(socket, ipb_fd_steal(&fd), true, protocol, bytes, NULL))
        return NULL;
    return g_steal_pointer(&socket);
}

/* --- the client's handshake ------------------------------------------------------------------- */

static void
on_dialed(int fd, const char *protocol, IpbSpan unread, void *data)
{
    IpbWebSocket *socket = data;
    g_autoptr(GError) error = NULL;
    g_rc_box_acquire(socket);
    if (start(socket, fd, false, protocol, unread, &error)) {
        g_clear_pointer(&socket->dial, ipb_websocket_dial_free);
        update(socket);
        if (socket->state == STATE_OPEN && socket->funcs.on_open != NULL)
            socket->funcs.on_open(socket, socket->data);
    } else {
        fail(socket, error->message);
    }
    unref(socket);
}

static void
on_dial_failed(const char *reason, void *data)
{
    fail(data, reason);
}

IpbWebSocket *
ipb_websocket_connect(IpbLoop *loop, const IpbWebSocketTarget *target,
                      const IpbWebSocketOptions *options, const IpbWebSocketFuncs *funcs,
                      void *data, GError **error)
{
    static const IpbWebSocketDialFuncs DIAL_FUNCS = {on_dialed, on_dial_failed};
    IpbWebSocket *socket = new_socket(loop, options, funcs, data);
    socket->dial = ipb_websocket_dial_new(loop, target, &DIAL_FUNCS, socket, error);
    if (socket->dial == NULL)
        g_clear_pointer(&socket, ipb_websocket_free);
    return socket;
}

/* --- what the owner calls --------------------------------------------------------------------- */

const char *
ipb_websocket_protocol(const IpbWebSocket *socket)
{
    return socket->protocol;
}

bool
ipb_websocket_send(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text,
                   GError **error)
{
    if (socket->state != STATE_OPEN) {
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
        !queue_frame(socket, is_text ? IPB_FRAME_TEXT : IPB_FRAME_BINARY, bytes, size)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "more than %zu MiB would wait to be sent over the WebSocket",
                    socket->options.max_queue >> 20);
        return false;
    }
    /* on_drained is called from the loop, even if everything is sent at once. */
    if (!socket->was_queued)
        socket->written_at = g_get_monotonic_time();
    flush(socket);
    socket->was_queued = true;
    if (socket->state == STATE_OPEN) {
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
    if (socket->state == STATE_OPEN || socket->state == STATE_CLOSING)
        watch(socket);
}

void
ipb_websocket_close(IpbWebSocket *socket, unsigned code, const char *reason)
{
    if (socket->state == STATE_CONNECTING) {
        end(socket, code, reason);
        return;
    }
    if (socket->state != STATE_OPEN)
        return;
    queue_close(socket, code, reason);
    socket->state = STATE_CLOSING;
    socket->deadline = in_ms(socket->options.close_ms);
    socket->is_paused = false;
    set_timer(socket, socket->deadline);
    ipb_watch_set_events(socket->watch, EPOLLIN | EPOLLOUT);
}
