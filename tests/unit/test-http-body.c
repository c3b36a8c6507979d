/* SPDX-License-Identifier: Apache-2.0 */
#include "http/body.h"

#include <string.h>

static IpbHttpBody
begin(const char *header)
{
    g_autofree char *text = g_strdup_printf("POST / HTTP/1.1\r\nHost: a\r\n%s\r\n", header);
    IpbHttpHead head;
    IpbHttpBody body;
    size_t scanned = 0;
    g_assert_cmpint(ipb_http_head_parse_proxied(text, strlen(text), &scanned, &head), ==,
                    IPB_HTTP_HEAD_WHOLE);
    ipb_http_body_init(&body, &head);
    return body;
}

static void
test_none(void)
{
    IpbHttpBody body = begin("");
    g_assert_cmpint(body.state, ==, IPB_HTTP_BODY_DONE);
    g_assert_cmpuint(ipb_http_body_take(&body, "GET", 3), ==, 0);
    body = begin("Content-Length: 0\r\n");
    g_assert_cmpint(body.state, ==, IPB_HTTP_BODY_DONE);
}

static void
test_length(void)
{
    IpbHttpBody body = begin("Content-Length: 5\r\n");
    g_assert_cmpuint(ipb_http_body_take(&body, "abc", 3), ==, 3);
    g_assert_cmpint(body.state, ==, IPB_HTTP_BODY_LENGTH);
    g_assert_cmpuint(ipb_http_body_take(&body, "deGET / HTTP/1.1", 16), ==, 2);
    g_assert_cmpint(body.state, ==, IPB_HTTP_BODY_DONE);
}

/* The result is the same at once and byte by byte. */
static void
test_chunks(void)
{
    static const char TEXT[] = "3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1";
    const size_t size = strlen(TEXT) - strlen("GET / HTTP/1.1");
    IpbHttpBody body = begin("Transfer-Encoding: chunked\r\n");
    g_assert_cmpuint(ipb_http_body_take(&body, TEXT, strlen(TEXT)), ==, size);
    g_assert_cmpint(body.state, ==, IPB_HTTP_BODY_DONE);
    body = begin("transfer-encoding: Chunked\r\n");
    size_t taken = 0;
    for (size_t i = 0; i < strlen(TEXT); i++)
        taken += ipb_http_body_take(&body, TEXT + i, 1);
    g_assert_cmpuint(taken, ==, size);
    g_assert_cmpint(body.state, ==, IPB_HTTP_BODY_DONE);
}

/* What two readers could understand differently. */
static void
test_bad_chunks(void)
{
    static const char *const TEXTS[] = {
        "\r\n",
        "x\r\n",
        " 3\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "3;a=b\r\nabc\r\n",
        "3\nabc\n",
        "-3\r\n",
        "0x3\r\nabc\r\n",
        "3\r\nabcd\r\n",
        "3\r\nabc\n",
        "1234567890abcdef\r\n",
        "0\r\nTrailer: a\r\n\r\n",
        "0\r\n\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
        IpbHttpBody body = begin("Transfer-Encoding: chunked\r\n");
        ipb_http_body_take(&body, TEXTS[i], strlen(TEXTS[i]));
        if (body.state != IPB_HTTP_BODY_BAD)
            g_error("taken: %s", TEXTS[i]);
    }
}

/* In pieces of any size, the content is the same, and what follows is not taken. */
static void
test_content(void)
{
    static const char TEXT[] = "3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1";
    const size_t size = strlen(TEXT) - strlen("GET / HTTP/1.1");
    for (size_t step = 1; step <= strlen(TEXT); step++) {
        IpbHttpBody body = begin("Transfer-Encoding: chunked\r\n");
        g_autoptr(GString) content = g_string_new(NULL);
        size_t at = 0;
        for (size_t end = step; body.state != IPB_HTTP_BODY_DONE; end += step) {
            end = MIN(end, strlen(TEXT));
            IpbSpan piece;
            while (at < end && body.state != IPB_HTTP_BODY_DONE) {
                at += ipb_http_body_take_content(&body, TEXT + at, end - at, &piece);
                g_string_append_len(content, piece.start, (gssize) piece.size);
            }
        }
        g_assert_cmpstr(content->str, ==, "abc0123456789");
        g_assert_cmpuint(at, ==, size);
    }
    IpbHttpBody body = begin("Content-Length: 3\r\n");
    IpbSpan piece;
    g_assert_cmpuint(ipb_http_body_take_content(&body, "abcGET", 6, &piece), ==, 3);
    g_assert_cmpint(body.state, ==, IPB_HTTP_BODY_DONE);
    body = begin("Transfer-Encoding: chunked\r\n");
    ipb_http_body_take_content(&body, "3;a\r\nabc", 8, &piece);
    g_assert_cmpint(body.state, ==, IPB_HTTP_BODY_BAD);
    g_assert_cmpuint(piece.size, ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/http/body/none", test_none);
    g_test_add_func("/http/body/length", test_length);
    g_test_add_func("/http/body/chunks", test_chunks);
    g_test_add_func("/http/body/bad-chunks", test_bad_chunks);
    g_test_add_func("/http/body/content", test_content);
    return g_test_run();
}
