/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text-diff.h"

#include <string.h>

#include <glib.h>

static void
expect(const char *old_text, const char *new_text, const char *wanted)
{
    g_autofree char *diff = ipb_text_diff("f", old_text, new_text, 100000);
    g_assert_cmpstr(diff, ==, wanted);
}

static void
test_rows(void)
{
    expect("a\n", "a\n", "");
    expect("", "", "");
    expect("a\nb\nc\n", "a\nB\nc\n", "--- f\n+++ f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
    expect("", "a\n", "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n");
    expect("a\n", "", "--- f\n+++ f\n@@ -1,1 +0,0 @@\n-a\n");
    expect("a", "a\n", "--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n");
}

/* Differences that are far from each other have parts of their own. */
static void
test_parts(void)
{
    expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "x\n2\n3\n4\n5\n6\n7\n8\n9\ny\n",
           "--- f\n+++ f\n@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -7,3 +7,4 @@\n 7\n 8\n 9\n+y\n");
}

/* Escape sequences do not reach a terminal. */
static void
test_hostile(void)
{
    g_autofree char *diff = ipb_text_diff("f", "", "\033[2Jx\r\n", 1000);
    g_assert_null(strchr(diff, '\033'));
    g_assert_null(strchr(diff, '\r'));
    g_assert_nonnull(strstr(diff, "[2Jx"));
}

static char *
many(const char *line, unsigned n)
{
    GString *text = g_string_new(NULL);
    for (unsigned i = 0; i < n; i++)
        g_string_append_printf(text, "%s %u\n", line, i);
    return g_string_free(text, FALSE);
}

/* Too many lines to be compared, and a diff that is too long. */
static void
test_bounds(void)
{
    g_autofree char *left = many("left", 4000), *right = many("right", 4000);
    g_autofree char *diff = ipb_text_diff("f", left, right, 1 << 20);
    g_assert_nonnull(strstr(diff, "@@ -1,4000 +1,4000 @@"));
    g_autofree char *cut = ipb_text_diff("f", left, right, 100);
    g_assert_cmpuint(strlen(cut), <, 200);
    g_assert_true(g_str_has_suffix(cut, "… the diff is longer\n"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/text-diff/rows", test_rows);
    g_test_add_func("/text-diff/parts", test_parts);
    g_test_add_func("/text-diff/hostile", test_hostile);
    g_test_add_func("/text-diff/bounds", test_bounds);
    return g_test_run();
}
