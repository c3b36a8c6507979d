/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to the server. Its states:
 *
 *     HANDSHAKE → HEAD                                 with TLS
 *     HEAD → BODY → HANDLED → WRITE → HEAD …           one request after the other
 *     HEAD → HANDLED → UPLOAD → HANDLED …              a body in pieces
 *                                   → FINISH → DRAIN   after an error, or "Connection: close"
 *                           → STREAM → WRITE …         an answer in pieces
 *                           → taken over               by an upgrade
 *
 * While a request is handled or an answer is written nothing is read, so a peer that sends more
 * waits. A peer that closes its end, even half of it, is gone: the handler of its request is
 * notified. Every wait has a deadline, except the handler's and a stream with nothing to write.
 *
 * After an error the connection is closed, since the meaning of its further bytes is unknown. It is
 * read until it is empty first, because closing a socket with unread bytes would discard the
 * answer.
 *
 * A handler may answer at once when the peer has sent the next request already. Then process_input
 * continues in a loop, and nothing recurses.
 */
#include "http/connection.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fd.h"
#include "http/body.h"
#include "http/output.h"
#include "http/routes.h"
#include "http/status.h"
#include "json/writer.h"

#define READ_SIZE (256 * 1024)
/* What a reader must take within the timeout for writing. */
#define MIN_WRITTEN (1024 * 1024)
/* What a sender of a body in pieces must send within the timeout for bodies. */
#define MIN_RECEIVED (1024 * 1024)
/* Bytes that are drained, in bodies of the maximum size. */
#define MAX_DRAINED 2
/* A stream's writer is resumed when no more than this waits. */
#define STREAM_LOW_WATER (IPB_HTTP_STREAM_MAX_WAITING / 2)
/* A body that is larger takes a turn: to parse it may take milliseconds. */
#define LARGE_BODY (64 * 1024)
/* Bytes around a chunk: its size in hex digits and two line ends; and of the last chunk. */
#define MAX_CHUNK_FRAMING 32

typedef enum {
    STATE_HANDSHAKE,
    STATE_HEAD,
    STATE_BODY,
    STATE_UPLOAD,
    STATE_HANDLED,
    STATE_STREAM,
    STATE_WRITE,
    STATE_FINISH,
    STATE_DRAIN,
    STATE_GONE,
} State;

struct IpbHttpRequest {
    IpbHttpConnection *connection;
    const IpbHttpRoute *route;
    /* The head's text, which @head points into */
    char *bytes;
    IpbHttpHead head;
    char *parameters[IPB_HTTP_ROUTE_MAX_PARAMETERS];
    unsigned role;
    void (*on_gone)(void *data);
    void *data;
};

struct IpbHttpPlace {
    IpbHttpPlaces *places;
};

struct IpbHttpStream {
    IpbHttpConnection *connection;
    bool is_chunked;
    /* The head and what was written of the body */
    IpbBuffer waiting;
    /* The writer waits for on_writable. */
    bool is_blocked;
    /* The writer has ended it; no function is called any more. */
    bool has_ended;
    /* Bytes that must be written before the deadline */
    size_t due;
    IpbHttpStreamFuncs funcs;
    void *data;
};

struct IpbHttpConnection {
    IpbHttpShared *shared;
    int fd;
    /* NULL: none, or the handshake failed */
    IpbTls *tls;
    IpbWatch *watch;
    State state;
    bool is_processing;
    IpbHttpPeer peer;
    IpbBuffer in;
    /* Bytes of the head that were scanned */
    size_t scanned;
    IpbHttpRequest *request;
    size_t content_length;
    /* Of shared->held_bodies */
    size_t body_claimed;
    bool is_admitted;
    /* The request is HEAD: its answer has no body. */
    bool is_head_only;
    bool is_http_1_0;
    bool is_preflight;
    /* A web page sent the request, whether it is allowed or not. */
    bool has_origin;
    /* The allowed web page that sent the request, or NULL */
    char *origin;
    /* Close after the answer */
    bool is_last;
    /* A body in pieces */
    bool is_upload, is_upload_paused, waits_for_continue;
    IpbHttpBody upload;
    size_t n_uploaded; /* since the deadline was set */
    IpbHttpBodyFuncs upload_funcs;
    void *upload_data;
    IpbHttpListing listing;
    /* For the request, whose body is large */
    IpbHttpTurn turn;
    bool is_its_turn;
    /* A whole answer, or one in pieces */
    IpbHttpOutput out;
    IpbHttpStream *stream;
    /* Of shared->held_answers */
    size_t answer_claimed;
    /* Bytes written when the deadline was set */
    size_t mark;
    size_t n_drained;
    /* 0: no deadline. The timer may fire early, because a later deadline does not replace it. */
    int64_t deadline;
    int64_t timer_at;
    IpbTimer *timer;
};

