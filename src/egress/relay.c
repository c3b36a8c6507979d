/* SPDX-License-Identifier: Apache-2.0
 *
 * The relay; see the header. It has two flows. Each flow keeps the bytes that were read but could
 * not be written yet, and does not read more while it has such bytes. An idle relay holds no memory
 * for data.
 *
 * It uses plain reads and writes: splice() would need two pipes, which are four descriptors, for
 * each connection.
 */
#include "egress/relay.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"

#define READ_SIZE (64 * 1024)
/* Neither side sends anything. Interactive sessions can be idle for a long time. */
#define IDLE_TIMEOUT_MS (60 * 60 * 1000)
/* One direction has ended, and the other sends nothing. */
#define HALF_CLOSED_TIMEOUT_MS (5 * 60 * 1000)
/* Everything was sent. The client has this time to close; closing earlier could discard what it has
 * not read yet. */
#define LINGER_TIMEOUT_MS (2 * 1000)

typedef struct {
    int from, to;      /* indexes of sides */
    IpbBuffer pending; /* read, not written */
    bool has_ended;    /* nothing more is read */
    bool is_closed;    /* the end was passed on as well */
    bool is_cut;       /* the receiving side accepts no more */
} Flow;

typedef struct {
    IpbRelay *relay;
    int fd;
    IpbWatch *watch;
} Side;

enum {
    CLIENT,
    SERVER,
};

struct IpbRelay {
    IpbLoop *loop;
    IpbRelayMode mode;
    IpbHttpBody body;
    char status[12]; /* the first bytes of the server's answer, in IPB_RELAY_UPGRADE */
    size_t status_size;
    Side sides[2];
    Flow flows[2]; /* indexed by the side that is read */
    bool is_lingering;
    unsigned idle_ms;
    int64_t last_activity;
    IpbTimer *timer;
    void (*on_end)(void *data);
    void *data;
};

static const char SWITCHING[] = "HTTP/1.1 101";

static void
end(IpbRelay *relay)
{
    relay->on_end(relay->data);
}

/* One side failed. Resets both, so that the other side does not take what it received for
 * everything. */
