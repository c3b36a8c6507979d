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
 * wslay gives messages in pieces, and they are put together here: it would take any number of pieces of a byte each.
 * It answers each ping; so that a peer that does not read cannot make the queue of answers grow, nothing is read while many wait.
 */
#include "http/websocket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <wslay/wslay.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"
#include "http/websocket-private.h"

/* Read by one wake-up; the rest comes with the next. */
#define MAX_READ_AT_ONCE (1024 * 1024)
/* Answers to pings that wait to be sent while the peer is still read. */
#define MAX_QUEUED_PONGS 256
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
    void *dial;
    GDestroyNotify free_dial;
    char *protocol;
    wslay_event_context_ptr frames;
    GBytes *unread; /* what came with the handshake */
    size_t unread_at;
    bool is_receiving; /* wslay is at work */
    bool is_paused;
    size_t read_budget;
    bool is_eof;
    int read_errno;
    /* The message that comes, and the kinds of it and of the frame. */
    IpbBuffer message;
    unsigned opcode;
    bool was_queued;
    unsigned n_pongs; /* queued since the queue was empty */
    size_t n_drained;
    /* How it ends. */
    unsigned code;
    char *reason;
    bool is_told;
    /* Monotonic time; 0: none. */
    int64_t read_at, written_at, pinged_at, deadline;
    int64_t timer_at;
    IpbTimer *timer;
};

static void update(IpbWebSocket *socket);

