/* SPDX-License-Identifier: Apache-2.0 */
#include "session/file-stamps.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

typedef struct {
    char *directory, *path, *other;
} Fixture;

static void
set_up(Fixture *fixture, const void *unused)
{
    fixture->directory = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    fixture->path = g_build_filename(fixture->directory, "file", NULL);
    fixture->other = g_build_filename(fixture->directory, "other", NULL);
}

static void
tear_down(Fixture *fixture, const void *unused)
{
    g_assert_true(ipb_file_remove_tree(fixture->directory, NULL));
    g_free(fixture->directory);
    g_free(fixture->path);
    g_free(fixture->other);
}

static void
write_file(const char *path, const char *text)
{
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static IpbFileStamps *
stamp(const Fixture *fixture, bool may_grow)
{
    IpbFileStamps *stamps = ipb_file_stamps_new();
    ipb_file_stamps_add(stamps, fixture->path, may_grow);
    g_assert_true(ipb_file_stamps_are_current(stamps));
    return stamps;
}

static void
test_creation_and_removal(Fixture *fixture, const void *unused)
{
    g_autoptr(IpbFileStamps) missing = stamp(fixture, false);
    write_file(fixture->path, "a");
    g_assert_false(ipb_file_stamps_are_current(missing));
    g_autoptr(IpbFileStamps) there = stamp(fixture, false);
    g_unlink(fixture->path);
    g_assert_false(ipb_file_stamps_are_current(there));
    g_assert_true(ipb_file_stamps_are_current(missing));
}

static void
test_change(Fixture *fixture, const void *unused)
{
    write_file(fixture->path, "a");
    g_autoptr(IpbFileStamps) stamps = stamp(fixture, false);
    g_autoptr(IpbFileStamps) log = stamp(fixture, true);
    FILE *file = fopen(fixture->path, "a");
    fputs("b", file);
    fclose(file);
    g_assert_false(ipb_file_stamps_are_current(stamps));
    g_assert_true(ipb_file_stamps_are_current(log));
}

/* As a log is rotated. */
static void
test_replacement(Fixture *fixture, const void *unused)
{
    write_file(fixture->path, "a");
    g_autoptr(IpbFileStamps) stamps = stamp(fixture, false);
    g_autoptr(IpbFileStamps) log = stamp(fixture, true);
    g_assert_cmpint(g_rename(fixture->path, fixture->other), ==, 0);
    write_file(fixture->path, "a");
    g_assert_false(ipb_file_stamps_are_current(stamps));
    g_assert_false(ipb_file_stamps_are_current(log));
}

/* One of several. */
static void
test_several(Fixture *fixture, const void *unused)
{
    g_autoptr(IpbFileStamps) stamps = stamp(fixture, false);
    ipb_file_stamps_add(stamps, fixture->other, false);
    g_assert_true(ipb_file_stamps_are_current(stamps));
    write_file(fixture->other, "");
    g_assert_false(ipb_file_stamps_are_current(stamps));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, func)                                                                            \
    g_test_add("/session/file-stamps/" name, Fixture, NULL, set_up, func, tear_down)
    ADD("creation-and-removal", test_creation_and_removal);
    ADD("change", test_change);
    ADD("replacement", test_replacement);
    ADD("several", test_several);
    return g_test_run();
}