/* --- shared memory ---------------------------------------------------------------------------- */

static bool
claim(size_t *held, size_t size, size_t max)
{
    if (size > max - *held)
        return false;
    *held += size;
    return true;
}

GBytes *
ipb_http_shared_describe_error(const IpbHttpShared *shared, unsigned status, const char *message)
{
    IpbJsonWriter *writer = ipb_json_writer_new();
    size_t size;
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, shared->options.error_member, message);
    if (shared->options.has_reason)
        ipb_json_member_string(writer, "reason", ipb_http_status_phrase(status));
    ipb_json_end_object(writer);
    char *text = ipb_json_writer_finish(writer, &size);
    return g_bytes_new_take(text, size);
}

/* --- deadlines -------------------------------------------------------------------------------- */

/* The last thing that is done with it, unless the caller holds a reference. */
static void
end(IpbHttpConnection *connection)
{
    connection->shared->on_over(connection, connection->shared->data);
}

static const IpbHttpTimeouts *
timeouts(const IpbHttpConnection *connection)
{
    return &connection->shared->options.timeouts;
}

static void set_deadline(IpbHttpConnection *connection, unsigned delay_ms);

/* A connection that was silent for too long is closed, unless the next request has arrived in this
 * moment: its peer could not know whether the request was handled. */
static void
end_late(IpbHttpConnection *connection)
{
    if (ipb_http_connection_is_idle(connection) && ipb_http_connection_has_unread(connection))
        set_deadline(connection, timeouts(connection)->head_ms);
    else
        end(connection);
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
        end_late(connection);
        return;
    }
    connection->timer_at = connection->deadline;
    connection->timer =
        ipb_timer_new(connection->shared->loop, (unsigned) (left / 1000) + 1, on_timer, connection);
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
    connection->timer = ipb_timer_new(connection->shared->loop, delay_ms, on_timer, connection);
}

