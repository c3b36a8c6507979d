/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server: routes, answers at once, later and in pieces, upgrades, peers that leave. What
 * hostile peers do with whole answers is tested on the tool channel
 * (tests/integration/test_tool_channel_hostile.py).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/server.h"

typedef struct {
    IpbLoop *loop;
    IpbHttpServer *server;
    IpbHttpRequest *kept;
    unsigned n_gone;
    int stolen;
    char *unread;
    IpbHttpPlace *place;
    /* An answer in pieces */
    IpbHttpStream *stream;
    bool is_asked; /* for a stream */
    unsigned n_writable;
    unsigned n_stream_gone;
    size_t n_taken; /* bytes, by streams that are filled */
    bool fills;     /* the stream, whenever it is writable */
} Fixture;

static void
on_echo(IpbHttpRequest *request, void *data)
{
    IpbSpan body = ipb_http_request_body(request);
    ipb_http_request_answer_text(request, 200,
                                 g_strdup_printf("%s: %.*s", ipb_http_request_parameter(request, 0),
                                                 (int) body.size, body.start));
}

static void
on_gone(void *data)
{
    Fixture *fixture = data;
    fixture->kept = NULL;
    fixture->n_gone++;
}

static void
on_later(IpbHttpRequest *request, void *data)
{
    Fixture *fixture = data;
    fixture->kept = request;
    ipb_http_request_set_gone(request, on_gone, fixture);
}

static void
on_empty(IpbHttpRequest *request, void *data)
{
    ipb_http_request_answer_text(request, 204, NULL);
}

static void
on_steal(IpbHttpRequest *request, void *data)
{
    Fixture *fixture = data;
    g_autoptr(GBytes) unread = NULL;
    fixture->stolen = ipb_http_request_steal(request, &unread, &fixture->place);
    g_free(fixture->unread);
    fixture->unread = g_strndup(g_bytes_get_data(unread, NULL), g_bytes_get_size(unread));
}

/* --- an answer in pieces ---------------------------------------------------------------------- */

static void
fill(Fixture *fixture)
{
    g_autofree char *bytes = g_strnfill(1024 * 1024, 'x');
    size_t n;
    do {
        n = ipb_http_stream_write(fixture->stream, bytes, 1024 * 1024);
        fixture->n_taken += n;
    } while (n == 1024 * 1024);
}

static void
on_writable(void *data)
{
    Fixture *fixture = data;
    fixture->n_writable++;
    if (fixture->fills)
        fill(fixture);
}

static void
on_stream_gone(void *data)
{
    Fixture *fixture = data;
    fixture->stream = NULL;
    fixture->n_stream_gone++;
}

static void
on_stream(IpbHttpRequest *request, void *data)
{
    static const IpbHttpStreamFuncs FUNCS = {on_writable, on_stream_gone};
    Fixture *fixture = data;
    IpbHttpAnswer answer = {.status = 200, .content_type = "text/event-stream"};
    fixture->is_asked = true;
    fixture->stream = ipb_http_request_answer_stream(request, &answer, &FUNCS, fixture);
}

/* All of it is written at once. */
static void
on_short_stream(IpbHttpRequest *request, void *data)
{
    Fixture *fixture = data;
    on_stream(request, data);
    g_assert_cmpuint(ipb_http_stream_write(fixture->stream, "short", 5), ==, 5);
    ipb_http_stream_end(g_steal_pointer(&fixture->stream));
}

static const IpbHttpRoute ROUTES[] = {
    {"POST", "/things/@/echo", IPB_HTTP_BODY_OPTIONAL, IPB_HTTP_ROLE_ANY, on_echo},
    {"GET", "/later", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_later},
    {"DELETE", "/empty", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_empty},
    {"GET", "/steal", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_steal},
    {"GET", "/stream", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_stream},
    {"HEAD", "/stream", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_stream},
    {"HEAD", "/echo/@", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_echo},
    {"GET", "/short-stream", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_short_stream},
    {"GET", "/secret", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_APPLICATION, on_empty},
};

static void
set_up(Fixture *fixture, const void *data)
{
    g_autoptr(GError) error = NULL;
    IpbHttpServerOptions options = IPB_HTTP_SERVER_OPTIONS;
    IpbHttpGate *gate = ipb_http_gate_new();
    options.routes = ROUTES;
    options.n_routes = G_N_ELEMENTS(ROUTES);
    options.data = fixture;
    options.max_connections = 2;
    ipb_http_gate_set_everybody(gate, IPB_HTTP_ROLE_KERNEL);
    fixture->stolen = -1;
    fixture->loop = ipb_loop_new(NULL, &error);
    g_assert_no_error(error);
    fixture->server = ipb_http_server_new(fixture->loop, &options, gate);
    ipb_http_server_listen(fixture->server, "localhost", 0, &error);
    g_assert_no_error(error);
}

