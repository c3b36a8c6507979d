/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP client against a server in the same loop, which sends the test's answer to every
 * request.
 */
#include "http/client.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

typedef struct {
    IpbLoop *loop;
    IpbHttpClient *client;
    int listen_fd, fd;
    IpbWatch *listen_watch, *watch;
    char *url;
    const char *answer; /* NULL: the server never answers */
    size_t answer_size;
    bool closes_silently; /* the second request is never answered */
    unsigned n_requests, n_connections;
    GString *heard;
    /* Of the call: */
    IpbHttpCall *call;
    unsigned status, n_ended;
    GString *body;
    GError *error;
    enum { FREE_NOTHING, FREE_CALL, FREE_CLIENT } in_head, in_body, in_end;
} Fixture;

static void
hang_up(Fixture *fixture)
{
    g_clear_pointer(&fixture->watch, ipb_watch_free);
    ipb_fd_close(&fixture->fd);
}

static void
on_request(uint32_t events, void *data)
{
    Fixture *fixture = data;
    char bytes[65536];
    ssize_t n = recv(fixture->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0) {
        hang_up(fixture);
        return;
    }
    g_string_append_len(fixture->heard, bytes, n);
    if (strstr(fixture->heard->str, "\r\n\r\n") == NULL || fixture->answer == NULL)
        return;
    fixture->n_requests++;
    g_string_truncate(fixture->heard, fixture->heard->len);
    if (fixture->closes_silently && fixture->n_requests > 1) {
        hang_up(fixture);
        return;
    }
    ssize_t sent = send(fixture->fd, fixture->answer, fixture->answer_size, MSG_NOSIGNAL);
    if (sent < 0 || strstr(fixture->answer, "Content-Length") == NULL)
        hang_up(fixture);
}

