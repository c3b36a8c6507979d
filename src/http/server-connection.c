/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to the server. Its states follow each other:
 *
 *     HEAD → BODY → HANDLED → WRITE → HEAD …           one request after the other
 *                                   → DRAIN → gone     after an error, or "Connection: close"
 *                           → stolen                   by an upgrade
 *
 * While a request is handled or an answer is written nothing is read, so a peer that sends more waits. A
 * peer that closes its end, even half of it, is gone: whoever handles its request is told. Every wait has a
 * deadline but that for the handler, which is its own. After an error the connection is
 * closed, since it is not known what the rest of its bytes would mean; it is read empty for a
 * while, because closing a socket with unread bytes would throw the answer away.
 *
 * A handler may answer at once, and the peer may have sent the next request already: process_input goes on in a loop then,
 * and nothing recurses.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/fd.h"
#include "http/server-private.h"

#define READ_SIZE (256 * 1024)
/* What a reader must take within the timeout for writing. */
#define MIN_WRITTEN (1024 * 1024)
/* In bodies of the largest size. */
#define MAX_DRAINED 2

typedef enum {
    STATE_HEAD,
    STATE_BODY,
    STATE_HANDLED,
    STATE_WRITE,
    STATE_DRAIN,
    STATE_GONE,
} State;

struct IpbHttpConnection {
    IpbHttpServer *server;
    int fd;
    IpbWatch *watch;
    State state;
    bool is_processing;
    IpbHttpPeer peer;
    IpbBuffer in;
    size_t scanned; /* of the head */
    IpbHttpRequest *request;
    size_t content_length;
    size_t body_claimed; /* of the server's memory for bodies */
    bool is_admitted;
    char *origin; /* of the allowed web page that sent the request, or NULL */
    bool is_last; /* close after the answer */
    int64_t idle_since;
    IpbHttpOutput out;
    size_t answer_claimed; /* of the server's memory for answers */
    size_t mark;           /* bytes written when the deadline was set */
    size_t n_drained;
    /* The timer may fire early: a later deadline does not replace it. 0: no deadline. */
    int64_t deadline;
    int64_t timer_at;
    IpbTimer *timer;
};

/* Deadlines */

static const IpbHttpTimeouts *
timeouts(const IpbHttpConnection *connection)
{
    return &ipb_http_server_options(connection->server)->timeouts;
}

static void
on_timer(void *data)
{
    IpbHttpConnection *connection = data;
    g_clear_pointer(&connection->timer, ipb_timer_free);
    int64_t left = connection->deadline - g_get_monotonic_time();
    if (connection->deadline == 0)
        return;
    if (left <= 0) {
        ipb_http_server_forget(connection->server, connection);
        return;
    }
    connection->timer_at = connection->deadline;
    connection->timer = ipb_timer_new(ipb_http_server_loop(connection->server),
                                      (unsigned) (left / 1000) + 1, on_timer, connection);
}

/* @delay_ms 0: none. */
static void
set_deadline(IpbHttpConnection *connection, unsigned delay_ms)
{
    connection->deadline = delay_ms > 0 ? g_get_monotonic_time() + delay_ms * INT64_C(1000) : 0;
    if (delay_ms == 0 ||
        (connection->timer != NULL && connection->timer_at <= connection->deadline))
        return;
    ipb_timer_free(connection->timer);
    connection->timer_at = connection->deadline;
    connection->timer =
        ipb_timer_new(ipb_http_server_loop(connection->server), delay_ms, on_timer, connection);
}

static void
set_state(IpbHttpConnection *connection, State state, uint32_t events, unsigned timeout_ms)
{
    connection->state = state;
    ipb_watch_set_events(connection->watch, events);
    set_deadline(connection, timeout_ms);
}

/* Answers */

static void
clear_output(IpbHttpConnection *connection)
{
    ipb_http_output_clear(&connection->out);
    ipb_http_server_release_answer(connection->server, connection->answer_claimed);
    connection->answer_claimed = 0;
}

static void
release_body(IpbHttpConnection *connection)
{
    ipb_http_server_release_body(connection->server, connection->body_claimed);
    connection->body_claimed = 0;
}

