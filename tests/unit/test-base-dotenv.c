/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dotenv.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

/* @expected: the "NAME=value" strings joined by '|'. */
static void
check(const char *text, const char *expected, const char *expected_warnings)
{
    g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) env = ipb_dotenv_parse(text, strlen(text), warnings);
    g_autofree char *joined = g_strjoinv("|", env);
    g_assert_cmpstr(joined, ==, expected);
    g_ptr_array_add(warnings, NULL);
    g_autofree char *all_warnings = g_strjoinv("|", (char **) warnings->pdata);
    g_assert_cmpstr(all_warnings, ==, expected_warnings);
}

static void
test_plain(void)
{
    check("", "", "");
    check("A=1", "A=1", "");
    check("A=1\nB=2\r\nC=3\rD=4\n", "A=1|B=2|C=3|D=4", "");
    check("\xef\xbb\xbf"
          "A=1",
          "A=1", "");
    check("  A = b c  \n", "A=b c", "");
    check("A=\nB= \n", "A=|B=", "");
    check("A=b=c", "A=b=c", "");
    check("A=1\nB=2\nA=3\n", "A=3|B=2", "");
    check("A=${B}$C", "A=${B}$C", "");
    check("A=a\\nb'c\"", "A=a\\nb'c\"", "");
    check("a.b-c=\xc3\xa9", "a.b-c=\xc3\xa9", "");
    check("NAME_ONLY\nA=1", "A=1", "");
}

static void
test_comments(void)
{
    check("# x\n  # y=1\nA=1 # z\nB=1#2\nC=#x\nD= #x\nE=\t#\n", "A=1|B=1#2|C=|D=|E=", "");
    check("A='#' # x\nB=\"a # b\"#c\n", "A=#|B=a # b", "");
}

static void
test_export(void)
{
    check("export A=1\n export\tB=2\nexport =3\nexport=4\nexported=5\nexport C\n",
          "A=1|B=2|export=4|exported=5", "");
}

static void
test_quotes(void)
{
    check("A='a b'\nB=\"a b\"\nC=''\nD=\"\"\n", "A=a b|B=a b|C=|D=", "");
    check("A='\\n \\' \\\\ \\\"'", "A=\\n ' \\ \\\"", "");
    check("A=\"\\n\\t \\' \\\" \\\\ \\d \\r\\a\\b\\f\\v\"", "A=\n\t ' \" \\ \\d \r\a\b\f\v", "");
    check("A=\"1\n2\r\n3\"\nB='x\ny'\nC=3", "A=1\n2\n3|B=x\ny|C=3", "");
    check("'A'=1\n'B C' = 2\n", "A=1|B C=2", "");
}

/* A bad line is ignored; the others count. */
static void
test_warnings(void)
{
    check("A=1\nnot a pair\nB=2\n", "A=1|B=2", "line 2: this is not \"NAME=value\"; ignored");
    check("=1\nB=2", "B=2", "line 1: there is no name before \"=\"; ignored");
    check("A=\"x\ny\"\nB=\"open\nC=3\nD='x'y\nE=5\n", "A=x\ny|C=3|E=5",
          "line 3: the quoted value does not end; ignored|"
          "line 5: there is text after the quoted value; ignored");
    check("'A=1\nB=2", "B=2", "line 1: the quoted name does not end; ignored");
    g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) env = ipb_dotenv_parse("A=x\0y\nB=1\nC\0=2", 15, warnings);
    g_assert_cmpstr(env[0], ==, "B=1");
    g_assert_null(env[1]);
    g_assert_cmpuint(warnings->len, ==, 2);
}

static void
test_many_warnings(void)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (int i = 0; i < 1000; i++)
        g_string_append(text, "=\n");
    g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) env = ipb_dotenv_parse(text->str, text->len, warnings);
    g_assert_cmpuint(warnings->len, ==, 20);
    g_assert_null(env[0]);
}

static void
test_load(void)
{
    g_autofree char *dir = ipb_file_make_temp_directory(NULL, "dotenv-", NULL);
    g_autofree char *path = g_build_filename(dir, ".env", NULL);
    g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GError) error = NULL;
    g_auto(GStrv) none = NULL;
    g_assert_true(ipb_dotenv_load(NULL, path, warnings, &none, &error));
    g_assert_null(none[0]);
    g_assert_true(ipb_file_write_atomic(path, "A=1\n=\n", 6, 0600, NULL));
    g_auto(GStrv) env = NULL;
    g_assert_true(ipb_dotenv_load(NULL, path, warnings, &env, &error));
    g_assert_cmpstr(env[0], ==, "A=1");
    g_assert_true(g_str_has_prefix(g_ptr_array_index(warnings, 0), path));
    g_assert_true(g_str_has_suffix(g_ptr_array_index(warnings, 0), ", line 2: there is no name "
                                                                   "before \"=\"; ignored"));
    unlink(path);
    g_assert_cmpint(mkfifo(path, 0600), ==, 0);
    g_auto(GStrv) never = NULL;
    g_assert_false(ipb_dotenv_load(NULL, path, warnings, &never, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_null(never);
    g_assert_true(ipb_file_remove_tree(dir, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/dotenv/plain", test_plain);
    g_test_add_func("/base/dotenv/comments", test_comments);
    g_test_add_func("/base/dotenv/export", test_export);
    g_test_add_func("/base/dotenv/quotes", test_quotes);
    g_test_add_func("/base/dotenv/warnings", test_warnings);
    g_test_add_func("/base/dotenv/many-warnings", test_many_warnings);
    g_test_add_func("/base/dotenv/load", test_load);
    return g_test_run();
}
