/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP server: routes, answers at once and later, upgrades, peers that go. What hostile peers do is tested on the tool
 * channel (tests/integration/test_tool_channel_hostile.py).
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

static const IpbHttpRoute ROUTES[] = {
    {"POST", "/things/@/echo", IPB_HTTP_BODY_OPTIONAL, IPB_HTTP_ROLE_ANY, on_echo},
    {"GET", "/later", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_later},
    {"DELETE", "/empty", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_empty},
    {"GET", "/steal", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_steal},
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

/* Runs the loop until there is something to read, and reads it. "": the end. */
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

/* Many requests in one piece do not pile up on the stack. */
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

/* What was taken over keeps its bytes, and its place. */
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

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*func)(Fixture *fixture, const void *data);
    } TESTS[] = {
        {"/http/server/routes", test_routes},     {"/http/server/later", test_later},
        {"/http/server/gone", test_gone},         {"/http/server/steal", test_steal},
        {"/http/server/pipeline", test_pipeline},
    };
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(TESTS); i++)
        g_test_add(TESTS[i].name, Fixture, NULL, set_up, TESTS[i].func, tear_down);
    return g_test_run();
}
