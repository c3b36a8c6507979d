/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rows.h"

#include <string.h>

static void
check(const char *text, unsigned width, const char *wanted)
{
    g_autoptr(GPtrArray) rows = ipb_rows_new(text, width);
    g_ptr_array_add(rows, NULL);
    g_autofree char *joined = g_strjoinv("|", (char **) rows->pdata);
    g_assert_cmpstr(joined, ==, wanted);
}

static void
test_lines(void)
{
    check("", 20, "");
    check("a\nb", 20, "a|b");
    check("a\n\nb\n", 20, "a||b|");
}

static void
test_breaks(void)
{
    check("123456789012", 12, "123456789012");
    check("1234567890123", 12, "123456789012|  : 3");
    check("12345678901234567890123", 12, "123456789012|  : 34567890|  : 123");
    check("123456789012        Tool call: x", 12,
          "123456789012|  :         |  : Tool cal|  : l: x");
}

static void
test_widths(void)
{
    check("12345678901日本", 12, "12345678901|  : 日本");
    check("1234567890日本", 12, "1234567890日|  : 本");
    check("12345678901Ω", 12, "12345678901|  : Ω"); /* wide in some fonts */
    check("12345678901☠", 12, "12345678901|  : ☠");
    check("12345678901q\u0307\u0307", 12,
          "12345678901|  : q\u0307\u0307"); /* marks stay on their letter */
}

static void
test_a_narrow_screen(void)
{
    check("1234567890123", 1, "123456789012|  : 3");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/rows/lines", test_lines);
    g_test_add_func("/rows/breaks", test_breaks);
    g_test_add_func("/rows/widths", test_widths);
    g_test_add_func("/rows/a-narrow-screen", test_a_narrow_screen);
    return g_test_run();
}
