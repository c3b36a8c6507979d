/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

/* @bytes, decoded in one piece and in two pieces cut at every place, give @text. */
static void
check(const char *bytes, size_t size, const char *text, size_t text_size)
{
    for (size_t cut = 0; cut <= size; cut++) {
        IpbUtf8Decoder decoder = {0};
        g_autoptr(GString) out = g_string_new(NULL);
        ipb_utf8_decode(&decoder, bytes, cut, false, out);
        ipb_utf8_decode(&decoder, bytes + cut, size - cut, true, out);
        g_assert_cmpmem(out->str, out->len, text, text_size);
    }
}
#define CHECK(bytes, text) check(bytes, sizeof bytes - 1, text, sizeof text - 1)
#define R "\xef\xbf\xbd"

static void
test_decode(void)
{
    CHECK("", "");
    CHECK("plain", "plain");
    CHECK("é€😀", "é€😀");
    CHECK("a\0b", "a\0b");
    CHECK("a\xff"
          "b",
          "a" R "b");
    CHECK("\xc3", R);                     /* cut */
    CHECK("\xe2\x82", R);                 /* cut: one replacement for a valid beginning */
    CHECK("\xe2\x82\xe2\x82\xac", R "€"); /* a new sequence inside another */
    CHECK("\xc0\xaf", R R);               /* overlong */
    CHECK("\xed\xa0\x80", R R R);         /* surrogate */
    CHECK("\xf4\x90\x80\x80", R R R R);   /* beyond U+10FFFF */
    CHECK("\xf0\x9f\x98"
          "x",
          R "x");
}

/* Also long pieces: eight bytes are taken at a time, and an invalid one may be anywhere in them. */
static void
test_long(void)
{
    for (size_t n = 0; n < 40; n++) {
        g_autofree char *plain = g_strnfill(n, 'x');
        g_autoptr(GString) bytes = g_string_new(plain), text = g_string_new(plain);
        g_string_append_len(bytes, "\0é\xff€", 7);
        g_string_append(bytes, plain);
        g_string_append_len(text, "\0é" R "€", 9);
        g_string_append(text, plain);
        check(bytes->str, bytes->len, text->str, text->len);
    }
}

/* As one byte at a time. */
static void
check_count(const char *bytes, size_t size)
{
    size_t n_chars = 0;
    for (size_t i = 0; i < size; i++) {
        if (((unsigned char) bytes[i] & 0xc0) != 0x80)
            g_assert_cmpuint(ipb_utf8_size_of(bytes, size, n_chars++), ==, i);
        g_assert_cmpuint(ipb_utf8_count(bytes, i + 1), ==, n_chars);
    }
    g_assert_cmpuint(ipb_utf8_size_of(bytes, size, n_chars), ==, size);
    g_assert_cmpuint(ipb_utf8_size_of(bytes, size, SIZE_MAX), ==, size);
}

static void
test_count(void)
{
    char bytes[64];
    g_assert_cmpuint(ipb_utf8_count("", 0), ==, 0);
    g_assert_cmpuint(ipb_utf8_size_of("", 0, 1), ==, 0);
    check_count("ascii only, longer than a word", 30);
    check_count("é€😀é€😀é€😀é€😀", 36);
    check_count("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", 10);
    for (int round = 0; round < 1000; round++) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char) g_test_rand_int_range(0, 256);
        check_count(bytes, sizeof bytes);
    }
}

static void
test_mark(void)
{
    static const struct {
        const char *text, *rest; /* NULL: there is no mark */
    } CASES[] = {
        {"", NULL},
        {"\xef\xbb", NULL},
        {"x\xef\xbb\xbf", NULL},
        {"\xef\xbb\xbf", ""},
        {"\xef\xbb\xbf\xef\xbb\xbfx", "\xef\xbb\xbfx"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        const char *text = CASES[i].text;
        size_t size = strlen(text);
        g_assert_cmpint(ipb_utf8_skip_mark(&text, &size), ==, CASES[i].rest != NULL);
        g_assert_cmpstr(text, ==, CASES[i].rest != NULL ? CASES[i].rest : CASES[i].text);
        g_assert_cmpuint(size, ==, strlen(text));
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/utf8/decode", test_decode);
    g_test_add_func("/base/utf8/long", test_long);
    g_test_add_func("/base/utf8/count", test_count);
    g_test_add_func("/base/utf8/mark", test_mark);
    return g_test_run();
}
