/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/quarantine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/path.h"

/* Names that are tried for one file. */
#define MAX_TRIES 1000
#define MAX_LINK_SIZE 4096

typedef struct {
    char *path;
    char *target;
} Link;

struct IpbQuarantine {
    IpbSandboxPlan *plan;
    char *directory;
    char *batch;      /* the name of this sweep's directory below @directory */
    GPtrArray *paths; /* char *: paths that must not exist */
    char *allowed;    /* the path that may exist as a directory; or NULL */
    GPtrArray *links; /* Link: links that must not change */
    unsigned n_moved;
};

static void
free_link(Link *link)
{
    g_free(link->path);
    g_free(link->target);
    g_free(link);
}

static void
free_item(IpbQuarantined *item)
{
    g_free(item->path);
    g_free(item->moved_to);
    g_free(item->failure);
    g_free(item);
}

static char *
read_link(int directory, const char *name)
{
    char target[MAX_LINK_SIZE];
    ssize_t size = readlinkat(directory, name, target, sizeof target - 1);
    return size >= 0 ? g_strndup(target, (size_t) size) : NULL;
}

IpbQuarantine *
ipb_quarantine_new(const IpbSandboxPlan *plan, const char *directory)
{
    IpbQuarantine *quarantine = g_new0(IpbQuarantine, 1);
    quarantine->plan = ipb_sandbox_plan_ref((IpbSandboxPlan *) plan);
    quarantine->directory = g_strdup(directory);
    quarantine->paths = g_ptr_array_new_with_free_func(g_free);
    quarantine->links = g_ptr_array_new_with_free_func((GDestroyNotify) free_link);
    for (guint i = 0; i < plan->paths->absent->len; i++)
        g_ptr_array_add(quarantine->paths, g_strdup(g_ptr_array_index(plan->paths->absent, i)));
    for (guint i = 0; i < plan->paths->links->len; i++) {
        const char *path = g_ptr_array_index(plan->paths->links, i);
        Link *link = g_new0(Link, 1);
        link->path = g_strdup(path);
        link->target = read_link(AT_FDCWD, path);
        g_ptr_array_add(quarantine->links, link);
    }
    return quarantine;
}

void
ipb_quarantine_allow_directory(IpbQuarantine *quarantine, const char *path)
{
    g_free(quarantine->allowed);
    quarantine->allowed = g_strdup(path);
}

/* --- looking ---------------------------------------------------------------------------------- */

typedef struct {
    int directory; /* O_PATH */
    char *path;    /* the path that is moved: the one that was asked for, or a link on the way */
    char *name;    /* its name in @directory */
    bool is_link, is_directory;
    char *failure; /* why it cannot be accessed */
} Found;

static void
clear_found(Found *found)
{
    ipb_fd_close(&found->directory);
    g_free(found->path);
    g_free(found->name);
    g_free(found->failure);
}

/* Could code inside have created it? What is above the writable directories was not created
 * inside. */
static bool
is_writable(const IpbQuarantine *quarantine, const char *path)
{
    return ipb_sandbox_plan_is_writable_below(quarantine->plan, path);
}

/* Goes one step down. Returns true if the walk of @path ends here, because something is in the way
 * or because it cannot continue. */
static bool
stop_at(const IpbQuarantine *quarantine, Found *found, const char *path, size_t size, bool is_last,
        bool *ret_found)
{
    struct stat info;
    g_autofree char *here = g_strndup(path, size);
    const char *name = strrchr(here, '/') + 1;
    *ret_found = false;
    if (fstatat(found->directory, name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
        *ret_found = errno != ENOENT && errno != ENOTDIR && is_writable(quarantine, here);
        if (*ret_found)
            found->failure = g_strdup(g_strerror(errno));
    } else if (is_last || S_ISLNK(info.st_mode)) {
        *ret_found = is_writable(quarantine, here);
    } else if (S_ISDIR(info.st_mode)) {
        int next = openat(found->directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next >= 0) {
            ipb_fd_close(&found->directory);
            found->directory = next;
            return false;
        }
    }
    if (*ret_found) {
        found->is_link = found->failure == NULL && S_ISLNK(info.st_mode);
        found->is_directory = found->failure == NULL && S_ISDIR(info.st_mode);
        found->name = g_strdup(name);
        found->path = g_steal_pointer(&here);
    }
    return true;
}

/* Are both @path and all links on the way to it missing? It takes one call, since this runs for all
 * paths after each cell. */
static bool
is_absent(const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_SYMLINKS,
    };
    ipb_autofd fd = (int) syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd < 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* Looks for @path, or a link on the way to it. */
static bool
look(const IpbQuarantine *quarantine, const char *path, Found *found)
{
    bool is_found = false;
    *found = (Found){.directory = -1};
    if (is_absent(path))
        return false;
    found->directory = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t at = 1; found->directory >= 0; at++) {
        at += strcspn(path + at, "/");
        if (stop_at(quarantine, found, path, at, path[at] == '\0', &is_found) || path[at] == '\0')
            break;
    }
    return is_found;
}

