/* SPDX-License-Identifier: Apache-2.0
 */
#include "base/installed-files.h"

#include "base/error.h"
#include "base/file.h"

static void
put(const char *top, const char *path)
{
    g_autofree char *whole = g_build_filename(top, path, NULL);
    g_autofree char *directory = g_path_get_dirname(whole);
    g_assert_true(ipb_file_make_directories(directory, 0700, NULL));
    g_assert_true(ipb_file_write_atomic(whole, "", 0, 0600, NULL));
}

static void
test_patterns(void)
{
    g_autofree char *top = g_dir_make_tmp("ipb-place-XXXXXX", NULL);
    put(top, "lib/python3.11/site-packages/ipybox/__init__.py");
    put(top, "lib/python3.12/dist-packages/ipybox/kernel_host/host.py");
    g_autofree char *none = g_build_filename(top, "share", NULL);
    g_autofree char *some =
        g_build_filename(top, "bin/../lib*/python3*/*-packages/ipybox/kernel_host", NULL);
    g_autofree char *bin = g_build_filename(top, "bin", NULL);
    g_assert_true(ipb_file_make_directories(bin, 0700, NULL));

    g_autoptr(GError) error = NULL;
    const char *const places[] = {none, some, NULL};
    g_autofree char *found = ipb_installed_files_find(places, "host.py", "host", &error);
    g_assert_no_error(error);
    g_autofree char *expected =
        g_build_filename(top, "lib/python3.12/dist-packages/ipybox/kernel_host/host.py", NULL);
    g_assert_cmpstr(found, ==, expected);

    g_assert_null(ipb_installed_files_find(places, "guest.py", "guest", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_assert_nonnull(strstr(error->message, "no guest (guest.py) in "));
    g_assert_nonnull(strstr(error->message, none));
    g_assert_true(ipb_file_remove_tree(top, NULL));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/installed-files/patterns", test_patterns);
    return g_test_run();
}