static void
on_connection(uint32_t events, void *data)
{
    Fixture *fixture = data;
    hang_up(fixture);
    fixture->fd = accept4(fixture->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    g_assert_cmpint(fixture->fd, >=, 0);
    fixture->n_connections++;
    fixture->watch = ipb_watch_new(fixture->loop, fixture->fd, EPOLLIN, on_request, fixture, NULL);
}

static void
set_up(Fixture *fixture, const char *answer)
{
    static const char *const ENV[] = {"PATH=/bin", NULL};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    g_autoptr(GError) error = NULL;
    *fixture = (Fixture){.loop = ipb_loop_new(NULL, &error), .answer = answer, .fd = -1};
    g_assert_no_error(error);
    fixture->answer_size = answer != NULL ? strlen(answer) : 0;
    fixture->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(bind(fixture->listen_fd, (struct sockaddr *) &address, size), ==, 0);
    g_assert_cmpint(listen(fixture->listen_fd, 5), ==, 0);
    g_assert_cmpint(getsockname(fixture->listen_fd, (struct sockaddr *) &address, &size), ==, 0);
    fixture->listen_watch =
        ipb_watch_new(fixture->loop, fixture->listen_fd, EPOLLIN, on_connection, fixture, &error);
    g_assert_no_error(error);
    fixture->url = g_strdup_printf("http://127.0.0.1:%u/mcp?key=secret", ntohs(address.sin_port));
    fixture->heard = g_string_new(NULL);
    fixture->body = g_string_new(NULL);
    fixture->client =
        ipb_http_client_new(fixture->loop, &(IpbHttpClientOptions){.env = ENV}, &error);
    g_assert_no_error(error);
}

static void
tear_down(Fixture *fixture)
{
    ipb_http_call_free(fixture->call);
    ipb_http_client_free(fixture->client);
    hang_up(fixture);
    ipb_watch_free(fixture->listen_watch);
    ipb_fd_close(&fixture->listen_fd);
    g_string_free(fixture->heard, true);
    g_string_free(fixture->body, true);
    g_clear_error(&fixture->error);
    g_free(fixture->url);
    ipb_loop_unref(fixture->loop);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Fixture, tear_down)

static void
free_one(Fixture *fixture, int what)
{
    if (what == FREE_CALL)
        g_clear_pointer(&fixture->call, ipb_http_call_free);
    if (what == FREE_CLIENT) {
        fixture->call = NULL;
        g_clear_pointer(&fixture->client, ipb_http_client_free);
    }
}

static void
on_head(IpbHttpCall *call, unsigned status, void *data)
{
    Fixture *fixture = data;
    fixture->status = status;
    free_one(fixture, fixture->in_head);
}

static void
on_body(IpbHttpCall *call, const char *bytes, size_t size, void *data)
{
    Fixture *fixture = data;
    g_string_append_len(fixture->body, bytes, (gssize) size);
    free_one(fixture, fixture->in_body);
}

static void
on_end(IpbHttpCall *call, const GError *error, void *data)
{
    Fixture *fixture = data;
    fixture->n_ended++;
    if (error != NULL)
        fixture->error = g_error_copy(error);
    free_one(fixture, fixture->in_end);
}

static IpbHttpCallOptions
options_of(Fixture *fixture)
{
    return (IpbHttpCallOptions){
        .method = "GET",
        .url = fixture->url,
        .on_head = on_head,
        .on_body = on_body,
        .on_end = on_end,
        .data = fixture,
    };
}

static void
fetch_with(Fixture *fixture, const IpbHttpCallOptions *options)
{
    ipb_http_call_free(fixture->call);
    g_clear_error(&fixture->error);
    g_string_truncate(fixture->body, 0);
    g_string_truncate(fixture->heard, 0);
    unsigned n_ended = fixture->n_ended;
    fixture->call = ipb_http_client_send(fixture->client, options);
    g_assert_cmpuint(fixture->n_ended, ==, n_ended);
    while (fixture->n_ended == n_ended && fixture->call != NULL)
        g_main_context_iteration(NULL, true);
}

static void
fetch(Fixture *fixture)
{
    IpbHttpCallOptions options = options_of(fixture);
    fetch_with(fixture, &options);
}

static void
assert_fails(Fixture *fixture, int code, const char *part)
{
    g_assert_error(fixture->error, IPYBOX_ERROR, code);
    if (strstr(fixture->error->message, part) == NULL)
        g_error("\"%s\" has no \"%s\"", fixture->error->message, part);
    g_assert_null(strstr(fixture->error->message, "secret"));
}

static void
test_answer(void)
{
    g_auto(Fixture) fixture;
    set_up(&fixture,
           "HTTP/1.1 103 Early\r\nX-Early: 1\r\n\r\n"
           "HTTP/1.1 401 No\r\nWWW-Authenticate:  Basic \r\nwww-authenticate: Bearer x\r\n"
           "Content-Length: 5\r\n\r\nhello");
    fetch(&fixture);
    g_assert_no_error(fixture.error);
    g_assert_cmpuint(fixture.status, ==, 401);
    g_assert_cmpstr(fixture.body->str, ==, "hello");
    g_assert_cmpstr(ipb_http_call_header(fixture.call, "WWW-Authenticate", 0), ==, "Basic");
    g_assert_cmpstr(ipb_http_call_header(fixture.call, "WWW-Authenticate", 1), ==, "Bearer x");
    g_assert_null(ipb_http_call_header(fixture.call, "WWW-Authenticate", 2));
    g_assert_null(ipb_http_call_header(fixture.call, "X-Early", 0));
}

static void
test_request(void)
{
    static const char *const HEADERS[] = {"X-A:  b c ", "X-Empty:", "Content-Type: text/plain",
                                          NULL};
    g_auto(Fixture) fixture;
    set_up(&fixture, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    IpbHttpCallOptions options = options_of(&fixture);
    options.method = "POST";
    options.headers = HEADERS;
    options.body = "two\nlines";
    options.body_size = 9;
    fetch_with(&fixture, &options);
    g_assert_no_error(fixture.error);
    const char *heard = fixture.heard->str;
    g_assert_true(g_str_has_prefix(heard, "POST /mcp?key=secret HTTP/1.1\r\n"));
    g_assert_nonnull(strstr(heard, "\r\nX-A: b c\r\n"));
    g_assert_nonnull(strstr(heard, "\r\nX-Empty:\r\n"));
    g_assert_nonnull(strstr(heard, "\r\nContent-Type: text/plain\r\n"));
    g_assert_nonnull(strstr(heard, "\r\nContent-Length: 9\r\n"));
    g_assert_null(strstr(heard, "Expect"));
    g_assert_true(g_str_has_suffix(heard, "\r\n\r\ntwo\nlines"));
    options.method = "DELETE";
    options.body = NULL;
    fetch_with(&fixture, &options);
    g_assert_true(g_str_has_prefix(fixture.heard->str, "DELETE /mcp"));
    g_assert_cmpuint(fixture.n_connections, ==, 1); /* kept */
}

static void
test_injection(void)
{
    static const char *const BAD[] = {"X: a\r\nY: b", "X: a\nY: b", "X a",
                                      ": a",          "X y: a",     "X: \x01"};
    g_auto(Fixture) fixture;
    set_up(&fixture, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        const char *headers[] = {BAD[i], NULL};
        IpbHttpCallOptions options = options_of(&fixture);
        options.headers = headers;
        fetch_with(&fixture, &options);
        assert_fails(&fixture, IPYBOX_ERROR_INVALID, "header");
    }
    static const char *const URLS[] = {
        "ftp://a/", "file:///etc/passwd", "http://u:p@a/", "http:///", "a", "http://a b/"};
    for (size_t i = 0; i < G_N_ELEMENTS(URLS); i++) {
        IpbHttpCallOptions options = options_of(&fixture);
        options.url = URLS[i];
        fetch_with(&fixture, &options);
        assert_fails(&fixture, IPYBOX_ERROR_INVALID, "URL is wrong");
    }
    g_assert_cmpuint(fixture.n_connections, ==, 0);
}

static void
test_limits(void)
{
    g_auto(Fixture) fixture;
    set_up(&fixture, "HTTP/1.1 200 OK\r\nX-1: 1\r\nX-2: 2\r\nX-3: 3\r\n\r\n0123456789");
    IpbHttpCallOptions options = options_of(&fixture);
    options.limits.n_headers = 3;
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_LIMIT, "more than 3 headers, the maximum (n_headers)");
    options.limits = (IpbHttpLimits){.head_size = 20};
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_LIMIT, "more than 20 bytes, the maximum (head_size)");
    options.limits = (IpbHttpLimits){.body_size = 9};
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_LIMIT, "more than 9 bytes, the maximum (body_size)");
    options.limits = (IpbHttpLimits){.body_size = 10};
    fetch_with(&fixture, &options);
    g_assert_no_error(fixture.error);
}