static void process_input(IpbHttpConnection *connection);

static void
expect_request(IpbHttpConnection *connection)
{
    connection->scanned = 0;
    connection->idle_since = g_get_monotonic_time();
    set_state(connection, STATE_HEAD, EPOLLIN, timeouts(connection)->idle_ms);
    if (ipb_buffer_size(&connection->in) > 0)
        process_input(connection);
}

static void
finish_answer(IpbHttpConnection *connection)
{
    clear_output(connection);
    if (!connection->is_last) {
        expect_request(connection);
        return;
    }
    shutdown(connection->fd, SHUT_WR);
    ipb_buffer_clear(&connection->in);
    set_state(connection, STATE_DRAIN, EPOLLIN, timeouts(connection)->drain_ms);
}

static void
write_answer(IpbHttpConnection *connection)
{
    IpbHttpOutput *out = &connection->out;
    if (!ipb_http_output_write(out, connection->fd)) {
        ipb_http_server_forget(connection->server, connection);
        return;
    }
    if (out->at == out->size) {
        finish_answer(connection);
        return;
    }
    if (connection->state != STATE_WRITE) {
        connection->mark = 0;
        set_state(connection, STATE_WRITE, EPOLLOUT, timeouts(connection)->write_ms);
    } else if (out->at - connection->mark >= MIN_WRITTEN) {
        connection->mark = out->at;
        set_deadline(connection, timeouts(connection)->write_ms);
    }
}

static void
consume_body(IpbHttpConnection *connection)
{
    ipb_buffer_consume(&connection->in, connection->content_length);
    connection->content_length = 0;
}

void
ipb_http_connection_answer(IpbHttpConnection *connection, const IpbHttpAnswer *answer,
                           const char *allow, size_t claimed)
{
    IpbHttpAnswer final = *answer;
    final.is_last = connection->is_last = connection->is_last || answer->is_last;
    connection->request = NULL;
    connection->answer_claimed = claimed;
    consume_body(connection);
    release_body(connection);
    ipb_http_output_set(&connection->out, &final, allow, connection->origin);
    write_answer(connection);
}

static void
refuse(IpbHttpConnection *connection, unsigned status, const char *reason, const char *allow)
{
    g_autoptr(GBytes) body = ipb_http_server_describe(connection->server, reason);
    IpbHttpAnswer answer = {.status = status, .body = body, .is_last = true};
    connection->content_length = 0;
    ipb_http_connection_answer(connection, &answer, allow, 0);
}

/* Requests */

/* Is @token in the comma-separated list? */
static bool
has_token(IpbSpan list, const char *token)
{
    g_autofree char *text = g_strndup(list.start, list.size);
    g_auto(GStrv) items = g_strsplit(text, ",", 0);
    for (char **item = items; *item != NULL; item++)
        if (g_ascii_strcasecmp(g_strstrip(*item), token) == 0)
            return true;
    return false;
}

