/* SPDX-License-Identifier: Apache-2.0
 *
 * Which peers an HTTP server admits, and in which role.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "http/target.h"
#include "http/gate.h"

#define PORT 8900

/* The role of a peer that sends these headers; its socket is unknown. */
static unsigned
admit(IpbHttpGate *gate, const char *target, const char *headers)
{
    g_autofree char *text = g_strdup_printf("GET %s HTTP/1.1\r\n%s\r\n", target, headers);
    IpbHttpPeer peer = {.fd = -1};
    IpbHttpHead head = {0};
    size_t scanned = 0;
    g_assert_cmpint(ipb_http_head_parse(text, strlen(text), &scanned, &head), ==,
                    IPB_HTTP_HEAD_WHOLE);
    unsigned role = ipb_http_gate_admit(gate, &head, PORT, &peer);
    return role != 0 ? role : head.status;
}

static void
test_hosts(void)
{
    static const struct {
        const char *host;
        unsigned local, open;
    } CASES[] = {
        {"localhost:8900", 2, 2},   {"LOCALHOST:8900", 2, 2},
        {"127.0.0.1:8900", 2, 2},   {"[::1]:8900", 2, 2},
        {"localhost", 403, 2},      {"127.0.0.1:1", 403, 2},
        {"evil.example", 403, 403}, {"localhost.evil:8900", 403, 403},
        {"10.1.2.3:9", 403, 2},     {"[fe80::1]:9", 403, 2},
        {"0x7f.1:8900", 403, 403},  {"own.example:7", 2, 2},
        {":8900", 403, 403},        {"[]:8900", 403, 403},
        {"[::1", 403, 403},
    };
    g_autoptr(IpbHttpGate) local = ipb_http_gate_new();
    g_autoptr(IpbHttpGate) open = ipb_http_gate_new();
    ipb_http_gate_set_everybody(local, IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_set_everybody(open, IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_allow_host(local, "own.example");
    ipb_http_gate_allow_host(open, "own.example");
    ipb_http_gate_set_public(open);
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *headers = g_strdup_printf("Host: %s\r\n", CASES[i].host);
        g_test_message("%s", CASES[i].host);
        g_assert_cmpuint(admit(local, "/", headers), ==, CASES[i].local);
        g_assert_cmpuint(admit(open, "/", headers), ==, CASES[i].open);
    }
}

static void
test_origins(void)
{
    g_autoptr(IpbHttpGate) gate = ipb_http_gate_new();
    ipb_http_gate_set_everybody(gate, IPB_HTTP_ROLE_KERNEL);
    ipb_http_gate_allow_origin(gate, "http://localhost:3000");
    g_assert_cmpuint(admit(gate, "/", "Host: localhost:8900\r\nOrigin: http://localhost:3000\r\n"),
                     ==, 1);
    g_assert_cmpuint(admit(gate, "/", "Host: localhost:8900\r\nOrigin: http://localhost:3001\r\n"),
                     ==, 403);
    g_assert_cmpuint(admit(gate, "/", "Host: localhost:8900\r\nOrigin: null\r\n"), ==, 403);
}

static void
test_tokens(void)
{
    static const struct {
        const char *target, *header;
        unsigned role;
    } CASES[] = {
        {"/", "Authorization: Bearer app\r\n", 2},
        {"/", "Authorization: token app\r\n", 2},
        {"/", "Authorization: bearer kernel\r\n", 1},
        {"/", "Authorization: Bearer other\r\n", 401},
        {"/", "Authorization: Bearer ap\r\n", 401},
        {"/", "Authorization: Bearer apps\r\n", 401},
        {"/", "Authorization: Basic app\r\n", 401},
        {"/", "", 401},
        {"/?token=app", "", 2},
        {"/?a=b&t%6fken=a%70p", "", 2},
        {"/?token=", "", 401},
        {"/?token=%00", "", 401},
        {"/?token=app", "Authorization: Bearer other\r\n", 401},
        {"/", "Authorization: Bearer app\r\nIpybox-Role: kernel\r\n", 1},
        {"/", "Authorization: Bearer kernel\r\nIpybox-Role: application\r\n", 400},
    };
    g_autoptr(IpbHttpGate) gate = ipb_http_gate_new();
    ipb_http_gate_add_token(gate, "app", IPB_HTTP_ROLE_APPLICATION);
    ipb_http_gate_add_token(gate, "kernel", IPB_HTTP_ROLE_KERNEL);
    ipb_http_gate_take_query_token(gate);
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *headers = g_strdup_printf("Host: localhost:8900\r\n%s", CASES[i].header);
        g_test_message("%s %s", CASES[i].target, CASES[i].header);
        g_assert_cmpuint(admit(gate, CASES[i].target, headers), ==, CASES[i].role);
    }
}

static unsigned
find_role(IpbSpan token, void *data)
{
    return ipb_span_equal(token, data) ? IPB_HTTP_ROLE_APPLICATION : 0;
}

