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
    g_test_add_func("/base/utf8/mark", test_mark);
    return g_test_run();
}
