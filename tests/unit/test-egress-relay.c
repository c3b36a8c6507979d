/* SPDX-License-Identifier: Apache-2.0
 *
 * The relay between two socket pairs: the test is the client at one end, and the server at the
 * other.
 */
#include "egress/relay.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

typedef struct {
    IpbLoop *loop;
    IpbRelay *relay;
    int client, server; /* the test's ends */
    bool has_ended;
} Fixture;

static void
on_end(void *data)
{
    Fixture *fixture = data;
    fixture->has_ended = true;
    g_clear_pointer(&fixture->relay, ipb_relay_free);
}

static void
start(Fixture *fixture, IpbRelayOptions options)
{
    int client[2], server[2];
    g_autoptr(GError) error = NULL;
    *fixture = (Fixture){.loop = ipb_loop_new(NULL, &error)};
    g_assert_no_error(error);
    g_assert_true(ipb_fd_socketpair(SOCK_STREAM, client, &error));
    g_assert_true(ipb_fd_socketpair(SOCK_STREAM, server, &error));
    fixture->client = client[0];
    fixture->server = server[0];
    options.client_fd = client[1];
    options.server_fd = server[1];
    options.on_end = on_end;
    options.data = fixture;
    fixture->relay = ipb_relay_new(fixture->loop, &options, &error);
    g_assert_no_error(error);
}

static void
stop(Fixture *fixture)
{
    ipb_relay_free(fixture->relay);
    ipb_fd_close(&fixture->client);
    ipb_fd_close(&fixture->server);
    ipb_loop_unref(fixture->loop);
}

/* Runs the relay until it would wait. */
static void
run(void)
{
    for (int quiet = 0; quiet < 3;)
        quiet = g_main_context_iteration(NULL, FALSE) ? 0 : quiet + 1;
}

static void
say(int fd, const char *text)
{
    g_assert_cmpint(send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL), ==,
                    (ssize_t) strlen(text));
    run();
}

static void
assert_heard(int fd, const char *expected)
{
    char bytes[4096];
    run();
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (expected == NULL) {
        g_assert_true(n < 0 && errno == EAGAIN);
        return;
    }
    g_assert_cmpint(n, >=, 0);
    g_assert_cmpmem(bytes, (size_t) n, expected, strlen(expected));
}

static void
test_both_ways(void)
{
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){
                        .first = "hello ", .first_size = 6, .second = "world", .second_size = 5});
    assert_heard(fixture.server, "hello world");
    say(fixture.server, "answer");
    assert_heard(fixture.client, "answer");
    say(fixture.client, "more");
    assert_heard(fixture.server, "more");
    stop(&fixture);
}

static void
test_half_close(void)
{
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){0});
    say(fixture.client, "request");
    shutdown(fixture.client, SHUT_WR);
    assert_heard(fixture.server, "request");
    assert_heard(fixture.server, "");
    say(fixture.server, "answer");
    assert_heard(fixture.client, "answer");
    g_assert_false(fixture.has_ended);
    shutdown(fixture.server, SHUT_WR);
    run();
    g_assert_true(fixture.has_ended);
    assert_heard(fixture.client, "");
    stop(&fixture);
}

/* A slow reader stops the writer. The relay does not grow, and nothing is lost. */
static void
test_back_pressure(void)
{
    enum { SIZE = 8 * 1024 * 1024 };
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){0});
    size_t sent = 0, received = 0;
    g_autofree char *bytes = g_malloc(65536);
    for (bool is_stuck = false; !is_stuck;) {
        memset(bytes, (int) (sent / 65536), 65536);
        ssize_t n = send(fixture.server, bytes, 65536, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += (size_t) MAX(n, 0);
        run();
        is_stuck = n < 65536;
        g_assert_cmpuint(sent, <, SIZE);
    }
    /* The other direction still works. */
    say(fixture.client, "stop");
    assert_heard(fixture.server, "stop");
    shutdown(fixture.server, SHUT_WR);
    for (ssize_t n = 1; n != 0;) {
        n = recv(fixture.client, bytes, 65536, MSG_DONTWAIT);
        for (ssize_t i = 0; i < n; i++)
            g_assert_cmpuint((uint8_t) bytes[i], ==, (received + (size_t) i) / 65536 % 256);
        received += (size_t) MAX(n, 0);
        run();
    }
    g_assert_cmpuint(received, ==, sent);
    stop(&fixture);
}

static IpbHttpBody
length(uint64_t left)
{
    return (IpbHttpBody){.state = left > 0 ? IPB_HTTP_BODY_LENGTH : IPB_HTTP_BODY_DONE,
                         .left = left};
}

/* A second request after a checked one is never forwarded. */
static void
test_one_request(void)
{
    static const char SECOND[] = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){.mode = IPB_RELAY_BODY,
                                      .body = length(3),
                                      .first = "HEAD",
                                      .first_size = 4,
                                      .second = "a",
                                      .second_size = 1});
    assert_heard(fixture.server, "HEADa");
    g_autofree char *rest = g_strconcat("bc", SECOND, NULL);
    say(fixture.client, rest);
    assert_heard(fixture.server, "bc");
    say(fixture.client, SECOND);
    assert_heard(fixture.server, NULL);
    say(fixture.server, "answer");
    assert_heard(fixture.client, "answer");
    say(fixture.client, SECOND);
    assert_heard(fixture.server, NULL);
    /* The server's end is passed to the client, whose unread bytes do not discard the answer. */
    shutdown(fixture.server, SHUT_WR);
    assert_heard(fixture.client, "");
    g_assert_false(fixture.has_ended);
    ipb_fd_close(&fixture.client);
    run();
    g_assert_true(fixture.has_ended);
    stop(&fixture);
}

