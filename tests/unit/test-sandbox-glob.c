/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/glob.h"

#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "base/file.h"

static void
test_matches(void)
{
    static const struct {
        const char *pattern, *text;
        bool is_match;
    } CASES[] = {
        {"a", "a", true},
        {"a", "ab", false},
        {"*", "abc", true},
        {"*", "", true},
        {"*", "a/b", false},
        {"*.pem", "key.pem", true},
        {"*.pem", "d/key.pem", false},
        {"**/*.pem", "key.pem", true},
        {"**/*.pem", "a/b/key.pem", true},
        {"**.pem", "a/b/key.pem", true},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "a/xb", false},
        {"a/**", "a/b/c", true},
        {"a/**", "a", false},
        {"a**b", "a/x/b", true},
        {"***", "a/b", true},
        {"?", "a", true},
        {"?", "/", false},
        {"?", "\xc3\xbc", true}, /* one character of two bytes */
        {"?", "ab", false},
        {"f[0-9].txt", "f7.txt", true},
        {"f[0-9].txt", "fa.txt", false},
        {"[abc]", "b", true},
        {"[!a]", "!", true}, /* there is no negation */
        {"[!a]", "b", false},
        {"[a", "[a", true},
        {"a]", "a]", true},
        {"[]", "", false},
        {"[]", "]", false},
        {"[.-0]", "/", false},
        {"a.c", "abc", false},
        {"(a|b)+", "(a|b)+", true},
        {"a\\*", "a\\x", true},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autoptr(IpbGlob) glob = ipb_glob_new(CASES[i].pattern, NULL);
        g_test_message("%s %s", CASES[i].pattern, CASES[i].text);
        g_assert_cmpint(ipb_glob_matches(glob, CASES[i].text), ==, CASES[i].is_match);
    }
}

static void
test_match_size(void)
{
    static const struct {
        const char *pattern, *text;
        size_t size;
    } CASES[] = {
        {"*.pem", "a.pem", 5},
        {"*.pem", "a.pem/b", 5},
        {"**/*.pem", "a.pem/b.pem", 11},
        {"**/*.pem", "x/a.pem/b", 7},
        {"*.pem", "x/a.pem", 0},
        {"a", "ab", 0},
        {"**", "a/b", 3},
        {"a/**", "a/b/c", 5},
        {"a?", "a\xc3\xbc/x", 3},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autoptr(IpbGlob) glob = ipb_glob_new(CASES[i].pattern, NULL);
        /* A pattern that is too long for the fast way, and matches the same. */
        g_autofree char *stars = g_strnfill(100, '*');
        g_autofree char *long_pattern = g_strconcat(CASES[i].pattern, "[", stars, NULL);
        g_autofree char *long_text = g_strconcat(CASES[i].text, "[", NULL);
        g_autoptr(IpbGlob) slow = ipb_glob_new(long_pattern, NULL);
        g_test_message("%s %s", CASES[i].pattern, CASES[i].text);
        g_assert_cmpuint(ipb_glob_match_size(glob, CASES[i].text), ==, CASES[i].size);
        g_assert_cmpint(ipb_glob_match_size(slow, long_text) > 0, ==,
                        ipb_glob_matches(slow, long_text));
    }
}

