/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

/* @bytes decoded whole, and in two pieces cut at every place, gives @text. */
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

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/utf8/decode", test_decode);
    return g_test_run();
}
