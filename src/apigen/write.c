/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a package in one step: beside the one of before, then exchanged with it. What a user added moves over (keep.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "apigen/apigen.h"
#include "apigen/keep.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"

#define MAX_INIT_SIZE (1 << 20)
/* Every package that ipybox generated, of any version, holds this in its __init__.py. */
#define MARK "ToolRunner("

/* What would be replaced must be ours: nothing there, an empty directory, or a generated package. */
static bool
check_target(const char *target, GError **error)
{
    g_autofree char *init = g_build_filename(target, "__init__.py", NULL);
    g_autofree char *text = NULL;
    size_t size;
    struct stat status;
    if (lstat(target, &status) < 0)
        return errno == ENOENT || ipb_error_set_errno(error, errno, "cannot look at %s", target);
    if (S_ISDIR(status.st_mode)) {
        if (ipb_file_read(init, MAX_INIT_SIZE, &text, &size, NULL) && strstr(text, MARK) != NULL)
            return true;
        g_autoptr(GDir) dir = g_dir_open(target, 0, NULL);
        if (dir != NULL && g_dir_read_name(dir) == NULL)
            return true;
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                "%s exists and is no generated package: choose another name for the server or "
                "another root directory, or remove it",
                target);
    return false;
}

static bool
write_file(const char *path, const char *source, GError **error)
{
    ipb_autofd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return ipb_error_set_errno(error, errno, "cannot write %s", path);
    if (ipb_fd_write_all(fd, source, strlen(source), error))
        return true;
    g_prefix_error(error, "%s: ", path);
    return false;
}

/* Not synced file by file: after a loss of power the package can be generated again. */
static bool
write_files(GPtrArray *files, IpbKeep *keep, const char *directory, GError **error)
{
    for (guint i = 0; i < files->len; i++) {
        const IpbApigenFile *file = g_ptr_array_index(files, i);
        g_autofree char *path = g_build_filename(directory, file->name, NULL);
        g_autofree char *text = ipb_keep_merge(keep, file);
        if (!write_file(path, text, error))
            return false;
    }
    g_autofree char *manifest = ipb_keep_make_manifest(files);
    g_autofree char *path = g_build_filename(directory, ipb_keep_manifest_name(), NULL);
    if (!write_file(path, manifest, error))
        return false;
    if (chmod(directory, 0755) < 0)
        return ipb_error_set_errno(error, errno, "cannot set the mode of %s", directory);
    return true;
}

/* The new package is in place and valid. The old one is at @temporary until the files that are kept
 * have moved. A failure here is not a failure of the new package. */
static char *
take_over(IpbKeep *keep, const char *temporary, const char *target)
{
    g_autoptr(GString) notes = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    if (!ipb_keep_move(keep, temporary, target, notes, &error) ||
        !ipb_file_remove_tree(temporary, &error))
        g_string_append_printf(notes,
                               "%sthe new package is in place, but what was added to the previous "
                               "one could not be moved and is in %s: %s",
                               notes->len > 0 ? "\n" : "", temporary, error->message);
    return notes->len > 0 ? g_strdup(notes->str) : NULL;
}

/* Needs no space on the disk. */
static bool
put_back(const char *temporary, const char *target, GError **error)
{
    bool had_package = g_file_test(temporary, G_FILE_TEST_IS_DIR);
    const char *source = had_package ? temporary : target;
    g_autoptr(GError) failure = NULL;
    if (ipb_file_swap_directory(source, had_package ? target : temporary, &failure))
        return true;
    g_prefix_error(error, "the previous package is in %s, because it could not be put back (%s): ",
                   temporary, failure->message);
    return false;
}

bool
ipb_apigen_write(GPtrArray *files, const char *root_dir, const char *server_name,
                 IpbApigenConfirmFunc confirm, void *data, char **ret_note, GError **error)
{
    *ret_note = NULL;
    g_autofree char *target = g_build_filename(root_dir, server_name, NULL);
    g_autofree char *prefix = g_strdup_printf(".%s-", server_name);
    if (!ipb_apigen_check_server_name(server_name, error) ||
        !ipb_file_make_directories(root_dir, 0755, error) || !check_target(target, error))
        return false;
    g_autofree char *temporary = ipb_file_make_temp_directory(root_dir, prefix, error);
    if (temporary == NULL)
        return false;
    g_autoptr(IpbKeep) keep = ipb_keep_new(target);
    bool is_placed = write_files(files, keep, temporary, error) &&
                     ipb_file_swap_directory(temporary, target, error);
    if (is_placed && (confirm == NULL || confirm(data, error))) {
        *ret_note = take_over(keep, temporary, target);
        return true;
    }
    if (!is_placed || put_back(temporary, target, error))
        ipb_file_remove_tree(temporary, NULL);
    return false;
}
