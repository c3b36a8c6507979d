/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding our own files; see the header.
 */
#include "base/place.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

/* The loader knows the program by what it was called, not by its path. */
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
ipb_place_directory(GError **error)
{
    Dl_info info;
    struct link_map *object = NULL;
    char *(*here)(GError **) = ipb_place_directory;
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

char *
ipb_place_find(const char *const *candidates, const char *file, const char *what, GError **error)
{
    g_autofree char *directory = ipb_place_directory(error);
    if (directory == NULL)
        return NULL;
    g_autoptr(GString) tried = g_string_new(NULL);
    for (; *candidates != NULL; candidates++) {
        g_autofree char *place = g_canonicalize_filename(*candidates, directory);
        g_autofree char *path = g_build_filename(place, file, NULL);
        if (g_file_test(path, G_FILE_TEST_IS_REGULAR))
            return g_steal_pointer(&path);
        g_string_append_printf(tried, "%s%s", tried->len > 0 ? ", " : "", place);
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND,
                "the installation is not whole: no %s (%s) in %s", what, file, tried->str);
    return NULL;
}
