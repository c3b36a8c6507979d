/* SPDX-License-Identifier: Apache-2.0 */
#include "apigen/pattern.h"

#include <string.h>

#include "apigen/wtf8.h"

static void
check(const char *pattern, const char *expected)
{
    g_autofree char *translated = ipb_pattern_translate(ipb_wtf8_from(pattern));
    g_assert_cmpstr(translated, ==, expected);
}

static void
test_equal(void)
{
    check("", "");
    check("^[A-Z]+-x$", "^[A-Z]+\\-x$");
    check("a|(b)|(?:c)", "a|(?:b)|(?:c)");
    check("a{2}b{1,}c{0,3}?d*?", "a{2}b{1,}c{0,3}?d*?");
    check("[^a&]", "[^a\\&]");
    check("\\/\\.\\u00e9\\x41\\t", "/\\.éA\\x{9}");
}

static void
test_written_out(void)
{
    check("\\d", "[0-9]");
    check("\\w", "[0-9A-Z_a-z]");
    check("\\D", "[^0-9]");
    check(".", "[^\\n\\r\\x{2028}\\x{2029}]");
    check("[\\d-]", "[[0-9]\\-]");
}

static void
test_refused(void)
{
    static const char *const REFUSED[] = {
        "(?=a)",
        "(a)\\1",
        "\\b",
        "\\p{L}",
        "(",
        ")",
        "[",
        "[]",
        "a**",
        "{",
        "x{2,1}",
        "x{1001}",
        "[b-a]",
        "\\",
        "[\\",
        "[\\d-z]",
        "[\\d-",
        "[a-",
        "\\u12",
        "\\ud800",
        "(a{1000}){1000}",
        "(\\S{100}){100}",
        NULL,
    };
    for (size_t i = 0; REFUSED[i] != NULL; i++)
        check(REFUSED[i], NULL);
    g_assert_null(ipb_pattern_translate((IpbSpan){"a\0b", 3}));
    g_assert_null(ipb_pattern_translate((IpbSpan){0}));
}

/* A pattern that is cut at any place, also within a character, is translated or refused, and
 * nothing after it is read. */
static void
test_every_prefix(void)
{
    const char *pattern = "^(?:[a-z\\d_é-]{1,20}|\\x41\\u0042[^\\s\\]]+?)\\.(x|y)*$";
    for (size_t size = 0; size <= strlen(pattern); size++) {
        g_autofree char *prefix = g_memdup2(pattern, MAX(size, 1));
        g_autofree char *translated = ipb_pattern_translate((IpbSpan){prefix, size});
        g_assert_true(translated == NULL || g_utf8_validate(translated, -1, NULL));
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/apigen/pattern/equal", test_equal);
    g_test_add_func("/apigen/pattern/written-out", test_written_out);
    g_test_add_func("/apigen/pattern/refused", test_refused);
    g_test_add_func("/apigen/pattern/every-prefix", test_every_prefix);
    return g_test_run();
}
