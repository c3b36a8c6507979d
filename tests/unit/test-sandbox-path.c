/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/path.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/file.h"

static void
test_expand(void)
{
    static const char *const CASES[][2] = {
        {"~", "/home/u"},
        {"~/x", "/home/u/x"},
        {"~x", "/ws/~x"},
        {"a", "/ws/a"},
        {".", "/ws"},
        {"./a/./b//c/", "/ws/a/b/c"},
        {"/", "/"},
        {"//", "/"},
        {"/a//b/", "/a/b"},
        {"../a", "/ws/../a"},
        {"/a/../b", "/a/../b"},
        {"", "/ws"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *path = ipb_path_expand(CASES[i][0], "/ws", "/home/u");
        g_assert_cmpstr(path, ==, CASES[i][1]);
    }
}

static void
test_in(void)
{
    g_assert_true(ipb_path_is_in("/a", "/a"));
    g_assert_true(ipb_path_is_in("/a/b", "/a"));
    g_assert_false(ipb_path_is_in("/ab", "/a"));
    g_assert_false(ipb_path_is_below("/a", "/a"));
    g_assert_true(ipb_path_is_below("/a", "/"));
    g_assert_false(ipb_path_is_below("/", "/"));
    g_assert_true(ipb_path_is_in("/", "/"));
}

static char *
make_place(void)
{
    g_autofree char *made = g_dir_make_tmp("ipybox-paths-XXXXXX", NULL);
    char *place = realpath(made, NULL);
    g_assert_nonnull(place);
    g_assert_cmpint(g_chdir(place), ==, 0);
    g_assert_cmpint(g_mkdir_with_parents("real/deep", 0755), ==, 0);
    g_assert_true(g_file_set_contents("real/file", "", 0, NULL));
    g_assert_cmpint(symlink("real", "link"), ==, 0);
    g_assert_cmpint(symlink("link/deep", "far"), ==, 0);
    g_assert_cmpint(symlink("/", "root"), ==, 0);
    g_assert_cmpint(symlink("loop", "loop"), ==, 0);
    g_assert_cmpint(symlink("nothing/x", "dangling"), ==, 0);
    g_assert_cmpint(link("real/file", "second"), ==, 0);
    return place;
}

static void
check(const char *place, const char *path, IpbPathState state, const char *real, guint n_links)
{
    g_autofree char *absolute = g_strconcat(place, "/", path, NULL);
    g_autofree char *expected = *real == '/' ? g_strdup(real) : g_strconcat(place, "/", real, NULL);
    g_auto(IpbPath) found;
    ipb_path_resolve(absolute, &found);
    g_test_message("%s", path);
    g_assert_cmpint(found.state, ==, state);
    g_assert_cmpstr(found.real, ==, expected);
    g_assert_cmpuint(found.links->len, ==, n_links);
}

static void
test_resolve(void)
{
    g_autofree char *place = make_place();
    check(place, "real/file", IPB_PATH_FILE, "real/file", 0);
    check(place, "real/deep", IPB_PATH_DIRECTORY, "real/deep", 0);
    check(place, "link/file", IPB_PATH_FILE, "real/file", 1);
    check(place, "far", IPB_PATH_DIRECTORY, "real/deep", 2);
    /* ".." is where the link leads, not where it stands. */
    check(place, "far/../file", IPB_PATH_FILE, "real/file", 2);
    check(place, "real/../real/deep/..", IPB_PATH_DIRECTORY, "real", 0);
    check(place, "root", IPB_PATH_DIRECTORY, "/", 1);
    check(place, "root/..", IPB_PATH_DIRECTORY, "/", 1);
    check(place, "link/new/x", IPB_PATH_MISSING, "real/new/x", 1);
    check(place, "real/file/x", IPB_PATH_MISSING, "real/file/x", 0);
    check(place, "dangling", IPB_PATH_MISSING, "nothing/x", 1);
    check(place, "nothing/../x", IPB_PATH_MISSING, "x", 0);
    check(place, "nothing/../real/file", IPB_PATH_FILE, "real/file", 0);
    g_auto(IpbPath) found;
    g_autofree char *loop = g_strconcat(place, "/loop", NULL);
    ipb_path_resolve(loop, &found);
    g_assert_cmpint(found.state, ==, IPB_PATH_MISSING);
    g_auto(IpbPath) twice;
    g_autofree char *second = g_strconcat(place, "/second", NULL);
    ipb_path_resolve(second, &twice);
    g_assert_cmpuint(twice.n_hard_links, ==, 2);
    g_assert_true(ipb_file_remove_tree(place, NULL));
}

/* If a directory cannot be entered, the result names it. */
static void
test_closed(void)
{
    g_autofree char *place = make_place();
    g_assert_cmpint(g_chmod("real", 0), ==, 0);
    if (geteuid() == 0)
        g_assert_cmpint(seteuid(65534) | g_chmod(place, 0755), !=, 1);
    g_autofree char *path = g_strconcat(place, "/real/deep/x", NULL);
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (geteuid() == 65534)
        g_assert_cmpint(seteuid(0), ==, 0);
    g_autofree char *expected = g_strconcat(place, "/real", NULL);
    g_assert_cmpint(found.state, ==, IPB_PATH_CLOSED);
    g_assert_true(g_str_equal(found.real, expected) || g_str_equal(found.real, place));
    g_assert_cmpint(g_chmod("real", 0755), ==, 0);
    g_assert_true(ipb_file_remove_tree(place, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/paths/expand", test_expand);
    g_test_add_func("/sandbox/paths/in", test_in);
    g_test_add_func("/sandbox/paths/resolve", test_resolve);
    g_test_add_func("/sandbox/paths/closed", test_closed);
    return g_test_run();
}
