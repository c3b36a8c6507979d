/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/client-hello.h"

#include <string.h>

#include <glib.h>

/* Big-endian, in @size bytes. */
static void
put(GByteArray *out, guint64 value, int size)
{
    for (int shift = 8 * (size - 1); shift >= 0; shift -= 8) {
        guint8 byte = (guint8) (value >> shift);
        g_byte_array_append(out, &byte, 1);
    }
}

static void
put_bytes(GByteArray *out, const void *bytes, size_t size)
{
    g_byte_array_append(out, bytes, (guint) size);
}

static void
put_extension(GByteArray *out, unsigned type, const void *content, size_t size)
{
    put(out, type, 2);
    put(out, size, 2);
    put_bytes(out, content, size);
}

static void
put_server_name(GByteArray *out, const void *name, size_t size)
{
    g_autoptr(GByteArray) content = g_byte_array_new();
    put(content, size + 3, 2);
    put(content, 0, 1);
    put(content, size, 2);
    put_bytes(content, name, size);
    put_extension(out, 0, content->data, content->len);
}

/* The handshake message with these extensions; NULL: none. */
static GByteArray *
make_message(const GByteArray *extensions)
{
    g_autoptr(GByteArray) body = g_byte_array_new();
    put(body, 0x0303, 2);
    for (int i = 0; i < 4; i++)
        put(body, 0x0123456789abcdef, 8);
    put(body, 0, 1);
    put(body, 2, 2);
    put(body, 0x1301, 2);
    put(body, 1, 1);
    put(body, 0, 1);
    if (extensions != NULL) {
        put(body, extensions->len, 2);
        put_bytes(body, extensions->data, extensions->len);
    }
    GByteArray *message = g_byte_array_new();
    put(message, 1, 1);
    put(message, body->len, 3);
    put_bytes(message, body->data, body->len);
    return message;
}

/* The message in records of at most @record_size bytes. */
static GByteArray *
make_records(const GByteArray *message, size_t record_size)
{
    GByteArray *records = g_byte_array_new();
    for (size_t at = 0; at < message->len; at += record_size) {
        size_t size = MIN(record_size, message->len - at);
        put(records, 0x160301, 3);
        put(records, size, 2);
        put_bytes(records, message->data + at, size);
    }
    return records;
}

static GByteArray *
make_hello(const char *name, size_t record_size)
{
    g_autoptr(GByteArray) extensions = g_byte_array_new();
    put_extension(extensions, 10, "\0\2\0\x1d", 4);
    put_server_name(extensions, name, strlen(name));
    put_extension(extensions, 0xfe0d, "sealed", 6); /* ECH: the outer name counts */
    g_autoptr(GByteArray) message = make_message(extensions);
    return make_records(message, record_size);
}

static void
test_whole(void)
{
    g_autoptr(GByteArray) input = make_hello("Good.Test", 16384);
    IpbClientHello hello;
    put_bytes(input, "early data", 10);
    input->data[input->len - 10] = 23;
    g_assert_cmpint(ipb_client_hello_parse(input->data, input->len, &hello), ==,
                    IPB_CLIENT_HELLO_WHOLE);
    g_assert_true(hello.has_server_name);
    g_assert_cmpstr(hello.server_name, ==, "Good.Test");
}

static void
test_pieces(void)
{
    static const size_t RECORD_SIZES[] = {1, 3, 7, 50, 16384};
    for (size_t i = 0; i < G_N_ELEMENTS(RECORD_SIZES); i++) {
        g_autoptr(GByteArray) input = make_hello("good.test", RECORD_SIZES[i]);
        IpbClientHello hello;
        for (size_t size = 0; size < input->len; size++)
            g_assert_cmpint(ipb_client_hello_parse(input->data, size, &hello), ==,
                            IPB_CLIENT_HELLO_PARTIAL);
        g_assert_cmpint(ipb_client_hello_parse(input->data, input->len, &hello), ==,
                        IPB_CLIENT_HELLO_WHOLE);
        g_assert_cmpstr(hello.server_name, ==, "good.test");
    }
}

static void
test_without_name(void)
{
    g_autoptr(GByteArray) message = make_message(NULL);
    g_autoptr(GByteArray) input = make_records(message, 16384);
    IpbClientHello hello;
    g_assert_cmpint(ipb_client_hello_parse(input->data, input->len, &hello), ==,
                    IPB_CLIENT_HELLO_WHOLE);
    g_assert_false(hello.has_server_name);
    g_assert_cmpstr(hello.server_name, ==, "");
}

static void
assert_bad_message(const GByteArray *message)
{
    g_autoptr(GByteArray) input = make_records(message, 16384);
    IpbClientHello hello;
    g_assert_cmpint(ipb_client_hello_parse(input->data, input->len, &hello), ==,
                    IPB_CLIENT_HELLO_BAD);
    g_assert_nonnull(hello.reason);
}

static void
assert_bad_extensions(const GByteArray *extensions)
{
    g_autoptr(GByteArray) message = make_message(extensions);
    assert_bad_message(message);
}

