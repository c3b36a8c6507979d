/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to the tool channel. Its states follow each other:
 *
 *     HEAD → BODY → CALL → WRITE → HEAD …           one request after the other
 *                                → DRAIN → gone     after an error, or "Connection: close"
 *
 * While a call runs or an answer is written nothing is read, so a peer that sends more waits. A
 * peer that closes its end, even half of it, is gone: a running call is cancelled. Every wait has a
 * deadline but that for the call, which is the tool host's. After an error the connection is
 * closed, since it is not known what the rest of its bytes would mean; it is read empty for a
 * while, because closing a socket with unread bytes would throw the answer away.
 */
#include "tools/tool-channel-private.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"
#include "tools/tool-request.h"
#include "tools/tool-response.h"

#define MAX_BODY IPB_TOOL_REQUEST_MAX_SIZE
#define READ_SIZE (256 * 1024)
/* What a reader must take within the timeout for writing. */
#define MIN_WRITTEN (1024 * 1024)
#define MAX_DRAINED (2ul * MAX_BODY)

typedef enum {
    STATE_HEAD,
    STATE_BODY,
    STATE_CALL,
    STATE_WRITE,
    STATE_DRAIN,
} State;

struct IpbToolConnection {
    IpbToolChannel *channel;
    int fd;
    IpbWatch *watch;
    State state;
    IpbBuffer in;
    size_t scanned; /* of the head */
    size_t content_length;
    size_t claimed; /* of the channel's memory for requests */
    bool is_authenticated;
    bool is_last; /* close after the answer */
    int64_t idle_since;
    uint64_t call; /* 0: none runs */
    IpbToolResponse out;
    size_t result_claimed; /* of the channel's memory for results */
    size_t mark;           /* bytes written when the deadline was set */
    size_t n_drained;
    /* The timer may fire early: a later deadline does not replace it. 0: no deadline. */
    int64_t deadline;
    int64_t timer_at;
    IpbTimer *timer;
};

static void process_input(IpbToolConnection *connection);

static void
close_connection(IpbToolConnection *connection)
{
    ipb_tool_channel_forget(connection->channel, connection);
}

/* Deadlines */

static const IpbToolTimeouts *
timeouts(const IpbToolConnection *connection)
{
    return ipb_tool_channel_timeouts(connection->channel);
}

static void
on_timer(void *data)
{
    IpbToolConnection *connection = data;
    g_clear_pointer(&connection->timer, ipb_timer_free);
    int64_t left = connection->deadline - g_get_monotonic_time();
    if (connection->deadline == 0)
        return;
    if (left <= 0) {
        close_connection(connection);
        return;
    }
    connection->timer_at = connection->deadline;
    connection->timer = ipb_timer_new(ipb_tool_channel_loop(connection->channel),
                                      (unsigned) (left / 1000) + 1, on_timer, connection);
}

/* @delay_ms 0: none. */
static void
set_deadline(IpbToolConnection *connection, unsigned delay_ms)
{
    connection->deadline = delay_ms > 0 ? g_get_monotonic_time() + delay_ms * INT64_C(1000) : 0;
    if (delay_ms == 0 ||
        (connection->timer != NULL && connection->timer_at <= connection->deadline))
        return;
    ipb_timer_free(connection->timer);
    connection->timer_at = connection->deadline;
    connection->timer =
        ipb_timer_new(ipb_tool_channel_loop(connection->channel), delay_ms, on_timer, connection);
}

static void
set_state(IpbToolConnection *connection, State state, uint32_t events, unsigned timeout_ms)
{
    connection->state = state;
    ipb_watch_set_events(connection->watch, events);
    set_deadline(connection, timeout_ms);
}

/* Answers */

static void
clear_response(IpbToolConnection *connection)
{
    ipb_tool_response_clear(&connection->out);
    ipb_tool_channel_release_result(connection->channel, connection->result_claimed);
    connection->result_claimed = 0;
}

static void
expect_request(IpbToolConnection *connection)
{
    connection->scanned = 0;
    connection->idle_since = g_get_monotonic_time();
    set_state(connection, STATE_HEAD, EPOLLIN, timeouts(connection)->idle_ms);
    if (ipb_buffer_size(&connection->in) > 0)
        process_input(connection);
}

static void
finish_response(IpbToolConnection *connection)
{
    clear_response(connection);
    if (!connection->is_last) {
        expect_request(connection);
        return;
    }
    shutdown(connection->fd, SHUT_WR);
    ipb_buffer_clear(&connection->in);
    set_state(connection, STATE_DRAIN, EPOLLIN, timeouts(connection)->drain_ms);
}