/* git puts example hooks, which it does not run, into every repository. */
static bool
holds_samples_only(const Found *found)
{
    if (!g_str_has_suffix(found->path, "/.git/hooks") || found->is_link)
        return false;
    int fd = openat(found->directory, found->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (stream == NULL) {
        ipb_fd_close(&fd);
        return false;
    }
    bool only_samples = true;
    const struct dirent *entry;
    while (only_samples && (entry = readdir(stream)) != NULL)
        only_samples = g_str_equal(entry->d_name, ".") || g_str_equal(entry->d_name, "..") ||
                       g_str_has_suffix(entry->d_name, ".sample");
    closedir(stream);
    return only_samples;
}

static bool
is_allowed(const IpbQuarantine *quarantine, const Found *found)
{
    return quarantine->allowed != NULL && found->is_directory &&
           g_str_equal(found->path, quarantine->allowed);
}

/* --- moving ----------------------------------------------------------------------------------- */

/* Opens the directory of this sweep, created when the first file is moved. */
static int
open_batch(IpbQuarantine *quarantine, char **ret_path)
{
    if (quarantine->batch == NULL) {
        g_autoptr(GDateTime) now = g_date_time_new_now_utc();
        g_autofree char *time = g_date_time_format(now, "%Y%m%dT%H%M%SZ");
        quarantine->batch = g_strdup_printf("%s-%d", time, (int) getpid());
    }
    *ret_path = g_build_filename(quarantine->directory, quarantine->batch, NULL);
    return g_mkdir_with_parents(*ret_path, 0700) == 0
               ? open(*ret_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
               : -1;
}

/* Moves the file to @directory, under the first name that is free. Returns NULL with errno. */
static char *
rename_into(const Found *found, int directory, const char *format_prefix)
{
    for (unsigned i = 1; i <= MAX_TRIES; i++) {
        g_autofree char *name = g_strdup_printf("%s%u", format_prefix, i);
        if (renameat2(found->directory, found->name, directory, name, RENAME_NOREPLACE) == 0)
            return g_steal_pointer(&name);
        if (errno != EEXIST)
            break;
    }
    return NULL;
}

static void
move_away(IpbQuarantine *quarantine, const Found *found, IpbQuarantined *item)
{
    g_autofree char *batch = NULL;
    ipb_autofd directory = open_batch(quarantine, &batch);
    g_autofree char *prefix = g_strconcat(found->name, ".", NULL);
    g_autofree char *name = directory >= 0 ? rename_into(found, directory, prefix) : NULL;
    if (name != NULL) {
        item->moved_to = g_build_filename(batch, name, NULL);
        return;
    }
    if (directory >= 0)
        rmdir(batch); /* if it is empty */
    /* It is on another file system, or in a directory that cannot be changed: rename it where it
     * is. */
    g_autofree char *inert = g_strconcat(found->name, ".ipybox-quarantine-", NULL);
    name = rename_into(found, found->directory, inert);
    if (name == NULL) {
        item->failure = g_strdup(g_strerror(errno));
        return;
    }
    g_autofree char *parent = g_path_get_dirname(found->path);
    item->moved_to = g_build_filename(parent, name, NULL);
}

static void
add_item(IpbQuarantine *quarantine, GPtrArray *items, const Found *found, const char *link_target)
{
    IpbQuarantined *item = g_new0(IpbQuarantined, 1);
    item->path = g_strdup(found->path);
    item->failure = g_strdup(found->failure);
    if (item->failure == NULL)
        move_away(quarantine, found, item);
    if (link_target != NULL && item->moved_to != NULL)
        item->is_restored = symlinkat(link_target, found->directory, found->name) == 0;
    g_ptr_array_add(items, item);
}

static void
sweep_path(IpbQuarantine *quarantine, const char *path, GPtrArray *items)
{
    Found found;
    if (look(quarantine, path, &found) && !holds_samples_only(&found) &&
        !is_allowed(quarantine, &found))
        add_item(quarantine, items, &found, NULL);
    clear_found(&found);
}

/* A link that was removed is harmless. */
static void
sweep_link(IpbQuarantine *quarantine, const Link *link, GPtrArray *items)
{
    Found found;
    if (link->target != NULL && look(quarantine, link->path, &found)) {
        bool is_itself = g_str_equal(found.path, link->path);
        g_autofree char *target = is_itself ? read_link(found.directory, found.name) : NULL;
        if (g_strcmp0(target, link->target) != 0)
            add_item(quarantine, items, &found, is_itself ? link->target : NULL);
        clear_found(&found);
    }
}

GPtrArray *
ipb_quarantine_sweep(IpbQuarantine *quarantine)
{
    GPtrArray *items = g_ptr_array_new_with_free_func((GDestroyNotify) free_item);
    for (guint i = 0; i < quarantine->paths->len; i++)
        sweep_path(quarantine, g_ptr_array_index(quarantine->paths, i), items);
    for (guint i = 0; i < quarantine->links->len; i++)
        sweep_link(quarantine, g_ptr_array_index(quarantine->links, i), items);
    return items;
}

char *
ipb_quarantined_describe(const IpbQuarantined *item)
{
    if (item->moved_to == NULL)
        return g_strdup_printf("%s was created, which is not allowed, and cannot be moved away: "
                               "%s. Check it before you use the directory",
                               item->path, item->failure);
    return g_strdup_printf("%s was created, which is not allowed: it was moved to %s%s", item->path,
                           item->moved_to,
                           item->is_restored ? ", and the original link was restored" : "");
}

void
ipb_quarantine_free(IpbQuarantine *quarantine)
{
    if (quarantine == NULL)
        return;
    ipb_sandbox_plan_unref(quarantine->plan);
    g_free(quarantine->directory);
    g_free(quarantine->batch);
    g_free(quarantine->allowed);
    g_ptr_array_unref(quarantine->paths);
    g_ptr_array_unref(quarantine->links);
    g_free(quarantine);
}
