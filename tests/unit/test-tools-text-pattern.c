/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/text-pattern.h"

#include <string.h>

#include "base/error.h"

static bool
matches(const char *pattern_text, const char *text)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbTextPattern) pattern = ipb_text_pattern_new(pattern_text, &error);
    g_assert_no_error(error);
    return ipb_text_pattern_matches(pattern, text, strlen(text));
}

static void
test_literal(void)
{
    g_assert_true(matches("", ""));
    g_assert_false(matches("", "a"));
    g_assert_true(matches("grüße", "grüße"));
    g_assert_false(matches("abc", "ab"));
    g_assert_false(matches("abc", "abcd"));
    g_assert_true(matches("a\\*b\\\\", "a*b\\"));
    g_assert_false(matches("a\\*b", "axb"));
}

static void
test_star(void)
{
    g_assert_true(matches("*", ""));
    g_assert_true(matches("*", "abc"));
    g_assert_false(matches("*", "a/b"));
    g_assert_true(matches("read_*", "read_file"));
    g_assert_false(matches("read_*", "unread_file"));
    g_assert_true(matches("a*b*c", "aXbYbZc"));
    g_assert_false(matches("a*b*c", "aXbYbZ"));
    g_assert_true(matches("/tmp/*.txt", "/tmp/a.txt"));
    g_assert_false(matches("/tmp/*.txt", "/tmp/a/b.txt"));
    g_assert_true(matches("a*é", "aéaé"));
}

static void
test_double_star(void)
{
    g_assert_true(matches("**", "a/b/c"));
    g_assert_true(matches("/tmp/**", "/tmp/a/b"));
    g_assert_true(matches("/tmp/**", "/tmp/"));
    g_assert_false(matches("/tmp/**", "/tmp"));
    g_assert_true(matches("**/x/*", "a/x/x/y"));
    g_assert_false(matches("**/x/*", "a/x/y/z"));
    g_assert_true(matches("***", "a/b"));
}

static void
test_characters(void)
{
    g_assert_true(matches("a?c", "abc"));
    g_assert_true(matches("a?c", "a€c"));
    g_assert_true(matches("??", "€😀"));
    g_assert_false(matches("?", "ab"));
    g_assert_false(matches("?", "/"));
    g_assert_true(matches("file[0-9].txt", "file7.txt"));
    g_assert_false(matches("file[0-9].txt", "filex.txt"));
    g_assert_true(matches("[]a]", "]"));
    g_assert_true(matches("[!a-c]", "d"));
    g_assert_true(matches("[!a-c]x", "éx"));
    g_assert_false(matches("[!a-c]", "b"));
    g_assert_false(matches("[!a]", "/"));
    g_assert_true(matches("[a-]", "-"));
}

static void
test_bytes(void)
{
    g_autoptr(IpbTextPattern) pattern = ipb_text_pattern_new("a**b", NULL);
    g_assert_true(ipb_text_pattern_matches(pattern, "a\0b", 3));
    g_assert_false(ipb_text_pattern_matches(pattern, "a\0", 2));
    g_assert_true(ipb_text_pattern_has_wildcard(pattern));
    g_autoptr(IpbTextPattern) literal = ipb_text_pattern_new("a\\?", NULL);
    g_assert_false(ipb_text_pattern_has_wildcard(literal));
}

static void
test_long(void)
{
    /* Backtracking would take forever for this. */
    g_autoptr(GString) pattern = g_string_new(NULL);
    for (int i = 0; i < 100; i++)
        g_string_append(pattern, i % 2 == 0 ? "**a" : "*a");
    g_autofree char *text = g_strnfill(1000000, 'a');
    g_assert_true(matches(pattern->str, text));
    text[999999] = 'b';
    g_assert_false(matches(pattern->str, text));
    /* Patterns that need several words of the state set. */
    g_autofree char *literal = g_strnfill(500, 'x');
    g_autofree char *with_star = g_strconcat(literal, "*y", NULL);
    g_autofree char *subject = g_strconcat(literal, "zzy", NULL);
    g_assert_true(matches(with_star, subject));
    g_assert_false(matches(with_star, subject + 1));
}

static void
test_invalid(void)
{
    static const char *const PATTERNS[] = {"[", "[]", "[a", "[!", "[b-a]", "[é]", "a\\", "[a-"};
    for (size_t i = 0; i < G_N_ELEMENTS(PATTERNS); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(ipb_text_pattern_new(PATTERNS[i], &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    }
    g_autofree char *long_text = g_strnfill(512, 'x');
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_text_pattern_new(long_text, &error));
    g_assert_nonnull(strstr(error->message, "too long"));
    g_autoptr(IpbTextPattern) longest = ipb_text_pattern_new(long_text + 1, NULL);
    g_assert_true(ipb_text_pattern_matches(longest, long_text, 511));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/text-pattern/literal", test_literal);
    g_test_add_func("/text-pattern/star", test_star);
    g_test_add_func("/text-pattern/double-star", test_double_star);
    g_test_add_func("/text-pattern/characters", test_characters);
    g_test_add_func("/text-pattern/bytes", test_bytes);
    g_test_add_func("/text-pattern/long", test_long);
    g_test_add_func("/text-pattern/invalid", test_invalid);
    return g_test_run();
}