static void
test_no_body(void)
{
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){.mode = IPB_RELAY_BODY,
                                      .body = length(0),
                                      .first = "HEAD",
                                      .first_size = 4,
                                      .second = "GET /",
                                      .second_size = 5});
    assert_heard(fixture.server, "HEAD");
    assert_heard(fixture.server, NULL);
    /* If the client disconnects, the server is disconnected. */
    ipb_fd_close(&fixture.client);
    run();
    g_assert_true(fixture.has_ended);
    stop(&fixture);
}

static void
test_bad_body(void)
{
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){.mode = IPB_RELAY_BODY,
                                      .body = {.state = IPB_HTTP_BODY_SIZE},
                                      .first = "HEAD",
                                      .first_size = 4});
    assert_heard(fixture.server, "HEAD");
    say(fixture.client, "3\r\nabc\r\n");
    assert_heard(fixture.server, "3\r\nabc\r\n");
    say(fixture.client, "x\r\n");
    g_assert_true(fixture.has_ended);
    stop(&fixture);
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbLoop) loop = ipb_loop_new(NULL, NULL);
    int fds[2], others[2];
    g_assert_true(ipb_fd_socketpair(SOCK_STREAM, fds, NULL));
    g_assert_true(ipb_fd_socketpair(SOCK_STREAM, others, NULL));
    const IpbRelayOptions options = {
        .client_fd = fds[1],
        .server_fd = others[1],
        .mode = IPB_RELAY_BODY,
        .body = {.state = IPB_HTTP_BODY_SIZE},
        .second = "x",
        .second_size = 1,
    };
    g_assert_null(ipb_relay_new(loop, &options, &error));
    g_assert_nonnull(error);
    ipb_fd_close(&fds[0]);
    ipb_fd_close(&others[0]);
}

/* If a server refuses an upload and closes the connection, its answer still arrives. */
static void
test_early_answer(void)
{
    Fixture fixture;
    g_autofree char *bytes = g_malloc0(65536);
    start(&fixture, (IpbRelayOptions){.mode = IPB_RELAY_BODY, .body = length(UINT64_C(1) << 40)});
    while (send(fixture.client, bytes, 65536, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        run();
    g_assert_cmpint(send(fixture.server, "413", 3, MSG_NOSIGNAL), ==, 3);
    ipb_fd_close(&fixture.server);
    assert_heard(fixture.client, "413");
    assert_heard(fixture.client, "");
    stop(&fixture);
}

/* A WebSocket: none of the client's bytes pass before the server has accepted. */
static void
test_upgrade(void)
{
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){.mode = IPB_RELAY_UPGRADE, .first = "HEAD", .first_size = 4});
    assert_heard(fixture.server, "HEAD");
    say(fixture.client, "frame");
    assert_heard(fixture.server, NULL);
    say(fixture.server, "HTTP/1");
    assert_heard(fixture.client, "HTTP/1");
    assert_heard(fixture.server, NULL);
    say(fixture.server, ".1 101 Switching Protocols\r\n\r\n");
    assert_heard(fixture.server, "frame");
    assert_heard(fixture.client, ".1 101 Switching Protocols\r\n\r\n");
    say(fixture.client, "next");
    assert_heard(fixture.server, "next");
    shutdown(fixture.client, SHUT_WR);
    assert_heard(fixture.server, "");
    stop(&fixture);
}

static void
test_upgrade_refused(void)
{
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){.mode = IPB_RELAY_UPGRADE, .first = "HEAD", .first_size = 4});
    assert_heard(fixture.server, "HEAD");
    say(fixture.server, "HTTP/1.1 403 Forbidden\r\n\r\nHTTP/1.1 101 no\r\n\r\n");
    say(fixture.client, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    assert_heard(fixture.server, NULL);
    stop(&fixture);
}

/* Both sides are idle. */
static void
test_idle(void)
{
    Fixture fixture;
    start(&fixture, (IpbRelayOptions){.idle_ms = 1});
    while (!fixture.has_ended)
        g_main_context_iteration(NULL, TRUE);
    stop(&fixture);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/relay/both-ways", test_both_ways);
    g_test_add_func("/egress/relay/half-close", test_half_close);
    g_test_add_func("/egress/relay/back-pressure", test_back_pressure);
    g_test_add_func("/egress/relay/one-request", test_one_request);
    g_test_add_func("/egress/relay/no-body", test_no_body);
    g_test_add_func("/egress/relay/bad-body", test_bad_body);
    g_test_add_func("/egress/relay/early-answer", test_early_answer);
    g_test_add_func("/egress/relay/upgrade", test_upgrade);
    g_test_add_func("/egress/relay/upgrade-refused", test_upgrade_refused);
    g_test_add_func("/egress/relay/idle", test_idle);
    return g_test_run();
}
