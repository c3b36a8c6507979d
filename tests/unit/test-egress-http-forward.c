/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/http-forward.h"

#include <string.h>

static IpbHttpHead
parse_head(const char *text)
{
    IpbHttpHead head;
    size_t scanned = 0;
    if (ipb_http_head_parse_proxied(text, strlen(text), &scanned, &head) != IPB_HTTP_HEAD_WHOLE)
        g_error("no head: %s", text);
    return head;
}

static void
assert_destination(const IpbDestination *destination, const char *expected)
{
    g_autofree char *text = ipb_destination_to_text(destination);
    g_assert_cmpstr(text, ==, expected);
}

static void
test_connect(void)
{
    static const struct {
        const char *text, *destination;
    } rows[] = {
        {"CONNECT Good.Test.:443 HTTP/1.1\r\nHost: good.test:443\r\n\r\n", "good.test:443"},
        {"CONNECT good.test:443 HTTP/1.0\r\n\r\n", "good.test:443"},
        {"CONNECT good.test:8443 HTTP/1.1\r\nHost: good.test\r\n\r\n", "good.test:8443"},
        {"CONNECT [2001:DB8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n\r\n",
         "[2001:db8::1]:443"},
        {"CONNECT 127.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n", "127.0.0.1:443"},
        {"CONNECT [::ffff:10.0.0.1]:80 HTTP/1.1\r\nHost: 10.0.0.1:80\r\n\r\n", "10.0.0.1:80"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        IpbHttpHead head = parse_head(rows[i].text);
        IpbHttpForward request;
        const char *reason;
        if (!ipb_http_forward_parse_proxy(&head, &request, &reason))
            g_error("%s: %s", rows[i].text, reason);
        g_assert_true(request.is_connect);
        assert_destination(&request.destination, rows[i].destination);
    }
}

static void
test_refused(void)
{
    static const char *const TEXTS[] = {
        "CONNECT good.test HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT good.test:0 HTTP/1.1\r\nHost: good.test:0\r\n\r\n",
        "CONNECT good.test:65536 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT good.test:0443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT :443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT /path HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT http://good.test:443/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT user@good.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT good.test:443:443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT ::1:443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT good%2etest:443 HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "CONNECT good.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
        "CONNECT good.test:443 HTTP/1.1\r\nHost: good.test:80\r\n\r\n",
        "CONNECT good.test:443 HTTP/1.1\r\nHost: good.test\r\nContent-Length: 1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET good.test HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET //good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET https://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET ftp://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET http:///path HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET http://good.test/ HTTP/1.0\r\n\r\n",
        "GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "GET http://good.test/ HTTP/1.1\r\nHost: good.test:8080\r\n\r\n",
        "GET http://good.test:8080/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET http://good.test@evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET http://good.test#@evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET http://good.test\\@evil.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n",
        "GET http://good.test/ HTTP/1.1\r\nHost: good.test, evil.test\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: good.test\r\n\r\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
        IpbHttpHead head = parse_head(TEXTS[i]);
        IpbHttpForward request;
        const char *reason = NULL;
        if (ipb_http_forward_parse_proxy(&head, &request, &reason))
            g_error("taken: %s", TEXTS[i]);
        g_assert_nonnull(reason);
    }
}

static void
assert_rewritten_for(const char *text, bool is_for_proxy, const char *authorization,
                     const char *expected)
{
    IpbHttpHead head = parse_head(text);
    IpbHttpForward request;
    const char *reason;
    if (!ipb_http_forward_parse_proxy(&head, &request, &reason))
        g_error("%s: %s", text, reason);
    g_autoptr(GString) rewritten =
        ipb_http_forward_rewrite(&head, &request, is_for_proxy, authorization);
    g_assert_cmpstr(rewritten->str, ==, expected);
}

static void
assert_rewritten(const char *text, const char *expected)
{
    assert_rewritten_for(text, false, NULL, expected);
}

/* Headers for our proxy are not sent to the next proxy, and vice versa. */
static void
test_rewrite_for_proxy(void)
{
    assert_rewritten_for("GET http://Good.Test:8080?q HTTP/1.1\r\nHost: good.test:8080\r\n"
                         "Proxy-Authorization: Basic x\r\n\r\n",
                         true, "Basic y",
                         "GET http://good.test:8080/?q HTTP/1.1\r\nHost: good.test:8080\r\n"
                         "Proxy-Authorization: Basic y\r\nConnection: close\r\n\r\n");
    assert_rewritten_for("GET http://[2001:db8::1]/a HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n", true,
                         NULL,
                         "GET http://[2001:db8::1]/a HTTP/1.1\r\nHost: [2001:db8::1]\r\n"
                         "Connection: close\r\n\r\n");
}

/* The answer of a proxy repeats the request, so the password would get into the sandbox. */
static void
test_trace_has_no_password(void)
{
    assert_rewritten_for(
        "TRACE http://good.test/ HTTP/1.1\r\nHost: good.test\r\nMax-Forwards: 0\r\n\r\n", true,
        "Basic y",
        "TRACE http://good.test/ HTTP/1.1\r\nHost: good.test\r\nMax-Forwards: 0\r\n"
        "Connection: close\r\n\r\n");
    assert_rewritten_for(
        "trace http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", true, "Basic y",
        "trace http://good.test/ HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n");
}

static void
test_rewrite(void)
{
    assert_rewritten("GET http://Good.Test/a?b=http://x/ HTTP/1.1\r\nAccept: *\r\n"
                     "Host: GOOD.test.\r\nProxy-Authorization: Basic x\r\n"
                     "Proxy-Connection: keep-alive\r\nUser-Agent: y\r\n\r\n",
                     "GET /a?b=http://x/ HTTP/1.1\r\nHost: good.test\r\nAccept: *\r\n"
                     "User-Agent: y\r\nConnection: close\r\n\r\n");
    assert_rewritten("POST HTTP://good.test:8080?q HTTP/1.1\r\nhost: good.test:8080\r\n"
                     "content-length: 3\r\nTE: trailers\r\n\r\n",
                     "POST /?q HTTP/1.1\r\nHost: good.test:8080\r\ncontent-length: 3\r\n"
                     "Connection: close\r\n\r\n");
    assert_rewritten("GET http://[2001:db8::1] HTTP/1.0\r\nHost: [2001:db8::1]\r\n\r\n",
                     "GET / HTTP/1.0\r\nHost: [2001:db8::1]\r\nConnection: close\r\n\r\n");
}

/* A client may declare headers as hop-by-hop, but not those that frame the request. */
static void
test_hop_by_hop(void)
{
    assert_rewritten(
        "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\n"
        "Connection: keep-alive, X-Secret ,content-length, host,, transfer-encoding\r\n"
        "Keep-Alive: 1\r\nX-Secret: a\r\nx-other: b\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.test\r\nx-other: b\r\nContent-Length: 2\r\n"
        "Connection: close\r\n\r\n");
    assert_rewritten("POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nUpgrade: h2c\r\n"
                     "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n",
                     "POST / HTTP/1.1\r\nHost: good.test\r\nTransfer-Encoding: chunked\r\n"
                     "Connection: close\r\n\r\n");
}

static void
test_web_socket(void)
{
    assert_rewritten("GET http://good.test/ws HTTP/1.1\r\nHost: good.test\r\n"
                     "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
                     "Sec-WebSocket-Key: x\r\n\r\n",
                     "GET /ws HTTP/1.1\r\nHost: good.test\r\nSec-WebSocket-Key: x\r\n"
                     "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_rewritten("POST http://good.test/ws HTTP/1.1\r\nHost: good.test\r\n"
                     "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
                     "POST /ws HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n\r\n");
}

/* Requests on port 80 without a proxy. */
static void
test_origin(void)
{
    IpbDestination destination = {.port = 80};
    g_assert_true(ipb_hostname_parse("good.test", 9, &destination.host, NULL));
    static const struct {
        bool is_taken;
        const char *text, *host;
    } rows[] = {
        {true, "GET /a HTTP/1.1\r\nHost: Good.test\r\n\r\n", "good.test:80"},
        {true, "GET /a HTTP/1.1\r\nHost: evil.test\r\n\r\n", "evil.test:80"}, /* the caller's */
        {true, "OPTIONS * HTTP/1.1\r\nHost: good.test:80\r\n\r\n", "good.test:80"},
        {false, "GET * HTTP/1.1\r\nHost: good.test\r\n\r\n", NULL},
        {false, "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n", NULL},
        {false, "CONNECT good.test:80 HTTP/1.1\r\nHost: good.test\r\n\r\n", NULL},
        {false, "GET / HTTP/1.0\r\n\r\n", NULL},
        {false, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        IpbHttpHead head = parse_head(rows[i].text);
        IpbHttpForward request;
        const char *reason;
        if (ipb_http_forward_parse_origin(&head, &destination, &request, &reason) !=
            rows[i].is_taken)
            g_error("row %zu: %s", i, rows[i].text);
        if (rows[i].is_taken)
            assert_destination(&request.host, rows[i].host);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/http-forward/connect", test_connect);
    g_test_add_func("/egress/http-forward/refused", test_refused);
    g_test_add_func("/egress/http-forward/rewrite", test_rewrite);
    g_test_add_func("/egress/http-forward/rewrite-for-proxy", test_rewrite_for_proxy);
    g_test_add_func("/egress/http-forward/trace-has-no-password", test_trace_has_no_password);
    g_test_add_func("/egress/http-forward/hop-by-hop", test_hop_by_hop);
    g_test_add_func("/egress/http-forward/web-socket", test_web_socket);
    g_test_add_func("/egress/http-forward/origin", test_origin);
    return g_test_run();
}