static void
tear_down(Fixture *fixture, const void *data)
{
    ipb_http_server_free(fixture->server);
    ipb_http_place_free(fixture->place);
    ipb_fd_close(&fixture->stolen);
    g_free(fixture->unread);
    ipb_loop_unref(fixture->loop);
}

static int
dial(const Fixture *fixture)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port =
                                      htons((uint16_t) ipb_http_server_port(fixture->server))};
    ipb_autofd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(connect(fd, (struct sockaddr *) &address, sizeof address), ==, 0);
    return ipb_fd_steal(&fd);
}

static void
ask(const Fixture *fixture, int fd, const char *line, const char *rest)
{
    g_autofree char *text = g_strdup_printf("%s HTTP/1.1\r\nHost: localhost:%u\r\n%s", line,
                                            ipb_http_server_port(fixture->server), rest);
    g_assert_true(ipb_fd_write_all(fd, text, strlen(text), NULL));
}

/* Runs the loop until there is something to read, and reads it. "": the end of the connection. */
static char *
receive(int fd)
{
    char bytes[65536];
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    while (poll(&poll_fd, 1, 0) == 0)
        g_main_context_iteration(NULL, TRUE);
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    return g_strndup(bytes, n > 0 ? (size_t) n : 0);
}

static void
expect(int fd, const char *status, const char *end)
{
    g_autofree char *answer = receive(fd);
    g_test_message("%s", answer);
    g_assert_true(g_str_has_prefix(answer, status));
    g_assert_true(g_str_has_suffix(answer, end));
}

