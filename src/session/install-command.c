/* SPDX-License-Identifier: Apache-2.0
 *
 * Where packages are installed, and the installer's command line; see the header.
 */
#include "session/install-command.h"

#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define OVERLAY ".ipybox/packages"
#define MAX_PACKAGE_SIZE 4096

static bool
matches(const char *prefix, const char *pattern, int mode)
{
    g_autofree char *full = g_build_filename(prefix, pattern, NULL);
    glob_t found = {0};
    bool result = false;
    if (glob(full, GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            result = result || access(found.gl_pathv[i], mode) == 0;
    globfree(&found);
    return result;
}

char *
ipb_install_command_overlay(const char *python, const char *workspace, bool is_sandboxed)
{
    g_autofree char *bin = g_path_get_dirname(python);
    g_autofree char *prefix = g_path_get_dirname(bin);
    g_autofree char *venv = g_build_filename(prefix, "pyvenv.cfg", NULL);
    bool is_venv = g_file_test(venv, G_FILE_TEST_EXISTS);
    if (!is_sandboxed && matches(prefix, "lib/python3*/site-packages", W_OK) &&
        (is_venv || !matches(prefix, "lib/python3*/EXTERNALLY-MANAGED", F_OK)))
        return NULL;
    return g_build_filename(workspace, OVERLAY, NULL);
}

bool
ipb_install_command_check_package(const char *package, GError **error)
{
    const char *problem = NULL;
    if (*package == '\0')
        problem = "is empty";
    else if (*package == '-')
        problem = "begins with '-': options are not accepted";
    else if (strlen(package) > MAX_PACKAGE_SIZE)
        problem = "is too long";
    else if (strpbrk(package, "\n\r") != NULL)
        problem = "contains a line break: install one package at a time";
    if (problem == NULL)
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the package name %s", problem);
    return false;
}

static bool
has_pip(const char *python)
{
    g_autofree char *bin = g_path_get_dirname(python);
    g_autofree char *prefix = g_path_get_dirname(bin);
    return matches(prefix, "lib/python3*/site-packages/pip", F_OK) ||
           matches(prefix, "lib/python3/dist-packages/pip", F_OK);
}

char *
ipb_install_command_find_uv(const char *python, bool is_sandboxed)
{
    return is_sandboxed && has_pip(python) ? NULL : g_find_program_in_path("uv");
}

static void
add_words(GStrvBuilder *builder, const char *const *words)
{
    for (; *words != NULL; words++)
        g_strv_builder_add(builder, *words);
}

/* Cells write the workspace. So no module there may be imported instead of pip's, or when Python
 * starts. */
static void
add_isolated_pip(GStrvBuilder *builder, const char *python, const char *host_directory)
{
    g_autofree char *installer = g_build_filename(host_directory, "installer.py", NULL);
    add_words(builder, (const char *const[]){python, "-I", "-S", installer, NULL});
}

char **
ipb_install_command_config_argv(const char *python, const char *host_directory)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    add_isolated_pip(builder, python, host_directory);
    add_words(builder, (const char *const[]){"config", "list", NULL});
    return g_strv_builder_end(builder);
}

char **
ipb_install_command_argv(const IpbInstallCommand *command)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    if (command->uv != NULL)
        add_words(builder, (const char *const[]){command->uv, "pip", "install", "--python",
                                                 command->python, NULL});
    else if (command->is_sandboxed)
        add_isolated_pip(builder, command->python, command->host_directory);
    else
        add_words(builder, (const char *const[]){command->python, "-m", "pip", NULL});
    if (command->uv == NULL)
        add_words(builder, (const char *const[]){"install", "--disable-pip-version-check",
                                                 "--no-input", NULL});
    if (command->is_sandboxed && !command->allows_builds)
        add_words(builder,
                  (const char *const[]){command->uv != NULL ? "--no-build" : "--only-binary",
                                        command->uv != NULL ? NULL : ":all:", NULL});
    if (command->is_sandboxed)
        g_strv_builder_add(builder, command->uv != NULL ? "--no-cache" : "--no-cache-dir");
    if (command->overlay != NULL)
        add_words(builder, (const char *const[]){"--target", command->overlay, "--upgrade", NULL});
    g_strv_builder_add(builder, command->package);
    return g_strv_builder_end(builder);
}