/* Somebody waits to be told before sending the body. */
static void
send_continue(IpbHttpConnection *connection)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    send(connection->fd, CONTINUE, sizeof CONTINUE - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void
handle(IpbHttpConnection *connection)
{
    IpbHttpRequest *request = connection->request;
    /* Only to be told when the peer leaves. */
    set_state(connection, STATE_HANDLED, EPOLLRDHUP, 0);
    ipb_http_request_handle(request);
    if (connection->request == request)
        consume_body(connection);
}

static bool
is_last_request(const IpbHttpHead *head)
{
    IpbSpan value;
    return head->is_http_1_0 ||
           (ipb_http_head_get(head, "Connection", &value) && has_token(value, "close"));
}

/* What browsers ask for pages of allowed origins: everything that the routes take. Whether the page has a token is seen then. */
static void
answer_preflight(IpbHttpConnection *connection)
{
    static const char HEADERS[] =
        "Access-Control-Allow-Methods: GET, POST, PUT, DELETE\r\n"
        "Access-Control-Allow-Headers: Authorization, Content-Type, X-XSRFToken\r\n"
        "Access-Control-Allow-Private-Network: true\r\n"
        "Access-Control-Max-Age: 600\r\n";
    ipb_http_connection_answer(connection, &(IpbHttpAnswer){.status = 204, .headers = HEADERS},
                               NULL, 0);
}

static void
note_origin(IpbHttpConnection *connection, const IpbHttpHead *head)
{
    IpbSpan origin;
    g_clear_pointer(&connection->origin, g_free);
    if (ipb_http_gate_get_origin(ipb_http_server_gate(connection->server), head, &origin))
        connection->origin = g_strndup(origin.start, origin.size);
}

static void
take_head(IpbHttpConnection *connection, IpbHttpHead *head)
{
    g_autofree char *reason = NULL;
    IpbHttpServer *server = connection->server;
    IpbHttpRefusal refusal = {0};
    IpbSpan value;
    note_origin(connection, head);
    if (ipb_http_gate_is_preflight(ipb_http_server_gate(server), head,
                                   ipb_http_server_port(server))) {
        connection->is_last = is_last_request(head);
        ipb_buffer_consume(&connection->in, head->size);
        answer_preflight(connection);
        return;
    }
    unsigned role = ipb_http_gate_admit(ipb_http_server_gate(server), head,
                                        ipb_http_server_port(server), &connection->peer);
    connection->is_admitted = role != 0;
    if (role == 0) {
        refuse(connection, head->status, head->reason, NULL);
        return;
    }
    const IpbHttpRoute *route = ipb_http_route_find(server, head, role, &refusal);
    reason = refusal.reason;
    if (route == NULL) {
        refuse(connection, refusal.status, reason, refusal.allow);
        return;
    }
    if (!ipb_http_server_claim_body(server, (size_t) head->content_length)) {
        refuse(connection, 503, "too many large requests at the same time", NULL);
        return;
    }
    connection->body_claimed = connection->content_length = (size_t) head->content_length;
    connection->is_last = is_last_request(head);
    bool is_waiting = ipb_http_head_get(head, "Expect", &value) && !head->is_http_1_0;
    connection->request = ipb_http_request_new(
        connection, route, (const char *) ipb_buffer_data(&connection->in), head->size, role);
    ipb_buffer_consume(&connection->in, head->size);
    set_state(connection, STATE_BODY, EPOLLIN, timeouts(connection)->body_ms);
    if (is_waiting && ipb_buffer_size(&connection->in) < connection->content_length)
        send_continue(connection);
}

static void
process_head(IpbHttpConnection *connection)
{
    IpbHttpHead head;
    bool is_first_piece = connection->scanned == 0;
    switch (ipb_http_head_parse((const char *) ipb_buffer_data(&connection->in),
                                ipb_buffer_size(&connection->in), &connection->scanned, &head)) {
    case IPB_HTTP_HEAD_WHOLE:
        take_head(connection, &head);
        return;
    case IPB_HTTP_HEAD_BAD:
        refuse(connection, head.status, head.reason, NULL);
        return;
    case IPB_HTTP_HEAD_PARTIAL:
    default:
        if (is_first_piece)
            set_deadline(connection, timeouts(connection)->head_ms);
    }
}

/* One step; false: more bytes are needed, or it is not the peer's turn. */
static bool
process_step(IpbHttpConnection *connection)
{
    size_t size = ipb_buffer_size(&connection->in);
    if (connection->state == STATE_HEAD && size > 0) {
        process_head(connection);
        return connection->state != STATE_HEAD || ipb_buffer_size(&connection->in) != size;
    }
    if (connection->state == STATE_BODY && size >= connection->content_length) {
        handle(connection);
        return true;
    }
    return false;
}

static void
process_input(IpbHttpConnection *connection)
{
    if (connection->is_processing)
        return; /* the loop below goes on */
    g_rc_box_acquire(connection);
    connection->is_processing = true;
    while (process_step(connection))
        ;
    connection->is_processing = false;
    g_rc_box_release(connection);
}

static void
read_input(IpbHttpConnection *connection)
{
    size_t size = ipb_buffer_size(&connection->in);
    size_t wanted = connection->state == STATE_HEAD ? IPB_HTTP_MAX_HEAD - size
                                                    : connection->content_length - size;
    wanted = MIN(wanted, READ_SIZE);
    uint8_t *room = ipb_buffer_reserve(&connection->in, wanted);
    ssize_t n = recv(connection->fd, room, wanted, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        ipb_http_server_forget(connection->server, connection);
        return;
    }
    ipb_buffer_commit(&connection->in, (size_t) n);
    process_input(connection);
}

static void
drain_input(IpbHttpConnection *connection)
{
    char unread[65536];
    size_t max_drained =
        MAX_DRAINED * (ipb_http_server_options(connection->server)->max_body + IPB_HTTP_MAX_HEAD);
    ssize_t n = recv(connection->fd, unread, sizeof unread, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    connection->n_drained += (size_t) MAX(n, 0);
    if (n <= 0 || connection->n_drained > max_drained)
        ipb_http_server_forget(connection->server, connection);
}

static void
on_ready(uint32_t events, void *data)
{
    IpbHttpConnection *connection = data;
    switch (connection->state) {
    case STATE_HEAD:
    case STATE_BODY:
        read_input(connection);
        return;
    case STATE_HANDLED:
        ipb_http_server_forget(connection->server, connection);
        return;
    case STATE_WRITE:
        write_answer(connection);
        return;
    case STATE_DRAIN:
        drain_input(connection);
        return;
    case STATE_GONE:
    default:
        return;
    }
}

/* Life */

IpbHttpConnection *
ipb_http_connection_new(IpbHttpServer *server, int fd, GError **error)
{
    ipb_autofd owned_fd = fd;
    IpbHttpConnection *connection = g_rc_box_new0(IpbHttpConnection);
    connection->watch =
        ipb_watch_new(ipb_http_server_loop(server), fd, EPOLLIN, on_ready, connection, error);
    if (connection->watch == NULL) {
        g_rc_box_release(connection);
        return NULL;
    }
    connection->server = server;
    connection->fd = ipb_fd_steal(&owned_fd);
    connection->peer.fd = connection->fd;
    ipb_buffer_init(&connection->in, IPB_HTTP_MAX_HEAD + ipb_http_server_options(server)->max_body);
    connection->idle_since = g_get_monotonic_time();
    set_deadline(connection, timeouts(connection)->head_ms);
    return connection;
}

void
ipb_http_connection_end(IpbHttpConnection *connection)
{
    connection->state = STATE_GONE;
    g_clear_pointer(&connection->timer, ipb_timer_free);
    g_clear_pointer(&connection->watch, ipb_watch_free);
    ipb_fd_close(&connection->fd);
    if (connection->request != NULL)
        ipb_http_request_end(g_steal_pointer(&connection->request));
    release_body(connection);
    clear_output(connection);
    g_free(connection->origin);
    ipb_buffer_clear(&connection->in);
    g_rc_box_release(connection);
}

int
ipb_http_connection_steal(IpbHttpConnection *connection, GBytes **ret_unread)
{
    int fd = ipb_fd_steal(&connection->fd);
    connection->request = NULL;
    consume_body(connection);
    *ret_unread = g_bytes_new(ipb_buffer_data(&connection->in), ipb_buffer_size(&connection->in));
    ipb_http_server_forget(connection->server, connection);
    return fd;
}

IpbSpan
ipb_http_connection_body(const IpbHttpConnection *connection)
{
    return (IpbSpan){(const char *) ipb_buffer_data(&connection->in), connection->content_length};
}

IpbHttpServer *
ipb_http_connection_server(const IpbHttpConnection *connection)
{
    return connection->server;
}

bool
ipb_http_connection_is_admitted(const IpbHttpConnection *connection)
{
    return connection->is_admitted;
}

bool
ipb_http_connection_has_unread(const IpbHttpConnection *connection)
{
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool
ipb_http_connection_is_idle(const IpbHttpConnection *connection)
{
    return connection->state == STATE_HEAD && ipb_buffer_size(&connection->in) == 0;
}

int64_t
ipb_http_connection_idle_since(const IpbHttpConnection *connection)
{
    return connection->idle_since;
}
