/* SPDX-License-Identifier: Apache-2.0
 *
 * WebSockets: our client with our server, and a hostile peer with each of them.
 */
#include "http/websocket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "base/fd.h"
#include "http/handshake.h"

#define KIB 1024
#define MIB (1024 * KIB)
#define MAX_MESSAGE (4 * MIB)
#define MAX_QUEUE (8 * MIB)

typedef struct {
    IpbWebSocket *socket;
    bool is_open;
    bool does_echo;
    bool is_paused_by_first; /* pauses at the first message */
    bool is_freed_by_first;
    GString *received;
    unsigned n_messages, n_drained, n_closed;
    unsigned code;
    char *reason;
} End;

typedef struct {
    IpbLoop *loop;
    IpbHttpServer *server;
    IpbWebSocketOptions options;
    End here;  /* the server's */
    End there; /* the client's */
} Fixture;

static const char *const PROTOCOLS[] = {"v1", "v2", NULL};

static void
on_open(IpbWebSocket *socket, void *data)
{
    End *end = data;
    end->is_open = true;
}

static void
on_message(IpbWebSocket *socket, const char *bytes, size_t size, bool is_text, void *data)
{
    End *end = data;
    end->n_messages++;
    if (size < 64 * KIB)
        g_string_append_len(end->received, bytes, (gssize) size);
    if (end->does_echo)
        ipb_websocket_send(socket, bytes, size, is_text, NULL);
    if (end->is_paused_by_first)
        ipb_websocket_pause(socket, true);
    if (end->is_freed_by_first)
        g_clear_pointer(&end->socket, ipb_websocket_free);
}

static void
on_drained(IpbWebSocket *socket, void *data)
{
    End *end = data;
    end->n_drained++;
}

static void
on_closed(IpbWebSocket *socket, unsigned code, const char *reason, void *data)
{
    End *end = data;
    end->n_closed++;
    end->code = code;
    end->reason = g_strdup(reason);
}

static const IpbWebSocketFuncs FUNCS = {on_open, on_message, on_drained, on_closed};

static void
on_upgrade(IpbHttpRequest *request, void *data)
{
    Fixture *fixture = data;
    g_assert_null(fixture->here.socket);
    fixture->here.socket = ipb_websocket_accept(fixture->loop, request, PROTOCOLS,
                                                &fixture->options, &FUNCS, &fixture->here);
}

static const IpbHttpRoute ROUTES[] = {
    {"GET", "/ws", IPB_HTTP_BODY_NONE, IPB_HTTP_ROLE_ANY, on_upgrade},
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
    ipb_http_gate_set_everybody(gate, IPB_HTTP_ROLE_KERNEL);
    fixture->options = IPB_WEBSOCKET_OPTIONS;
    fixture->options.max_message = MAX_MESSAGE;
    fixture->options.max_queue = MAX_QUEUE;
    fixture->here.received = g_string_new(NULL);
    fixture->there.received = g_string_new(NULL);
    fixture->loop = ipb_loop_new(NULL, &error);
    g_assert_no_error(error);
    fixture->server = ipb_http_server_new(fixture->loop, &options, gate);
    ipb_http_server_listen(fixture->server, "localhost", 0, &error);
    g_assert_no_error(error);
}

static void
clear_end(End *end)
{
    ipb_websocket_free(end->socket);
    g_string_free(end->received, TRUE);
    g_free(end->reason);
}

static void
tear_down(Fixture *fixture, const void *data)
{
    clear_end(&fixture->there);
    clear_end(&fixture->here);
    ipb_http_server_free(fixture->server);
    while (g_main_context_iteration(NULL, FALSE))
        ;
    ipb_loop_unref(fixture->loop);
}

static void
run_until(const unsigned *number, unsigned value)
{
    while (*number < value)
        g_main_context_iteration(NULL, TRUE);
}

static void
connect_to(Fixture *fixture, unsigned port, const char *const *protocols)
{
    g_autoptr(GError) error = NULL;
    static const char *const HEADERS[] = {"X-Of-Ours", "y", NULL};
    IpbWebSocketTarget target = {"localhost", port, "/ws", protocols, HEADERS};
    fixture->there.socket = ipb_websocket_connect(fixture->loop, &target, &fixture->options, &FUNCS,
                                                  &fixture->there, &error);
    g_assert_no_error(error);
}

