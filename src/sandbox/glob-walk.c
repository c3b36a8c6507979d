/* SPDX-License-Identifier: Apache-2.0
 *
 * Expanding a glob to what is there. Directories wait in a queue with the states in which the pattern reached them; a directory is
 * listed once for each set of states, so links that lead in circles end.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "sandbox/glob-private.h"

typedef struct {
    char *path;
    unsigned char *states; /* after the slash that ends the directory */
} Directory;

typedef struct {
    const IpbGlob *glob;
    const IpbGlobWalk *walk;
    GQueue waiting;   /* Directory */
    GHashTable *seen; /* GBytes: device, inode, states */
} Walker;

static void
free_directory(Directory *directory)
{
    g_free(directory->path);
    g_free(directory->states);
    g_free(directory);
}

static bool
spend(IpbGlobBudget *budget, GError **error)
{
    if (budget->entries_left > 0 && g_get_monotonic_time() < budget->deadline_us) {
        budget->entries_left--;
        return true;
    }
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT,
                "the file system is too large for this pattern: begin it with a directory, and use "
                "\"**\" as far down as possible");
    return false;
}

/* Is it the first time that this directory is met in these states? */
static bool
add_seen(Walker *walker, const struct stat *info, const unsigned char *states)
{
    g_autoptr(GByteArray) key = g_byte_array_new();
    g_byte_array_append(key, (const guint8 *) &info->st_dev, sizeof info->st_dev);
    g_byte_array_append(key, (const guint8 *) &info->st_ino, sizeof info->st_ino);
    g_byte_array_append(key, states, (guint) ipb_glob_n_states(walker->glob));
    return g_hash_table_add(walker->seen, g_byte_array_free_to_bytes(g_steal_pointer(&key)));
}

/* The kernel's own file systems are no places for anybody's files, and have no end. */
static bool
is_kernel_tree(const char *path)
{
    return g_str_equal(path, "/proc") || g_str_equal(path, "/sys") || g_str_equal(path, "/dev");
}

static bool
is_empty(const char *path)
{
    DIR *stream = opendir(path);
    if (stream == NULL)
        return false;
    const struct dirent *entry;
    bool is_found = false;
    while (!is_found && (entry = readdir(stream)) != NULL)
        is_found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(stream);
    return !is_found;
}

static void
visit(Walker *walker, const char *path, const unsigned char *states)
{
    struct stat info;
    const IpbGlobWalk *walk = walker->walk;
    size_t n = ipb_glob_n_states(walker->glob);
    bool is_match = ipb_glob_accepts(walker->glob, states);
    g_autofree unsigned char *below = g_malloc(n);
    bool goes_on = ipb_glob_feed(walker->glob, states, "/", below);
    if (!is_match && !goes_on)
        return;
    bool is_there = (walk->follow_links ? stat(path, &info) : lstat(path, &info)) == 0;
    bool is_directory = is_there && S_ISDIR(info.st_mode);
    if (is_match && (!walk->only_directories || (is_directory && !is_empty(path))))
        walk->on_match(path, false, walk->data);
    if (!goes_on || !is_directory || is_kernel_tree(path) || !add_seen(walker, &info, below))
        return;
    Directory *directory = g_new0(Directory, 1);
    directory->path = g_strdup(path);
    directory->states = g_steal_pointer(&below);
    g_queue_push_tail(&walker->waiting, directory);
}

static bool
list(Walker *walker, const Directory *directory, GError **error)
{
    const IpbGlobWalk *walk = walker->walk;
    g_autofree unsigned char *states = g_malloc(ipb_glob_n_states(walker->glob));
    bool is_root = g_str_equal(directory->path, "/");
    DIR *stream = opendir(directory->path);
    if (stream == NULL) {
        if (errno != ENOENT && errno != ENOTDIR)
            walk->on_match(directory->path, true, walk->data);
        return true;
    }
    bool is_fine = true;
    const struct dirent *entry;
    while (is_fine && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        is_fine = spend(walk->budget, error);
        if (!is_fine || !ipb_glob_feed(walker->glob, directory->states, entry->d_name, states))
            continue;
        g_autofree char *path =
            g_strconcat(is_root ? "" : directory->path, "/", entry->d_name, NULL);
        visit(walker, path, states);
    }
    closedir(stream);
    return is_fine;
}

bool
ipb_glob_walk(const IpbGlob *glob, const IpbGlobWalk *walk, GError **error)
{
    Walker walker = {
        .glob = glob,
        .walk = walk,
        .waiting = G_QUEUE_INIT,
        .seen = g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref,
                                      NULL),
    };
    Directory *first = g_new0(Directory, 1);
    first->path = g_strdup(walk->base);
    first->states = g_malloc(ipb_glob_n_states(glob));
    ipb_glob_start(glob, first->states);
    g_queue_push_tail(&walker.waiting, first);
    bool is_fine = true;
    while (is_fine && !g_queue_is_empty(&walker.waiting)) {
        Directory *directory = g_queue_pop_head(&walker.waiting);
        is_fine = list(&walker, directory, error);
        free_directory(directory);
    }
    g_queue_clear_full(&walker.waiting, (GDestroyNotify) free_directory);
    g_hash_table_unref(walker.seen);
    return is_fine;
}
