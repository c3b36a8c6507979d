/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/dns-message.h"

#include <string.h>

#include <glib.h>

#define QUERY_HEADER "\x12\x34\x01\x00\0\1\0\0\0\0\0\0"
#define HEADER_SIZE 12
#define A_IN "\0\1\0\1"

/* For literals that contain zeros. */
#define BYTES(text) (const uint8_t *) (text), sizeof(text) - 1

static IpbDnsCode
parse(const uint8_t *bytes, size_t size, IpbDnsQuery *ret_query)
{
    IpbDnsCode code;
    /* An exact allocation, so that a sanitizer sees a read past the end. */
    g_autofree uint8_t *copy = g_memdup2(bytes, size);
    g_assert_true(ipb_dns_query_parse(copy, size, ret_query, &code));
    return code;
}

static void
test_query(void)
{
    IpbDnsQuery query;
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\4gOOd\4test\0" A_IN), &query), ==, IPB_DNS_NO_ERROR);
    g_assert_cmpuint(query.id, ==, 0x1234);
    g_assert_true(query.is_recursion_desired);
    g_assert_false(query.has_edns);
    g_assert_true(query.is_host_name);
    g_assert_cmpstr(query.name, ==, "gOOd.test");
    g_assert_cmpuint(query.type, ==, IPB_DNS_TYPE_A);
    g_assert_cmpuint(query.class, ==, IPB_DNS_CLASS_IN);
}

static void
test_edns(void)
{
    IpbDnsQuery query;
    g_assert_cmpint(parse(BYTES("\0\1\0\0\0\1\0\0\0\0\0\1"
                                "\1a\0" A_IN "\0\0\x29\4\xd0\0\0\0\0\0\4\0\x0a\0\0"),
                          &query),
                    ==, IPB_DNS_NO_ERROR);
    g_assert_true(query.has_edns);
    g_assert_false(query.is_recursion_desired);
}

/* A query for a name that is not a host name is valid, but has no text. */
static void
test_odd_names(void)
{
    static const char *const NAMES[] = {"\3a.b\4test", "\3a b\4test", "\2\xc3\xa9\4test", "\1*\1a"};
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        g_byte_array_append(bytes, (const guint8 *) QUERY_HEADER, HEADER_SIZE);
        g_byte_array_append(bytes, (const guint8 *) NAMES[i], (guint) strlen(NAMES[i]) + 1);
        g_byte_array_append(bytes, (const guint8 *) A_IN, 4);
        IpbDnsQuery query;
        g_assert_cmpint(parse(bytes->data, bytes->len, &query), ==, IPB_DNS_NO_ERROR);
        g_assert_false(query.is_host_name);
        g_assert_cmpstr(query.name, ==, "");
    }
    IpbDnsQuery query;
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\0" A_IN), &query), ==, IPB_DNS_NO_ERROR);
    g_assert_false(query.is_host_name);
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\3a\0b\4test\0" A_IN), &query), ==, IPB_DNS_NO_ERROR);
    g_assert_false(query.is_host_name);
}

static void
test_malformed(void)
{
    IpbDnsQuery query;
    /* two questions, an answer, an authority, two additional records */
    g_assert_cmpint(parse(BYTES("\0\1\0\0\0\2\0\0\0\0\0\0\1a\0" A_IN "\1a\0" A_IN), &query), ==,
                    IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES("\0\1\0\0\0\1\0\1\0\0\0\0\1a\0" A_IN), &query), ==,
                    IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES("\0\1\0\0\0\1\0\0\0\1\0\0\1a\0" A_IN), &query), ==,
                    IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES("\0\1\0\0\0\1\0\0\0\0\0\2\1a\0" A_IN), &query), ==,
                    IPB_DNS_FORMAT_ERROR);
    /* none, no end, a pointer, bytes after it */
    g_assert_cmpint(parse(BYTES("\0\1\0\0\0\0\0\0\0\0\0\0"), &query), ==, IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES(QUERY_HEADER), &query), ==, IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\4good\4test"), &query), ==, IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\4go"), &query), ==, IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\1a\0\0\1\0"), &query), ==, IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\1a\xc0\x0c" A_IN), &query), ==,
                    IPB_DNS_FORMAT_ERROR);
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\1a\0" A_IN "x"), &query), ==, IPB_DNS_FORMAT_ERROR);
    /* the opcode of updates; a truncated query */
    g_assert_cmpint(parse(BYTES("\0\1\x28\0\0\1\0\0\0\0\0\0\1a\0" A_IN), &query), ==,
                    IPB_DNS_NOT_IMPLEMENTED);
    g_assert_cmpint(parse(BYTES("\0\1\2\0\0\1\0\0\0\0\0\0\1a\0" A_IN), &query), ==,
                    IPB_DNS_FORMAT_ERROR);
}

