/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of paths; see the header. Each is a file with a path on each line, in the escapes of C.
 */
#include "command/known-paths.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file-lock.h"
#include "base/file.h"
#include "sandbox/path.h"

#define WRITABLE "written-by-cells"
#define LOCK "history.lock"
#define LOCK_TIMEOUT_MS 10000
#define MAX_FILE (8u << 20)
/* Above this, directories that do not exist any more are removed from a list; */
#define MANY_PATHS 1000
/* and this is the most. */
#define MAX_PATHS 20000

/* --- the files -------------------------------------------------------------------------------- */

static GPtrArray *
load(const char *state_dir, const char *name, GError **error)
{
    g_autofree char *path = g_build_filename(state_dir, name, NULL);
    g_autofree char *text = NULL;
    size_t size;
    g_autoptr(GError) failure = NULL;
    g_autoptr(GPtrArray) paths = g_ptr_array_new_with_free_func(g_free);
    if (!ipb_file_read(path, MAX_FILE, &text, &size, &failure) &&
        !g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&failure));
        return NULL;
    }
    g_auto(GStrv) lines = g_strsplit(text != NULL ? text : "", "\n", -1);
    for (char **line = lines; *line != NULL; line++)
        if (**line == '/')
            g_ptr_array_add(paths, g_strcompress(*line));
    return g_steal_pointer(&paths);
}

static bool
save(const char *state_dir, const char *name, const GPtrArray *paths, GError **error)
{
    g_autofree char *path = g_build_filename(state_dir, name, NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < paths->len; i++) {
        g_autofree char *escaped = g_strescape(g_ptr_array_index(paths, i), NULL);
        g_string_append_printf(text, "%s\n", escaped);
    }
    if (paths->len <= MAX_PATHS && text->len <= MAX_FILE)
        return ipb_file_write_atomic(path, text->str, text->len, 0600, error);
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "%s has too many directories: remove those that you do not use from it", path);
    return false;
}

static bool
has(const GPtrArray *paths, const char *path)
{
    for (guint i = 0; i < paths->len; i++)
        if (g_str_equal(g_ptr_array_index(paths, i), path))
            return true;
    return false;
}

static bool
has_all(const GPtrArray *known, const char *const *paths)
{
    for (; *paths != NULL; paths++)
        if (!has(known, *paths))
            return false;
    return true;
}

static void
forget_missing(GPtrArray *paths)
{
    for (guint i = paths->len; i > 0 && paths->len > MANY_PATHS; i--)
        if (!g_file_test(g_ptr_array_index(paths, i - 1), G_FILE_TEST_EXISTS))
            g_ptr_array_remove_index(paths, i - 1);
}

static bool
add(const char *state_dir, const char *name, const char *const *paths, GError **error)
{
    g_autoptr(GPtrArray) seen = load(state_dir, name, error);
    if (seen == NULL)
        return false;
    if (has_all(seen, paths))
        return true;
    g_autofree char *lock_path = g_build_filename(state_dir, LOCK, NULL);
    if (!ipb_file_make_directories(state_dir, 0700, error))
        return false;
    ipb_autofd lock = ipb_file_lock(lock_path, LOCK_TIMEOUT_MS, error);
    g_autoptr(GPtrArray) known = lock >= 0 ? load(state_dir, name, error) : NULL;
    if (known == NULL)
        return false;
    forget_missing(known);
    for (; *paths != NULL; paths++)
        if (!has(known, *paths))
            g_ptr_array_add(known, g_strdup(*paths));
    return save(state_dir, name, known, error);
}

/* @path without links; itself if nothing is there. */
static char *
resolve(const char *path)
{
    char *real = realpath(path, NULL);
    char *result = g_strdup(real != NULL ? real : path);
    free(real);
    return result;
}

bool
ipb_known_paths_add_plan(const char *state_dir, const IpbSandboxPlan *plan, GError **error)
{
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        bool is_above = rule->parent != NULL && rule->parent->access.view == IPB_VIEW_HOST &&
                        rule->parent->access.is_writable;
        if (rule->access.view == IPB_VIEW_HOST && rule->access.is_writable && !is_above)
            g_strv_builder_add(builder, rule->path);
    }
    g_auto(GStrv) paths = g_strv_builder_end(builder);
    return add(state_dir, WRITABLE, (const char *const *) paths, error);
}

