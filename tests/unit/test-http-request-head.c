/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request-head.h"

#include <string.h>

static IpbHttpHeadState
parse(const char *text, IpbHttpHead *head)
{
    size_t scanned = 0;
    return ipb_http_head_parse(text, strlen(text), &scanned, head);
}

static void
test_whole(void)
{
    const char *text = "POST /run HTTP/1.1\r\nHost: localhost:8900\r\ncontent-LENGTH: 007\r\n"
                       "X-Empty:\r\nX-Trim: \t a b \t\r\nX-Latin: \xe9\r\n\r\n1234567GET";
    IpbHttpHead head;
    g_assert_cmpint(parse(text, &head), ==, IPB_HTTP_HEAD_WHOLE);
    g_assert_true(ipb_span_equal(head.method, "POST"));
    g_assert_true(ipb_span_equal(head.target, "/run"));
    g_assert_true(ipb_span_equal(head.host, "localhost:8900"));
    g_assert_false(head.is_http_1_0);
    g_assert_true(head.has_content_length);
    g_assert_cmpuint(head.content_length, ==, 7);
    g_assert_cmpstr(text + head.size, ==, "1234567GET");
    g_assert_cmpuint(head.n_headers, ==, 5);
    IpbSpan value;
    g_assert_true(ipb_http_head_get(&head, "x-trim", &value));
    g_assert_true(ipb_span_equal(value, "a b"));
    g_assert_true(ipb_http_head_get(&head, "x-empty", &value) && value.size == 0);
    g_assert_false(ipb_http_head_get(&head, "x-emp", &value));
}

static void
test_pieces(void)
{
    const char *text = "GET / HTTP/1.0\r\nHost: a\r\n\r\n";
    IpbHttpHead head;
    size_t scanned = 0;
    for (size_t size = 0; size < strlen(text); size++)
        g_assert_cmpint(ipb_http_head_parse(text, size, &scanned, &head), ==,
                        IPB_HTTP_HEAD_PARTIAL);
    g_assert_cmpint(ipb_http_head_parse(text, strlen(text), &scanned, &head), ==,
                    IPB_HTTP_HEAD_WHOLE);
    g_assert_true(head.is_http_1_0);
    g_assert_false(head.has_content_length);
}

/* Requests that one of two readers would understand differently, and malformed ones. */
static void
test_refused(void)
{
    static const struct {
        unsigned status;
        const char *text;
    } rows[] = {
        {400, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET / HTTP/1.1\nHost: a\n\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\n\r\n"},
        {400, "GET /\r\nHost: a\r\n\r\n"},
        {400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"},
        {400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"},
        {400, "GET / http/1.1\r\nHost: a\r\n\r\n"},
        {505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"},
        {505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nhOST: a\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nX: a\x7f\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nx: 2\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551617\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: x\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
        {400, "GET / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400,
         "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        IpbHttpHead head = {0};
        g_test_message("%s", rows[i].text);
        g_assert_cmpint(parse(rows[i].text, &head), ==, IPB_HTTP_HEAD_BAD);
        g_assert_cmpuint(head.status, ==, rows[i].status);
        g_assert_nonnull(head.reason);
    }
}

static void
test_nul_bytes(void)
{
    IpbHttpHead head;
    size_t scanned = 0;
    const char in_value[] = "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n";
    g_assert_cmpint(ipb_http_head_parse(in_value, sizeof in_value - 1, &scanned, &head), ==,
                    IPB_HTTP_HEAD_BAD);
    scanned = 0;
    const char in_name[] = "GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n";
    g_assert_cmpint(ipb_http_head_parse(in_name, sizeof in_name - 1, &scanned, &head), ==,
                    IPB_HTTP_HEAD_BAD);
}

static void
test_limits(void)
{
    IpbHttpHead head;
    g_autoptr(GString) many = g_string_new("GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 1; i < IPB_HTTP_MAX_HEADERS; i++)
        g_string_append_printf(many, "X-%d: %d\r\n", i, i);
    gsize exactly = many->len;
    g_string_append(many, "\r\n");
    g_assert_cmpint(parse(many->str, &head), ==, IPB_HTTP_HEAD_WHOLE);
    g_string_truncate(many, exactly);
    g_string_append(many, "One-More: 1\r\n\r\n");
    g_assert_cmpint(parse(many->str, &head), ==, IPB_HTTP_HEAD_BAD);
    g_assert_cmpuint(head.status, ==, 431);

    g_autoptr(GString) large = g_string_new("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    while (large->len < IPB_HTTP_MAX_HEAD - 4)
        g_string_append_c(large, 'x');
    g_assert_cmpint(parse(large->str, &head), ==, IPB_HTTP_HEAD_PARTIAL);
    g_string_append(large, "\r\n\r\n");
    g_assert_cmpuint(large->len, ==, IPB_HTTP_MAX_HEAD);
    g_assert_cmpint(parse(large->str, &head), ==, IPB_HTTP_HEAD_WHOLE);
    g_string_insert_c(large, 40, 'x');
    g_assert_cmpint(parse(large->str, &head), ==, IPB_HTTP_HEAD_BAD);
    g_assert_cmpuint(head.status, ==, 431);
}

/* Heads that are allowed for a proxy, but not for our servers. */
static void
test_proxied(void)
{
    static const struct {
        unsigned status; /* 0: valid */
        const char *text;
    } rows[] = {
        {0, "CONNECT a:443 HTTP/1.0\r\n\r\n"},
        {0, "POST http://a/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost:\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"},
        {400, "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
              "Content-Length: 1\r\n\r\n"},
        {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        IpbHttpHead head;
        size_t scanned = 0;
        IpbHttpHeadState state =
            ipb_http_head_parse_proxied(rows[i].text, strlen(rows[i].text), &scanned, &head);
        if (state != (rows[i].status == 0 ? IPB_HTTP_HEAD_WHOLE : IPB_HTTP_HEAD_BAD) ||
            (rows[i].status != 0 && head.status != rows[i].status))
            g_error("row %zu: %s", i, rows[i].text);
    }
}

static void
test_chunked(void)
{
    IpbHttpHead head = {0};
    g_assert_cmpint(parse("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", &head),
                    ==, IPB_HTTP_HEAD_WHOLE);
    g_assert_true(head.is_chunked && !head.has_content_length);
    g_assert_cmpint(parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &head), ==, IPB_HTTP_HEAD_WHOLE);
    g_assert_false(head.is_chunked);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http/request-head/whole", test_whole);
    g_test_add_func("/http/request-head/pieces", test_pieces);
    g_test_add_func("/http/request-head/refused", test_refused);
    g_test_add_func("/http/request-head/nul-bytes", test_nul_bytes);
    g_test_add_func("/http/request-head/limits", test_limits);
    g_test_add_func("/http/request-head/proxied", test_proxied);
    g_test_add_func("/http/request-head/chunked", test_chunked);
    return g_test_run();
}
