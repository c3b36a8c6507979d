/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes over a WebSocket; see websocket.h. A message that comes while the owner is told of another waits until it has returned; one
 * that comes while it is paused stays in the input.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "http/websocket-private.h"

/* Answers to pings that wait while the peer is still read. */
#define MAX_QUEUED_PONGS 256
#define READ_SIZE (64 * 1024)

/* The answer to the peer's close, or the refusal of what it sent, is on its way. */
static void
start_closing(IpbWebSocket *socket, unsigned code, const char *reason, size_t reason_size)
{
    socket->reads_no_more = true;
    if (socket->code == 0) {
        socket->code = code;
        socket->reason = g_strndup(reason, reason_size);
    }
    if (socket->state == IPB_WEBSOCKET_OPEN) {
        socket->state = IPB_WEBSOCKET_CLOSING;
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
        ipb_websocket_queue(socket, IPB_FRAME_PONG, payload, frames->control_size);
    } else if (frames->kind == IPB_FRAME_CLOSE) {
        if (!socket->has_sent_close)
            ipb_websocket_queue_close(socket, frames->code, "");
        start_closing(socket, frames->code, payload + 2,
                      frames->control_size > 2 ? frames->control_size - 2 : 0);
    }
}

static void
take_message(IpbWebSocket *socket)
{
    const IpbBuffer *message = &socket->frames.message;
    if (socket->state == IPB_WEBSOCKET_OPEN && socket->funcs.on_message != NULL)
        socket->funcs.on_message(socket, (const char *) ipb_buffer_data(message),
                                 ipb_buffer_size(message),
                                 socket->frames.message_kind == IPB_FRAME_TEXT, socket->data);
}

bool
ipb_websocket_may_take(const IpbWebSocket *socket)
{
    return !socket->is_freed && socket->state < IPB_WEBSOCKET_DRAIN && !socket->is_paused &&
           !socket->reads_no_more && socket->n_pongs <= MAX_QUEUED_PONGS;
}

/* Takes apart what was read. */
static void
take_frames(IpbWebSocket *socket)
{
    while (ipb_websocket_may_take(socket)) {
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
                ipb_websocket_queue_close(socket, socket->frames.code, socket->frames.reason);
            start_closing(socket, socket->frames.code, socket->frames.reason,
                          strlen(socket->frames.reason));
            return;
        case IPB_FRAMES_MORE:
        default:
            return;
        }
    }
}

/* False: there is nothing more now. */
static bool
read_some(IpbWebSocket *socket)
{
    uint8_t *room = ipb_buffer_reserve(&socket->in, READ_SIZE);
    ssize_t n = recv(socket->fd, room, READ_SIZE, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        ipb_websocket_fail(socket, n == 0 ? "the peer closed the connection" : g_strerror(errno));
        return false;
    }
    socket->read_at = g_get_monotonic_time();
    ipb_buffer_commit(&socket->in, (size_t) n);
    take_frames(socket);
    return n == READ_SIZE;
}

void
ipb_websocket_receive(IpbWebSocket *socket)
{
    take_frames(socket);
    for (size_t n = 0; n < IPB_WEBSOCKET_MAX_READ && ipb_websocket_may_take(socket); n += READ_SIZE)
        if (!read_some(socket))
            return;
}