char **
ipb_known_paths_environments(const char *state_dir, const char *workspace, GError **error)
{
    g_autoptr(GPtrArray) paths = load(state_dir, IPB_KNOWN_ENVIRONMENTS_FILE, error);
    if (paths == NULL)
        return NULL;
    g_autofree char *real = resolve(workspace);
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    for (guint i = 0; i < paths->len; i++)
        if (!ipb_path_is_in(real, g_ptr_array_index(paths, i)))
            g_strv_builder_add(builder, g_ptr_array_index(paths, i));
    return g_strv_builder_end(builder);
}

/* --- the Python of kernels -------------------------------------------------------------------- */

/* The directory that @path is in; NULL: none. */
static const char *
find_above(const GPtrArray *directories, const char *path)
{
    for (guint i = 0; i < directories->len; i++)
        if (ipb_path_is_in(path, g_ptr_array_index(directories, i)))
            return g_ptr_array_index(directories, i);
    return NULL;
}

/* The environment of @python; NULL: it is in none. */
static char *
find_environment(const char *python)
{
    static const char *const MARKERS[] = {"pyvenv.cfg", "conda-meta"};
    g_autofree char *prefix = g_canonicalize_filename("../..", python);
    for (size_t i = 0; i < G_N_ELEMENTS(MARKERS); i++) {
        g_autofree char *marker = g_build_filename(prefix, MARKERS[i], NULL);
        if (access(marker, F_OK) == 0)
            return resolve(prefix);
    }
    return NULL;
}

/* The directory in which cells may have changed what @python runs; NULL: none. */
static const char *
find_writable(const char *python, const char *environment, const GPtrArray *writable,
              const GPtrArray *known)
{
    g_autofree char *real = resolve(python);
    const char *const places[] = {environment != NULL ? environment : python, real};
    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        const char *directory = find_above(writable, places[i]);
        if (directory != NULL && find_above(known, places[i]) == NULL)
            return directory;
    }
    return NULL;
}

bool
ipb_known_paths_check_directory(const char *state_dir, const char *directory, GError **error)
{
    g_autoptr(GPtrArray) writable = load(state_dir, WRITABLE, error);
    g_autoptr(GPtrArray) known =
        writable != NULL ? load(state_dir, IPB_KNOWN_ENVIRONMENTS_FILE, error) : NULL;
    if (known == NULL)
        return false;
    g_autofree char *real = resolve(directory);
    const char *const places[] = {directory, real};
    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        const char *above = find_above(writable, places[i]);
        if (above == NULL || find_above(known, places[i]) != NULL)
            continue;
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "%s is in %s, which code in sandboxes could write: it may have put files there",
                    directory, above);
        return false;
    }
    return true;
}

bool
ipb_known_paths_check_python(const char *state_dir, const char *python, IpbPythonOrigin origin,
                             char **ret_warning, GError **error)
{
    *ret_warning = NULL;
    g_autoptr(GPtrArray) writable = load(state_dir, WRITABLE, error);
    g_autoptr(GPtrArray) known =
        writable != NULL ? load(state_dir, IPB_KNOWN_ENVIRONMENTS_FILE, error) : NULL;
    if (known == NULL)
        return false;
    g_autofree char *environment = find_environment(python);
    const char *directory =
        origin != IPB_PYTHON_OWN ? find_writable(python, environment, writable, known) : NULL;
    if (directory != NULL && origin == IPB_PYTHON_IMPLIED) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED,
                    "%s would run kernels, outside of their sandboxes, but is in %s, which code in "
                    "sandboxes could write: it may have put code there. If you trust it, name it "
                    "with --python or IPYBOX_PYTHON; else use an environment in another directory",
                    python, directory);
        return false;
    }
    if (directory != NULL)
        *ret_warning = g_strdup_printf("%s is in %s, which code in sandboxes could write until "
                                       "now; from now on they cannot write its environment",
                                       python, directory);
    return true;
}

bool
ipb_known_paths_add_python(const char *state_dir, const char *python, GError **error)
{
    g_autofree char *environment = find_environment(python);
    g_autoptr(GError) failure = NULL;
    /* Without a state directory nothing is known. */
    if (environment == NULL ||
        add(state_dir, IPB_KNOWN_ENVIRONMENTS_FILE, (const char *const[]){environment, NULL},
            &failure) ||
        g_error_matches(failure, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM))
        return true;
    g_propagate_error(error, g_steal_pointer(&failure));
    return false;
}
