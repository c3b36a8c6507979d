/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/path.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINKS 40 /* the limit of the Linux kernel */

char *
ipb_path_expand(const char *text, const char *workspace, const char *home)
{
    const char *base = NULL;
    if (text[0] == '~' && (text[1] == '/' || text[1] == '\0')) {
        base = home;
        text++;
    } else if (text[0] != '/') {
        base = workspace;
    }
    g_autofree char *joined = base != NULL ? g_strconcat(base, "/", text, NULL) : g_strdup(text);
    g_auto(GStrv) parts = g_strsplit(joined, "/", -1);
    GString *path = g_string_new(NULL);
    for (char **part = parts; *part != NULL; part++)
        if (**part != '\0' && strcmp(*part, ".") != 0)
            g_string_append_printf(path, "/%s", *part);
    if (path->len == 0)
        g_string_append_c(path, '/');
    return g_string_free(path, FALSE);
}

bool
ipb_path_is_in(const char *path, const char *directory)
{
    return strcmp(path, directory) == 0 || ipb_path_is_below(path, directory);
}

bool
ipb_path_is_below(const char *path, const char *directory)
{
    size_t size = strlen(directory);
    if (strcmp(directory, "/") == 0)
        return path[0] == '/' && path[1] != '\0';
    return strncmp(path, directory, size) == 0 && path[size] == '/';
}

void
ipb_path_clear(IpbPath *path)
{
    g_clear_pointer(&path->real, g_free);
    g_clear_pointer(&path->links, g_ptr_array_unref);
}

/* Takes the first part off @rest, a path without its leading slash. Returns "" at the end. */
static char *
take_part(GString *rest)
{
    const char *slash = strchr(rest->str, '/');
    size_t size = slash != NULL ? (size_t) (slash - rest->str) : rest->len;
    char *part = g_strndup(rest->str, size);
    g_string_erase(rest, 0, (gssize) MIN(size + 1, rest->len));
    return part;
}

static void
go_up(GString *done)
{
    const char *slash = strrchr(done->str, '/');
    g_string_truncate(done, slash != NULL ? (size_t) (slash - done->str) : 0);
}

/* @link is a symbolic link: puts its target before @rest. Returns false if it cannot be read. */
static bool
follow(GString *done, const char *link, GString *rest)
{
    char target[PATH_MAX];
    ssize_t size = readlink(link, target, sizeof target - 1);
    if (size <= 0)
        return false;
    target[size] = '\0';
    if (target[0] == '/')
        g_string_truncate(done, 0);
    g_string_prepend_c(rest, '/');
    g_string_prepend(rest, target);
    return true;
}

static IpbPathState
state_of_error(int saved_errno)
{
    switch (saved_errno) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return IPB_PATH_MISSING;
    default:
        return IPB_PATH_CLOSED;
    }
}

/* Appends the rest of a path as written, because @part does not exist. ".." takes back a part that
 * does not exist; what remains may exist. */
static void
append_rest(GString *done, const char *part, GString *rest)
{
    g_string_append_printf(done, "/%s", part);
    while (rest->len > 0) {
        g_autofree char *next = take_part(rest);
        if (strcmp(next, "..") == 0)
            go_up(done);
        else if (*next != '\0' && strcmp(next, ".") != 0)
            g_string_append_printf(done, "/%s", next);
    }
}

/* Resolves one more part. Returns false and sets the state if the walk ends here. */
static bool
step(IpbPath *path, GString *done, GString *rest, struct stat *info)
{
    g_autofree char *part = take_part(rest);
    if (*part == '\0' || strcmp(part, ".") == 0)
        return true;
    if (strcmp(part, "..") == 0) {
        go_up(done);
        return true;
    }
    g_autofree char *next = g_strconcat(done->str, "/", part, NULL);
    bool is_there = lstat(next, info) == 0;
    path->state = is_there ? IPB_PATH_FILE : state_of_error(errno);
    if (is_there && S_ISLNK(info->st_mode)) {
        g_ptr_array_add(path->links, g_strdup(next));
        if (path->links->len <= MAX_LINKS && follow(done, next, rest))
            return true;
        path->state = IPB_PATH_MISSING;
        is_there = false;
    }
    if (is_there)
        g_string_append_printf(done, "/%s", part);
    else if (path->state == IPB_PATH_MISSING)
        append_rest(done, part, rest);
    return is_there;
}

/* Resolves @rest, starting at @done. Returns false if the walk ends early. */
static bool
walk(IpbPath *path, GString *done, GString *rest, struct stat *info)
{
    bool is_there = true;
    while (is_there && rest->len > 0)
        is_there = step(path, done, rest, info);
    return is_there;
}

void
ipb_path_resolve(const char *absolute, IpbPath *ret_path)
{
    g_autoptr(GString) done = g_string_new(NULL);
    g_autoptr(GString) rest = g_string_new(absolute);
    struct stat info = {0};
    *ret_path = (IpbPath){.links = g_ptr_array_new_with_free_func(g_free)};
    bool is_there = walk(ret_path, done, rest, &info);
    if (!is_there && ret_path->state == IPB_PATH_MISSING && strstr(absolute, "/..") != NULL) {
        g_string_assign(rest, done->str);
        g_string_truncate(done, 0);
        is_there = walk(ret_path, done, rest, &info);
    }
    if (done->len == 0)
        g_string_append_c(done, '/');
    if (is_there) {
        /* Check again: the last part may have been ".." or a link to "/". */
        is_there = lstat(done->str, &info) == 0;
        ret_path->state = !is_there               ? state_of_error(errno)
                          : S_ISDIR(info.st_mode) ? IPB_PATH_DIRECTORY
                                                  : IPB_PATH_FILE;
        ret_path->n_hard_links = is_there ? info.st_nlink : 0;
    }
    ret_path->real = g_strdup(done->str);
}