static void
test_no_reply_due(void)
{
    IpbDnsQuery query;
    IpbDnsCode code;
    g_assert_false(ipb_dns_query_parse(BYTES(""), &query, &code));
    g_assert_false(ipb_dns_query_parse(BYTES("\0\1\0\0\0\1\0\0\0\0\0"), &query, &code));
    g_assert_false(
        ipb_dns_query_parse(BYTES("\0\1\x80\0\0\1\0\0\0\0\0\0\1a\0" A_IN), &query, &code));
}

/* The longest name has 253 bytes of text. */
static void
test_longest(void)
{
    for (int last = 61; last <= 62; last++) {
        g_autoptr(GByteArray) bytes = g_byte_array_new();
        g_byte_array_append(bytes, (const guint8 *) QUERY_HEADER, HEADER_SIZE);
        for (int i = 0; i < 4; i++) {
            guint8 size = i < 3 ? 63 : (guint8) last;
            g_autofree char *label = g_strnfill(size, 'a');
            g_byte_array_append(bytes, &size, 1);
            g_byte_array_append(bytes, (const guint8 *) label, size);
        }
        g_byte_array_append(bytes, (const guint8 *) "\0" A_IN, 5);
        IpbDnsQuery query;
        IpbDnsCode code = parse(bytes->data, bytes->len, &query);
        g_assert_cmpint(code, ==, last == 61 ? IPB_DNS_NO_ERROR : IPB_DNS_FORMAT_ERROR);
        if (last == 61)
            g_assert_cmpuint(strlen(query.name), ==, 253);
    }
}

static void
test_reply(void)
{
    static const uint8_t ADDRESS[4] = {198, 18, 0, 1};
    uint8_t reply[IPB_DNS_MAX_REPLY];
    IpbDnsQuery query;
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\4gOOd\4test\0" A_IN), &query), ==, IPB_DNS_NO_ERROR);
    size_t size = ipb_dns_reply_write(&query, IPB_DNS_NO_ERROR, ADDRESS, 60, reply);
    g_assert_cmpmem(reply, size,
                    "\x12\x34\x81\x80\0\1\0\1\0\0\0\0\4gOOd\4test\0\0\1\0\1"
                    "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\0\1",
                    12 + 15 + 16);
    size = ipb_dns_reply_write(&query, IPB_DNS_NO_SUCH_NAME, NULL, 60, reply);
    g_assert_cmpmem(reply, size, "\x12\x34\x81\x83\0\1\0\0\0\0\0\0\4gOOd\4test\0\0\1\0\1", 12 + 15);
    query.has_edns = true;
    size = ipb_dns_reply_write(&query, IPB_DNS_REFUSED, NULL, 60, reply);
    g_assert_cmpmem(reply + 27, size - 27, "\0\0\x29\4\xd0\0\0\0\0\0\0", 11);
    g_assert_cmpint(parse(BYTES(QUERY_HEADER "\4go"), &query), ==, IPB_DNS_FORMAT_ERROR);
    size = ipb_dns_reply_write(&query, IPB_DNS_FORMAT_ERROR, NULL, 60, reply);
    g_assert_cmpmem(reply, size, "\x12\x34\x81\x81\0\0\0\0\0\0\0\0", 12);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/dns-message/query", test_query);
    g_test_add_func("/egress/dns-message/edns", test_edns);
    g_test_add_func("/egress/dns-message/odd-names", test_odd_names);
    g_test_add_func("/egress/dns-message/malformed", test_malformed);
    g_test_add_func("/egress/dns-message/no-reply-due", test_no_reply_due);
    g_test_add_func("/egress/dns-message/longest", test_longest);
    g_test_add_func("/egress/dns-message/reply", test_reply);
    return g_test_run();
}