static void
test_routes(Fixture *fixture, const void *data)
{
    static const struct {
        const char *line, *rest, *status, *end;
    } CASES[] = {
        {"POST /things/a%20b/echo?q=x", "\r\n", "HTTP/1.1 200 OK\r\n", "a b: "},
        {"POST /things/a/echo?q=", "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
         "HTTP/1.1 200", "a: {}"},
        {"POST /things/a/echo", "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
         "HTTP/1.1 415", "}"},
        {"POST /things//echo", "\r\n", "HTTP/1.1 404", "}"},
        {"POST /things/%00/echo", "\r\n", "HTTP/1.1 404", "}"},
        {"POST /things/a/b/echo", "\r\n", "HTTP/1.1 404", "}"},
        {"POST /things/a/echo/", "\r\n", "HTTP/1.1 404", "}"},
        {"GET /things/a/echo", "\r\n", "HTTP/1.1 405 Method Not Allowed\r\n",
         "{\"error\":\"/things/@/echo takes POST\"}"},
        {"DELETE /empty", "\r\n", "HTTP/1.1 204 No Content\r\n\r\n", ""},
        {"DELETE /empty", "Content-Length: 1\r\n\r\nx", "HTTP/1.1 413", "}"},
        {"GET /secret", "\r\n", "HTTP/1.1 403",
         "{\"error\":\"this is for the application, not for kernels\"}"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        ipb_autofd fd = dial(fixture);
        ask(fixture, fd, CASES[i].line, CASES[i].rest);
        expect(fd, CASES[i].status, CASES[i].end);
    }
}

static void
test_later(Fixture *fixture, const void *data)
{
    ipb_autofd fd = dial(fixture);
    ask(fixture, fd, "GET /later", "\r\n");
    ask(fixture, fd, "POST /things/second/echo", "\r\n");
    while (fixture->kept == NULL)
        g_main_context_iteration(NULL, TRUE);
    ipb_http_request_answer_error(g_steal_pointer(&fixture->kept), 409, "why");
    g_autofree char *both = receive(fd);
    while (strstr(both, "second: ") == NULL) {
        g_autofree char *first = both;
        g_autofree char *more = receive(fd);
        g_assert_cmpstr(more, !=, "");
        both = g_strconcat(first, more, NULL);
    }
    g_assert_nonnull(strstr(both, "HTTP/1.1 409 Conflict\r\n"));
    g_assert_nonnull(strstr(both, "{\"error\":\"why\"}HTTP/1.1 200 OK"));
    g_assert_cmpuint(fixture->n_gone, ==, 0);
}

/* Many pipelined requests do not recurse. */
static void
test_pipeline(Fixture *fixture, const void *data)
{
    ipb_autofd fd = dial(fixture);
    for (unsigned i = 0; i < 400; i++)
        ask(fixture, fd, "DELETE /empty", "\r\n");
    const size_t size = strlen("HTTP/1.1 204 No Content\r\n\r\n");
    for (size_t n = 0; n < 400 * size;) {
        g_autofree char *answers = receive(fd);
        g_assert_cmpstr(answers, !=, "");
        n += strlen(answers);
    }
}

/* --- a connection that is silent -------------------------------------------------------------- */

typedef struct {
    const Fixture *fixture;
    int fd;
    IpbTimer *timer;
} LateRequest;

static void
on_late_request(void *data)
{
    LateRequest *late = data;
    g_clear_pointer(&late->timer, ipb_timer_free);
    ask(late->fixture, late->fd, "POST /things/late/echo", "\r\n");
}

static void
limit_silence(Fixture *fixture, unsigned idle_ms)
{
    IpbHttpTimeouts timeouts = IPB_HTTP_SERVER_OPTIONS.timeouts;
    timeouts.idle_ms = idle_ms;
    ipb_http_server_set_timeouts(fixture->server, &timeouts);
}

static void
test_silent(Fixture *fixture, const void *data)
{
    ipb_autofd fd = dial(fixture);
    limit_silence(fixture, 50);
    ask(fixture, fd, "POST /things/first/echo", "\r\n");
    expect(fd, "HTTP/1.1 200 OK\r\n", "first: ");
    g_autofree char *end = receive(fd);
    g_assert_cmpstr(end, ==, "");
}

/* The next request arrives when the time is over, but before the connection is closed: the timer of
 * the test is due first, in the same turn of the loop. */
static void
test_late_request(Fixture *fixture, const void *data)
{
    const unsigned idle_ms = 200;
    ipb_autofd fd = dial(fixture);
    LateRequest late = {.fixture = fixture, .fd = fd};
    limit_silence(fixture, idle_ms);
    late.timer = ipb_timer_new(fixture->loop, idle_ms, on_late_request, &late);
    ask(fixture, fd, "POST /things/first/echo", "\r\n");
    expect(fd, "HTTP/1.1 200 OK\r\n", "first: ");
    int64_t over = g_get_monotonic_time() + 2 * idle_ms * INT64_C(1000);
    while (g_get_monotonic_time() < over) /* the loop does not turn */
        g_usleep((gulong) MAX(over - g_get_monotonic_time(), 0));
    expect(fd, "HTTP/1.1 200 OK\r\n", "late: ");
    g_assert_null(late.timer);
}

static void
test_gone(Fixture *fixture, const void *data)
{
    int fd = dial(fixture);
    ask(fixture, fd, "GET /later", "\r\n");
    while (fixture->kept == NULL)
        g_main_context_iteration(NULL, TRUE);
    ipb_fd_close(&fd);
    while (fixture->n_gone == 0)
        g_main_context_iteration(NULL, TRUE);
    fd = dial(fixture);
    ask(fixture, fd, "GET /later", "\r\n");
    while (fixture->kept == NULL)
        g_main_context_iteration(NULL, TRUE);
    g_clear_pointer(&fixture->server, ipb_http_server_free);
    g_assert_cmpuint(fixture->n_gone, ==, 2);
    ipb_fd_close(&fd);
}

/* A connection that was taken over keeps its unread bytes and its place. */
static void
test_steal(Fixture *fixture, const void *data)
{
    ipb_autofd first = dial(fixture);
    ask(fixture, first, "GET /steal", "\r\nafter");
    while (fixture->stolen < 0)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpstr(fixture->unread, ==, "after");
    ipb_autofd second = dial(fixture);
    ask(fixture, second, "GET /later", "\r\n");
    while (fixture->kept == NULL)
        g_main_context_iteration(NULL, TRUE);
    ipb_autofd third = dial(fixture);
    expect(third, "HTTP/1.1 503", "}");
    g_clear_pointer(&fixture->place, ipb_http_place_free);
    ipb_autofd fourth = dial(fixture);
    ask(fixture, fourth, "DELETE /empty", "\r\n");
    expect(fourth, "HTTP/1.1 204", "\r\n\r\n");
    g_assert_cmpint(send(fixture->stolen, "x", 1, MSG_NOSIGNAL), ==, 1);
    expect(first, "x", "x");
}

#define STREAM_HEAD                                                                                \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

static void
ask_for_stream(Fixture *fixture, int fd)
{
    fixture->is_asked = false;
    ask(fixture, fd, "GET /stream", "\r\n");
    while (!fixture->is_asked)
        g_main_context_iteration(NULL, TRUE);
}

static void
settle(void)
{
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

static void
write_text(Fixture *fixture, const char *text)
{
    g_assert_cmpuint(ipb_http_stream_write(fixture->stream, text, strlen(text)), ==, strlen(text));
}

/* Pieces arrive when they are written, and the next request is answered after the stream. */
static void
test_stream(Fixture *fixture, const void *data)
{
    ipb_autofd fd = dial(fixture);
    ask_for_stream(fixture, fd);
    expect(fd, STREAM_HEAD, "\r\n\r\n");
    write_text(fixture, "data: 1\n\n");
    expect(fd, "9\r\ndata: 1\n\n\r\n", "");
    ask(fixture, fd, "POST /things/next/echo", "\r\n"); /* pipelined */
    settle();
    write_text(fixture, "data: 22\n\n");
    expect(fd, "a\r\ndata: 22\n\n\r\n", "\n\n\r\n");
    ipb_http_stream_end(g_steal_pointer(&fixture->stream));
    expect(fd, "0\r\n\r\n", "0\r\n\r\n");
    expect(fd, "HTTP/1.1 200 OK\r\n", "next: ");
    g_assert_cmpuint(fixture->n_stream_gone, ==, 0);
    g_assert_cmpuint(fixture->n_writable, ==, 0);
}

/* Requests that came in one piece, the first of which is answered by a stream at once. */
static void
test_stream_in_pipeline(Fixture *fixture, const void *data)
{
    ipb_autofd fd = dial(fixture);
    g_autofree char *text = g_strdup_printf("GET /short-stream HTTP/1.1\r\nHost: localhost:%u\r\n"
                                            "\r\nDELETE /empty HTTP/1.1\r\nHost: localhost:%u\r\n"
                                            "\r\n",
                                            ipb_http_server_port(fixture->server),
                                            ipb_http_server_port(fixture->server));
    g_autoptr(GString) answers = g_string_new(NULL);
    g_assert_true(ipb_fd_write_all(fd, text, strlen(text), NULL));
    while (!g_str_has_suffix(answers->str, "204 No Content\r\n\r\n")) {
        g_autofree char *more = receive(fd);
        g_assert_cmpstr(more, !=, "");
        g_string_append(answers, more);
    }
    g_assert_cmpstr(answers->str, ==,
                    STREAM_HEAD "5\r\nshort\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
}

/* HTTP/1.0 knows no chunks: the connection's end is the body's. */
static void
test_stream_http_1_0(Fixture *fixture, const void *data)
{
    ipb_autofd fd = dial(fixture);
    g_autofree char *text =
        g_strdup_printf("GET /short-stream HTTP/1.0\r\nHost: localhost:%u\r\n\r\n",
                        ipb_http_server_port(fixture->server));
    g_autoptr(GString) answer = g_string_new(NULL);
    g_assert_true(ipb_fd_write_all(fd, text, strlen(text), NULL));
    for (;;) {
        g_autofree char *more = receive(fd);
        if (*more == '\0')
            break;
        g_string_append(answer, more);
    }
    g_assert_cmpstr(answer->str, ==,
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    "Connection: close\r\n\r\nshort");
}

/* A client that never reads: the writer is stopped at a bounded amount, and notified that the
 * client is gone when nothing was accepted within the timeout. */
static void
test_stream_unread(Fixture *fixture, const void *data)
{
    IpbHttpTimeouts timeouts = IPB_HTTP_SERVER_OPTIONS.timeouts;
    ipb_autofd fd = dial(fixture);
    timeouts.write_ms = 200;
    ipb_http_server_set_timeouts(fixture->server, &timeouts);
    ask_for_stream(fixture, fd);
    fixture->fills = true;
    fill(fixture);
    g_assert_cmpuint(ipb_http_stream_write(fixture->stream, "x", 1), ==, 0);
    while (fixture->n_stream_gone == 0)
        g_main_context_iteration(NULL, TRUE);
    /* More than that is in the buffers of the kernel's sockets. */
    g_assert_cmpuint(fixture->n_taken, >=, IPB_HTTP_STREAM_MAX_WAITING);
    g_assert_cmpuint(fixture->n_taken, <, 32 * 1024 * 1024);
}

/* A client that reads slowly gets everything; the writer continues when there is room again. */
static void
test_stream_slow_reader(Fixture *fixture, const void *data)
{
    ipb_autofd fd = dial(fixture);
    ask_for_stream(fixture, fd);
    fill(fixture);
    size_t n_body = 0, n_written = fixture->n_taken;
    g_assert_cmpuint(ipb_http_stream_write(fixture->stream, "rest", 4), ==, 0);
    while (fixture->n_writable == 0) {
        g_autofree char *piece = receive(fd);
        for (const char *at = piece; *at != '\0'; at++)
            n_body += *at == 'x';
    }
    g_assert_cmpuint(ipb_http_stream_write(fixture->stream, "rest", 4), ==, 4);
    ipb_http_stream_end(g_steal_pointer(&fixture->stream));
    for (bool is_whole = false; !is_whole;) {
        g_autofree char *piece = receive(fd);
        g_assert_cmpstr(piece, !=, "");
        for (const char *at = piece; *at != '\0'; at++)
            n_body += *at == 'x';
        is_whole = g_str_has_suffix(piece, "0\r\n\r\n");
    }
    g_assert_cmpuint(n_body - 1, ==, n_written); /* the other one is in "text/event-stream" */
    g_assert_cmpuint(fixture->n_stream_gone, ==, 0);
}

/* A client that leaves in the middle: after reading, with unread bytes, with a half-close, and
 * unnoticed until the next write. */
static void
test_stream_gone(Fixture *fixture, const void *data)
{
    for (unsigned i = 0; i < 4; i++) {
        ipb_autofd fd = dial(fixture);
        ask_for_stream(fixture, fd);
        if (i == 0)
            expect(fd, STREAM_HEAD, "\r\n\r\n");
        if (i == 1)
            fill(fixture);
        if (i == 2)
            shutdown(fd, SHUT_WR);
        else
            ipb_fd_close(&fd);
        if (i == 3) /* the loop has not noticed yet; writing must not call back */
            write_text(fixture, "late");
        g_assert_cmpuint(fixture->n_stream_gone, ==, i);
        while (fixture->n_stream_gone == i)
            g_main_context_iteration(NULL, TRUE);
        g_assert_null(fixture->stream);
    }
    /* Freeing the server has the same effect. */
    ipb_autofd fd = dial(fixture);
    ask_for_stream(fixture, fd);
    g_clear_pointer(&fixture->server, ipb_http_server_free);
    g_assert_cmpuint(fixture->n_stream_gone, ==, 5);
}

/* When the client leaves after the end of the stream, the writer is not notified. */
static void
test_stream_gone_after_end(Fixture *fixture, const void *data)
{
    int fd = dial(fixture);
    ask_for_stream(fixture, fd);
    fill(fixture);
    ipb_http_stream_end(g_steal_pointer(&fixture->stream));
    ipb_fd_close(&fd);
    settle();
    ipb_autofd next = dial(fixture);
    ask(fixture, next, "DELETE /empty", "\r\n");
    expect(next, "HTTP/1.1 204", "\r\n\r\n");
    g_assert_cmpuint(fixture->n_stream_gone, ==, 0);
}

/* To HEAD only the head is sent, and the connection continues. */
static void
test_head(Fixture *fixture, const void *data)
{
    ipb_autofd fd = dial(fixture);
    ask(fixture, fd, "HEAD /stream", "\r\n");
    expect(fd, STREAM_HEAD, "chunked\r\n\r\n");
    g_assert_true(fixture->is_asked);
    g_assert_null(fixture->stream);
    ask(fixture, fd, "HEAD /echo/a", "\r\n");
    expect(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n",
           "3\r\n\r\n");
    ask(fixture, fd, "HEAD /later", "\r\n");
    expect(fd, "HTTP/1.1 405", "Connection: close\r\n\r\n");
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*func)(Fixture *fixture, const void *data);
    } TESTS[] = {
        {"/http/server/routes", test_routes},
        {"/http/server/later", test_later},
        {"/http/server/silent", test_silent},
        {"/http/server/late-request", test_late_request},
        {"/http/server/gone", test_gone},
        {"/http/server/steal", test_steal},
        {"/http/server/pipeline", test_pipeline},
        {"/http/server/head", test_head},
        {"/http/server/stream", test_stream},
        {"/http/server/stream-in-pipeline", test_stream_in_pipeline},
        {"/http/server/stream-http-1.0", test_stream_http_1_0},
        {"/http/server/stream-unread", test_stream_unread},
        {"/http/server/stream-slow-reader", test_stream_slow_reader},
        {"/http/server/stream-gone", test_stream_gone},
        {"/http/server/stream-gone-after-end", test_stream_gone_after_end},
    };
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(TESTS); i++)
        g_test_add(TESTS[i].name, Fixture, NULL, set_up, TESTS[i].func, tear_down);
    return g_test_run();
}
