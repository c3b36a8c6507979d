/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a package beside the old one and exchanges the two; see the header.
 */
#include "apigen/generated-package.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"

#define MANIFEST ".generated"
#define MAX_MANIFEST (8 << 20)
#define MAX_FILE (80 << 20)
/* Files NAME.before, NAME.before-2 … of one module. */
#define MAX_BEFORE 1000

#define MAX_INIT_SIZE (1 << 20)
/* Every package that ipybox generated, of any version, holds this in its __init__.py. */
#define MARK "ToolRunner("

/* --- what the user added ---------------------------------------------------------------------- */

typedef struct {
    char *digest;
    size_t size;
} Generated;

typedef struct {
    char *directory;
    bool has_manifest;
    GHashTable *generated; /* name → Generated */
    GHashTable *done;      /* names of the new package */
} Previous;

typedef enum {
    IS_GENERATED,
    IS_APPENDED,
    IS_CHANGED,
    IS_USERS,
} Kind;

static void
free_generated(void *data)
{
    Generated *generated = data;
    g_free(generated->digest);
    g_free(generated);
}

static void
read_manifest(Previous *previous, char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
        g_auto(GStrv) parts = g_strsplit(*line, " ", 3);
        if (g_strv_length(parts) != 3 || parts[0][0] == '#')
            continue;
        Generated *generated = g_new0(Generated, 1);
        generated->digest = g_strdup(parts[0]);
        generated->size = g_ascii_strtoull(parts[1], NULL, 10);
        g_hash_table_insert(previous->generated, g_strdup(parts[2]), generated);
    }
}

static Previous *
read_previous(const char *directory)
{
    Previous *previous = g_new0(Previous, 1);
    previous->directory = g_strdup(directory);
    previous->generated = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_generated);
    previous->done = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autofree char *path = g_build_filename(directory, MANIFEST, NULL);
    g_autofree char *text = NULL;
    size_t size;
    previous->has_manifest = ipb_file_read(path, MAX_MANIFEST, &text, &size, NULL);
    if (previous->has_manifest)
        read_manifest(previous, text);
    return previous;
}

static void
free_previous(Previous *previous)
{
    if (previous == NULL)
        return;
    g_free(previous->directory);
    g_hash_table_unref(previous->generated);
    g_hash_table_unref(previous->done);
    g_free(previous);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC(Previous, free_previous)

static char *
digest(const char *text, size_t size)
{
    return g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *) text, size);
}

static char *
make_manifest(const GPtrArray *files)
{
    GString *out =
        g_string_new("# What ipybox generated: SHA-256, size, name. What stands behind it "
                     "in a file, and other files, stay.\n");
    for (guint i = 0; i < files->len; i++) {
        const IpbApigenFile *file = g_ptr_array_index(files, i);
        size_t size = strlen(file->source);
        g_autofree char *sum = digest(file->source, size);
        g_string_append_printf(out, "%s %zu %s\n", sum, size, file->name);
    }
    return g_string_free(out, FALSE);
}

static bool
is_blank(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

/* A package from before there were lists, of this or the original's generator. */
static Kind
guess_kind(const char *name, const char *text)
{
    if (strstr(text, "run_parsed") != NULL)
        return IS_CHANGED;
    bool is_ours = g_str_equal(name, "__init__.py") || strstr(text, "from . import CLIENT") != NULL;
    return is_ours ? IS_GENERATED : IS_USERS;
}

/* What the file @name in @directory is. @ret_added: a copy of the text behind what was generated. */
static Kind
classify(const Previous *previous, const char *directory, const char *name, char **ret_added)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    const Generated *generated = g_hash_table_lookup(previous->generated, name);
    g_autofree char *text = NULL;
    size_t size;
    struct stat status;
    Kind unread = generated != NULL ? IS_CHANGED : IS_USERS;
    if (lstat(path, &status) < 0 || !S_ISREG(status.st_mode) ||
        !ipb_file_read(path, MAX_FILE, &text, &size, NULL))
        return unread;
    if (generated == NULL)
        return previous->has_manifest || !g_str_has_suffix(name, ".py") ? IS_USERS
                                                                        : guess_kind(name, text);
    if (size < generated->size)
        return IS_CHANGED;
    g_autofree char *sum = digest(text, generated->size);
    const char *added = text + generated->size;
    if (!g_str_equal(sum, generated->digest) || strlen(added) != size - generated->size)
        return IS_CHANGED;
    if (is_blank(added))
        return IS_GENERATED;
    *ret_added = g_strdup(added);
    return IS_APPENDED;
}

static char *
merge_source(Previous *previous, const IpbApigenFile *file)
{
    g_autofree char *added = NULL;
    Kind kind = classify(previous, previous->directory, file->name, &added);
    if (kind == IS_APPENDED || kind == IS_GENERATED)
        g_hash_table_add(previous->done, g_strdup(file->name));
    return g_strconcat(file->source, added, NULL);
}