static void
write_response(IpbToolConnection *connection)
{
    IpbToolResponse *out = &connection->out;
    if (!ipb_tool_response_write(out, connection->fd)) {
        close_connection(connection);
        return;
    }
    if (out->at == out->size) {
        finish_response(connection);
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
refuse(IpbToolConnection *connection, unsigned status, const char *reason)
{
    connection->is_last = true;
    ipb_tool_response_set_error(&connection->out, status, reason, NULL, true);
    write_response(connection);
}

/* Calls */

/* The call holds its arguments until it ends, and with them what they claim. */
static void
release_request(IpbToolConnection *connection)
{
    ipb_tool_channel_release_request(connection->channel, connection->claimed);
    connection->claimed = 0;
}

static void
on_call_ended(GBytes *result, const GError *error, void *data)
{
    IpbToolConnection *connection = data;
    IpbToolResponse *out = &connection->out;
    size_t size = result != NULL ? g_bytes_get_size(result) : 0;
    connection->call = 0;
    release_request(connection);
    if (error != NULL) {
        ipb_tool_response_set_failure(out, error, connection->is_last);
    } else if (!ipb_tool_channel_claim_result(connection->channel, size)) {
        ipb_tool_response_set_error(out, 200,
                                    "the tool was run, but its result is lost: too many large "
                                    "results wait to be read at the same time",
                                    "limit", connection->is_last);
    } else {
        connection->result_claimed = size;
        ipb_tool_response_set_result(out, result, connection->is_last);
    }
    write_response(connection);
}

static void
start_call(IpbToolConnection *connection)
{
    g_auto(IpbToolRequest) request = {0};
    g_autoptr(GError) error = NULL;
    bool is_valid = ipb_tool_request_parse((const char *) ipb_buffer_data(&connection->in),
                                           connection->content_length, &request, &error);
    ipb_buffer_consume(&connection->in, connection->content_length);
    if (!is_valid) {
        release_request(connection);
        refuse(connection, 400, error->message);
        return;
    }
    connection->call = ipb_tool_host_call(
        ipb_tool_channel_host(connection->channel), request.server_id, request.server_name,
        request.server_params, request.tool_name, request.arguments.start, request.arguments.size,
        on_call_ended, connection);
    /* Only to be told when the peer leaves. */
    set_state(connection, STATE_CALL, EPOLLRDHUP, 0);
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

static bool
is_json(const IpbHttpHead *head)
{
    IpbSpan value;
    if (!ipb_http_head_get(head, "Content-Type", &value))
        return false;
    const char *parameters = memchr(value.start, ';', value.size);
    if (parameters != NULL)
        value.size = (size_t) (parameters - value.start);
    while (value.size > 0 && g_ascii_isspace(value.start[value.size - 1]))
        value.size--;
    return ipb_http_span_equal_nocase(value, "application/json");
}

static bool
fail(IpbHttpHead *head, unsigned status, const char *reason)
{
    head->status = status;
    head->reason = reason;
    return false;
}

/* What is asked for, of one who may ask. */
static bool
check_request(IpbToolConnection *connection, IpbHttpHead *head)
{
    IpbSpan expectation;
    if (!ipb_http_span_equal(head->target, "/run"))
        return fail(head, 404, "there is only POST /run here: a kernel can do nothing else");
    if (!ipb_http_span_equal(head->method, "POST"))
        return fail(head, 405, "/run takes POST");
    if (!is_json(head))
        return fail(head, 415, "the Content-Type must be application/json");
    if (!head->has_content_length)
        return fail(head, 411, "there is no Content-Length");
    if (head->content_length > MAX_BODY)
        return fail(head, 413, "the request is larger than 64 MiB");
    if (ipb_http_head_get(head, "Expect", &expectation) &&
        !ipb_http_span_equal_nocase(expectation, "100-continue"))
        return fail(head, 417, "the only known expectation is 100-continue");
    if (!ipb_tool_channel_claim_request(connection->channel, (size_t) head->content_length))
        return fail(head, 503, "too many large requests at the same time");
    connection->claimed = (size_t) head->content_length;
    return true;
}

/* Somebody waits to be told before sending the body. */
static void
send_continue(IpbToolConnection *connection)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    send(connection->fd, CONTINUE, sizeof CONTINUE - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void
take_head(IpbToolConnection *connection, IpbHttpHead *head)
{
    IpbSpan value;
    connection->is_authenticated = ipb_tool_channel_admits(connection->channel, head);
    if (!connection->is_authenticated || !check_request(connection, head)) {
        refuse(connection, head->status, head->reason);
        return;
    }
    connection->is_last = head->is_http_1_0 || (ipb_http_head_get(head, "Connection", &value) &&
                                                has_token(value, "close"));
    connection->content_length = (size_t) head->content_length;
    bool is_waiting = ipb_http_head_get(head, "Expect", &value) && !head->is_http_1_0;
    ipb_buffer_consume(&connection->in, head->size);
    if (ipb_buffer_size(&connection->in) >= connection->content_length) {
        start_call(connection);
        return;
    }
    set_state(connection, STATE_BODY, EPOLLIN, timeouts(connection)->body_ms);
    if (is_waiting)
        send_continue(connection);
}

static void
process_input(IpbToolConnection *connection)
{
    size_t size = ipb_buffer_size(&connection->in);
    if (connection->state == STATE_BODY) {
        if (size >= connection->content_length)
            start_call(connection);
        return;
    }
    IpbHttpHead head;
    bool is_first_piece = connection->scanned == 0;
    switch (ipb_http_head_parse((const char *) ipb_buffer_data(&connection->in), size,
                                &connection->scanned, &head)) {
    case IPB_HTTP_HEAD_WHOLE:
        take_head(connection, &head);
        return;
    case IPB_HTTP_HEAD_BAD:
        refuse(connection, head.status, head.reason);
        return;
    case IPB_HTTP_HEAD_PARTIAL:
    default:
        if (is_first_piece)
            set_deadline(connection, timeouts(connection)->head_ms);
    }
}

static void
read_input(IpbToolConnection *connection)
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
        close_connection(connection);
        return;
    }
    ipb_buffer_commit(&connection->in, (size_t) n);
    process_input(connection);
}

static void
drain_input(IpbToolConnection *connection)
{
    char unread[65536];
    ssize_t n = recv(connection->fd, unread, sizeof unread, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    connection->n_drained += (size_t) MAX(n, 0);
    if (n <= 0 || connection->n_drained > MAX_DRAINED)
        close_connection(connection);
}

static void
on_ready(uint32_t events, void *data)
{
    IpbToolConnection *connection = data;
    switch (connection->state) {
    case STATE_HEAD:
    case STATE_BODY:
        read_input(connection);
        return;
    case STATE_CALL:
        close_connection(connection);
        return;
    case STATE_WRITE:
        write_response(connection);
        return;
    case STATE_DRAIN:
    default:
        drain_input(connection);
    }
}

/* Life */

IpbToolConnection *
ipb_tool_connection_new(IpbToolChannel *channel, int fd, GError **error)
{
    ipb_autofd owned_fd = fd;
    IpbToolConnection *connection = g_new0(IpbToolConnection, 1);
    connection->watch =
        ipb_watch_new(ipb_tool_channel_loop(channel), fd, EPOLLIN, on_ready, connection, error);
    if (connection->watch == NULL) {
        g_free(connection);
        return NULL;
    }
    connection->channel = channel;
    connection->fd = ipb_fd_steal(&owned_fd);
    ipb_buffer_init(&connection->in, IPB_HTTP_MAX_HEAD + MAX_BODY);
    connection->idle_since = g_get_monotonic_time();
    set_deadline(connection, timeouts(connection)->head_ms);
    return connection;
}

void
ipb_tool_connection_free(IpbToolConnection *connection)
{
    if (connection == NULL)
        return;
    if (connection->call != 0)
        ipb_tool_host_cancel(ipb_tool_channel_host(connection->channel), connection->call);
    release_request(connection);
    clear_response(connection);
    ipb_timer_free(connection->timer);
    ipb_watch_free(connection->watch);
    ipb_fd_close(&connection->fd);
    ipb_buffer_clear(&connection->in);
    g_free(connection);
}

bool
ipb_tool_connection_is_authenticated(const IpbToolConnection *connection)
{
    return connection->is_authenticated;
}

bool
ipb_tool_connection_has_unread(const IpbToolConnection *connection)
{
    char byte;
    return recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool
ipb_tool_connection_is_idle(const IpbToolConnection *connection)
{
    return connection->state == STATE_HEAD && ipb_buffer_size(&connection->in) == 0;
}

int64_t
ipb_tool_connection_idle_since(const IpbToolConnection *connection)
{
    return connection->idle_since;
}