static void
clear(void *data)
{
    IpbWebSocket *socket = data;
    if (socket->frames != NULL)
        wslay_event_context_free(socket->frames);
    ipb_buffer_clear(&socket->message);
    g_clear_pointer(&socket->unread, g_bytes_unref);
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

void
ipb_websocket_fail(IpbWebSocket *socket, const char *reason)
{
    end(socket, WSLAY_CODE_ABNORMAL_CLOSURE, reason);
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
    struct wslay_event_msg message = {.opcode = WSLAY_PING};
    if (socket->is_paused) {
        socket->read_at = now; /* its answers cannot be seen */
    } else if (socket->pinged_at > socket->read_at) {
        ipb_websocket_fail(socket, "the peer does not answer pings");
    } else {
        socket->pinged_at = now;
        wslay_event_queue_msg(socket->frames, &message);
    }
}

static void
check_deadlines(IpbWebSocket *socket)
{
    int64_t now = g_get_monotonic_time();
    if (socket->deadline != 0 && now >= socket->deadline) {
        end(socket, WSLAY_CODE_ABNORMAL_CLOSURE,
            socket->state == STATE_CONNECTING ? "the server does not answer the handshake in time"
                                              : "the peer does not answer the close in time");
        return;
    }
    if (socket->state != STATE_OPEN)
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
    if (socket->state == STATE_ENDED) {
        tell_closed(socket);
    } else {
        check_deadlines(socket);
        update(socket);
    }
    unref(socket);
}

/* Frames in */

static ssize_t
stop_reading(wslay_event_context_ptr frames, int error)
{
    wslay_event_set_error(frames, error);
    return -1;
}

static ssize_t
on_wslay_recv(wslay_event_context_ptr frames, uint8_t *bytes, size_t size, int flags, void *data)
{
    IpbWebSocket *socket = data;
    if (socket->is_freed || socket->state == STATE_ENDED)
        return stop_reading(frames, WSLAY_ERR_CALLBACK_FAILURE);
    if (socket->is_paused || socket->read_budget == 0 || socket->n_pongs > MAX_QUEUED_PONGS)
        return stop_reading(frames, WSLAY_ERR_WOULDBLOCK);
    size = MIN(size, socket->read_budget);
    if (socket->unread != NULL) {
        gsize unread_size;
        const char *unread = g_bytes_get_data(socket->unread, &unread_size);
        size = MIN(size, unread_size - socket->unread_at);
        memcpy(bytes, unread + socket->unread_at, size);
        socket->unread_at += size;
        if (socket->unread_at == unread_size)
            g_clear_pointer(&socket->unread, g_bytes_unref);
        return (ssize_t) size;
    }
    ssize_t n = recv(socket->fd, bytes, size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return stop_reading(frames, WSLAY_ERR_WOULDBLOCK);
    if (n <= 0) {
        socket->is_eof = n == 0;
        socket->read_errno = n < 0 ? errno : 0;
        return stop_reading(frames, WSLAY_ERR_CALLBACK_FAILURE);
    }
    socket->read_at = g_get_monotonic_time();
    socket->read_budget -= (size_t) n;
    return n;
}

static void
start_closing(IpbWebSocket *socket, const char *reason)
{
    if (socket->state != STATE_OPEN)
        return;
    socket->state = STATE_CLOSING;
    socket->deadline = in_ms(socket->options.close_ms);
    if (socket->reason == NULL)
        socket->reason = g_strdup(reason);
}

/* The peer did what it may not: a close with @code is the last thing that it is told. */
static void
refuse(IpbWebSocket *socket, unsigned code, const char *reason)
{
    wslay_event_queue_close(socket->frames, (uint16_t) code, (const uint8_t *) reason,
                            strlen(reason));
    wslay_event_shutdown_read(socket->frames);
    start_closing(socket, reason);
}

static void
on_wslay_frame(wslay_event_context_ptr frames,
               const struct wslay_event_on_frame_recv_start_arg *frame, void *data)
{
    IpbWebSocket *socket = data;
    socket->opcode = frame->opcode;
    if (!wslay_is_ctrl_frame(frame->opcode) &&
        frame->payload_length > socket->options.max_message - ipb_buffer_size(&socket->message))
        refuse(socket, WSLAY_CODE_MESSAGE_TOO_BIG, "the message is too large");
}

static void
on_wslay_chunk(wslay_event_context_ptr frames,
               const struct wslay_event_on_frame_recv_chunk_arg *chunk, void *data)
{
    IpbWebSocket *socket = data;
    if (!wslay_is_ctrl_frame(socket->opcode))
        ipb_buffer_append(&socket->message, chunk->data, chunk->data_length);
}

/* The code is before the reason; wslay has checked both. */
static void
take_close(IpbWebSocket *socket, const struct wslay_event_on_msg_recv_arg *message)
{
    g_autofree char *reason = message->msg_length > 2 ? g_strndup((const char *) message->msg + 2,
                                                                  message->msg_length - 2)
                                                      : NULL;
    if (socket->code == 0)
        socket->code = message->status_code != 0 ? message->status_code : WSLAY_CODE_NO_STATUS_RCVD;
    start_closing(socket, reason);
}

static void
on_wslay_message(wslay_event_context_ptr frames, const struct wslay_event_on_msg_recv_arg *message,
                 void *data)
{
    IpbWebSocket *socket = data;
    if (message->opcode == WSLAY_CONNECTION_CLOSE) {
        take_close(socket, message);
        return;
    }
    if (message->opcode == WSLAY_PING)
        socket->n_pongs++;
    if (wslay_is_ctrl_frame(message->opcode))
        return;
    if (!socket->is_freed && socket->state == STATE_OPEN && socket->funcs.on_message != NULL)
        socket->funcs.on_message(socket, (const char *) ipb_buffer_data(&socket->message),
                                 ipb_buffer_size(&socket->message),
                                 message->opcode == WSLAY_TEXT_FRAME, socket->data);
    ipb_buffer_consume(&socket->message, ipb_buffer_size(&socket->message));
}

/* wslay closed by itself, because of what the peer sent? */
static void
note_violation(IpbWebSocket *socket)
{
    if (!wslay_event_get_read_enabled(socket->frames))
        start_closing(socket, "the peer broke the WebSocket protocol");
}

static void
receive(IpbWebSocket *socket)
{
    socket->read_budget = MAX_READ_AT_ONCE;
    socket->is_receiving = true;
    int status = wslay_event_recv(socket->frames);
    socket->is_receiving = false;
    if (socket->is_freed || socket->state == STATE_ENDED)
        return;
    if (socket->is_eof || socket->read_errno != 0) {
        ipb_websocket_fail(socket, socket->is_eof ? "the peer closed the connection"
                                                  : g_strerror(socket->read_errno));
        return;
    }
    if (status != 0) { /* of what is no frame at all; a close is queued, without a code */
        wslay_event_shutdown_read(socket->frames);
        socket->code = WSLAY_CODE_PROTOCOL_ERROR;
    }
    note_violation(socket);
}

/* Frames out */

static ssize_t
on_wslay_send(wslay_event_context_ptr frames, const uint8_t *bytes, size_t size, int flags,
              void *data)
{
    IpbWebSocket *socket = data;
    int more = (flags & WSLAY_MSG_MORE) != 0 ? MSG_MORE : 0;
    ssize_t n = socket->fd >= 0 ? send(socket->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT | more)
                                : (errno = EBADF, -1);
    if (n < 0) {
        bool is_full = errno == EAGAIN || errno == EINTR;
        wslay_event_set_error(frames, is_full ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
    }
    socket->written_at = g_get_monotonic_time();
    return n;
}

static int
on_wslay_mask(wslay_event_context_ptr frames, uint8_t *bytes, size_t size, void *data)
{
    return getrandom(bytes, size, 0) == (ssize_t) size ? 0 : -1;
}

static const struct wslay_event_callbacks CALLBACKS = {
    .recv_callback = on_wslay_recv,
    .send_callback = on_wslay_send,
    .genmask_callback = on_wslay_mask,
    .on_frame_recv_start_callback = on_wslay_frame,
    .on_frame_recv_chunk_callback = on_wslay_chunk,
    .on_msg_recv_callback = on_wslay_message,
};

static void
flush(IpbWebSocket *socket)
{
    if (socket->is_receiving || !wslay_event_want_write(socket->frames))
        return;
    if (wslay_event_send(socket->frames) != 0)
        ipb_websocket_fail(socket, "the connection broke while something was sent");
}

/* What follows from what happened */

static void
start_draining(IpbWebSocket *socket)
{
    socket->state = STATE_DRAIN;
    if (socket->code == 0)
        socket->code = wslay_event_get_status_code_sent(socket->frames);
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
    bool is_queued = wslay_event_want_write(socket->frames);
    bool is_drained = socket->was_queued && !is_queued;
    if (is_queued && !socket->was_queued)
        socket->written_at = g_get_monotonic_time();
    socket->was_queued = is_queued;
    if (!is_queued)
        socket->n_pongs = 0;
    if (is_drained && socket->state == STATE_OPEN && socket->funcs.on_drained != NULL)
        socket->funcs.on_drained(socket, socket->data);
}

static void
watch(IpbWebSocket *socket)
{
    bool wants_input = wslay_event_want_read(socket->frames) && !socket->is_paused &&
                       socket->n_pongs <= MAX_QUEUED_PONGS;
    bool wants_output = wslay_event_want_write(socket->frames);
    ipb_watch_set_events(socket->watch,
                         (wants_input ? EPOLLIN : 0u) | (wants_output ? EPOLLOUT : 0u));
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
    if (!wslay_event_want_read(socket->frames) && !wslay_event_want_write(socket->frames)) {
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
        if ((events & ~(uint32_t) EPOLLOUT) != 0 || socket->unread != NULL)
            receive(socket);
        if (!socket->is_freed && socket->state < STATE_DRAIN)
            flush(socket);
        if (!socket->is_freed && socket->state < STATE_DRAIN)
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
    ipb_buffer_init(&socket->message, options->max_message);
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
    int status = is_server ? wslay_event_context_server_init(&socket->frames, &CALLBACKS, socket)
                           : wslay_event_context_client_init(&socket->frames, &CALLBACKS, socket);
    g_assert(status == 0);
    wslay_event_config_set_no_buffering(socket->frames, 1);
    /* on_wslay_frame looks after that, since wslay only counts frames then. */
    wslay_event_config_set_max_recv_msg_length(socket->frames, INT64_MAX);
    if (protocol != NULL) {
        g_free(socket->protocol);
        socket->protocol = g_strdup(protocol);
    }
    socket->state = STATE_OPEN;
    socket->deadline = 0;
    socket->read_at = socket->written_at = g_get_monotonic_time();
    if (next_deadline(socket) != G_MAXINT64)
        set_timer(socket, next_deadline(socket));
    if (unread_size > 0) {
        socket->unread = g_bytes_new(unread, unread_size);
        /* Nothing tells of these bytes but us; the socket can be written. */
        ipb_watch_set_events(socket->watch, EPOLLIN | EPOLLOUT);
    }
    return true;
}

void
ipb_websocket_tell_open(IpbWebSocket *socket)
{
    update(socket);
    if (socket->state == STATE_OPEN && socket->funcs.on_open != NULL)
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

/* NULs are valid, other than GLib has it. */
static bool
is_utf8(const char *bytes, size_t size)
{
    const char *end_of_all = bytes + size;
    const char *valid_end;
    while (!g_utf8_validate(bytes, end_of_all - bytes, &valid_end)) {
        if (valid_end == end_of_all || *valid_end != '\0')
            return false;
        bytes = valid_end + 1;
    }
    return true;
}

bool
ipb_websocket_send(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text,
                   GError **error)
{
    struct wslay_event_msg message = {.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
                                      .msg = (const uint8_t *) bytes,
                                      .msg_length = size};
    if (socket->state != STATE_OPEN) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the WebSocket is not open");
        return false;
    }
    if (is_text && !is_utf8(bytes, size)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the text for the WebSocket is not valid UTF-8");
        return false;
    }
    if (size >
        socket->options.max_queue - MIN(ipb_websocket_queued(socket), socket->options.max_queue)) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                    "more than %zu MiB would wait to be sent over the WebSocket",
                    socket->options.max_queue >> 20);
        return false;
    }
    if (wslay_event_queue_msg(socket->frames, &message) != 0) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY, "the WebSocket is being closed");
        return false;
    }
    /* on_drained comes from the loop, also if all of it goes out at once: the watch says so. */
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
    return socket->frames != NULL ? wslay_event_get_queued_msg_length(socket->frames) : 0;
}

void
ipb_websocket_pause(IpbWebSocket *socket, bool is_paused)
{
    socket->is_paused = is_paused;
    socket->read_at = g_get_monotonic_time();
    if (socket->state == STATE_OPEN || socket->state == STATE_CLOSING) {
        watch(socket);
        /* What wslay or we have already makes the socket readable to nobody. */
        if (!is_paused)
            ipb_watch_set_events(socket->watch, EPOLLIN | EPOLLOUT);
    }
}

void
ipb_websocket_close(IpbWebSocket *socket, unsigned code, const char *reason)
{
    size_t size = MIN(strlen(reason), MAX_REASON);
    while (size > 0 && !g_utf8_validate(reason, (gssize) size, NULL))
        size--;
    if (socket->state == STATE_CONNECTING) {
        end(socket, code, reason);
        return;
    }
    if (socket->state != STATE_OPEN)
        return;
    wslay_event_queue_close(socket->frames, (uint16_t) code, (const uint8_t *) reason, size);
    socket->state = STATE_CLOSING;
    socket->deadline = in_ms(socket->options.close_ms);
    socket->is_paused = false;
    set_timer(socket, socket->deadline);
    ipb_watch_set_events(socket->watch, EPOLLIN | EPOLLOUT);
}
