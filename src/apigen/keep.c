/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user added to a generated package; see the header.
 */
#include "apigen/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"

#define MANIFEST ".generated"
#define MAX_MANIFEST (8 << 20)
#define MAX_FILE (80 << 20)
/* Files NAME.before, NAME.before-2 … of one module. */
#define MAX_BEFORE 1000

typedef struct {
    char *digest;
    size_t size;
} Generated;

struct IpbKeep {
    char *directory;
    bool has_manifest;
    GHashTable *generated; /* name → Generated */
    GHashTable *done;      /* names of the new package */
};

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
read_manifest(IpbKeep *keep, char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
        g_auto(GStrv) parts = g_strsplit(*line, " ", 3);
        if (g_strv_length(parts) != 3 || parts[0][0] == '#')
            continue;
        Generated *generated = g_new0(Generated, 1);
        generated->digest = g_strdup(parts[0]);
        generated->size = g_ascii_strtoull(parts[1], NULL, 10);
        g_hash_table_insert(keep->generated, g_strdup(parts[2]), generated);
    }
}

IpbKeep *
ipb_keep_new(const char *directory)
{
    IpbKeep *keep = g_new0(IpbKeep, 1);
    keep->directory = g_strdup(directory);
    keep->generated = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_generated);
    keep->done = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autofree char *path = g_build_filename(directory, MANIFEST, NULL);
    g_autofree char *text = NULL;
    size_t size;
    keep->has_manifest = ipb_file_read(path, MAX_MANIFEST, &text, &size, NULL);
    if (keep->has_manifest)
        read_manifest(keep, text);
    return keep;
}

void
ipb_keep_free(IpbKeep *keep)
{
    if (keep == NULL)
        return;
    g_free(keep->directory);
    g_hash_table_unref(keep->generated);
    g_hash_table_unref(keep->done);
    g_free(keep);
}

const char *
ipb_keep_manifest_name(void)
{
    return MANIFEST;
}

static char *
digest(const char *text, size_t size)
{
    return g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *) text, size);
}

char *
ipb_keep_make_manifest(const GPtrArray *files)
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
classify(const IpbKeep *keep, const char *directory, const char *name, char **ret_added)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    const Generated *generated = g_hash_table_lookup(keep->generated, name);
    g_autofree char *text = NULL;
    size_t size;
    struct stat status;
    Kind unread = generated != NULL ? IS_CHANGED : IS_USERS;
    if (lstat(path, &status) < 0 || !S_ISREG(status.st_mode) ||
        !ipb_file_read(path, MAX_FILE, &text, &size, NULL))
        return unread;
    if (generated == NULL)
        return keep->has_manifest || !g_str_has_suffix(name, ".py") ? IS_USERS
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

char *
ipb_keep_merge(IpbKeep *keep, const IpbApigenFile *file)
{
    g_autofree char *added = NULL;
    Kind kind = classify(keep, keep->directory, file->name, &added);
    if (kind == IS_APPENDED || kind == IS_GENERATED)
        g_hash_table_add(keep->done, g_strdup(file->name));
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
move_entry(const IpbKeep *keep, const char *old, const char *new, const char *name, bool is_users,
           GString *notes, GError **error)
{
    if (g_str_equal(name, MANIFEST) || g_str_equal(name, "__pycache__") ||
        g_hash_table_contains(keep->done, name))
        return true;
    g_autofree char *added = NULL;
    g_autofree char *from = g_build_filename(old, name, NULL);
    Kind kind = classify(keep, old, name, &added);
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

bool
ipb_keep_move(IpbKeep *keep, const char *old, const char *new, GString *notes, GError **error)
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
            if (!move_entry(keep, old, new, g_ptr_array_index(names, i), is_users, notes, error))
                return false;
    return true;
}