static void
test_bad_answers(void)
{
    static const struct {
        const char *answer;
        int code;
    } BAD[] = {
        {"nonsense\r\n\r\n", IPYBOX_ERROR_PROTOCOL},
        {"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", IPYBOX_ERROR_PROTOCOL},
        {"HTTP/1.1 200 OK\r\n folded\r\n\r\n", IPYBOX_ERROR_PROTOCOL},
        {"HTTP/1.1 200 OK\r\nnothing\r\n\r\n", IPYBOX_ERROR_PROTOCOL},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", -1},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nthis is none", IPYBOX_ERROR_PROTOCOL},
        {"HTTP/1.1 200 O", -1},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nbody", IPYBOX_ERROR_PROTOCOL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        g_auto(Fixture) fixture;
        set_up(&fixture, BAD[i].answer);
        fetch(&fixture);
        g_test_message("%s", fixture.error != NULL ? fixture.error->message : "none");
        g_assert_nonnull(fixture.error);
        if (BAD[i].code >= 0)
            g_assert_error(fixture.error, IPYBOX_ERROR, BAD[i].code);
    }
}

/* A request on a kept connection that ends without an answer is not sent again. */
static void
test_not_twice(void)
{
    g_auto(Fixture) fixture;
    set_up(&fixture, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    fixture.closes_silently = true;
    IpbHttpCallOptions options = options_of(&fixture);
    options.method = "POST";
    options.body = "{}";
    options.body_size = 2;
    fetch_with(&fixture, &options);
    g_assert_no_error(fixture.error);
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_SERVER, "may have been executed");
    g_assert_cmpuint(fixture.n_requests, ==, 2);
}

