/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/socks.h"

#include <string.h>

#define BYTES(text) (const uint8_t *) (text), sizeof(text) - 1

static void
test_greeting(void)
{
    size_t size = 0;
    g_assert_cmpint(ipb_socks_greeting_parse(BYTES("\5\2\2\0rest"), &size), ==, IPB_SOCKS_WHOLE);
    g_assert_cmpuint(size, ==, 4);
    g_assert_cmpint(ipb_socks_greeting_parse(BYTES(""), &size), ==, IPB_SOCKS_PARTIAL);
    g_assert_cmpint(ipb_socks_greeting_parse(BYTES("\5\2\2"), &size), ==, IPB_SOCKS_PARTIAL);
    g_assert_cmpint(ipb_socks_greeting_parse(BYTES("\5\1\2"), &size), ==, IPB_SOCKS_BAD);
    g_assert_cmpint(ipb_socks_greeting_parse(BYTES("\5\0"), &size), ==, IPB_SOCKS_BAD);
    g_assert_cmpint(ipb_socks_greeting_parse(BYTES("\4\1\0"), &size), ==, IPB_SOCKS_BAD);
    g_assert_cmpint(ipb_socks_greeting_parse(BYTES("GET"), &size), ==, IPB_SOCKS_BAD);
}

static void
assert_request(const uint8_t *bytes, size_t size, const char *expected)
{
    IpbSocksRequest request;
    for (size_t part = 0; part < size; part++)
        g_assert_cmpint(ipb_socks_request_parse(bytes, part, &request), ==, IPB_SOCKS_PARTIAL);
    g_assert_cmpint(ipb_socks_request_parse(bytes, size, &request), ==, IPB_SOCKS_WHOLE);
    g_assert_cmpuint(request.size, ==, size);
    g_autofree char *text = ipb_destination_to_text(&request.destination);
    g_assert_cmpstr(text, ==, expected);
}

static void
test_request(void)
{
    assert_request(BYTES("\5\1\0\3\x09Good.Test\1\xbb"), "good.test:443");
    assert_request(BYTES("\5\1\0\3\x09"
                         "127.0.0.1\0\x50"),
                   "127.0.0.1:80");
    assert_request(BYTES("\5\1\0\1\x7f\0\0\1\0\x16"), "127.0.0.1:22");
    assert_request(BYTES("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1\1\xbb"), "10.0.0.1:443");
    assert_request(BYTES("\5\1\0\4\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\1\xbb"),
                   "[2001:db8::1]:443");
}

static void
test_refused(void)
{
    static const struct {
        IpbSocksCode code;
        const char *bytes;
        size_t size;
    } rows[] = {
        {IPB_SOCKS_FAILED, "\4\1\0\1", 4},
        {IPB_SOCKS_FAILED, "\5\1\1\1", 4},
        {IPB_SOCKS_COMMAND_UNKNOWN, "\5\2\0\1", 4},
        {IPB_SOCKS_COMMAND_UNKNOWN, "\5\3\0\1", 4},
        {IPB_SOCKS_ADDRESS_UNKNOWN, "\5\1\0\2", 4},
        {IPB_SOCKS_NOT_ALLOWED, "\5\1\0\1\1\2\3\4\0\0", 10},
        {IPB_SOCKS_NOT_ALLOWED, "\5\1\0\3\0\1\xbb", 7},
        {IPB_SOCKS_NOT_ALLOWED, "\5\1\0\3\x09good\0test\1\xbb", 16},
        {IPB_SOCKS_NOT_ALLOWED, "\5\1\0\3\x02\xc3\xa9\1\xbb", 9},
        {IPB_SOCKS_NOT_ALLOWED, "\5\1\0\3\3a b\1\xbb", 10},
        {IPB_SOCKS_NOT_ALLOWED, "\5\1\0\3\4a..b\1\xbb", 11},
        {IPB_SOCKS_NOT_ALLOWED, "\5\1\0\3\5[::1%\1\xbb", 12},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        IpbSocksRequest request;
        IpbSocksState state =
            ipb_socks_request_parse((const uint8_t *) rows[i].bytes, rows[i].size, &request);
        if (state != IPB_SOCKS_BAD || request.code != rows[i].code)
            g_error("row %zu", i);
    }
}

static void
test_reply(void)
{
    uint8_t reply[IPB_SOCKS_REPLY_SIZE];
    ipb_socks_reply_write(IPB_SOCKS_NOT_ALLOWED, reply);
    g_assert_cmpmem(reply, sizeof reply, "\5\2\0\1\0\0\0\0\0\0", 10);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/socks/greeting", test_greeting);
    g_test_add_func("/egress/socks/request", test_request);
    g_test_add_func("/egress/socks/refused", test_refused);
    g_test_add_func("/egress/socks/reply", test_reply);
    return g_test_run();
}
