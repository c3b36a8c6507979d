/* SPDX-License-Identifier: Apache-2.0
 *
 * Docstrings and literals. tests/integration/test_apigen.py checks that Python reads them back.
 */
#include "apigen/docstring.h"

#include <string.h>

#include "apigen/literal.h"
#include "apigen/wtf8.h"

static void
check(const char *text, const char *notes, const char *expected)
{
    g_autoptr(GString) out = g_string_new(NULL);
    g_assert_true(ipb_docstring_append(out, 4, ipb_wtf8_from(text), notes));
    g_assert_cmpstr(out->str, ==, expected);
}

static void
test_escapes(void)
{
    check("plain", NULL, "    \"\"\"plain\"\"\"\n");
    check("say \"x\" now", NULL, "    \"\"\"say \"x\" now\"\"\"\n");
    check("ends \"x\"", NULL, "    \"\"\"ends \"x\\\"\"\"\"\n");
    check("\"\"\"", NULL, "    \"\"\"\"\\\"\\\"\"\"\"\n");
    check("\\", NULL, "    \"\"\"\\\\\"\"\"\n");
    check("\\\"", NULL, "    \"\"\"\\\\\\\"\"\"\"\n");
    check("\\d+", NULL, "    \"\"\"\\\\d+\"\"\"\n");
    check("a\xe2\x80\xae"
          "b\x01"
          "c\xed\xa0\x80",
          NULL,
          "    \"\"\"a\xef\xbf\xbd"
          "b\xef\xbf\xbd"
          "c\xef\xbf\xbd\"\"\"\n");
    check("é\xff", NULL, "    \"\"\"é\xef\xbf\xbd\"\"\"\n");
}

static void
test_lines(void)
{
    check("a\r\nb\rc\xe2\x80\xa8"
          "d\x0c"
          "e",
          NULL, "    \"\"\"a\n    b\n    c\n    d\n    e\n    \"\"\"\n");
    check("\n\n  first\n    second\n\n\n\n  third  \n \n", NULL,
          "    \"\"\"first\n      second\n\n    third\n    \"\"\"\n");
    check("first\n\n        Args:\n            x: y", NULL,
          "    \"\"\"first\n\n    Args:\n        x: y\n    \"\"\"\n");
}

static void
test_notes(void)
{
    check("URL", "format: uri", "    \"\"\"URL (format: uri)\"\"\"\n");
    check("URL", "format: uri\npattern: x",
          "    \"\"\"URL\n    format: uri\n    pattern: x\n    \"\"\"\n");
    check(NULL, "format: uri", "    \"\"\"format: uri\"\"\"\n");
    g_autoptr(GString) out = g_string_new(NULL);
    g_assert_false(ipb_docstring_append(out, 4, (IpbSpan){0}, NULL));
    g_assert_false(ipb_docstring_append(out, 4, ipb_wtf8_from(" \n\t"), ""));
    g_assert_cmpstr(out->str, ==, "");
}

static void
test_wrapping(void)
{
    g_autoptr(GString) text = g_string_new("- item");
    for (int i = 0; i < 60; i++)
        g_string_append(text, " word");
    g_autoptr(GString) out = g_string_new(NULL);
    ipb_docstring_append(out, 4, ipb_wtf8_from(text->str), NULL);
    g_auto(GStrv) lines = g_strsplit(out->str, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 6);
    for (char **line = lines; *line != NULL; line++)
        g_assert_cmpuint(strlen(*line), <=, 100);
    g_assert_true(g_str_has_prefix(lines[1], "      word")); /* under the item's text */
    /* A long word is not broken. */
    g_autofree char *word = g_strnfill(150, 'w');
    g_autofree char *expected = g_strdup_printf("    \"\"\"%s\n    x\n    \"\"\"\n", word);
    g_autofree char *both = g_strdup_printf("%s x", word);
    check(both, NULL, expected);
}

static void
test_length(void)
{
    g_autofree char *text = g_strnfill(100000, 'x');
    g_autoptr(GString) out = g_string_new(NULL);
    ipb_docstring_append(out, 0, ipb_wtf8_from(text), NULL);
    g_assert_cmpuint(out->len, <, 20100);
    g_assert_nonnull(strstr(out->str, "the rest is cut"));
}

static void
test_literal(void)
{
    g_autoptr(GString) out = g_string_new(NULL);
    ipb_literal_append_string(
        out, (IpbSpan){"a\"\\\n\t\r\0é\x7f\xe2\x80\xa8\xed\xa0\x80\xf3\xa0\x81\x81", 20});
    g_assert_cmpstr(out->str, ==, "\"a\\\"\\\\\\n\\t\\x0d\\x00é\\x7f\\u2028\\ud800\\U000e0041\"");
}

static void
check_value(const char *json, const char *expected)
{
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(json, strlen(json), &IPB_JSON_LIMITS_SMALL, NULL);
    g_autoptr(GString) out = g_string_new(NULL);
    g_assert_cmpint(ipb_literal_append_scalar(out, ipb_json_root(doc)), ==, expected != NULL);
    g_assert_cmpstr(out->str, ==, expected != NULL ? expected : "");
}

static void
test_value(void)
{
    check_value("null", "None");
    check_value("true", "True");
    check_value("0.10", "0.10");
    check_value("1e300", "1e300");
    check_value("1e400", NULL);
    check_value("1180591620717411303424", "1180591620717411303424");
    check_value("\"x\"", "\"x\"");
    check_value("[]", NULL);
    check_value("{}", NULL);
    g_autofree char *digits = g_strnfill(5000, '1');
    check_value(digits, NULL);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/apigen/docstring/escapes", test_escapes);
    g_test_add_func("/apigen/docstring/lines", test_lines);
    g_test_add_func("/apigen/docstring/notes", test_notes);
    g_test_add_func("/apigen/docstring/wrapping", test_wrapping);
    g_test_add_func("/apigen/docstring/length", test_length);
    g_test_add_func("/apigen/literal/string", test_literal);
    g_test_add_func("/apigen/literal/scalar", test_value);
    return g_test_run();
}