/* Renames unless @to exists (EEXIST). */
static bool
rename_new(const char *from, const char *to)
{
    struct stat status;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS) /* a file system that cannot tell */
        return false;
    if (lstat(to, &status) == 0) {
        errno = EEXIST;
        return false;
    }
    return rename(from, to) == 0;
}

/* Moves the file aside under a name that is free. */
static bool
move_aside(const char *old_path, const char *new, const char *name, GString *notes, GError **error)
{
    for (int number = 1; number <= MAX_BEFORE; number++) {
        g_autofree char *aside = number == 1 ? g_strdup_printf("%s.before", name)
                                             : g_strdup_printf("%s.before-%d", name, number);
        g_autofree char *path = g_build_filename(new, aside, NULL);
        if (rename_new(old_path, path)) {
            g_string_append_printf(
                notes, "%s%s is kept as %s: it was changed within, or is no longer generated",
                notes->len > 0 ? "\n" : "", name, aside);
            return true;
        }
        if (errno != EEXIST)
            break;
    }
    return ipb_error_set_errno(error, errno, "cannot keep %s", old_path);
}

static bool
move_users(const char *from, const char *new, const char *name, GString *notes, GError **error)
{
    g_autofree char *to = g_build_filename(new, name, NULL);
    if (rename_new(from, to))
        return true;
    return errno == EEXIST ? move_aside(from, new, name, notes, error)
                           : ipb_error_set_errno(error, errno, "cannot keep %s", from);
}

/* Moves the entry if it is the user's own, or else if it is not. */
static bool
move_entry(const Previous *previous, const char *old, const char *new, const char *name,
           bool is_users, GString *notes, GError **error)
{
    if (g_str_equal(name, MANIFEST) || g_str_equal(name, "__pycache__") ||
        g_hash_table_contains(previous->done, name))
        return true;
    g_autofree char *added = NULL;
    g_autofree char *from = g_build_filename(old, name, NULL);
    Kind kind = classify(previous, old, name, &added);
    if (kind == IS_GENERATED || (kind == IS_USERS) != is_users)
        return true;
    return is_users ? move_users(from, new, name, notes, error)
                    : move_aside(from, new, name, notes, error);
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static bool
move_kept(Previous *previous, const char *old, const char *new, GString *notes, GError **error)
{
    g_autoptr(GDir) dir = g_dir_open(old, 0, NULL);
    /* In order, so that equal input gives equal names. */
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    for (const char *name; dir != NULL && (name = g_dir_read_name(dir)) != NULL;)
        g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_sort(names, compare_names);
    /* The user's own files first: they have their names already. */
    for (int is_users = 1; is_users >= 0; is_users--)
        for (guint i = 0; i < names->len; i++)
            if (!move_entry(previous, old, new, g_ptr_array_index(names, i), is_users, notes,
                            error))
                return false;
    return true;
}

/* --- writing ---------------------------------------------------------------------------------- */

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
write_files(GPtrArray *files, Previous *previous, const char *directory, GError **error)
{
    for (guint i = 0; i < files->len; i++) {
        const IpbApigenFile *file = g_ptr_array_index(files, i);
        g_autofree char *path = g_build_filename(directory, file->name, NULL);
        g_autofree char *text = merge_source(previous, file);
        if (!write_file(path, text, error))
            return false;
    }
    g_autofree char *manifest = make_manifest(files);
    g_autofree char *path = g_build_filename(directory, MANIFEST, NULL);
    if (!write_file(path, manifest, error))
        return false;
    if (chmod(directory, 0755) < 0)
        return ipb_error_set_errno(error, errno, "cannot set the mode of %s", directory);
    return true;
}

/* The new package is in place and valid. The old one is at @temporary until the files that are kept
 * have moved. A failure here is not a failure of the new package. */
static char *
take_over(Previous *previous, const char *temporary, const char *target)
{
    g_autoptr(GString) notes = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    if (!move_kept(previous, temporary, target, notes, &error) ||
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
ipb_generated_package_write(GPtrArray *files, const char *root_dir, const char *server_name,
                            IpbGeneratedPackageConfirmFunc confirm, void *data, char **ret_note,
                            GError **error)
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
    g_autoptr(Previous) previous = read_previous(target);
    bool is_placed = write_files(files, previous, temporary, error) &&
                     ipb_file_swap_directory(temporary, target, error);
    if (is_placed && (confirm == NULL || confirm(data, error))) {
        *ret_note = take_over(previous, temporary, target);
        return true;
    }
    if (!is_placed || put_back(temporary, target, error))
        ipb_file_remove_tree(temporary, NULL);
    return false;
}