static void
abort_both(IpbRelay *relay)
{
    const struct linger at_once = {.l_onoff = 1};
    for (int i = 0; i < 2; i++)
        setsockopt(relay->sides[i].fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    end(relay);
}

/* Time */

static unsigned
timeout_ms(const IpbRelay *relay)
{
    if (relay->is_lingering)
        return LINGER_TIMEOUT_MS;
    bool is_half_closed = relay->mode == IPB_RELAY_ALL &&
                          (relay->flows[CLIENT].has_ended || relay->flows[SERVER].has_ended);
    return is_half_closed ? MIN(relay->idle_ms, HALF_CLOSED_TIMEOUT_MS) : relay->idle_ms;
}

static void
on_timer(void *data)
{
    IpbRelay *relay = data;
    g_clear_pointer(&relay->timer, ipb_timer_free);
    int64_t left =
        relay->last_activity + timeout_ms(relay) * INT64_C(1000) - g_get_monotonic_time();
    if (left > 0)
        relay->timer = ipb_timer_new(relay->loop, (unsigned) (left / 1000) + 1, on_timer, relay);
    else if (relay->is_lingering)
        end(relay);
    else
        abort_both(relay);
}

static void
restart_timer(IpbRelay *relay)
{
    ipb_timer_free(relay->timer);
    relay->timer = ipb_timer_new(relay->loop, timeout_ms(relay), on_timer, relay);
}

/* Events */

static void
update_events(IpbRelay *relay)
{
    uint32_t events[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        const Flow *flow = &relay->flows[i];
        if (ipb_buffer_size(&flow->pending) > 0)
            events[flow->to] |= EPOLLOUT;
        else if (!flow->has_ended)
            events[flow->from] |= EPOLLIN;
    }
    /* Watch for a client that disconnects after its request, so that the server does not answer
     * without a reader. */
    if (relay->mode != IPB_RELAY_ALL && relay->flows[CLIENT].has_ended &&
        !relay->flows[SERVER].has_ended)
        events[CLIENT] |= EPOLLRDHUP;
    if (relay->is_lingering) {
        events[CLIENT] = EPOLLIN;
        events[SERVER] = 0;
    }
    for (int i = 0; i < 2; i++)
        ipb_watch_set_events(relay->sides[i].watch, events[i]);
}

/* False: the relay has ended. A server that refuses a request may close before it has read all
 * of it, and its answer can still be read. So the client's further bytes are dropped, and the
 * relay waits for the server's end. */
static bool
on_write_error(IpbRelay *relay, Flow *flow)
{
    if (flow->from == SERVER) {
        abort_both(relay);
        return false;
    }
    ipb_buffer_clear(&flow->pending);
    flow->has_ended = flow->is_closed = flow->is_cut = true;
    return true;
}

/* Writes as much as possible; *ret_written is the number of bytes. False: the relay has ended. */
static bool
write_some(IpbRelay *relay, Flow *flow, const void *bytes, size_t size, size_t *ret_written)
{
    ssize_t n = send(relay->sides[flow->to].fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    *ret_written = n > 0 ? (size_t) n : 0;
    if (n >= 0 || errno == EAGAIN || errno == EINTR)
        return true;
    *ret_written = size; /* the rest is dropped */
    return on_write_error(relay, flow);
}

/* Writes the pending bytes. False: the relay has ended. */
static bool
write_pending(IpbRelay *relay, Flow *flow)
{
    size_t written;
    if (!write_some(relay, flow, ipb_buffer_data(&flow->pending), ipb_buffer_size(&flow->pending),
                    &written))
        return false;
    if (!flow->is_cut)
        ipb_buffer_consume(&flow->pending, written);
    if (ipb_buffer_size(&flow->pending) == 0)
        ipb_buffer_clear(&flow->pending);
    return true;
}

/* Writes what can be written at once and keeps the rest. There is room for it, because a flow
 * does not read while it has pending bytes. False: the relay has ended. */
static bool
write_through(IpbRelay *relay, Flow *flow, const char *bytes, size_t size)
{
    size_t written;
    if (size == 0)
        return true;
    if (!write_some(relay, flow, bytes, size, &written))
        return false;
    return ipb_buffer_append(&flow->pending, bytes + written, size - written);
}

/* Passes the end of a flow on when everything before it was written. Ends the relay after both
 * flows. False: the relay has ended, or lingers. */
static bool
pass_end_on(IpbRelay *relay, Flow *flow)
{
    if (!flow->has_ended || flow->is_closed || ipb_buffer_size(&flow->pending) > 0)
        return true;
    flow->is_closed = true;
    /* The client's end is not passed on for a request: a server may take it for a disconnection. */
    if (flow->from == SERVER || relay->mode == IPB_RELAY_ALL)
        shutdown(relay->sides[flow->to].fd, SHUT_WR);
    bool is_over = flow->from == SERVER && relay->mode != IPB_RELAY_ALL;
    if (!is_over && !relay->flows[1 - flow->from].is_closed) {
        restart_timer(relay);
        return true;
    }
    if (relay->mode == IPB_RELAY_ALL && !relay->flows[CLIENT].is_cut) {
        end(relay); /* all of the client's bytes were read, so closing discards nothing */
        return false;
    }
    relay->is_lingering = true;
    relay->last_activity = g_get_monotonic_time();
    restart_timer(relay);
    update_events(relay);
    return false;
}

/* The client's bytes */

/* Returns how many of the client's bytes may pass. Ends the client's flow after a complete
 * request. */
static size_t
admit(IpbRelay *relay, const char *bytes, size_t size)
{
    Flow *flow = &relay->flows[CLIENT];
    if (relay->mode != IPB_RELAY_BODY)
        return size;
    size_t admitted = ipb_http_body_take(&relay->body, bytes, size);
    flow->has_ended = relay->body.state == IPB_HTTP_BODY_DONE;
    return admitted;
}

/* Watches for the status of the server's answer to an upgrade. */
static void
watch_status(IpbRelay *relay, const char *bytes, size_t size)
{
    if (relay->mode != IPB_RELAY_UPGRADE || relay->status_size == sizeof relay->status)
        return;
    size_t n = MIN(size, sizeof relay->status - relay->status_size);
    memcpy(relay->status + relay->status_size, bytes, n);
    relay->status_size += n;
    if (relay->status_size == sizeof relay->status &&
        memcmp(relay->status, SWITCHING, sizeof relay->status) == 0) {
        relay->mode = IPB_RELAY_ALL;
        relay->flows[CLIENT].has_ended = relay->flows[CLIENT].is_closed = false;
    }
}

/* Reading */

/* False: the relay has ended. */
static bool
read_side(IpbRelay *relay, Flow *flow)
{
    char bytes[READ_SIZE];
    ssize_t n = recv(relay->sides[flow->from].fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    bool is_answered = flow->from == SERVER && relay->flows[CLIENT].is_cut;
    if (n < 0 && !is_answered) {
        abort_both(relay);
        return false;
    }
    relay->last_activity = g_get_monotonic_time();
    if (n <= 0) {
        if (flow->from == CLIENT && relay->mode != IPB_RELAY_ALL) {
            abort_both(relay); /* the client ended within its request */
            return false;
        }
        flow->has_ended = true;
        return true;
    }
    size_t size = (size_t) n;
    if (flow->from == CLIENT)
        size = admit(relay, bytes, size);
    else
        watch_status(relay, bytes, size);
    if (relay->body.state == IPB_HTTP_BODY_BAD) {
        abort_both(relay);
        return false;
    }
    return write_through(relay, flow, bytes, size);
}

static void
drain(IpbRelay *relay)
{
    char unread[READ_SIZE];
    ssize_t n = recv(relay->sides[CLIENT].fd, unread, sizeof unread, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        end(relay);
}

static void
on_ready(uint32_t events, void *data)
{
    Side *side = data;
    IpbRelay *relay = side->relay;
    int index = side == &relay->sides[CLIENT] ? CLIENT : SERVER;
    Flow *in = &relay->flows[index], *out = &relay->flows[1 - index];
    if (relay->is_lingering) {
        drain(relay);
        return;
    }
    if (in->has_ended && index == CLIENT && relay->mode != IPB_RELAY_ALL &&
        (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        abort_both(relay);
        return;
    }
    if (ipb_buffer_size(&out->pending) > 0) {
        relay->last_activity = g_get_monotonic_time();
        if (!write_pending(relay, out))
            return;
    }
    bool is_readable = !in->has_ended && ipb_buffer_size(&in->pending) == 0 &&
                       (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
    if (is_readable && !read_side(relay, in))
        return;
    if (pass_end_on(relay, in) && pass_end_on(relay, out))
        update_events(relay);
}

/* Creation and destruction */

static bool
add_side(IpbRelay *relay, int index, GError **error)
{
    Side *side = &relay->sides[index];
    /* Pending bytes of the other flow are written to this side before it is read. */
    side->watch = ipb_watch_new(relay->loop, side->fd, EPOLLIN, on_ready, side, error);
    return side->watch != NULL;
}

static void
init_flow(Flow *flow, int from)
{
    *flow = (Flow){.from = from, .to = 1 - from};
    ipb_buffer_init(&flow->pending, 2 * IPB_RELAY_MAX_FIRST);
}

IpbRelay *
ipb_relay_new(IpbLoop *loop, const IpbRelayOptions *options, GError **error)
{
    g_autoptr(IpbRelay) relay = g_new0(IpbRelay, 1);
    relay->loop = ipb_loop_ref(loop);
    relay->mode = options->mode;
    relay->body = options->body;
    relay->on_end = options->on_end;
    relay->data = options->data;
    relay->idle_ms = options->idle_ms > 0 ? options->idle_ms : IDLE_TIMEOUT_MS;
    relay->last_activity = g_get_monotonic_time();
    relay->sides[CLIENT] = (Side){relay, options->client_fd, NULL};
    relay->sides[SERVER] = (Side){relay, options->server_fd, NULL};
    init_flow(&relay->flows[CLIENT], CLIENT);
    init_flow(&relay->flows[SERVER], SERVER);
    if (!add_side(relay, CLIENT, error) || !add_side(relay, SERVER, error))
        return NULL;
    Flow *flow = &relay->flows[CLIENT];
    /* Nothing of an upgraded stream is read until the server has answered. */
    flow->has_ended = relay->mode == IPB_RELAY_UPGRADE;
    size_t size = admit(relay, options->second, options->second_size);
    if (relay->body.state == IPB_HTTP_BODY_BAD) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_PROTOCOL,
                    "the chunks of the request's body are malformed");
        return NULL;
    }
    ipb_buffer_append(&flow->pending, options->first, options->first_size);
    ipb_buffer_append(&flow->pending, options->second, size);
    restart_timer(relay);
    update_events(relay);
    return g_steal_pointer(&relay);
}

void
ipb_relay_free(IpbRelay *relay)
{
    if (relay == NULL)
        return;
    ipb_timer_free(relay->timer);
    for (int i = 0; i < 2; i++) {
        ipb_watch_free(relay->sides[i].watch);
        ipb_fd_close(&relay->sides[i].fd);
        ipb_buffer_clear(&relay->flows[i].pending);
    }
    ipb_loop_unref(relay->loop);
    g_free(relay);
}
