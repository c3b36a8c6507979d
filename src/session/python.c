/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the interpreter and the kernel host; see the header. The interpreter's path is never resolved
 * through symbolic links: a virtual environment is known by the path of its python.
 */
#include "session/python.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static char *
program_directory(GError **error)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size < 0) {
        ipb_error_set_errno(error, errno,
                            "cannot find the place of this program (is /proc mounted?)");
        return NULL;
    }
    path[size] = '\0';
    return g_path_get_dirname(path);
}

/* @path if it can be executed, else NULL; takes ownership. */
static char *
if_executable(char *path)
{
    if (path != NULL && access(path, X_OK) == 0 && !g_file_test(path, G_FILE_TEST_IS_DIR))
        return path;
    g_free(path);
    return NULL;
}

static char *
find_named(const char *name, const char *origin, GError **error)
{
    char *path = strchr(name, '/') != NULL ? if_executable(g_canonicalize_filename(name, NULL))
                                           : g_find_program_in_path(name);
    if (path == NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND, "%s: no such interpreter: %s",
                    origin, name);
    return path;
}

char *
ipb_python_find(const char *asked, GError **error)
{
    if (asked != NULL)
        return find_named(asked, "--python", error);
    const char *variable = g_getenv("IPYBOX_PYTHON");
    if (variable != NULL && *variable != '\0')
        return find_named(variable, "IPYBOX_PYTHON", error);

    g_autofree char *directory = program_directory(error);
    if (directory == NULL)
        return NULL;
    /* Installed in an environment's bin, or carried by its site-packages/ipybox/bin. */
    static const char *const NEAR[] = {"python3", "../../../../../bin/python3"};
    g_autofree char *marker = g_build_filename(directory, "../meson.build", NULL);
    char *path = NULL;
    if (g_file_test(marker, G_FILE_TEST_EXISTS))
        path = if_executable(g_canonicalize_filename("../.venv/bin/python3", directory));
    for (size_t i = 0; path == NULL && i < G_N_ELEMENTS(NEAR); i++)
        path = if_executable(g_canonicalize_filename(NEAR[i], directory));
    const char *environment = g_getenv("VIRTUAL_ENV");
    if (path == NULL && environment != NULL && *environment != '\0')
        path = if_executable(g_build_filename(environment, "bin", "python3", NULL));
    if (path == NULL)
        path = g_find_program_in_path("python3");
    if (path == NULL)
        g_set_error_literal(
            error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
            "no Python found: not beside this program, not in VIRTUAL_ENV, no python3 "
            "in PATH. Install Python 3.10 or later, or name one with --python");
    return path;
}

char *
ipb_python_find_host(GError **error)
{
    g_autofree char *directory = program_directory(error);
    if (directory == NULL)
        return NULL;
    static const char *const PLACES[] = {
        "../python/ipybox/kernel_host", /* build tree */
        "../kernel_host",               /* wheel: site-packages/ipybox/bin/ipybox */
        "../share/ipybox/kernel_host",  /* prefix */
    };
    g_autoptr(GString) tried = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(PLACES); i++) {
        g_autofree char *place = g_canonicalize_filename(PLACES[i], directory);
        g_autofree char *script = g_build_filename(place, "forkserver.py", NULL);
        if (g_file_test(script, G_FILE_TEST_IS_REGULAR))
            return g_steal_pointer(&place);
        g_string_append_printf(tried, "%s%s", tried->len > 0 ? ", " : "", place);
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "the installation is not whole: no kernel host in %s", tried->str);
    return NULL;
}