/* Peers without a token may be admitted; those with a wrong one are not. */
static void
test_strangers(void)
{
    static char token[] = "app";
    g_autoptr(IpbHttpGate) gate = ipb_http_gate_new();
    ipb_http_gate_set_tokens(gate, find_role, token);
    static const char HOST[] = "Host: localhost:8900\r\n";
    g_assert_cmpuint(admit(gate, "/", HOST), ==, 401);
    ipb_http_gate_admit_strangers(gate);
    g_assert_cmpuint(admit(gate, "/", HOST), ==, IPB_HTTP_ROLE_STRANGER);
    g_assert_cmpuint(admit(gate, "/", "Host: localhost:8900\r\nIpybox-Role: kernel\r\n"), ==,
                     IPB_HTTP_ROLE_STRANGER);
    g_assert_cmpuint(admit(gate, "/", "Host: other\r\n"), ==, 403);
    g_assert_cmpuint(admit(gate, "/", "Host: localhost:8900\r\nAuthorization: Bearer ap\r\n"), ==,
                     401);
    g_assert_cmpuint(admit(gate, "/", "Host: localhost:8900\r\nAuthorization: Bearer app\r\n"), ==,
                     IPB_HTTP_ROLE_APPLICATION);
}

/* A connection on loopback: [0] connected to [1]. */
static void
connect_pair(int ret_fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    ipb_autofd listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(bind(listener, (struct sockaddr *) &address, size), ==, 0);
    g_assert_cmpint(listen(listener, 1), ==, 0);
    g_assert_cmpint(getsockname(listener, (struct sockaddr *) &address, &size), ==, 0);
    ret_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(connect(ret_fds[0], (struct sockaddr *) &address, size), ==, 0);
    ret_fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    g_assert_cmpint(ret_fds[1], >=, 0);
}

static void
test_own_peer(void)
{
    int fds[2];
    connect_pair(fds);
    IpbHttpPeer peer = {.fd = fds[1]};
    g_assert_true(ipb_http_peer_is_own(&peer));
    ipb_fd_close(&fds[0]);
    g_assert_true(ipb_http_peer_is_own(&peer)); /* the result is kept */
    /* A closed socket belongs to no user, not even to root. */
    IpbHttpPeer late = {.fd = fds[1]};
    g_assert_false(ipb_http_peer_is_own(&late));
    ipb_fd_close(&fds[1]);
    g_assert_true(ipb_fd_socketpair(SOCK_STREAM, fds, NULL));
    IpbHttpPeer local = {.fd = fds[1]};
    g_assert_false(ipb_http_peer_is_own(&local));
    ipb_fd_close(&fds[0]);
    ipb_fd_close(&fds[1]);
}

/* A process of another user is not ours. Only root can test it. */
static void
test_other_peer(void)
{
    int fds[2];
    if (geteuid() != 0) {
        g_test_message("not root");
        return;
    }
    /* A socket belongs to the user that created it. */
    g_assert_cmpint(seteuid(1234), ==, 0);
    connect_pair(fds);
    g_assert_cmpint(seteuid(0), ==, 0);
    IpbHttpPeer peer = {.fd = fds[1]};
    g_assert_false(ipb_http_peer_is_own(&peer));
    g_assert_true(peer.is_found);
    g_assert_cmpuint(peer.uid, ==, 1234);
    ipb_fd_close(&fds[0]);
    ipb_fd_close(&fds[1]);
}

static void
test_targets(void)
{
    static const struct {
        const char *text;
        bool is_query;
        const char *decoded;
    } CASES[] = {
        {"a%20b", false, "a b"}, {"a+b", false, "a+b"}, {"a+b", true, "a b"},
        {"%C3%A9", false, "é"},  {"%C3", false, NULL},  {"%", false, NULL},
        {"%4", false, NULL},     {"%4g", false, NULL},  {"%00", false, NULL},
        {"%0a", true, NULL},     {"", false, ""},       {"%2F", false, "/"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        IpbSpan span = {CASES[i].text, strlen(CASES[i].text)};
        g_autofree char *decoded = ipb_http_target_decode(span, CASES[i].is_query);
        g_assert_cmpstr(decoded, ==, CASES[i].decoded);
    }
    IpbSpan target = {"/p/q?a=1&b&c=2&c=3&=4", 21};
    static const char *const PARAMETERS[][2] = {
        {"a", "1"}, {"b", ""}, {"c", "2"}, {"", "4"}, {"d", NULL}};
    for (size_t i = 0; i < G_N_ELEMENTS(PARAMETERS); i++) {
        g_autofree char *value = ipb_http_target_query(target, PARAMETERS[i][0]);
        g_assert_cmpstr(value, ==, PARAMETERS[i][1]);
    }
    IpbSpan path = ipb_http_target_path(target);
    g_assert_cmpuint(path.size, ==, 4);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http/gate/hosts", test_hosts);
    g_test_add_func("/http/gate/origins", test_origins);
    g_test_add_func("/http/gate/tokens", test_tokens);
    g_test_add_func("/http/gate/strangers", test_strangers);
    g_test_add_func("/http/gate/own-peer", test_own_peer);
    g_test_add_func("/http/gate/other-peer", test_other_peer);
    g_test_add_func("/http/gate/targets", test_targets);
    return g_test_run();
}
