/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of kernelspecs; see the header.
 */
#include "cli/jupyter-folders.h"

#include <glib.h>

/* Of JUPYTER_PATH */
#define MAX_FOLDERS 32

char *
ipb_jupyter_folders_user(void)
{
    const char *data = g_getenv("JUPYTER_DATA_DIR");
    if (data != NULL && *data != '\0')
        return g_build_filename(data, "kernels", NULL);
    return g_build_filename(g_get_user_data_dir(), "jupyter", "kernels", NULL);
}

char *
ipb_jupyter_folders_of_prefix(const char *prefix)
{
    return g_build_filename(prefix, "share", "jupyter", "kernels", NULL);
}

static void
add(GPtrArray *folders, const char *path)
{
    g_autofree char *folder = g_canonicalize_filename(path, NULL);
    if (!g_ptr_array_find_with_equal_func(folders, folder, g_str_equal, NULL))
        g_ptr_array_add(folders, g_steal_pointer(&folder));
}

static void
add_prefix(GPtrArray *folders, const char *prefix)
{
    g_autofree char *folder = ipb_jupyter_folders_of_prefix(prefix);
    add(folders, folder);
}

char **
ipb_jupyter_folders_list(void)
{
    GPtrArray *folders = g_ptr_array_new();
    const char *variable = g_getenv("JUPYTER_PATH");
    g_auto(GStrv) paths = g_strsplit(variable != NULL ? variable : "", ":", MAX_FOLDERS);
    for (char **path = paths; *path != NULL; path++) {
        g_autofree char *folder = g_build_filename(*path, "kernels", NULL);
        if (**path != '\0')
            add(folders, folder);
    }
    g_autofree char *user = ipb_jupyter_folders_user();
    add(folders, user);
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *prefix = program != NULL ? g_canonicalize_filename("../..", program) : NULL;
    if (prefix != NULL)
        add_prefix(folders, prefix);
    add_prefix(folders, "/usr/local");
    add_prefix(folders, "/usr");
    g_ptr_array_add(folders, NULL);
    return (char **) g_ptr_array_free(folders, FALSE);
}