static void
test_deadlines(void)
{
    g_auto(Fixture) fixture;
    set_up(&fixture, NULL);
    IpbHttpCallOptions options = options_of(&fixture);
    options.deadlines.head_ms = 20;
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_TIMEOUT, "no answer began within 0.02 s");
    options.deadlines = (IpbHttpDeadlines){.total_ms = 20};
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_TIMEOUT, "not complete within 0.02 s");
    fixture.answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe";
    fixture.answer_size = strlen(fixture.answer);
    options.deadlines = (IpbHttpDeadlines){.idle_ms = 20};
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_TIMEOUT, "nothing more of the answer came within 0.02 s");
    g_assert_cmpstr(fixture.body->str, ==, "he");
}

static void
test_free(void)
{
    for (int what = FREE_CALL; what <= FREE_CLIENT; what++) {
        for (int where = 0; where < 3; where++) {
            g_auto(Fixture) fixture;
            set_up(&fixture, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
            fixture.in_head = where == 0 ? what : FREE_NOTHING;
            fixture.in_body = where == 1 ? what : FREE_NOTHING;
            fixture.in_end = where == 2 ? what : FREE_NOTHING;
            fetch(&fixture);
            g_assert_cmpuint(fixture.n_ended, ==, where == 2);
        }
    }
    g_auto(Fixture) fixture;
    set_up(&fixture, NULL);
    IpbHttpCallOptions options = options_of(&fixture);
    ipb_http_call_free(ipb_http_client_send(fixture.client, &options));
    ipb_http_client_send(fixture.client, &options); /* freed with the client */
    while (fixture.n_connections == 0)
        g_main_context_iteration(NULL, true);
}

static void
test_refused(void)
{
    g_auto(Fixture) fixture;
    set_up(&fixture, NULL);
    IpbHttpCallOptions options = options_of(&fixture);
    options.url = "http://127.0.0.1:1/";
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_UNAVAILABLE, "http://127.0.0.1:1: no connection");
    options.url = "http://nowhere.invalid/";
    fetch_with(&fixture, &options);
    assert_fails(&fixture, IPYBOX_ERROR_NOT_FOUND, "the name of the host is not known");
}

static void
test_urls(void)
{
    g_auto(Fixture) fixture;
    set_up(&fixture, NULL);
    g_autofree char *origin =
        ipb_http_client_origin(fixture.client, "HTTPS://Example.COM:443/a?b#c", NULL);
    g_assert_cmpstr(origin, ==, "https://example.com");
    g_autofree char *with_port = ipb_http_client_origin(fixture.client, "http://[::1]:443", NULL);
    g_assert_cmpstr(with_port, ==, "http://[::1]:443");
    static const struct {
        const char *base, *reference, *expected;
    } URLS[] = {
        {"http://a.test/x/sse", "/messages?id=1#f", "http://a.test/messages?id=1"},
        {"http://a.test/x/sse", "messages", "http://a.test/x/messages"},
        {"http://a.test/x/sse", "//b.test/", "http://b.test/"},
        {"http://a.test/x/sse", "https://c.test/y", "https://c.test/y"},
        {"http://a.test/x/sse", "file:///etc/passwd", NULL},
        {"http://a.test/x/sse", "http://u@a.test/", NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(URLS); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *url =
            ipb_http_client_resolve(fixture.client, URLS[i].base, URLS[i].reference, &error);
        g_assert_cmpstr(url, ==, URLS[i].expected);
        g_assert_true((url == NULL) == (error != NULL));
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http/client/answer", test_answer);
    g_test_add_func("/http/client/request", test_request);
    g_test_add_func("/http/client/injection", test_injection);
    g_test_add_func("/http/client/limits", test_limits);
    g_test_add_func("/http/client/bad-answers", test_bad_answers);
    g_test_add_func("/http/client/not-twice", test_not_twice);
    g_test_add_func("/http/client/deadlines", test_deadlines);
    g_test_add_func("/http/client/free", test_free);
    g_test_add_func("/http/client/refused", test_refused);
    g_test_add_func("/http/client/urls", test_urls);
    return g_test_run();
}