static void
open_both(Fixture *fixture, const char *const *protocols)
{
    connect_to(fixture, ipb_http_server_port(fixture->server), protocols);
    while (!fixture->there.is_open || fixture->here.socket == NULL) {
        g_assert_cmpuint(fixture->there.n_closed, ==, 0);
        g_main_context_iteration(NULL, TRUE);
    }
}

static void
test_messages(Fixture *fixture, const void *data)
{
    static const char *const OFFERED[] = {"v3", "v2", "v1", NULL};
    g_autoptr(GError) error = NULL;
    g_autofree char *large = g_strnfill(MAX_MESSAGE, 'x');
    fixture->here.does_echo = true;
    open_both(fixture, OFFERED);
    g_assert_cmpstr(ipb_websocket_protocol(fixture->there.socket), ==, "v2");
    g_assert_cmpstr(ipb_websocket_protocol(fixture->here.socket), ==, "v2");
    g_assert_true(ipb_websocket_send(fixture->there.socket, "h\303\251llo\0", 7, true, &error));
    g_assert_true(ipb_websocket_send(fixture->there.socket, "\377\0", 2, false, &error));
    g_assert_true(ipb_websocket_send(fixture->there.socket, "", 0, true, &error));
    g_assert_true(ipb_websocket_send(fixture->there.socket, large, MAX_MESSAGE, true, &error));
    run_until(&fixture->there.n_messages, 4);
    g_assert_cmpmem(fixture->there.received->str, fixture->there.received->len,
                    "h\303\251llo\0\377\0", 9);
    run_until(&fixture->there.n_drained, 1);
    g_assert_false(ipb_websocket_send(fixture->there.socket, "\377", 1, true, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static void
test_close(Fixture *fixture, const void *data)
{
    static const char *const NONE[] = {"v9", NULL};
    g_autoptr(GError) error = NULL;
    open_both(fixture, NONE);
    g_assert_cmpstr(ipb_websocket_protocol(fixture->there.socket), ==, "");
    ipb_websocket_send(fixture->here.socket, "last", 4, true, NULL);
    ipb_websocket_close(fixture->here.socket, 1008, "there is another");
    g_assert_false(ipb_websocket_send(fixture->here.socket, "x", 1, true, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
    run_until(&fixture->there.n_closed, 1);
    run_until(&fixture->here.n_closed, 1);
    g_assert_cmpstr(fixture->there.received->str, ==, "last");
    g_assert_cmpuint(fixture->there.code, ==, 1008);
    g_assert_cmpstr(fixture->there.reason, ==, "there is another");
    g_assert_cmpuint(fixture->here.code, ==, 1008);
}

/* Neither end reads or keeps more than its maximum. */
static void
test_bounds(Fixture *fixture, const void *data)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *large = g_malloc0(MIB);
    open_both(fixture, NULL);
    ipb_websocket_pause(fixture->here.socket, true);
    unsigned n = 0;
    while (ipb_websocket_send(fixture->there.socket, large, MIB, false, &error)) {
        n++;
        g_main_context_iteration(NULL, FALSE);
    }
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_cmpuint(fixture->here.n_messages, ==, 0);
    g_assert_cmpuint(ipb_websocket_queued(fixture->there.socket), <=, MAX_QUEUE);
    ipb_websocket_pause(fixture->here.socket, false);
    run_until(&fixture->here.n_messages, n);
    run_until(&fixture->there.n_drained, 1);
    g_clear_error(&error);
    g_autofree char *too_large = g_malloc0(MAX_MESSAGE + 1);
    g_assert_true(
        ipb_websocket_send(fixture->there.socket, too_large, MAX_MESSAGE + 1, false, &error));
    run_until(&fixture->there.n_closed, 1);
    run_until(&fixture->here.n_closed, 1);
    g_assert_cmpuint(fixture->here.code, ==, 1009);
    g_assert_cmpstr(fixture->here.reason, ==, "the message is too large");
}

static void
test_freed_in_function(Fixture *fixture, const void *data)
{
    open_both(fixture, NULL);
    fixture->here.is_freed_by_first = true;
    ipb_websocket_send(fixture->there.socket, "1", 1, true, NULL);
    ipb_websocket_send(fixture->there.socket, "2", 1, true, NULL);
    run_until(&fixture->there.n_closed, 1);
    g_assert_cmpuint(fixture->here.n_messages, ==, 1);
    g_assert_cmpuint(fixture->there.code, ==, 1006);
    g_assert_null(fixture->here.socket);
}

/* A raw peer of the server */

static int
dial(const Fixture *fixture)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port =
                                      htons((uint16_t) ipb_http_server_port(fixture->server))};
    ipb_autofd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    g_assert_true(connect(fd, (struct sockaddr *) &address, sizeof address) == 0 ||
                  errno == EINPROGRESS);
    return ipb_fd_steal(&fd);
}

static void
push(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return; /* it was disconnected */
        at += MAX(n, 0);
        size -= (size_t) MAX(n, 0);
        if (n < 0 || size == 0)
            g_main_context_iteration(NULL, FALSE);
    }
}

/* Receives until @size bytes or the end. */
static GString *
pull(int fd, size_t size)
{
    GString *text = g_string_new(NULL);
    char bytes[4096];
    while (text->len < size) {
        ssize_t n = recv(fd, bytes, MIN(sizeof bytes, size - text->len), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        if (n > 0)
            g_string_append_len(text, bytes, n);
        else
            g_main_context_iteration(NULL, FALSE);
    }
    return text;
}

static void
ask(const Fixture *fixture, int fd, const char *headers)
{
    g_autofree char *text = g_strdup_printf("GET /ws HTTP/1.1\r\nHost: localhost:%u\r\n%s\r\n",
                                            ipb_http_server_port(fixture->server), headers);
    push(fd, text, strlen(text));
}

#define HANDSHAKE                                                                                  \
    "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n"       \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define ANSWER                                                                                     \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"            \
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

static int
open_raw(const Fixture *fixture)
{
    int fd = dial(fixture);
    ask(fixture, fd, HANDSHAKE);
    GString *answer = pull(fd, strlen(ANSWER));
    g_assert_cmpstr(answer->str, ==, ANSWER);
    g_string_free(answer, TRUE);
    return fd;
}

/* The code of the first close; 1005: it has none; 0: the connection ended without a close. */
static unsigned
pull_close(int fd)
{
    GString *text = pull(fd, 4);
    const uint8_t *bytes = (const uint8_t *) text->str;
    unsigned code = 0;
    if (text->len == 4 && bytes[0] == 0x88)
        code = bytes[2] * 256u + bytes[3];
    else if (text->len == 2 && bytes[0] == 0x88 && bytes[1] == 0)
        code = 1005;
    g_string_free(text, TRUE);
    return code;
}

static void
test_handshakes(Fixture *fixture, const void *data)
{
    static const struct {
        const char *headers, *status;
    } CASES[] = {
        {"", "HTTP/1.1 426"},
        {"Upgrade: websocket\r\n", "HTTP/1.1 426"},
        {"Upgrade: websocket\r\nConnection: Upgrade\r\n", "HTTP/1.1 426"},
        {"Upgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
         "HTTP/1.1 426"},
        {"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
         "HTTP/1.1 426"},
        {"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
         "HTTP/1.1 400"},
        {"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=\r\n",
         "HTTP/1.1 400"},
        {"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ\"==\r\n",
         "HTTP/1.1 400"},
        {HANDSHAKE "Origin: http://evil.example\r\n", "HTTP/1.1 403"},
        {HANDSHAKE "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "HTTP/1.1 400"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        ipb_autofd fd = dial(fixture);
        ask(fixture, fd, CASES[i].headers);
        GString *answer = pull(fd, 12);
        g_test_message("%s", CASES[i].headers);
        g_assert_cmpstr(answer->str, ==, CASES[i].status);
        g_assert_null(fixture->here.socket);
        g_string_free(answer, TRUE);
    }
}

static void
test_hostile_frames(Fixture *fixture, const void *data)
{
    static const struct {
        const char *bytes;
        size_t size;
        unsigned code;
    } CASES[] = {
        {"\x81\x01x", 3, 1002},                                          /* not masked */
        {"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0x", 15, 1009}, /* 2^63 - 1 */
        {"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 14, 1002},  /* 2^64 - 1 */
        {"\x81\xfe\x00\x01\0\0\0\0x", 9, 1002},                          /* 1, in two bytes */
        {"\x81\x82\0\0\0\0\xc3\x28", 8, 1007},                           /* bad UTF-8 */
        {"\x81\x81\0\0\0\0\xc3", 7, 1007},                               /* cut UTF-8 */
        {"\xc1\x80\0\0\0\0", 6, 1002},                                   /* a reserved bit */
        {"\x83\x80\0\0\0\0", 6, 1002},                                   /* a reserved kind */
        {"\x80\x80\0\0\0\0", 6, 1002},                                   /* continues no message */
        {"\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 12, 1002}, /* a message within another */
        {"\x09\x80\0\0\0\0", 6, 1002},                  /* a ping in pieces */
        {"\x89\xfe\x00\x7e\0\0\0\0", 8, 1002},          /* a long ping */
        {"\x88\x81\0\0\0\0x", 7, 1002},                 /* half a code */
        {"\x88\x82\0\0\0\0\x03\xed", 8, 1002},          /* code 1005 */
        {"\x88\x80\0\0\0\0", 6, 1005},                  /* without a code: so ours */
        {"\x88\x82\0\0\0\0\x0f\xa0", 8, 4000},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        ipb_autofd fd = open_raw(fixture);
        push(fd, CASES[i].bytes, CASES[i].size);
        g_test_message("%zu", i);
        unsigned code = pull_close(fd);
        g_test_message("code %u", code);
        g_assert_cmpuint(code, ==, CASES[i].code);
        ipb_fd_close(&fd);
        run_until(&fixture->here.n_closed, 1);
        g_assert_cmpuint(fixture->here.n_messages, ==, 0);
        g_clear_pointer(&fixture->here.socket, ipb_websocket_free);
        g_clear_pointer(&fixture->here.reason, g_free);
        fixture->here.n_closed = 0;
    }
}

/* 150 MB in frames, none of which is too large; and many empty frames. */
static void
test_endless_message(Fixture *fixture, const void *data)
{
    g_autofree char *piece = g_malloc0(64 * KIB + 14);
    memcpy(piece, "\x02\xff\0\0\0\0\0\1\0\0\0\0\0\0", 14);
    ipb_autofd fd = open_raw(fixture);
    for (unsigned i = 0; i < 2400; i++) {
        push(fd, piece, 64 * KIB + 14);
        piece[0] = 0;
    }
    run_until(&fixture->here.n_closed, 1);
    g_assert_cmpuint(fixture->here.code, ==, 1009);
    g_assert_cmpuint(fixture->here.n_messages, ==, 0);
}

/* Pongs that are not read do not accumulate, and a peer that does not read is disconnected. */
static void
test_ping_flood(Fixture *fixture, const void *data)
{
    char pings[131 * 512];
    for (size_t i = 0; i < 512; i++) {
        memcpy(pings + i * 131, "\x89\xfd\0\0\0\0", 6);
        memset(pings + i * 131 + 6, 'x', 125);
    }
    fixture->options.write_ms = 100;
    ipb_autofd fd = open_raw(fixture);
    while (fixture->here.n_closed == 0) {
        ssize_t n = send(fd, pings, sizeof pings, MSG_NOSIGNAL | MSG_DONTWAIT);
        g_main_context_iteration(NULL, n < 0);
        if (fixture->here.n_closed == 0)
            g_assert_cmpuint(ipb_websocket_queued(fixture->here.socket), <=, 125 * 512);
    }
    g_assert_cmpuint(fixture->here.code, ==, 1006);
    g_assert_cmpstr(fixture->here.reason, ==, "the peer does not read what is sent");
}

static void
test_silent_peers(Fixture *fixture, const void *data)
{
    fixture->options.ping_ms = 20;
    ipb_autofd fd = open_raw(fixture);
    run_until(&fixture->here.n_closed, 1);
    g_assert_cmpuint(fixture->here.code, ==, 1006);
    g_assert_cmpstr(fixture->here.reason, ==, "the peer does not answer pings");
    g_clear_pointer(&fixture->here.socket, ipb_websocket_free);
    g_clear_pointer(&fixture->here.reason, g_free);
    /* It does not answer the close either. */
    fixture->options.ping_ms = 0;
    fixture->options.close_ms = 20;
    ipb_autofd other = open_raw(fixture);
    ipb_websocket_close(fixture->here.socket, 1000, "");
    run_until(&fixture->here.n_closed, 2);
    g_assert_cmpuint(fixture->here.code, ==, 1006);
}

/* Pings are answered, and the answers keep the socket open. */
static void
test_pings(Fixture *fixture, const void *data)
{
    /* Long enough for an answer if this program, which is both ends, has to wait for the CPU. */
    fixture->options.ping_ms = 200;
    fixture->here.does_echo = true;
    open_both(fixture, NULL);
    int64_t end = g_get_monotonic_time() + 1000 * 1000;
    while (g_get_monotonic_time() < end)
        g_main_context_iteration(NULL, TRUE);
    g_assert_cmpuint(fixture->here.n_closed + fixture->there.n_closed, ==, 0);
    ipb_websocket_send(fixture->there.socket, "x", 1, true, NULL);
    run_until(&fixture->there.n_messages, 1);
}

/* Hostile servers */

static void
test_bad_servers(Fixture *fixture, const void *data)
{
    static const struct {
        const char *answer, *reason;
    } CASES[] = {
        {"", "the server closed the connection in the handshake"},
        {"nonsense\r\n\r\n", "the status line is not \"HTTP/1.1 NUMBER text\""},
        {"HTTP/1.1 403 Forbidden\r\n\r\n",
         "the server answers 403: it does not switch to WebSocket"},
        {ANSWER, "the server answers 101: its Sec-WebSocket-Accept is no answer to our key"},
        {"HTTP/1.1 101\r\n\r\n",
         "the server answers 101: it switches to a protocol that is not WebSocket"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof address;
        ipb_autofd listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        g_assert_cmpint(bind(listener, (struct sockaddr *) &address, size), ==, 0);
        g_assert_cmpint(listen(listener, 1), ==, 0);
        g_assert_cmpint(getsockname(listener, (struct sockaddr *) &address, &size), ==, 0);
        connect_to(fixture, ntohs(address.sin_port), NULL);
        int fd = -1;
        while (fd < 0) {
            fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            g_main_context_iteration(NULL, FALSE);
        }
        g_string_free(pull(fd, 100), TRUE);
        push(fd, CASES[i].answer, strlen(CASES[i].answer));
        shutdown(fd, SHUT_WR);
        run_until(&fixture->there.n_closed, 1);
        g_assert_cmpuint(fixture->there.code, ==, 1006);
        g_assert_cmpstr(fixture->there.reason, ==, CASES[i].reason);
        ipb_fd_close(&fd);
        g_clear_pointer(&fixture->there.socket, ipb_websocket_free);
        g_clear_pointer(&fixture->there.reason, g_free);
        fixture->there.n_closed = 0;
    }
}

static void
test_connect_errors(Fixture *fixture, const void *data)
{
    g_autoptr(GError) error = NULL;
    static const char *const BAD_HEADERS[] = {"X", "a\r\nY: b", NULL};
    IpbWebSocketTarget bad = {"localhost", 1, "/", NULL, BAD_HEADERS};
    g_assert_null(ipb_websocket_connect(fixture->loop, &bad, &fixture->options, &FUNCS,
                                        &fixture->there, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    unsigned port = ipb_http_server_port(fixture->server);
    g_clear_pointer(&fixture->server, ipb_http_server_free);
    connect_to(fixture, port, NULL);
    run_until(&fixture->there.n_closed, 1);
    g_assert_nonnull(strstr(fixture->there.reason, "Connection refused"));
    /* Freed while the thread connects. */
    g_clear_pointer(&fixture->there.socket, ipb_websocket_free);
    connect_to(fixture, port, NULL);
    g_clear_pointer(&fixture->there.socket, ipb_websocket_free);
    g_assert_cmpuint(fixture->there.n_closed, ==, 1);
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*func)(Fixture *fixture, const void *data);
    } TESTS[] = {
        {"/http/websocket/messages", test_messages},
        {"/http/websocket/close", test_close},
        {"/http/websocket/bounds", test_bounds},
        {"/http/websocket/freed-in-function", test_freed_in_function},
        {"/http/websocket/handshakes", test_handshakes},
        {"/http/websocket/hostile-frames", test_hostile_frames},
        {"/http/websocket/endless-message", test_endless_message},
        {"/http/websocket/ping-flood", test_ping_flood},
        {"/http/websocket/silent-peers", test_silent_peers},
        {"/http/websocket/pings", test_pings},
        {"/http/websocket/bad-servers", test_bad_servers},
        {"/http/websocket/connect-errors", test_connect_errors},
    };
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(TESTS); i++)
        g_test_add(TESTS[i].name, Fixture, NULL, set_up, TESTS[i].func, tear_down);
    return g_test_run();
}
