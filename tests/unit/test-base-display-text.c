/* SPDX-License-Identifier: Apache-2.0 */
#include "base/display-text.h"

#include <string.h>

static void
check(const char *text, size_t size, const char *wanted)
{
    g_autoptr(GString) out = g_string_new(NULL);
    ipb_display_text_quote(out, text, size);
    g_assert_cmpstr(out->str, ==, wanted);
}
#define CHECK(text, wanted) check(text, sizeof text - 1, "\"" wanted "\"")

static void
test_seen(void)
{
    CHECK("", "");
    CHECK("plain text, 1 + 1 = 2", "plain text, 1 + 1 = 2");
    CHECK("é ü Å ß € 日本語 Ωμέγα Привет 한국 ไทย हिन्दी 😀",
          "é ü Å ß € 日本語 Ωμέγα Привет 한국 ไทย हिन्दी 😀");
    CHECK("say \"a\\b\"", "say \\\"a\\\\b\\\"");
    CHECK("\xef\xbf\xbd", "\xef\xbf\xbd"); /* U+FFFD itself */
}

static void
test_controls(void)
{
    CHECK("a\nb\tc\r\b\f", "a\\nb\\tc\\r\\b\\f");
    CHECK("\0\x01\x1b[2J\x7f", "\\u0000\\u0001\\u001b[2J\\u007f");
    CHECK("\xc2\x85\xc2\x9b", "\\u0085\\u009b"); /* NEL, CSI */
    CHECK("\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029");
}

static void
test_unseen(void)
{
    CHECK("a\u00adb", "a\\u00adb"); /* soft hyphen */
    CHECK("\u200b\u200c\u200d\u2060\ufeff", "\\u200b\\u200c\\u200d\\u2060\\ufeff");
    CHECK("\u202e\u2066\u200e\u061c", "\\u202e\\u2066\\u200e\\u061c"); /* directions */
    CHECK("❤\ufe0f\U000e0100", "❤\\ufe0f\\udb40\\udd00");              /* variation selectors */
    CHECK("\U000e0041\U000e007f", "\\udb40\\udc41\\udb40\\udc7f");     /* tags */
    CHECK("\ue000\U000f0000\U0010fffd", "\\ue000\\udb80\\udc00\\udbff\\udffd"); /* private */
    CHECK("\u0378\ufdd0\U0001ffff", "\\u0378\\ufdd0\\ud83f\\udfff");            /* no characters */
    CHECK("\u3164\uffa0\u115f\u2800\U0001d159", "\\u3164\\uffa0\\u115f\\u2800\\ud834\\udd59");
    /* characters that look like a space */
    CHECK("a\u00a0b\u2003\u3000", "a\\u00a0b\\u2003\\u3000");
    CHECK("\u05d0 \u0627", "\\u05d0 \\u0627"); /* right to left */
    CHECK("\xed\xa0\x80", "\\ud800");          /* a lone surrogate */
    CHECK("\xff\xc3", "\\ufffd\\ufffd");
}

static void
test_marks(void)
{
    CHECK("q\u0307", "q\u0307");                   /* on a letter */
    CHECK("\u0307q", "\\u0307q");                  /* on the quotation mark */
    CHECK("a \u0307", "a \\u0307");                /* on a space */
    CHECK("e\u0301", "e\\u0301");                  /* not é */
    CHECK("\u1100\u1161", "\u1100\\u1161");        /* not 가 */
    CHECK("=\u0338 a\u0336", "=\\u0338 a\\u0336"); /* over the whole letter */
    CHECK("a\u20dd", "a\\u20dd");
    CHECK("q\u0307\u0307\u0307\u0307\u0307z", "q\u0307\u0307\u0307\\u0307\\u0307z");
    CHECK("q\u200b\u0307", "q\\u200b\\u0307");
}

static void
check_name(const char *name, const char *wanted)
{
    g_autoptr(GString) out = g_string_new(NULL);
    ipb_display_text_quote_name(out, name);
    g_assert_cmpstr(out->str, ==, wanted);
}

static void
test_names(void)
{
    check_name("read_file-2", "read_file-2");
    check_name("", "\"\"");
    check_name("a.b", "\"a.b\"");
    check_name("x\nAllow? [y]es: ", "\"x\\nAllow? [y]es: \"");
    check_name("é", "\"é\"");
    check_name("\"a\"", "\"\\\"a\\\"\"");
}

static void
test_ascii(void)
{
    g_autofree char *text = ipb_display_text_to_ascii("a: \"é€😀\"\n");
    g_assert_cmpstr(text, ==, "a: \"\\u00e9\\u20ac\\ud83d\\ude00\"\n");
}

static void
check_rows(const char *text, unsigned width, const char *wanted)
{
    g_autoptr(GPtrArray) rows = ipb_display_text_rows(text, width);
    g_ptr_array_add(rows, NULL);
    g_autofree char *joined = g_strjoinv("|", (char **) rows->pdata);
    g_assert_cmpstr(joined, ==, wanted);
}

static void
test_row_lines(void)
{
    check_rows("", 20, "");
    check_rows("a\nb", 20, "a|b");
    check_rows("a\n\nb\n", 20, "a||b|");
}

static void
test_row_breaks(void)
{
    check_rows("123456789012", 12, "123456789012");
    check_rows("1234567890123", 12, "123456789012|  : 3");
    check_rows("12345678901234567890123", 12, "123456789012|  : 34567890|  : 123");
    check_rows("123456789012        Tool call: x", 12,
               "123456789012|  :         |  : Tool cal|  : l: x");
}

static void
test_row_widths(void)
{
    check_rows("12345678901日本", 12, "12345678901|  : 日本");
    check_rows("1234567890日本", 12, "1234567890日|  : 本");
    check_rows("12345678901Ω", 12, "12345678901|  : Ω"); /* wide in some fonts */
    check_rows("12345678901☠", 12, "12345678901|  : ☠");
    check_rows("12345678901q\u0307\u0307", 12,
               "12345678901|  : q\u0307\u0307"); /* marks stay on their letter */
}

static void
test_a_narrow_screen(void)
{
    check_rows("1234567890123", 1, "123456789012|  : 3");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/display-text/seen", test_seen);
    g_test_add_func("/base/display-text/controls", test_controls);
    g_test_add_func("/base/display-text/unseen", test_unseen);
    g_test_add_func("/base/display-text/marks", test_marks);
    g_test_add_func("/base/display-text/names", test_names);
    g_test_add_func("/base/display-text/ascii", test_ascii);
    g_test_add_func("/base/display-text/rows/lines", test_row_lines);
    g_test_add_func("/base/display-text/rows/breaks", test_row_breaks);
    g_test_add_func("/base/display-text/rows/widths", test_row_widths);
    g_test_add_func("/base/display-text/rows/a-narrow-screen", test_a_narrow_screen);
    return g_test_run();
}
