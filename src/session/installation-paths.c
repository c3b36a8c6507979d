/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of the installation; see the header.
 */
#include "session/installation-paths.h"

#include <stdlib.h>

#include "sandbox/path.h"
#include "session/python.h"

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

/* An installation may share its prefix with other things (~/bin/python3). Then only what belongs to
 * Python is needed. */
char **
ipb_installation_paths_needed(const char *python, const char *host_directory)
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

/* The paths that are not NULL, made absolute. */
static char **
make_absolute(const char *const *paths, size_t n_paths)
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
ipb_installation_paths_packages(IpbRegistry *registry, const char *workspace, GError **error)
{
    if (registry == NULL)
        return g_new0(char *, 1);
    g_autoptr(GPtrArray) all = ipb_registry_list(registry, error);
    if (all == NULL)
        return NULL;
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_auto(IpbPath) place, home;
    ipb_path_resolve(workspace, &place);
    ipb_path_resolve(g_get_home_dir(), &home);
    for (guint i = 0; i < all->len; i++) {
        const IpbRegistration *registration = g_ptr_array_index(all, i);
        for (char **root = registration->roots; *root != NULL; root++) {
            g_auto(IpbPath) found;
            ipb_path_resolve(**root == '/' ? *root : "/", &found);
            bool is_shared =
                ipb_path_is_in(place.real, found.real) || ipb_path_is_in(home.real, found.real);
            g_autofree char *path =
                g_build_filename(found.real, is_shared ? registration->name : NULL, NULL);
            g_strv_builder_add(builder, path);
        }
    }
    return g_strv_builder_end(builder);
}

char **
ipb_installation_paths_protected(IpbRuntime *runtime, const IpbSessionOptions *options,
                                 const char *workspace)
{
    g_autofree char *prefix = prefix_of(ipb_runtime_python(runtime));
    const char *const paths[] = {
        is_virtual_environment(prefix) ? prefix : NULL,
        ipb_runtime_host_directory(runtime),
        ipb_runtime_state_dir(runtime),
        options->sandbox_config,
        options->approval_rules,
        options->audit_log,
        options->record,
        options->other_record,
    };
    g_auto(GStrv) fixed = make_absolute(paths, G_N_ELEMENTS(paths));
    /* A registry that cannot be read fails where it is needed. */
    g_auto(GStrv) packages =
        ipb_installation_paths_packages(ipb_runtime_registry(runtime), workspace, NULL);
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_strv_builder_addv(builder, (const char **) fixed);
    if (packages != NULL)
        g_strv_builder_addv(builder, (const char **) packages);
    return g_strv_builder_end(builder);
}

char **
ipb_installation_paths_protected_from_servers(const char *python, const char *approval_rules,
                                              const char *audit_log, const char *record)
{
    g_autofree char *found = ipb_python_find(python, NULL, NULL);
    g_autofree char *host_directory = ipb_python_find_host(NULL, NULL);
    g_autofree char *prefix = found != NULL ? prefix_of(found) : NULL;
    const char *const paths[] = {
        prefix != NULL && is_virtual_environment(prefix) ? prefix : NULL,
        host_directory,
        approval_rules,
        audit_log,
        record,
    };
    return make_absolute(paths, G_N_ELEMENTS(paths));
}
