/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the interpreter and the kernel host; see the header. Symbolic links of the interpreter
 * itself are never resolved: Python knows a virtual environment by the path of its python.
 */
#include "session/python.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/installed-files.h"

#define HOST_SCRIPT "forkserver.py"

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

/* Whether the interpreter is in a venv or a conda environment. A program in /usr/bin has the
 * system's python3 beside it, which does not count. */
static bool
is_in_environment(const char *python)
{
    static const char *const MARKERS[] = {"../../pyvenv.cfg", "../../conda-meta"};
    for (size_t i = 0; i < G_N_ELEMENTS(MARKERS); i++) {
        g_autofree char *marker = g_canonicalize_filename(MARKERS[i], python);
        if (access(marker, F_OK) == 0)
            return true;
    }
    return false;
}

/* Takes and returns a path. If the environment's directory is reached by a link, the link is
 * resolved: a sandbox may hide the link and show the environment. The last link, from bin/python3
 * to the base installation, is not resolved, because it makes the environment. */
static char *
follow_to_environment(char *python)
{
    g_autofree char *prefix = g_canonicalize_filename("../..", python);
    char *real = is_in_environment(python) ? realpath(prefix, NULL) : NULL;
    if (real != NULL && !g_str_equal(real, prefix)) {
        g_autofree char *name = g_path_get_basename(python);
        g_free(python);
        python = g_build_filename(real, "bin", name, NULL);
    }
    free(real);
    return python;
}

/* For a wheel that is not in an environment: the Python that has the package, because a prefix such
 * as ~/.local may have several. */
static char *
find_of_wheel(const char *directory)
{
    static const char *const PLACES[] = {IPB_INSTALLED_FILES_WHEEL, NULL};
    g_autofree char *host =
        ipb_installed_files_find(PLACES, "kernel_host/forkserver.py", "package", NULL);
    if (host == NULL)
        return NULL;
    /* PREFIX/lib/python3.13/site-packages/ipybox/kernel_host/forkserver.py */
    g_autofree char *library = g_canonicalize_filename("../../../..", host);
    g_autofree char *name = g_path_get_basename(library);
    char *path = if_executable(g_build_filename(directory, name, NULL));
    return path != NULL ? path : g_find_program_in_path(name);
}

/* The interpreter of the environment in which this program is installed, or of the build tree. */
static char *
find_near(const char *directory)
{
    g_autofree char *marker = g_build_filename(directory, "../meson.build", NULL);
    if (g_file_test(marker, G_FILE_TEST_EXISTS))
        return if_executable(g_canonicalize_filename("../.venv/bin/python3", directory));
    static const char *const NEAR[] = {
        "python3",           /* PREFIX/bin/ipybox */
        "../bin/python3",    /* PREFIX/lib/libipybox.so */
        "../../bin/python3", /* PREFIX/lib/x86_64-linux-gnu/libipybox.so */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(NEAR); i++) {
        g_autofree char *path = if_executable(g_canonicalize_filename(NEAR[i], directory));
        if (path != NULL && is_in_environment(path))
            return g_steal_pointer(&path);
    }
    return find_of_wheel(directory);
}

char *
ipb_python_user_environment(void)
{
    return g_build_filename(g_get_user_data_dir(), "ipybox", "venv", NULL);
}

/* The environment in VIRTUAL_ENV, or else the one that `ipybox doctor --setup` made. */
static char *
find_user_chosen(void)
{
    const char *environment = g_getenv("VIRTUAL_ENV");
    if (environment != NULL && *environment != '\0') {
        char *path = if_executable(g_build_filename(environment, "bin", "python3", NULL));
        if (path != NULL)
            return path;
    }
    g_autofree char *ours = ipb_python_user_environment();
    return if_executable(g_build_filename(ours, "bin", "python3", NULL));
}

static char *
find(const char *asked, IpbPythonOrigin *ret_origin, GError **error)
{
    *ret_origin = IPB_PYTHON_NAMED;
    if (asked != NULL)
        return find_named(asked, "python", error);
    const char *variable = g_getenv("IPYBOX_PYTHON");
    if (variable != NULL && *variable != '\0')
        return find_named(variable, "IPYBOX_PYTHON", error);

    g_autofree char *directory = ipb_installed_files_directory(error);
    if (directory == NULL)
        return NULL;
    char *path = find_near(directory);
    *ret_origin = path != NULL ? IPB_PYTHON_OWN : IPB_PYTHON_IMPLIED;
    if (path == NULL)
        path = find_user_chosen();
    if (path == NULL)
        path = g_find_program_in_path("python3");
    if (path == NULL)
        g_set_error_literal(
            error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
            "no Python found: not beside this program, not in VIRTUAL_ENV, no python3 in PATH, and "
            "'ipybox doctor --setup' has not made an environment. Install Python 3.10 or later "
            "(python3, python3-venv), then run it; or name an interpreter with --python or "
            "IPYBOX_PYTHON");
    return path;
}

char *
ipb_python_find(const char *asked, IpbPythonOrigin *ret_origin, GError **error)
{
    IpbPythonOrigin origin;
    char *path = find(asked, &origin, error);
    if (ret_origin != NULL)
        *ret_origin = origin;
    return path != NULL ? follow_to_environment(path) : NULL;
}

static char *
check_host(const char *asked, GError **error)
{
    g_autofree char *directory = g_canonicalize_filename(asked, NULL);
    g_autofree char *script = g_build_filename(directory, HOST_SCRIPT, NULL);
    if (g_file_test(script, G_FILE_TEST_IS_REGULAR))
        return g_steal_pointer(&directory);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "kernel_host: %s does not contain " HOST_SCRIPT, directory);
    return NULL;
}

char *
ipb_python_find_host(const char *asked, GError **error)
{
    if (asked != NULL)
        return check_host(asked, error);
    static const char *const PLACES[] = {
        "../python/ipybox/kernel_host",   /* build tree */
        "../share/ipybox/kernel_host",    /* PREFIX/bin, PREFIX/lib */
        "../../share/ipybox/kernel_host", /* PREFIX/lib/x86_64-linux-gnu */
        IPB_INSTALLED_FILES_WHEEL "/kernel_host",
        IPB_INSTALLED_FILES_WHEEL_TARGET "/kernel_host",
        IPB_DATADIR "/kernel_host", /* as configured, for a program that links us statically */
        NULL,
    };
    g_autofree char *script = ipb_installed_files_find(PLACES, HOST_SCRIPT, "kernel host", error);
    if (script == NULL)
        return NULL;
    /* Kernels in sandboxes import from there, and see real paths only. */
    char *real = realpath(script, NULL);
    char *directory = g_path_get_dirname(real != NULL ? real : script);
    free(real);
    return directory;
}

char *
ipb_python_find_requirements(GError **error)
{
    static const char *const PLACES[] = {
        "../python",          /* build tree */
        "../share/ipybox",    /* PREFIX/bin, PREFIX/lib */
        "../../share/ipybox", /* PREFIX/lib/x86_64-linux-gnu */
        IPB_INSTALLED_FILES_WHEEL,
        IPB_INSTALLED_FILES_WHEEL_TARGET,
        IPB_DATADIR,
        NULL,
    };
    return ipb_installed_files_find(PLACES, "requirements.txt", "list of what kernels need", error);
}