static void
test_bad_names(void)
{
    static const struct {
        const char *name;
        size_t size;
    } NAMES[] = {{"", 0}, {"good.test\0.evil.test", 20}, {"a b", 3}, {"\xc3\xa9", 2}, {"a\n", 2}};
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++) {
        g_autoptr(GByteArray) extensions = g_byte_array_new();
        put_server_name(extensions, NAMES[i].name, NAMES[i].size);
        assert_bad_extensions(extensions);
    }
    g_autofree char *long_name = g_strnfill(256, 'a');
    g_autoptr(GByteArray) extensions = g_byte_array_new();
    put_server_name(extensions, long_name, 256);
    assert_bad_extensions(extensions);
}

/* Two parsers could choose different names. */
static void
test_several_names(void)
{
    g_autoptr(GByteArray) twice = g_byte_array_new();
    put_server_name(twice, "good.test", 9);
    put_server_name(twice, "evil.test", 9);
    assert_bad_extensions(twice);
    g_autoptr(GByteArray) list = g_byte_array_new();
    put_extension(list, 0, "\0\x08\0\0\1a\0\0\1b", 10);
    assert_bad_extensions(list);
    g_autoptr(GByteArray) other_type = g_byte_array_new();
    put_extension(other_type, 0, "\0\x04\1\0\1a", 6);
    assert_bad_extensions(other_type);
    g_autoptr(GByteArray) trailing = g_byte_array_new();
    put_extension(trailing, 0, "\0\x04\0\0\1ab", 7);
    assert_bad_extensions(trailing);
}

/* Every length field of the message is changed by one, in both directions. */
static void
test_bad_lengths(void)
{
    g_autoptr(GByteArray) extensions = g_byte_array_new();
    put_server_name(extensions, "good.test", 9);
    g_autoptr(GByteArray) message = make_message(extensions);
    const guint after_random = 4 + 2 + 32;
    const guint at[] = {3, after_random, after_random + 2, after_random + 7, after_random + 11};
    for (size_t i = 0; i < G_N_ELEMENTS(at); i++) {
        for (int change = -1; change <= 1; change += 2) {
            g_autoptr(GByteArray) broken = g_byte_array_new();
            put_bytes(broken, message->data, message->len);
            broken->data[at[i]] = (guint8) (broken->data[at[i]] + change);
            g_autoptr(GByteArray) input = make_records(broken, 16384);
            IpbClientHello hello;
            g_assert_cmpint(ipb_client_hello_parse(input->data, input->len, &hello), !=,
                            IPB_CLIENT_HELLO_WHOLE);
        }
    }
}

static void
test_not_tls(void)
{
    static const char *const TEXTS[] = {
        "GET / HTTP/1.1\r\n\r\n",
        "SSH-2.0-x",
        "\x16\x02",
        "\x15\x03\x03\x01\x02\x02\x28",
        "\x80\x2e\x01\x03\x01", /* SSLv2's way */
        "\x16\x03\x01\x40\x01",
        "\x16\x03\x01\x01\x01\x02",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
        IpbClientHello hello;
        if (ipb_client_hello_parse((const uint8_t *) TEXTS[i], strlen(TEXTS[i]), &hello) !=
            IPB_CLIENT_HELLO_BAD)
            g_error("row %zu was not refused", i);
    }
    const uint8_t empty_record[] = {0x16, 3, 1, 0, 0};
    IpbClientHello hello;
    g_assert_cmpint(ipb_client_hello_parse(empty_record, sizeof empty_record, &hello), ==,
                    IPB_CLIENT_HELLO_BAD);
}

static void
test_too_large(void)
{
    g_autoptr(GByteArray) extensions = g_byte_array_new();
    g_autofree char *padding = g_malloc0(17 * 1024);
    put_extension(extensions, 21, padding, 17 * 1024);
    put_server_name(extensions, "good.test", 9);
    assert_bad_extensions(extensions);
    /* A message that never ends is refused. */
    g_autoptr(GByteArray) message = g_byte_array_new();
    put(message, 1, 1);
    put(message, 16000, 3);
    put_bytes(message, padding, 8000);
    g_autoptr(GByteArray) input = make_records(message, 1);
    IpbClientHello hello;
    g_assert_cmpuint(input->len, >, IPB_CLIENT_HELLO_MAX_INPUT);
    g_assert_cmpint(ipb_client_hello_parse(input->data, IPB_CLIENT_HELLO_MAX_INPUT, &hello), ==,
                    IPB_CLIENT_HELLO_BAD);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/egress/client-hello/whole", test_whole);
    g_test_add_func("/egress/client-hello/pieces", test_pieces);
    g_test_add_func("/egress/client-hello/without-name", test_without_name);
    g_test_add_func("/egress/client-hello/bad-names", test_bad_names);
    g_test_add_func("/egress/client-hello/several-names", test_several_names);
    g_test_add_func("/egress/client-hello/bad-lengths", test_bad_lengths);
    g_test_add_func("/egress/client-hello/not-tls", test_not_tls);
    g_test_add_func("/egress/client-hello/too-large", test_too_large);
    return g_test_run();
}
