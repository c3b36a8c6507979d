/* SPDX-License-Identifier: Apache-2.0
 *
 * How the Python interpreter is found. This test program is neither in a virtual environment nor at
 * the top of the build directory, so there is no interpreter near it.
 */
#include "session/python.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

/* A temporary directory in which the tests create environments. */
static char *top;

static char *
make_python(const char *directory)
{
    g_autofree char *bin = g_build_filename(top, directory, NULL);
    g_assert_true(ipb_file_make_directories(bin, 0700, NULL));
    char *python = g_build_filename(bin, "python3", NULL);
    g_assert_true(ipb_file_write_atomic(python, "", 0, 0700, NULL));
    return python;
}

static void
assert_found(const char *asked, const char *expected)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *found = ipb_python_find(asked, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(found, ==, expected);
}

static void
test_order(void)
{
    g_autofree char *in_path = make_python("path");
    g_autofree char *path = g_path_get_dirname(in_path);
    g_setenv("PATH", path, TRUE);
    assert_found(NULL, in_path);
    g_autofree char *user_python = make_python("data/ipybox/venv/bin");
    g_autofree char *environment = ipb_python_user_environment();
    g_assert_true(g_str_has_prefix(user_python, environment));
    assert_found(NULL, user_python);
    g_autofree char *active = make_python("active/bin");
    g_autofree char *virtual_env = g_build_filename(top, "active", NULL);
    g_setenv("VIRTUAL_ENV", virtual_env, TRUE);
    assert_found(NULL, active);
    g_autofree char *named = make_python("named");
    g_setenv("IPYBOX_PYTHON", named, TRUE);
    assert_found(NULL, named);
    assert_found("python3", in_path);
    assert_found(user_python, user_python);
    g_unsetenv("IPYBOX_PYTHON");
    g_unsetenv("VIRTUAL_ENV");
}

/* Links to the environment's directory are resolved, but not the link to the interpreter. */
static void
test_linked_environment(void)
{
    g_autofree char *python = make_python("real/bin");
    g_autofree char *config = g_build_filename(top, "real/pyvenv.cfg", NULL);
    g_autofree char *link = g_build_filename(top, "link", NULL);
    g_autofree char *base = make_python("base");
    g_assert_true(ipb_file_write_atomic(config, "", 0, 0600, NULL));
    g_assert_cmpint(symlink("real", link), ==, 0);
    g_assert_cmpint(unlink(python), ==, 0);
    g_assert_cmpint(symlink(base, python), ==, 0);
    g_autofree char *through_link = g_build_filename(link, "bin/python3", NULL);
    assert_found(through_link, python);
}

static void
assert_not_found(const char *asked, const char *part)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_python_find(asked, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_assert_nonnull(strstr(error->message, part));
}

static void
test_not_found(void)
{
    g_setenv("PATH", "/nonexistent", TRUE);
    assert_not_found(NULL, "ipybox doctor --setup");
    assert_not_found("/nonexistent/python", "python: no such interpreter: /nonexistent/python");
    g_setenv("IPYBOX_PYTHON", "no-python", TRUE);
    assert_not_found(NULL, "IPYBOX_PYTHON: no such interpreter: no-python");
    g_unsetenv("IPYBOX_PYTHON");
}

static void
set_up(void)
{
    top = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    g_assert_nonnull(top);
    g_autofree char *data = g_build_filename(top, "data", NULL);
    g_setenv("XDG_DATA_HOME", data, TRUE);
    g_unsetenv("IPYBOX_PYTHON");
    g_unsetenv("VIRTUAL_ENV");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    set_up();
    g_test_add_func("/session/python/not-found", test_not_found);
    g_test_add_func("/session/python/order", test_order);
    g_test_add_func("/session/python/linked-environment", test_linked_environment);
    int status = g_test_run();
    ipb_file_remove_tree(top, NULL);
    g_free(top);
    return status;
}