static void
set_state(IpbHttpConnection *connection, State state, uint32_t events, unsigned timeout_ms)
{
    connection->state = state;
    ipb_watch_set_events(connection->watch, events);
    set_deadline(connection, timeout_ms);
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* As send and recv do. */
static ssize_t
send_bytes(IpbHttpConnection *connection, const void *bytes, size_t size)
{
    if (connection->tls != NULL)
        return ipb_tls_write(connection->tls, bytes, size);
    return send(connection->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t
receive_bytes(IpbHttpConnection *connection, void *bytes, size_t size)
{
    if (connection->tls != NULL)
        return ipb_tls_read(connection->tls, bytes, size);
    return recv(connection->fd, bytes, size, MSG_DONTWAIT);
}

/* --- whole answers ---------------------------------------------------------------------------- */

static void
free_stream(IpbHttpStream *stream)
{
    if (stream == NULL)
        return;
    ipb_buffer_clear(&stream->waiting);
    g_free(stream);
}

static void
clear_answer(IpbHttpConnection *connection)
{
    ipb_http_output_clear(&connection->out);
    g_clear_pointer(&connection->stream, free_stream);
    connection->shared->held_answers -= connection->answer_claimed;
    connection->answer_claimed = 0;
}

static void
release_body(IpbHttpConnection *connection)
{
    connection->shared->held_bodies -= connection->body_claimed;
    connection->body_claimed = 0;
}

static void
consume_body(IpbHttpConnection *connection)
{
    ipb_buffer_consume(&connection->in, connection->content_length);
    connection->content_length = 0;
}

static void process_input(IpbHttpConnection *connection);

static void
expect_request(IpbHttpConnection *connection)
{
    connection->scanned = 0;
    set_state(connection, STATE_HEAD, EPOLLIN, timeouts(connection)->idle_ms);
    connection->shared->on_changed(connection, connection->shared->data);
    if (ipb_buffer_size(&connection->in) > 0)
        process_input(connection);
}

/* No further answer follows. */
static void
finish_output(IpbHttpConnection *connection)
{
    if (connection->tls != NULL && ipb_tls_finish(connection->tls) == IPB_TLS_WANTS_WRITE) {
        if (connection->state != STATE_FINISH)
            set_state(connection, STATE_FINISH, EPOLLOUT, timeouts(connection)->write_ms);
        return;
    }
    shutdown(connection->fd, SHUT_WR);
    set_state(connection, STATE_DRAIN, EPOLLIN, timeouts(connection)->drain_ms);
}

static void
finish_answer(IpbHttpConnection *connection)
{
    clear_answer(connection);
    if (!connection->is_last) {
        expect_request(connection);
        return;
    }
    ipb_buffer_clear(&connection->in);
    finish_output(connection);
}

static void
write_answer(IpbHttpConnection *connection)
{
    IpbHttpOutput *out = &connection->out;
    if (!ipb_http_output_write(out, connection->fd, connection->tls)) {
        end(connection);
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

/* An answer begins: the request's body is not needed any more. */
static void
begin_answer(IpbHttpConnection *connection, IpbHttpAnswer *answer)
{
    if (connection->is_upload && connection->upload.state != IPB_HTTP_BODY_DONE)
        connection->is_last = true; /* what follows is the rest of the body */
    connection->is_upload = false;
    answer->is_last = connection->is_last = connection->is_last || answer->is_last;
    connection->request = NULL;
    consume_body(connection);
    release_body(connection);
}

/* For pages of allowed origins browsers ask first, in a preflight request. By default the answer
 * allows everything that the routes take; whether the page has a token is checked with the request
 * itself. */
static IpbHttpCors
get_cors(const IpbHttpConnection *connection)
{
    IpbHttpCors cors = connection->shared->options.cors;
    if (connection->has_origin)
        cors.origin = NULL;
    if (!connection->is_preflight)
        return cors;
    if (cors.methods == NULL)
        cors.methods = "GET, POST, PUT, PATCH, DELETE";
    if (cors.headers == NULL)
        cors.headers = "Authorization, Content-Type, X-XSRFToken";
    if (cors.max_age == NULL)
        cors.max_age = "600";
    return cors;
}

static void
answer_with(IpbHttpConnection *connection, IpbHttpAnswer answer, const char *allow, size_t claimed)
{
    begin_answer(connection, &answer);
    connection->answer_claimed = claimed;
    ipb_http_output_set(&connection->out, &answer,
                        &(IpbHttpOutputExtras){.allow = allow,
                                               .origin = connection->origin,
                                               .cors = get_cors(connection),
                                               .is_head_only = connection->is_head_only});
    write_answer(connection);
}

static void
refuse(IpbHttpConnection *connection, unsigned status, const char *reason, const char *allow)
{
    g_autoptr(GBytes) body = ipb_http_shared_describe_error(connection->shared, status, reason);
    connection->content_length = 0;
    answer_with(connection,
                (IpbHttpAnswer){
                    .status = status,
                    .headers = status == 503 ? IPB_HTTP_RETRY_AFTER : NULL,
                    .body = body,
                    .is_last = true,
                },
                allow, 0);
}

/* --- answers in pieces ------------------------------------------------------------------------ */

/* The watch and the deadline of a stream, by what waits. */
static void
set_stream_state(IpbHttpConnection *connection)
{
    IpbHttpStream *stream = connection->stream;
    size_t n_waiting = ipb_buffer_size(&stream->waiting);
    uint32_t closed = stream->has_ended ? 0 : EPOLLRDHUP;
    ipb_watch_set_events(connection->watch, closed | (n_waiting > 0 ? EPOLLOUT : 0));
    if (n_waiting == 0) {
        stream->due = 0;
        set_deadline(connection, 0);
    } else if (stream->due == 0) {
        stream->due = MIN(n_waiting, MIN_WRITTEN);
        set_deadline(connection, timeouts(connection)->write_ms);
    }
}

/* Writes what the peer accepts now; false if it fails. */
static bool
write_stream(IpbHttpConnection *connection)
{
    IpbHttpStream *stream = connection->stream;
    size_t n_waiting = ipb_buffer_size(&stream->waiting);
    ssize_t n =
        n_waiting > 0 ? send_bytes(connection, ipb_buffer_data(&stream->waiting), n_waiting) : 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return false;
    ipb_buffer_consume(&stream->waiting, (size_t) MAX(n, 0));
    stream->due -= MIN(stream->due, (size_t) MAX(n, 0));
    set_stream_state(connection);
    return true;
}

static void
write_ended_stream(IpbHttpConnection *connection)
{
    if (!write_stream(connection))
        end(connection);
    else if (ipb_buffer_size(&connection->stream->waiting) == 0)
        finish_answer(connection);
}

static void
resume_stream(IpbHttpConnection *connection)
{
    IpbHttpStream *stream = connection->stream;
    if (!write_stream(connection)) {
        end(connection);
    } else if (stream->is_blocked && ipb_buffer_size(&stream->waiting) <= STREAM_LOW_WATER) {
        stream->is_blocked = false;
        stream->funcs.on_writable(stream->data); /* may end the stream, or free the server */
    }
}

static void
append(IpbHttpStream *stream, const char *bytes, size_t size)
{
    ipb_buffer_append(&stream->waiting, bytes, size);
}

static void
append_chunk(IpbHttpStream *stream, const char *bytes, size_t size)
{
    char line[MAX_CHUNK_FRAMING];
    int n = g_snprintf(line, sizeof line, "%zx\r\n", size);
    append(stream, line, (size_t) n);
    append(stream, bytes, size);
    append(stream, "\r\n", 2);
}

static size_t
get_room(const IpbHttpStream *stream)
{
    size_t n_waiting = ipb_buffer_size(&stream->waiting);
    return IPB_HTTP_STREAM_MAX_WAITING - MIN(n_waiting, IPB_HTTP_STREAM_MAX_WAITING);
}

/* Writes without ending the connection if that fails: the loop tries again, and ends it. */
static void
try_write(IpbHttpConnection *connection)
{
    if (!write_stream(connection))
        set_stream_state(connection);
}

size_t
ipb_http_stream_write(IpbHttpStream *stream, const char *bytes, size_t size)
{
    size_t taken = 0;
    size_t room;
    while (taken < size && (room = get_room(stream)) > 0) {
        size_t n = MIN(size - taken, room);
        if (stream->is_chunked)
            append_chunk(stream, bytes + taken, n);
        else
            append(stream, bytes + taken, n);
        taken += n;
        try_write(stream->connection);
    }
    stream->is_blocked = taken < size;
    return taken;
}

static void
finish_stream(IpbHttpStream *stream)
{
    stream->has_ended = true;
    stream->connection->state = STATE_WRITE;
    write_ended_stream(stream->connection);
}

void
ipb_http_stream_end(IpbHttpStream *stream)
{
    if (stream->is_chunked)
        append(stream, "0\r\n\r\n", 5);
    finish_stream(stream);
}

void
ipb_http_stream_abort(IpbHttpStream *stream)
{
    stream->has_ended = true;
    end(stream->connection);
}

/* --- requests --------------------------------------------------------------------------------- */

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

/* The peer waits for this before it sends the body. All else was written before: if there is no
 * room for this, the peer takes nothing. */
static void
send_continue(IpbHttpConnection *connection)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (send_bytes(connection, CONTINUE, sizeof CONTINUE - 1) != sizeof CONTINUE - 1)
        end(connection);
}

static IpbHttpRequest *
new_request(IpbHttpConnection *connection, const IpbHttpRoute *route, size_t head_size,
            unsigned role)
{
    IpbHttpRequest *request = g_new0(IpbHttpRequest, 1);
    size_t scanned = 0;
    request->connection = connection;
    request->route = route;
    request->role = role;
    request->bytes = g_memdup2(ipb_buffer_data(&connection->in), head_size);
    /* Parsed again, so that everything points into our own copy. */
    ipb_http_head_parse(request->bytes, head_size, &scanned, &request->head);
    ipb_http_route_get_parameters(&connection->shared->options, route, &request->head,
                                  request->parameters);
    return request;
}

static void
free_request(IpbHttpRequest *request)
{
    for (size_t i = 0; i < G_N_ELEMENTS(request->parameters); i++)
        g_free(request->parameters[i]);
    g_free(request->bytes);
    g_free(request);
}

static void
handle(IpbHttpConnection *connection)
{
    IpbHttpRequest *request = connection->request;
    connection->is_its_turn = false;
    /* Only to be notified when the peer leaves. A body that has arrived ends with that. */
    set_state(connection, STATE_HANDLED, connection->is_upload ? 0 : EPOLLRDHUP, 0);
    request->route->handler(request, connection->shared->options.data);
    if (connection->request == request)
        consume_body(connection);
}

/* The peer has gone, or its request is broken: the handler is notified. */
static void
end_request(IpbHttpConnection *connection)
{
    IpbHttpRequest *request = g_steal_pointer(&connection->request);
    if (request == NULL)
        return;
    void (*on_gone)(void *data) = request->on_gone;
    void *data = request->data;
    free_request(request);
    if (on_gone != NULL)
        on_gone(data);
}

/* --- bodies in pieces ------------------------------------------------------------------------- */

static void
set_upload_state(IpbHttpConnection *connection)
{
    connection->n_uploaded = 0;
    set_state(connection, STATE_UPLOAD, connection->is_upload_paused ? 0 : EPOLLIN,
              connection->is_upload_paused ? 0 : timeouts(connection)->body_ms);
}

static void
end_upload(IpbHttpConnection *connection)
{
    set_state(connection, STATE_HANDLED, EPOLLRDHUP, 0);
    connection->upload_funcs.on_end(connection->upload_data); /* may answer */
}

/* Gives the handler what has arrived. False: nothing is left to do now. */
static bool
upload_piece(IpbHttpConnection *connection)
{
    IpbSpan content;
    if (connection->upload.state == IPB_HTTP_BODY_DONE) {
        end_upload(connection);
        return true;
    }
    size_t size = ipb_buffer_size(&connection->in);
    if (connection->is_upload_paused || size == 0)
        return false;
    const char *bytes = (const char *) ipb_buffer_data(&connection->in);
    size_t taken = ipb_http_body_take_content(&connection->upload, bytes, size, &content);
    if (connection->upload.state == IPB_HTTP_BODY_BAD) {
        end_request(connection);
        refuse(connection, 400, "the chunks of the body are malformed", NULL);
        return true;
    }
    connection->n_uploaded += content.size;
    if (connection->n_uploaded >= MIN_RECEIVED)
        set_upload_state(connection);
    g_autofree char *piece = g_memdup2(content.start, content.size);
    ipb_buffer_consume(&connection->in, taken);
    if (content.size > 0)
        connection->upload_funcs.on_piece(piece, content.size, connection->upload_data);
    return true;
}

void
ipb_http_request_read_body(IpbHttpRequest *request, const IpbHttpBodyFuncs *funcs, void *data)
{
    IpbHttpConnection *connection = request->connection;
    g_return_if_fail(connection->is_upload);
    connection->upload_funcs = *funcs;
    connection->upload_data = data;
    set_upload_state(connection);
    if (connection->waits_for_continue && connection->upload.state != IPB_HTTP_BODY_DONE &&
        ipb_buffer_size(&connection->in) == 0)
        send_continue(connection);
    else
        process_input(connection);
}

void
ipb_http_request_pause_body(IpbHttpRequest *request, bool is_paused)
{
    IpbHttpConnection *connection = request->connection;
    if (connection->is_upload_paused == is_paused)
        return;
    connection->is_upload_paused = is_paused;
    if (connection->state != STATE_UPLOAD)
        return;
    set_upload_state(connection);
    process_input(connection);
}

static bool
is_last_request(const IpbHttpHead *head)
{
    IpbSpan value;
    return head->is_http_1_0 ||
           (ipb_http_head_get(head, "Connection", &value) && has_token(value, "close"));
}

static void
answer_preflight(IpbHttpConnection *connection)
{
    static const char HEADERS[] = "Access-Control-Allow-Private-Network: true\r\n";
    answer_with(connection, (IpbHttpAnswer){.status = 204, .headers = HEADERS}, NULL, 0);
}

/* False: it is another request, or there is no such path. */
static bool
answer_options(IpbHttpConnection *connection, const IpbHttpHead *head)
{
    const IpbHttpServerOptions *options = &connection->shared->options;
    if (!options->answers_options || !ipb_span_equal(head->method, "OPTIONS") ||
        head->content_length > 0 || head->is_chunked)
        return false;
    g_autofree char *allow = ipb_http_route_list_methods(options, head);
    if (allow == NULL)
        return false;
    connection->is_last = is_last_request(head);
    ipb_buffer_consume(&connection->in, head->size);
    answer_with(connection, (IpbHttpAnswer){.status = 200}, allow, 0);
    return true;
}

/* What the answer needs to know of the request, even if that is refused. */
static void
note_request(IpbHttpConnection *connection, const IpbHttpHead *head)
{
    IpbSpan origin;
    connection->is_head_only = ipb_span_equal(head->method, "HEAD");
    connection->is_http_1_0 = head->is_http_1_0;
    connection->is_preflight =
        ipb_http_gate_is_preflight(connection->shared->gate, head, connection->shared->port);
    g_clear_pointer(&connection->origin, g_free);
    connection->has_origin = ipb_http_head_get(head, "Origin", &origin);
    if (ipb_http_gate_get_origin(connection->shared->gate, head, &origin))
        connection->origin = g_strndup(origin.start, origin.size);
}

static void
expect_body(IpbHttpConnection *connection, const IpbHttpRoute *route, const IpbHttpHead *head,
            unsigned role)
{
    IpbSpan value;
    connection->is_upload = route->body == IPB_HTTP_BODY_STREAM;
    connection->body_claimed = connection->content_length =
        connection->is_upload ? 0 : (size_t) head->content_length;
    connection->is_last = is_last_request(head);
    bool is_waiting = ipb_http_head_get(head, "Expect", &value) && !head->is_http_1_0;
    ipb_http_body_init(&connection->upload, head);
    connection->is_upload_paused = false;
    connection->waits_for_continue = is_waiting;
    connection->request = new_request(connection, route, head->size, role);
    ipb_buffer_consume(&connection->in, head->size);
    set_state(connection, STATE_BODY, EPOLLIN, timeouts(connection)->body_ms);
    connection->shared->on_changed(connection, connection->shared->data);
    if (is_waiting && !connection->is_upload &&
        ipb_buffer_size(&connection->in) < connection->content_length)
        send_continue(connection);
}

static void
take_head(IpbHttpConnection *connection, IpbHttpHead *head)
{
    IpbHttpShared *shared = connection->shared;
    note_request(connection, head);
    if (connection->is_preflight) {
        connection->is_last = is_last_request(head);
        ipb_buffer_consume(&connection->in, head->size);
        answer_preflight(connection);
        return;
    }
    unsigned role = ipb_http_gate_admit(shared->gate, head, shared->port, &connection->peer);
    connection->is_admitted = (role & ~(unsigned) IPB_HTTP_ROLE_STRANGER) != 0;
    if (role == 0) {
        refuse(connection, head->status, head->reason, NULL);
        return;
    }
    if (answer_options(connection, head))
        return;
    IpbHttpRefusal refusal = {0};
    const IpbHttpRoute *route = ipb_http_route_find(&shared->options, head, role, &refusal);
    g_autofree char *reason = refusal.reason;
    g_autofree char *allow = refusal.allow;
    if (route == NULL && refusal.status == 403 && role == IPB_HTTP_ROLE_STRANGER)
        refuse(connection, 401, ipb_http_gate_hint(shared->gate), NULL);
    else if (route == NULL)
        refuse(connection, refusal.status, reason, allow);
    else if (route->body != IPB_HTTP_BODY_STREAM &&
             !claim(&shared->held_bodies, (size_t) head->content_length,
                    shared->options.max_held_bodies))
        refuse(connection, 503, "too many large requests at the same time", NULL);
    else
        expect_body(connection, route, head, role);
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
        connection->is_head_only = connection->is_preflight = false;
        refuse(connection, head.status, head.reason, NULL);
        return;
    case IPB_HTTP_HEAD_PARTIAL:
    default:
        if (!is_first_piece)
            return;
        set_deadline(connection, timeouts(connection)->head_ms);
        connection->shared->on_changed(connection, connection->shared->data);
    }
}

static void
on_turn(void *data)
{
    IpbHttpConnection *connection = data;
    connection->is_its_turn = true;
    process_input(connection);
}

static bool
needs_turn(const IpbHttpConnection *connection)
{
    return connection->content_length > LARGE_BODY && connection->shared->turns != NULL &&
           !connection->is_its_turn;
}

/* Nothing is read until then. How long it takes depends on what others have sent: there is no
 * deadline. */
static void
wait_for_turn(IpbHttpConnection *connection)
{
    if (connection->turn.is_waiting)
        return;
    set_state(connection, STATE_BODY, 0, 0);
    ipb_http_turns_wait(connection->shared->turns, &connection->turn, on_turn, connection);
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
    if (connection->state == STATE_UPLOAD)
        return upload_piece(connection);
    if (connection->state == STATE_BODY && size >= connection->content_length) {
        if (needs_turn(connection)) {
            wait_for_turn(connection);
            return false;
        }
        handle(connection);
        return true;
    }
    return false;
}

static void
process_input(IpbHttpConnection *connection)
{
    if (connection->is_processing)
        return; /* the loop below continues */
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
    size_t wanted = connection->state == STATE_HEAD     ? IPB_HTTP_MAX_HEAD - size
                    : connection->state == STATE_UPLOAD ? READ_SIZE
                                                        : connection->content_length - size;
    wanted = MIN(wanted, READ_SIZE) + (connection->tls != NULL ? IPB_TLS_MAX_RECORD : 0);
    uint8_t *room = ipb_buffer_reserve(&connection->in, wanted);
    ssize_t n = receive_bytes(connection, room, wanted);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end(connection);
        return;
    }
    ipb_buffer_commit(&connection->in, (size_t) n);
    process_input(connection);
}

static void
drain_input(IpbHttpConnection *connection)
{
    char unread[65536];
    size_t max_drained = MAX_DRAINED * (connection->shared->options.max_body + IPB_HTTP_MAX_HEAD);
    ssize_t n = recv(connection->fd, unread, sizeof unread, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    connection->n_drained += (size_t) MAX(n, 0);
    if (n <= 0 || connection->n_drained > max_drained)
        end(connection);
}

/* A peer that speaks HTTP gets an answer that it can read. */
static void
refuse_plain(IpbHttpConnection *connection)
{
    g_clear_pointer(&connection->tls, ipb_tls_free);
    refuse(connection, 400, "this port uses TLS: the URL must begin with https://", NULL);
}

static void
shake_hands(IpbHttpConnection *connection)
{
    switch (ipb_tls_handshake(connection->tls)) {
    case IPB_TLS_DONE:
        set_state(connection, STATE_HEAD, EPOLLIN, timeouts(connection)->head_ms);
        return;
    case IPB_TLS_WANTS_READ:
        ipb_watch_set_events(connection->watch, EPOLLIN);
        return;
    case IPB_TLS_WANTS_WRITE:
        ipb_watch_set_events(connection->watch, EPOLLOUT);
        return;
    case IPB_TLS_PLAIN_TEXT:
        refuse_plain(connection);
        return;
    case IPB_TLS_FAILED:
    default:
        end(connection);
    }
}

static void
on_ready(uint32_t events, void *data)
{
    IpbHttpConnection *connection = data;
    switch (connection->state) {
    case STATE_HANDSHAKE:
        shake_hands(connection);
        return;
    case STATE_HEAD:
    case STATE_BODY:
    case STATE_UPLOAD:
        read_input(connection);
        return;
    case STATE_HANDLED:
        end(connection);
        return;
    case STATE_STREAM:
        if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
            end(connection);
        else
            resume_stream(connection);
        return;
    case STATE_WRITE:
        if (connection->stream != NULL)
            write_ended_stream(connection);
        else
            write_answer(connection);
        return;
    case STATE_FINISH:
        finish_output(connection);
        return;
    case STATE_DRAIN:
        drain_input(connection);
        return;
    case STATE_GONE:
    default:
        return;
    }
}

/* --- what handlers call: the request ---------------------------------------------------------- */

const IpbHttpHead *
ipb_http_request_head(const IpbHttpRequest *request)
{
    return &request->head;
}

const char *
ipb_http_request_parameter(const IpbHttpRequest *request, size_t index)
{
    g_return_val_if_fail(index < G_N_ELEMENTS(request->parameters), NULL);
    return request->parameters[index];
}

IpbSpan
ipb_http_request_body(const IpbHttpRequest *request)
{
    const IpbHttpConnection *connection = request->connection;
    return (IpbSpan){(const char *) ipb_buffer_data(&connection->in), connection->content_length};
}

unsigned
ipb_http_request_role(const IpbHttpRequest *request)
{
    return request->role;
}

void
ipb_http_request_set_gone(IpbHttpRequest *request, void (*on_gone)(void *data), void *data)
{
    request->on_gone = on_gone;
    request->data = data;
}

/* --- what handlers call: the answer ----------------------------------------------------------- */

static void
answer_request(IpbHttpRequest *request, IpbHttpAnswer answer, size_t claimed)
{
    IpbHttpConnection *connection = request->connection;
    free_request(request);
    answer_with(connection, answer, NULL, claimed);
}

bool
ipb_http_request_answer(IpbHttpRequest *request, const IpbHttpAnswer *answer)
{
    IpbHttpShared *shared = request->connection->shared;
    size_t size = answer->body != NULL ? g_bytes_get_size(answer->body) : 0;
    if (!claim(&shared->held_answers, size, shared->options.max_held_answers))
        return false;
    answer_request(request, *answer, size);
    return true;
}

static void
answer_small(IpbHttpRequest *request, unsigned status, char *text, bool is_last)
{
    g_autoptr(GBytes) body = text != NULL ? g_bytes_new_take(text, strlen(text)) : NULL;
    answer_request(request, (IpbHttpAnswer){.status = status, .body = body, .is_last = is_last}, 0);
}

void
ipb_http_request_answer_text(IpbHttpRequest *request, unsigned status, char *text)
{
    answer_small(request, status, text, false);
}

void
ipb_http_request_refuse(IpbHttpRequest *request, unsigned status, char *text)
{
    answer_small(request, status, text, true);
}

void
ipb_http_request_answer_error(IpbHttpRequest *request, unsigned status, const char *message)
{
    g_autoptr(GBytes) body =
        ipb_http_shared_describe_error(request->connection->shared, status, message);
    answer_request(request, (IpbHttpAnswer){.status = status, .body = body}, 0);
}

void
ipb_http_request_refuse_error(IpbHttpRequest *request, unsigned status, const char *message,
                              const char *headers)
{
    g_autoptr(GBytes) body =
        ipb_http_shared_describe_error(request->connection->shared, status, message);
    answer_request(
        request,
        (IpbHttpAnswer){.status = status, .headers = headers, .body = body, .is_last = true}, 0);
}

IpbHttpStream *
ipb_http_request_answer_stream(IpbHttpRequest *request, const IpbHttpAnswer *head,
                               const IpbHttpStreamFuncs *funcs, void *data)
{
    IpbHttpConnection *connection = request->connection;
    IpbHttpAnswer answer = *head;
    free_request(request);
    begin_answer(connection, &answer);
    IpbHttpStream *stream = connection->stream = g_new0(IpbHttpStream, 1);
    *stream = (IpbHttpStream){
        .connection = connection,
        .is_chunked = !connection->is_http_1_0 && !answer.has_stream_size,
        .funcs = *funcs,
        .data = data,
    };
    g_autofree char *text = ipb_http_output_stream_head(
        &answer, &(IpbHttpOutputExtras){.origin = connection->origin, .cors = get_cors(connection)},
        stream->is_chunked);
    /* The framing of the chunks and of the end is added to what waits. */
    ipb_buffer_init(&stream->waiting,
                    strlen(text) + IPB_HTTP_STREAM_MAX_WAITING + 2 * MAX_CHUNK_FRAMING);
    append(stream, text, strlen(text));
    set_state(connection, STATE_STREAM, EPOLLRDHUP, 0);
    if (!connection->is_head_only) {
        try_write(connection);
        return stream;
    }
    finish_stream(stream);
    return NULL;
}

static IpbHttpPlace *
new_place(IpbHttpPlaces *places)
{
    IpbHttpPlace *place = g_new0(IpbHttpPlace, 1);
    place->places = g_rc_box_acquire(places);
    places->n++;
    return place;
}

int
ipb_http_request_steal(IpbHttpRequest *request, GBytes **ret_unread, IpbHttpPlace **ret_place)
{
    IpbHttpConnection *connection = request->connection;
    g_assert(connection->tls == NULL); /* servers with TLS have no upgrades */
    *ret_place = new_place(connection->shared->places);
    free_request(request);
    int fd = ipb_fd_steal(&connection->fd);
    connection->request = NULL;
    consume_body(connection);
    *ret_unread = g_bytes_new(ipb_buffer_data(&connection->in), ipb_buffer_size(&connection->in));
    end(connection);
    return fd;
}

void
ipb_http_place_free(IpbHttpPlace *place)
{
    if (place == NULL)
        return;
    place->places->n--;
    g_rc_box_release(place->places);
    g_free(place);
}

/* --- life ------------------------------------------------------------------------------------- */

IpbHttpConnection *
ipb_http_connection_new(IpbHttpShared *shared, int fd, GError **error)
{
    ipb_autofd owned_fd = fd;
    IpbTls *tls = shared->keys != NULL ? ipb_tls_new(shared->keys, fd) : NULL;
    if (tls == NULL && shared->keys != NULL) {
        g_set_error_literal(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM, "no memory for TLS");
        return NULL;
    }
    IpbHttpConnection *connection = g_rc_box_new0(IpbHttpConnection);
    connection->watch = ipb_watch_new(shared->loop, fd, EPOLLIN, on_ready, connection, error);
    if (connection->watch == NULL) {
        ipb_tls_free(tls);
        g_rc_box_release(connection);
        return NULL;
    }
    connection->shared = shared;
    connection->tls = tls;
    connection->fd = ipb_fd_steal(&owned_fd);
    connection->peer.fd = connection->fd;
    /* A record of TLS is read as a whole. */
    ipb_buffer_init(&connection->in, IPB_HTTP_MAX_HEAD + MAX(shared->options.max_body, READ_SIZE) +
                                         IPB_TLS_MAX_RECORD);
    connection->state = tls != NULL ? STATE_HANDSHAKE : STATE_HEAD;
    connection->listing.link.data = connection;
    set_deadline(connection, timeouts(connection)->head_ms);
    return connection;
}

static void
end_stream(IpbHttpConnection *connection)
{
    IpbHttpStream *stream = g_steal_pointer(&connection->stream);
    if (stream == NULL)
        return;
    IpbHttpStream copy = *stream;
    free_stream(stream);
    if (!copy.has_ended)
        copy.funcs.on_gone(copy.data);
}

void
ipb_http_connection_end(IpbHttpConnection *connection)
{
    /* Between requests it ends in order. Otherwise something is missing. */
    if (connection->tls != NULL && ipb_http_connection_is_idle(connection))
        ipb_tls_finish(connection->tls);
    connection->state = STATE_GONE;
    if (connection->shared->turns != NULL)
        ipb_http_turns_cancel(connection->shared->turns, &connection->turn);
    g_clear_pointer(&connection->timer, ipb_timer_free);
    g_clear_pointer(&connection->watch, ipb_watch_free);
    g_clear_pointer(&connection->tls, ipb_tls_free);
    ipb_fd_close(&connection->fd);
    end_request(connection);
    end_stream(connection);
    release_body(connection);
    clear_answer(connection);
    g_free(connection->origin);
    ipb_buffer_clear(&connection->in);
    g_rc_box_release(connection);
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

IpbHttpListing *
ipb_http_connection_listing(IpbHttpConnection *connection)
{
    return &connection->listing;
}