static void
test_refused(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *longest = g_strnfill(5000, '*');
    g_assert_null(ipb_glob_new("*/../x", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_null(ipb_glob_new("a*/..", &error));
    g_clear_error(&error);
    g_assert_null(ipb_glob_new(longest, &error));
    g_autoptr(IpbGlob) glob = ipb_glob_new("../*", NULL);
    g_assert_nonnull(glob);
}

/* What takes a backtracking matcher the age of the universe. */
static void
test_no_explosion(void)
{
    g_autofree char *text = g_strnfill(2000, 'a');
    g_autoptr(IpbGlob) glob = ipb_glob_new("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", NULL);
    g_assert_false(ipb_glob_matches(glob, text));
    g_autoptr(IpbGlob) deep = ipb_glob_new("**/**/**/**/**/**/**/**/**/b", NULL);
    g_assert_false(ipb_glob_matches(deep, text));
}

/* --- walks ------------------------------------------------------------------------------------ */

typedef struct {
    char *place;
    GPtrArray *found; /* relative to place; a closed one with "!" before it */
} Tree;

static void
make(const char *path)
{
    g_autofree char *directory = g_path_get_dirname(path);
    g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
    g_assert_true(g_file_set_contents(path, "", 0, NULL));
}

static void
set_up(Tree *tree, const void *data)
{
    g_autofree char *made = g_dir_make_tmp("ipybox-glob-XXXXXX", NULL);
    tree->place = realpath(made, NULL);
    tree->found = g_ptr_array_new_with_free_func(g_free);
    g_assert_cmpint(g_chdir(tree->place), ==, 0);
    make("a.pem");
    make("certs/b.pem");
    make("certs/old/c.pem");
    make("build/out.o");
    make("sub/build/x/y.o");
    g_assert_cmpint(g_mkdir_with_parents("empty/build", 0755), ==, 0);
    g_assert_cmpint(symlink("certs", "linked"), ==, 0);
    g_assert_cmpint(symlink("..", "sub/up"), ==, 0);
}

static void
tear_down(Tree *tree, const void *data)
{
    g_assert_cmpint(g_chdir("/"), ==, 0);
    g_assert_true(ipb_file_remove_tree(tree->place, NULL));
    g_ptr_array_unref(tree->found);
    free(tree->place);
}

static void
on_match(const char *path, bool is_closed, void *data)
{
    Tree *tree = data;
    g_assert_true(g_str_has_prefix(path, tree->place));
    g_ptr_array_add(tree->found,
                    g_strconcat(is_closed ? "!" : "", path + strlen(tree->place) + 1, NULL));
}

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

static bool
walk(Tree *tree, const char *pattern, bool follow_links, bool only_directories, size_t budget,
     GError **error)
{
    g_autoptr(IpbGlob) glob = ipb_glob_new(pattern, NULL);
    IpbGlobBudget limit = {budget, g_get_monotonic_time() + 60 * G_USEC_PER_SEC};
    g_ptr_array_set_size(tree->found, 0);
    return ipb_glob_walk(glob,
                         &(IpbGlobWalk){.base = tree->place,
                                        .follow_links = follow_links,
                                        .only_directories = only_directories,
                                        .budget = &limit,
                                        .on_match = on_match,
                                        .data = tree},
                         error);
}

static void
check(Tree *tree, const char *pattern, bool follow_links, bool only_directories,
      const char *expected)
{
    g_assert_true(walk(tree, pattern, follow_links, only_directories, 1000, NULL));
    g_ptr_array_sort(tree->found, compare);
    g_ptr_array_add(tree->found, NULL);
    g_autofree char *joined = g_strjoinv(" ", (char **) tree->found->pdata);
    g_assert_cmpstr(joined, ==, expected);
}

static void
test_walk(Tree *tree, const void *data)
{
    check(tree, "*.pem", false, false, "a.pem");
    check(tree, "certs/*.pem", false, false, "certs/b.pem");
    check(tree, "**/*.pem", false, false, "a.pem certs/b.pem certs/old/c.pem");
    check(tree, "**/build", false, true, "build sub/build");
    check(tree, "**/build", false, false, "build empty/build sub/build");
    check(tree, "**/*.o", false, false, "build/out.o sub/build/x/y.o");
    check(tree, "[cl]*", false, false, "certs linked");
    check(tree, "x*", false, false, "");
}

/* Links to directories are gone through, once for each way the pattern can go on; circles end. */
static void
test_links(Tree *tree, const void *data)
{
    check(tree, "linked/*.pem", true, false, "linked/b.pem");
    check(tree, "linked/*.pem", false, false, "");
    g_assert_true(walk(tree, "**/c.pem", true, false, 1000, NULL));
    g_assert_cmpuint(tree->found->len, ==, 1);
    g_assert_true(walk(tree, "**/up/a.pem", true, false, 1000, NULL));
    g_assert_cmpuint(tree->found->len, ==, 1);
}

static void
test_budget(Tree *tree, const void *data)
{
    g_autoptr(GError) error = NULL;
    g_assert_false(walk(tree, "**/*.pem", false, false, 5, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    /* A pattern that begins with a directory does not look elsewhere. */
    g_assert_true(walk(tree, "certs/old/*", false, false, 12, NULL));
}

static void
test_closed(Tree *tree, const void *data)
{
    if (geteuid() == 0)
        g_assert_cmpint(g_chmod(tree->place, 0755), ==, 0);
    g_assert_cmpint(g_chmod("certs/old", 0), ==, 0);
    bool was_root = geteuid() == 0 && seteuid(65534) == 0;
    check(tree, "certs/**/c.pem", false, false, "!certs/old");
    if (was_root)
        g_assert_cmpint(seteuid(0), ==, 0);
    g_assert_cmpint(g_chmod("certs/old", 0755), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/glob/matches", test_matches);
    g_test_add_func("/sandbox/glob/match-size", test_match_size);
    g_test_add_func("/sandbox/glob/refused", test_refused);
    g_test_add_func("/sandbox/glob/no-explosion", test_no_explosion);
    g_test_add("/sandbox/glob/walk", Tree, NULL, set_up, test_walk, tear_down);
    g_test_add("/sandbox/glob/links", Tree, NULL, set_up, test_links, tear_down);
    g_test_add("/sandbox/glob/budget", Tree, NULL, set_up, test_budget, tear_down);
    g_test_add("/sandbox/glob/closed", Tree, NULL, set_up, test_closed, tear_down);
    return g_test_run();
}
