/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the files of ipybox; see the header.
 */
#include "base/installed-files.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

/* Used for the program: the loader knows only the name by which it was called, not its path. */
static char *
program_path(GError **error)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size < 0) {
        ipb_error_set_errno(error, errno,
                            "cannot find the place of this program (is /proc mounted?)");
        return NULL;
    }
    return g_strndup(path, (gsize) size);
}

char *
ipb_installed_files_directory(GError **error)
{
    Dl_info info;
    struct link_map *object = NULL;
    char *(*here)(GError **) = ipb_installed_files_directory;
    g_autofree char *path = NULL;
    if (dladdr1((const void *) here, &info, (void **) &object, RTLD_DL_LINKMAP) != 0 &&
        object != NULL && object->l_name[0] != '\0') {
        g_autofree char *real = realpath(object->l_name, NULL);
        path = g_strdup(real != NULL ? real : object->l_name);
    } else {
        path = program_path(error);
    }
    return path != NULL ? g_path_get_dirname(path) : NULL;
}

/* Escapes the characters that are special for glob(3). */
static char *
escape(const char *path)
{
    GString *text = g_string_new(NULL);
    for (; *path != '\0'; path++) {
        if (strchr("*?[\\", *path) != NULL)
            g_string_append_c(text, '\\');
        g_string_append_c(text, *path);
    }
    return g_string_free(text, FALSE);
}

/* The first @file in a directory that matches the pattern, or NULL. */
static char *
find_in(const char *directory, const char *pattern, const char *file)
{
    g_autofree char *start = escape(directory);
    g_autofree char *whole =
        *pattern == '/' ? g_strdup(pattern) : g_build_filename(start, pattern, NULL);
    glob_t found = {0};
    char *path = NULL;
    if (glob(whole, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && path == NULL; i++) {
            g_autofree char *place = g_canonicalize_filename(found.gl_pathv[i], NULL);
            g_autofree char *candidate = g_build_filename(place, file, NULL);
            if (g_file_test(candidate, G_FILE_TEST_IS_REGULAR))
                path = g_steal_pointer(&candidate);
        }
    globfree(&found);
    return path;
}

char *
ipb_installed_files_find(const char *const *candidates, const char *file, const char *what,
                         GError **error)
{
    g_autofree char *directory = ipb_installed_files_directory(error);
    if (directory == NULL)
        return NULL;
    g_autoptr(GString) tried = g_string_new(NULL);
    for (; *candidates != NULL; candidates++) {
        char *path = find_in(directory, *candidates, file);
        if (path != NULL)
            return path;
        g_autofree char *place = g_canonicalize_filename(*candidates, directory);
        g_string_append_printf(tried, "%s%s", tried->len > 0 ? ", " : "", place);
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "the installation of ipybox is incomplete: no %s (%s) in %s; install ipybox again",
                what, file, tried->str);
    return NULL;
}
