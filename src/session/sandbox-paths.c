/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "session/sandbox-paths.h"

#include <stdlib.h>

static char *
prefix_of(const char *python)
{
    g_autofree char *bin = g_path_get_dirname(python);
    return g_path_get_dirname(bin);
}

static bool
is_virtual_environment(const char *prefix)
{
    g_autofree char *config = g_build_filename(prefix, "pyvenv.cfg", NULL);
    return g_file_test(config, G_FILE_TEST_EXISTS);
}

/* The interpreter's own files, and ours. Of an installation that may share its prefix with other things (~/bin/python3), what belongs
 * to Python only. */
char **
ipb_sandbox_paths_kept(const char *python, const char *host_directory)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_autofree char *prefix = prefix_of(python);
    if (is_virtual_environment(prefix))
        g_strv_builder_add(builder, prefix);
    char *real = realpath(python, NULL);
    g_autofree char *base = prefix_of(real != NULL ? real : python);
    g_autofree char *bin = g_build_filename(base, "bin", NULL);
    g_autofree char *lib = g_build_filename(base, "lib", NULL);
    g_strv_builder_add_many(builder, bin, lib, host_directory, NULL);
    free(real);
    return g_strv_builder_end(builder);
}

char **
ipb_sandbox_paths_absolute(const char *const *paths, size_t n_paths)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    for (size_t i = 0; i < n_paths; i++) {
        g_autofree char *path = paths[i] != NULL ? g_canonicalize_filename(paths[i], NULL) : NULL;
        if (path != NULL)
            g_strv_builder_add(builder, path);
    }
    return g_strv_builder_end(builder);
}

char **
ipb_sandbox_paths_kept_out(IpbRuntime *runtime, const IpbSessionOptions *options)
{
    g_autofree char *prefix = prefix_of(ipb_runtime_python(runtime));
    const char *const paths[] = {
        is_virtual_environment(prefix) ? prefix : NULL,
        ipb_runtime_host_directory(runtime),
        ipb_runtime_state_dir(runtime),
        /* Also while it is not there, and the default holds. */
        options != NULL ? options->sandbox_config : NULL,
        options != NULL ? options->approval_rules : NULL,
        options != NULL ? options->audit_log : NULL,
    };
    return ipb_sandbox_paths_absolute(paths, G_N_ELEMENTS(paths));
}
