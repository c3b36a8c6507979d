/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers without a sandbox: the tests write into a layer what overlayfs would, and what hostile
 * code would if it could reach it. tests/sdk/test_staged.py has real sandboxes.
 */
#include "sandbox/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "base/file.h"
#include "sandbox/linux/layer-copies.h"

typedef struct {
    char *top, *workspace, *directory;
    IpbLayer *layer;
    IpbSandboxPlan *plan;
} Place;

static IpbSandboxPlan *
make_plan(const Place *place)
{
    GError *error = NULL;
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_default();
    const char *const hide[] = {place->directory, NULL};
    IpbPlanOptions options = {
        .policy = policy,
        .workspace = place->workspace,
        .home = place->top,
        .hide = hide,
        .limits = IPB_SANDBOX_LIMITS_DEFAULT,
    };
    IpbSandboxPlan *plan = ipb_sandbox_plan_new(&options, &error);
    g_assert_no_error(error);
    return plan;
}

/* @name is below the workspace, or with @in_layer below the layer. */
static char *
path_of(const Place *place, bool in_layer, const char *name)
{
    return in_layer ? g_build_filename(place->directory, "upper", name, NULL)
                    : g_build_filename(place->workspace, name, NULL);
}

static void
put(const Place *place, bool in_layer, const char *name, const char *text)
{
    g_autofree char *path = path_of(place, in_layer, name);
    g_autofree char *parent = g_path_get_dirname(path);
    g_assert_cmpint(g_mkdir_with_parents(parent, 0755), ==, 0);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void
put_link(const Place *place, bool in_layer, const char *name, const char *target)
{
    g_autofree char *path = path_of(place, in_layer, name);
    g_assert_cmpint(symlink(target, path), ==, 0);
}

static void
put_directory(const Place *place, bool in_layer, const char *name)
{
    g_autofree char *path = path_of(place, in_layer, name);
    g_assert_cmpint(g_mkdir_with_parents(path, 0755), ==, 0);
}

static void
put_whiteout(const Place *place, const char *name)
{
    g_autofree char *path = path_of(place, true, name);
    g_assert_cmpint(mknod(path, S_IFCHR, makedev(0, 0)), ==, 0);
}

static void
make_opaque(const Place *place, const char *name)
{
    g_autofree char *path = path_of(place, true, name);
    g_assert_cmpint(setxattr(path, "user.overlay.opaque", "y", 1, 0), ==, 0);
}

static void
expect(const Place *place, const char *name, const char *wanted)
{
    g_autofree char *path = path_of(place, false, name), *text = NULL;
    g_file_get_contents(path, &text, NULL, NULL);
    g_assert_cmpstr(text, ==, wanted);
}

static void
begin(Place *place, const void *data)
{
    GError *error = NULL;
    g_autofree char *current = g_get_current_dir();
    g_autofree char *top = ipb_file_make_temp_directory(current, "test-layer-", NULL);
    place->top = realpath(top, NULL);
    place->workspace = g_build_filename(place->top, "ws", NULL);
    place->directory = g_build_filename(place->top, "layers", "one", NULL);
    g_assert_cmpint(mkdir(place->workspace, 0755), ==, 0);
    put(place, false, "kept", "kept");
    put(place, false, "changed", "old");
    put(place, false, "removed", "removed");
    put(place, false, "folder/a", "a");
    put(place, false, "folder/b", "b");
    put(place, false, "replaced/x", "x");
    place->layer = ipb_layer_new(place->directory, place->workspace, &error);
    g_assert_no_error(error);
    place->plan = make_plan(place);
}

static void
end(Place *place, const void *data)
{
    ipb_layer_close(place->layer, true);
    g_assert_false(g_file_test(place->directory, G_FILE_TEST_EXISTS));
    ipb_sandbox_plan_unref(place->plan);
    ipb_file_remove_tree(place->top, NULL);
    free(place->top);
    g_free(place->workspace);
    g_free(place->directory);
}

/* Files have the times of a clock that ticks, or (since Linux 6.13) those of the exact one, which
 * is ahead. */
static void
await_tick(void)
{
    struct timespec start, now;
    clock_gettime(CLOCK_REALTIME, &start);
    do
        clock_gettime(CLOCK_REALTIME_COARSE, &now);
    while (now.tv_sec < start.tv_sec ||
           (now.tv_sec == start.tv_sec && now.tv_nsec <= start.tv_nsec));
}

/* Code that runs from now on knows the workspace as it is now. */
static void
note_start(const Place *place)
{
    await_tick();
    ipb_layer_note_start(place->layer);
    await_tick();
}

static const IpbLayerChange *
find(const IpbLayerChanges *changes, const char *path)
{
    for (guint i = 0; i < changes->changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes->changes, i);
        if (g_str_equal(change->path, path))
            return change;
    }
    return NULL;
}

/* "+folder/ +new ~changed -removed", in the order of the list. */
static char *
describe(const IpbLayerChanges *changes)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < changes->changes->len; i++) {
        const IpbLayerChange *change = g_ptr_array_index(changes->changes, i);
        g_string_append_printf(text, "%s%c%s%s", i > 0 ? " " : "", "+~-"[change->kind],
                               change -> path,
                               change -> type == IPB_NAME_DIRECTORY      ? "/"
                                         : change->type == IPB_NAME_LINK ? "@"
                                                                         : "");
    }
    return g_string_free(text, FALSE);
}

static IpbLayerChanges *
commit(Place *place, const char *const *paths)
{
    GError *error = NULL;
    g_autofree char *digest = NULL;
    g_autoptr(IpbLayerChanges) frozen =
        ipb_layer_freeze(place->layer, place->plan, paths, &digest, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(strlen(digest), ==, 64);
    IpbLayerChanges *done = ipb_layer_commit(place->layer, place->plan, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(done->changes->len, ==, frozen->changes->len);
    return done;
}

static void
write_everything(const Place *place)
{
    put(place, true, "changed", "new");
    put(place, true, "added/deep/file", "file");
    put_link(place, true, "link", "kept");
    put_whiteout(place, "removed");
    put_directory(place, true, "folder");
    make_opaque(place, "folder");
    put(place, true, "folder/b", "B");
    put(place, true, "replaced", "a file now");
}

#define EVERYTHING                                                                                 \
    "-folder/a -removed -replaced/x -replaced/ +added/ +added/deep/ +added/deep/file ~changed "    \
    "~folder/b +link@ +replaced"

static void
check_everything(const Place *place)
{
    expect(place, "kept", "kept");
    expect(place, "changed", "new");
    expect(place, "added/deep/file", "file");
    expect(place, "link", "kept");
    expect(place, "removed", NULL);
    expect(place, "folder/a", NULL);
    expect(place, "folder/b", "B");
    expect(place, "replaced", "a file now");
}

static void
test_commit(Place *place, const void *data)
{
    write_everything(place);
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place->layer, place->plan);
    g_autofree char *text = describe(changes);
    g_assert_cmpstr(text, ==, EVERYTHING);
    expect(place, "changed", "old");
    g_autoptr(IpbLayerChanges) done = commit(place, NULL);
    for (guint i = 0; i < done->changes->len; i++)
        g_assert_cmpstr(((IpbLayerChange *) g_ptr_array_index(done->changes, i))->problem, ==,
                        NULL);
    check_everything(place);
    g_autoptr(IpbLayerChanges) rest = ipb_layer_list(place->layer, place->plan);
    g_assert_cmpuint(rest->changes->len, ==, 0);
}

/* New directories above a chosen path come along; nothing else does. */
static void
test_parts(Place *place, const void *data)
{
    static const char *const PATHS[] = {"added/deep/file", "changed", NULL};
    static const char *const UNKNOWN[] = {"kept", NULL}, *const ABOVE[] = {"..", NULL};
    g_autoptr(GError) error = NULL, above = NULL;
    g_autofree char *digest = NULL;
    write_everything(place);
    g_assert_null(ipb_layer_freeze(place->layer, place->plan, UNKNOWN, &digest, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_assert_null(ipb_layer_freeze(place->layer, place->plan, ABOVE, &digest, &above));
    g_assert_error(above, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_autoptr(IpbLayerChanges) done = commit(place, PATHS);
    g_autofree char *text = describe(done);
    g_assert_cmpstr(text, ==, "+added/ +added/deep/ +added/deep/file ~changed");
    expect(place, "added/deep/file", "file");
    expect(place, "changed", "new");
    expect(place, "removed", "removed");
    expect(place, "folder/a", "a");
}

/* What is committed is what was frozen, whatever is written after that. */
static void
test_frozen(Place *place, const void *data)
{
    GError *error = NULL;
    g_autofree char *digest = NULL, *other = NULL;
    write_everything(place);
    g_autoptr(IpbLayerChanges) frozen =
        ipb_layer_freeze(place->layer, place->plan, NULL, &digest, &error);
    put(place, true, "changed", "later");
    put(place, true, "added/deep/more", "more");
    g_autoptr(IpbLayerChanges) done = ipb_layer_commit(place->layer, place->plan, &error);
    g_assert_no_error(error);
    check_everything(place);
    expect(place, "added/deep/more", NULL);
    g_autoptr(IpbLayerChanges) next =
        ipb_layer_freeze(place->layer, place->plan, NULL, &other, &error);
    g_autofree char *text = describe(next);
    g_assert_cmpstr(text, ==, "+added/deep/more ~changed");
    g_assert_cmpstr(digest, !=, other);
    ipb_layer_thaw(place->layer);
    g_autoptr(GError) nothing = NULL;
    g_assert_null(ipb_layer_commit(place->layer, place->plan, &nothing));
    g_assert_error(nothing, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
}

/* Both sides keep their file. */
static void
test_conflicts(Place *place, const void *data)
{
    write_everything(place);
    put(place, false, "changed", "the host's");
    put(place, false, "removed", "the host's");
    put(place, false, "replaced/new", "the host's");
    put(place, false, "link", "the host's");
    g_autoptr(IpbLayerChanges) done = commit(place, NULL);
    static const char *const PATHS[] = {"changed", "removed", "link", "replaced/new"};
    for (size_t i = 0; i < G_N_ELEMENTS(PATHS); i++) {
        const IpbLayerChange *change = find(done, PATHS[i]);
        g_assert_nonnull(change);
        g_assert_true(change->is_conflict);
        g_assert_false(change->is_done);
        expect(place, PATHS[i], "the host's");
    }
    expect(place, "folder/b", "B");
    g_autofree char *mine = path_of(place, true, "changed"), *text = NULL;
    g_assert_true(g_file_get_contents(mine, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "new");
    /* What comes between the freeze and the commit is one, too. */
    GError *error = NULL;
    g_autofree char *digest = NULL;
    put(place, true, "kept", "new");
    g_autoptr(IpbLayerChanges) frozen =
        ipb_layer_freeze(place->layer, place->plan, NULL, &digest, &error);
    put(place, false, "kept", "in between");
    g_autoptr(IpbLayerChanges) again = ipb_layer_commit(place->layer, place->plan, &error);
    g_assert_true(find(again, "kept")->is_conflict);
    expect(place, "kept", "in between");
}

/* The host's work on a file that was committed is no change of the session's; and once code has
 * seen the host's version, its own later one is no conflict. */
static void
test_afterwards(Place *place, const void *data)
{
    put(place, true, "changed", "new");
    g_autoptr(IpbLayerChanges) done = commit(place, NULL);
    put(place, false, "changed", "the host's");
    g_autoptr(IpbLayerChanges) none = ipb_layer_list(place->layer, place->plan);
    g_assert_cmpuint(none->changes->len, ==, 0);
    ipb_layer_prune(place->layer);
    g_autofree char *mine = path_of(place, true, "changed");
    g_assert_false(g_file_test(mine, G_FILE_TEST_EXISTS));
    note_start(place);
    put(place, true, "changed", "newer");
    g_autoptr(IpbLayerChanges) next = commit(place, NULL);
    g_assert_true(find(next, "changed")->is_done);
    expect(place, "changed", "newer");
}

/* What a later sandbox removes stays removed, also if the file was committed before. */
static void
test_removed_afterwards(Place *place, const void *data)
{
    GError *error = NULL;
    put(place, true, "new/file", "new");
    put(place, true, "changed", "new");
    g_autoptr(IpbLayerChanges) done = commit(place, NULL);
    ipb_layer_prune(place->layer);
    put_whiteout(place, "new/file");
    put_whiteout(place, "changed");
    ipb_layer_prune(place->layer);
    g_autoptr(IpbLayerChanges) removed = ipb_layer_list(place->layer, place->plan);
    g_autofree char *text = describe(removed);
    g_assert_cmpstr(text, ==, "-changed -new/file");
    g_autoptr(IpbLayerChanges) discarded = ipb_layer_discard(place->layer, NULL, -1, NULL, &error);
    g_assert_no_error(error);
    put_whiteout(place, "changed");
    g_autoptr(IpbLayerChanges) again = commit(place, NULL);
    g_assert_true(find(again, "changed")->is_done);
    expect(place, "changed", NULL);
    /* The mark says nothing new now. */
    put(place, false, "changed", "the host's");
    ipb_layer_prune(place->layer);
    g_autoptr(IpbLayerChanges) none = ipb_layer_list(place->layer, place->plan);
    g_assert_cmpuint(none->changes->len, ==, 0);
}

/* An opaque directory also hides what the workspace has below new directories in it. Overlayfs
 * makes no marks there, and would show those that we make. */
static void
test_hidden_below(Place *place, const void *data)
{
    put(place, false, "folder/inner/c", "c");
    note_start(place);
    put_directory(place, true, "folder/inner");
    make_opaque(place, "folder");
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place->layer, place->plan);
    g_autofree char *text = describe(changes);
    g_assert_cmpstr(text, ==, "-folder/a -folder/b -folder/inner/c");
    put(place, true, "folder/inner/d", "d");
    g_autoptr(IpbLayerChanges) done = commit(place, NULL);
    g_assert_true(find(done, "folder/inner/c")->is_done);
    expect(place, "folder/inner/c", NULL);
    expect(place, "folder/inner/d", "d");
    g_autofree char *committed = path_of(place, true, "folder/inner/d");
    g_assert_cmpint(unlink(committed), ==, 0);
    ipb_layer_prune(place->layer);
    g_assert_false(g_file_test(committed, G_FILE_TEST_EXISTS));
    g_autoptr(IpbLayerChanges) removed = ipb_layer_list(place->layer, place->plan);
    g_autofree char *rest = describe(removed);
    g_assert_cmpstr(rest, ==, "-folder/inner/d");
}

/* Where the workspace's files are hidden, those of the layer stay after a commit. */
static void
test_hidden_committed(Place *place, const void *data)
{
    note_start(place);
    put(place, true, "folder/a", "new");
    make_opaque(place, "folder");
    static const char *const PATHS[] = {"folder/a", NULL};
    g_autoptr(IpbLayerChanges) done = commit(place, PATHS);
    g_assert_true(find(done, "folder/a")->is_done);
    expect(place, "folder/a", "new");
    g_autofree char *committed = path_of(place, true, "folder/a");
    for (int i = 0; i < 2; i++) {
        ipb_layer_prune(place->layer);
        g_assert_true(g_file_test(committed, G_FILE_TEST_EXISTS));
        g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place->layer, place->plan);
        g_autofree char *text = describe(changes);
        g_assert_cmpstr(text, ==, "-folder/b");
    }
    g_assert_cmpint(unlink(committed), ==, 0);
    ipb_layer_prune(place->layer);
    g_autoptr(IpbLayerChanges) removed = ipb_layer_list(place->layer, place->plan);
    g_autofree char *rest = describe(removed);
    g_assert_cmpstr(rest, ==, "-folder/a -folder/b");
}

/* --- attacks ---------------------------------------------------------------------------------- */

typedef struct {
    const char *path, *contents, *control, *control_contents;
} Protected;

/* A protected name, and beside it one that is not. */
static const Protected PROTECTED[] = {
    {".git/hooks/pre-commit", "#!/bin/sh\n", ".git/hooks/pre-commit.sample", "#!/bin/sh\n"},
    {"sub/.git/hooks/post-merge", "x", "sub/.gitx/hooks/post-merge", "x"},
    {".git/config", "[core]\n\tfsmonitor = ./run\n", "other/.git/config", "[user]\n\tname = a\n"},
    {".GIT/HOOKS/pre-push", "x", ".git/objects/x", "x"},
    {".env", "A=1", "env", "A=1"},
    {"deep/.env", "A=1", "deep/.environment", "A=1"},
    {".bashrc", "x", "bashrc", "x"},
    {".mcp.json", "{}", "mcp.json", "{}"},
    {".vscode/tasks.json", "{}", "vscode/tasks.json", "{}"},
    {".claude/settings.json", "{}", "claude/settings.json", "{}"},
    {".gitmodules", "[submodule \"a\"]\n\tupdate = !run\n", "x/.gitmodules",
     "[submodule \"a\"]\n\tpath = a\n\turl = https://example.org/a\n"},
    {".ipybox-new-1", "x", "ipybox-new-1", "x"},
    {"with\nline/.envrc", "x", "with\nline/\033[2J\xff", "x"},
};

static void
test_protected(Place *place, const void *data)
{
    for (size_t i = 0; i < G_N_ELEMENTS(PROTECTED); i++) {
        put(place, true, PROTECTED[i].path, PROTECTED[i].contents);
        put(place, true, PROTECTED[i].control, PROTECTED[i].control_contents);
    }
    g_autoptr(IpbLayerChanges) done = commit(place, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(PROTECTED); i++) {
        const IpbLayerChange *refused = find(done, PROTECTED[i].path);
        const IpbLayerChange *control = find(done, PROTECTED[i].control);
        g_assert_nonnull(refused->problem);
        /* The default denies reading .env, too. */
        g_assert_true(strstr(refused->problem, "a protected name") != NULL ||
                      strstr(refused->problem, "the sandbox does not allow it") != NULL);
        expect(place, PROTECTED[i].path, NULL);
        g_assert_cmpstr(control->problem, ==, NULL);
        expect(place, PROTECTED[i].control, PROTECTED[i].control_contents);
    }
}

/* Protected files that exist are neither removed nor replaced, and no link gets their name. */
static void
test_protected_removal(Place *place, const void *data)
{
    put(place, false, ".git/hooks/pre-commit", "the host's");
    put(place, false, ".git/ordinary", "x");
    put(place, false, "settings/.env", "the host's");
    put(place, false, "settings/other", "x");
    note_start(place);
    put_directory(place, true, ".git/hooks");
    put_whiteout(place, ".git/hooks/pre-commit");
    put_whiteout(place, ".git/ordinary");
    put_whiteout(place, "settings");
    put_directory(place, true, "elsewhere");
    put_link(place, true, ".claude", "elsewhere");
    put_link(place, true, "claude", "elsewhere");
    put_link(place, true, ".bash_profile", "elsewhere");
    g_autoptr(IpbLayerChanges) done = commit(place, NULL);
    expect(place, ".git/hooks/pre-commit", "the host's");
    expect(place, ".git/ordinary", NULL);
    expect(place, "settings/.env", "the host's");
    expect(place, "settings/other", NULL);
    g_assert_false(find(done, "settings")->is_done);
    g_assert_nonnull(find(done, ".claude")->problem);
    g_assert_nonnull(find(done, ".bash_profile")->problem);
    g_assert_true(find(done, "claude")->is_done);
    g_autofree char *link = path_of(place, false, ".claude");
    struct stat info;
    g_assert_cmpint(lstat(link, &info), ==, -1);
}

/* What the host has changed before a cell is no conflict, also not if that was just now. */
static void
test_just_before(Place *place, const void *data)
{
    for (int i = 0; i < 100; i++) {
        struct stat info;
        g_autofree char *name = g_strdup_printf("file-%d", i), *path = path_of(place, false, name);
        put(place, false, name, "first");
        g_assert_cmpint(stat(path, &info), ==, 0); /* the next time is an exact one */
        put(place, false, name, "second");
        g_assert_cmpint(chmod(path, 0600), ==, 0);
        ipb_layer_note_start(place->layer);
        put(place, true, name, "ours");
    }
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place->layer, NULL);
    g_assert_cmpuint(changes->changes->len, ==, 100);
    for (guint i = 0; i < changes->changes->len; i++)
        g_assert_false(((IpbLayerChange *) g_ptr_array_index(changes->changes, i))->is_conflict);
}

/* What is no file, directory or link, or has special rights, or more names, or attributes. */
static void
test_special(Place *place, const void *data)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    g_autofree char *fifo = path_of(place, true, "fifo"), *set = path_of(place, true, "set");
    g_autofree char *second = path_of(place, true, "second"), *real = path_of(place, false, "set");
    g_autofree char *outside = g_build_filename(place->top, "outside", NULL);
    struct stat info;
    g_assert_cmpint(mkfifo(fifo, 0644), ==, 0);
    put(place, true, "set", "x");
    g_assert_cmpint(setxattr(set, "user.evil", "1", 1, 0), ==, 0);
    g_assert_cmpint(link(set, second), ==, 0);
    g_assert_cmpint(chmod(set, 06777), ==, 0);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    g_autofree char *upper = path_of(place, true, "");
    g_autofree char *old = g_get_current_dir();
    g_assert_cmpint(chdir(upper), ==, 0);
    strcpy(address.sun_path, "socket");
    g_assert_cmpint(bind(sock, (struct sockaddr *) &address, sizeof address), ==, 0);
    g_assert_cmpint(chdir(old), ==, 0);
    close(sock);
    g_assert_true(g_file_set_contents(outside, "secret", -1, NULL));
    put_link(place, true, "lead", outside);
    g_autoptr(IpbLayerChanges) done = commit(place, NULL);
    g_assert_nonnull(find(done, "fifo")->problem);
    g_assert_nonnull(find(done, "socket")->problem);
    g_assert_cmpint(lstat(real, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 07777, ==, 0777);
    g_assert_cmpuint(info.st_nlink, ==, 1);
    g_assert_cmpint(getxattr(real, "user.evil", NULL, 0), ==, -1);
    /* A link is committed as a link: it is never read through. */
    g_assert_cmpint(find(done, "lead")->type, ==, IPB_NAME_LINK);
    g_autofree char *lead = path_of(place, false, "lead");
    g_autofree char *target = g_file_read_link(lead, NULL);
    g_assert_cmpstr(target, ==, outside);
}

/* The host has put a link where the layer has a directory. Nothing is written through it. */
static void
test_link_in_workspace(Place *place, const void *data)
{
    g_autofree char *outside = g_build_filename(place->top, "outside", NULL);
    g_autofree char *leak = g_build_filename(outside, "new", NULL);
    g_autofree char *folder = path_of(place, false, "folder");
    GError *error = NULL;
    g_autofree char *digest = NULL;
    g_assert_cmpint(mkdir(outside, 0755), ==, 0);
    put(place, true, "folder/new", "new");
    put(place, true, "control", "new");
    g_autoptr(IpbLayerChanges) frozen =
        ipb_layer_freeze(place->layer, place->plan, NULL, &digest, &error);
    g_assert_no_error(error);
    ipb_file_remove_tree(folder, NULL);
    put_link(place, false, "folder", outside);
    g_autoptr(IpbLayerChanges) done = ipb_layer_commit(place->layer, place->plan, &error);
    g_assert_nonnull(find(done, "folder/new")->problem);
    g_assert_false(g_file_test(leak, G_FILE_TEST_EXISTS));
    expect(place, "control", "new");
}

/* A layer that is exchanged while it is looked at is at worst incomplete. */
static void
test_deep(Place *place, const void *data)
{
    GString *path = g_string_new("d");
    for (unsigned i = 0; i < IPB_LAYER_MAX_DEPTH + 5; i++)
        g_string_append(path, "/d");
    put(place, true, path->str, "deep");
    put(place, true, "control", "new");
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place->layer, place->plan);
    g_assert_nonnull(changes->cut);
    g_assert_cmpuint(changes->changes->len, <=, IPB_LAYER_MAX_DEPTH + 2);
    /* What cannot be listed as a whole is committed in parts. */
    GError *error = NULL;
    g_autofree char *digest = NULL;
    g_assert_null(ipb_layer_freeze(place->layer, place->plan, NULL, &digest, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_clear_error(&error);
    static const char *const PATHS[] = {"control", NULL};
    g_autoptr(IpbLayerChanges) done = commit(place, PATHS);
    expect(place, "control", "new");
    g_string_free(path, TRUE);
}

static void
test_many(Place *place, const void *data)
{
    for (unsigned i = 0; i < IPB_LAYER_MAX_CHANGES + 10; i++) {
        char name[32];
        g_snprintf(name, sizeof name, "n%06u", i);
        g_autofree char *path = path_of(place, true, name);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        g_assert_cmpint(fd, >=, 0);
        close(fd);
    }
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place->layer, NULL);
    g_assert_cmpuint(changes->changes->len, ==, IPB_LAYER_MAX_CHANGES);
    g_assert_nonnull(changes->cut);
}

/* --- discard ---------------------------------------------------------------------------------- */

static void
test_discard(Place *place, const void *data)
{
    static const char *const PATHS[] = {"changed", "added", "folder/a", NULL};
    GError *error = NULL;
    write_everything(place);
    g_autoptr(IpbLayerChanges) undone = ipb_layer_discard(place->layer, PATHS, -1, NULL, &error);
    g_assert_no_error(error);
    g_assert_true(find(undone, "changed")->is_done);
    g_assert_true(find(undone, "added/deep/file")->is_done);
    /* Its directory was replaced as a whole, and has other changes. */
    g_assert_false(find(undone, "folder/a")->is_done);
    g_assert_nonnull(find(undone, "folder/a")->problem);
    g_autoptr(IpbLayerChanges) rest = ipb_layer_list(place->layer, NULL);
    g_autofree char *text = describe(rest);
    g_assert_cmpstr(text, ==,
                    "-folder/a -removed -replaced/x -replaced/ ~folder/b +link@ +replaced");
    g_autoptr(IpbLayerChanges) all = ipb_layer_discard(place->layer, NULL, -1, NULL, &error);
    g_assert_no_error(error);
    g_autoptr(IpbLayerChanges) none = ipb_layer_list(place->layer, NULL);
    g_assert_cmpuint(none->changes->len, ==, 0);
    expect(place, "changed", "old");
}

/* --- kills ------------------------------------------------------------------------------------ */

/* Commits in a child, which is killed before its system call number @n_calls. Returns whether it
 * had ended before. */
static bool
commit_and_kill(const Place *place, unsigned n_calls)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        GError *error = NULL;
        g_autofree char *digest = NULL;
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        IpbLayer *layer = ipb_layer_open(place->directory, &error);
        ipb_layer_changes_free(ipb_layer_freeze(layer, place->plan, NULL, &digest, &error));
        ipb_layer_changes_free(ipb_layer_commit(layer, place->plan, &error));
        _exit(error == NULL ? 0 : 1);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_true(WIFSTOPPED(status));
    /* A call stops twice. */
    for (unsigned i = 0; i < 2 * n_calls; i++) {
        g_assert_cmpint(ptrace(PTRACE_SYSCALL, child, NULL, NULL), ==, 0);
        g_assert_cmpint(waitpid(child, &status, 0), ==, child);
        if (!WIFSTOPPED(status)) {
            g_assert_true(WIFEXITED(status));
            g_assert_cmpint(WEXITSTATUS(status), ==, 0);
            return true;
        }
    }
    kill(child, SIGKILL);
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    return false;
}

/* At no moment is a file of the workspace half written: it is the old one, or the new one. */
static void
check_whole(const Place *place)
{
    g_autofree char *path = path_of(place, false, "changed"), *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_true(g_str_equal(text, "old") || g_str_equal(text, "new"));
    expect(place, "kept", "kept");
}

/* Whatever the step, the next process finishes the commit from its journal, or begins it again. */
static void
test_kills(void)
{
    bool has_ended = false;
    unsigned n_interrupted = 0, n_steps = 0;
    for (; !has_ended; n_steps += 5) {
        Place place;
        GError *error = NULL;
        g_assert_cmpuint(n_steps, <, 5000);
        begin(&place, NULL);
        write_everything(&place);
        ipb_layer_close(place.layer, false);
        has_ended = commit_and_kill(&place, n_steps);
        check_whole(&place);
        place.layer = ipb_layer_open(place.directory, &error);
        g_assert_no_error(error);
        if (ipb_layer_is_interrupted(place.layer)) {
            n_interrupted++;
            g_autoptr(GError) busy = NULL;
            g_autofree char *digest = NULL;
            g_assert_null(ipb_layer_freeze(place.layer, place.plan, NULL, &digest, &busy));
            g_assert_error(busy, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
            g_autoptr(IpbLayerChanges) done = ipb_layer_commit(place.layer, place.plan, &error);
            g_assert_no_error(error);
            for (guint i = 0; i < done->changes->len; i++)
                g_assert_true(((IpbLayerChange *) g_ptr_array_index(done->changes, i))->is_done);
        } else if (!has_ended) {
            g_autoptr(IpbLayerChanges) done = commit(&place, NULL);
        }
        check_everything(&place);
        g_autoptr(IpbLayerChanges) rest = ipb_layer_list(place.layer, NULL);
        g_assert_cmpuint(rest->changes->len, ==, 0);
        end(&place, NULL);
    }
    g_assert_cmpuint(n_interrupted, >, 20);
}

static guint
count_changes(const Place *place)
{
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place->layer, NULL);
    g_assert_null(changes->cut);
    return changes->changes->len;
}

/* A file that was opened for writing and not changed is no change. But not much is compared. */
static void
test_empty(Place *place, const void *data)
{
    g_autofree char *large = g_strnfill(5 << 20, 'x');
    g_assert_true(ipb_layer_is_empty(place->layer));
    put(place, true, "kept", "kept");
    put_directory(place, true, "folder");
    g_assert_true(ipb_layer_is_empty(place->layer));
    put(place, false, "large", large);
    put(place, true, "large", large);
    g_assert_cmpuint(count_changes(place), ==, 0);
    g_assert_false(ipb_layer_is_empty(place->layer));
    g_autofree char *path = path_of(place, true, "large");
    g_assert_cmpint(unlink(path), ==, 0);
    g_assert_true(ipb_layer_is_empty(place->layer));
    put_whiteout(place, "folder/a");
    g_assert_false(ipb_layer_is_empty(place->layer));
    make_opaque(place, "folder");
    g_assert_false(ipb_layer_is_empty(place->layer));
    put(place, true, "new", "");
    g_assert_false(ipb_layer_is_empty(place->layer));
    g_assert_cmpuint(count_changes(place), ==, 3);
}

/* --- copies of checkpoints -------------------------------------------------------------------- */

static char *
copy_of(const Place *place, unsigned number, const char *name)
{
    g_autofree char *text = g_strdup_printf("%u", number);
    return g_build_filename(place->directory, "copies", text, name, NULL);
}

static void
keep(const Place *place, unsigned number)
{
    GError *error = NULL;
    g_assert_true(ipb_layer_keep(place->layer, number, &error));
    g_assert_no_error(error);
}

static ino_t
inode_of(const Place *place, unsigned number, const char *name)
{
    struct stat info;
    g_autofree char *path = copy_of(place, number, name);
    g_assert_cmpint(lstat(path, &info), ==, 0);
    return info.st_ino;
}

static void
test_copies(Place *place, const void *data)
{
    write_everything(place);
    await_tick();
    keep(place, 1);
    await_tick();
    put(place, true, "changed", "newer");
    keep(place, 2);
    g_assert_cmpuint(inode_of(place, 1, "replaced"), ==, inode_of(place, 2, "replaced"));
    g_assert_cmpuint(inode_of(place, 1, "changed"), !=, inode_of(place, 2, "changed"));
    unsigned n_commits;
    GError *error = NULL;
    ipb_autofd copy = ipb_copies_open(place->layer, 1, &n_commits, &error);
    g_assert_no_error(error);
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list_copy(place->layer, copy);
    g_autofree char *text = describe(changes);
    g_assert_cmpstr(text, ==, EVERYTHING);
    ipb_layer_drop(place->layer, 1);
    ipb_layer_drop(place->layer, 1);
    g_autofree char *first = copy_of(place, 1, "");
    g_assert_false(g_file_test(first, G_FILE_TEST_EXISTS));
    g_assert_cmpint(ipb_copies_open(place->layer, 1, &n_commits, &error), ==, -1);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_clear_error(&error);
    g_assert_false(ipb_layer_restore(place->layer, 2, -1, NULL, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_clear_error(&error);
    g_assert_false(ipb_layer_keep(place->layer, 2, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_SYSTEM);
    g_error_free(error);
}

/* A file that takes up @size bytes, without writing them. */
static void
put_large(const Place *place, const char *name, off_t size)
{
    g_autofree char *path = path_of(place, true, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(posix_fallocate(fd, 0, size), ==, 0);
    close(fd);
}

/* What exceeds the bounds is refused, and leaves no part of a copy. What is dropped counts no more,
 * and what copies share counts once. */
static void
test_bounds_of_copies(Place *place, const void *data)
{
    g_autoptr(GError) error = NULL, many = NULL;
    g_autofree char *sparse = path_of(place, true, "sparse");
    put(place, true, "sparse", "");
    g_assert_cmpint(truncate(sparse, (off_t) 1 << 40), ==, 0);
    put_large(place, "large", (off_t) 1 << 30);
    put_large(place, "more", 1 << 20);
    g_assert_false(ipb_layer_keep(place->layer, 1, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_nonnull(strstr(error->message, "1024 MiB are allowed in one"));
    g_autofree char *path = path_of(place, true, "large"), *first = copy_of(place, 1, "");
    g_assert_false(g_file_test(first, G_FILE_TEST_EXISTS));
    g_assert_cmpint(unlink(path), ==, 0);
    await_tick();
    for (unsigned i = 1; i <= 19; i++) {
        keep(place, i);
        await_tick();
    }
    g_assert_cmpuint(inode_of(place, 2, "more"), ==, inode_of(place, 19, "more"));
    for (unsigned i = 0; i < 20000; i++) {
        g_autofree char *name = g_strdup_printf("n%u", i);
        g_autofree char *empty = path_of(place, true, name);
        int fd = open(empty, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        g_assert_cmpint(fd, >=, 0);
        close(fd);
    }
    g_assert_false(ipb_layer_keep(place->layer, 20, &many));
    g_assert_error(many, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    g_assert_nonnull(strstr(many->message, "20000 files"));
    for (unsigned i = 0; i < 2; i++) {
        g_autofree char *name = g_strdup_printf("n%u", i);
        g_autofree char *empty = path_of(place, true, name);
        g_assert_cmpint(unlink(empty), ==, 0);
    }
    for (unsigned i = 21; i <= 40; i++) {
        g_autoptr(GError) full = NULL;
        bool ok = ipb_layer_keep(place->layer, i, &full);
        g_assert_true(ok == (i < 40)); /* 400,000 in all */
        if (!ok)
            g_assert_error(full, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
    }
    ipb_layer_drop(place->layer, 21);
    keep(place, 41);
}

/* --- restores --------------------------------------------------------------------------------- */

static void
write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(write(fd, text, strlen(text)), ==, (ssize_t) strlen(text));
    close(fd);
}

/* In a child: mounts the overlay, as a sandbox does. Returns the workspace as code sees it. */
static int
mount_overlay(const Place *place, IpbLayerUser *ret_user)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    bool is_root = uid == 0;
    g_assert_cmpint(unshare(CLONE_NEWNS | (is_root ? 0 : CLONE_NEWUSER)), ==, 0);
    if (!is_root) {
        g_autofree char *uids = g_strdup_printf("%u %u 1", uid, uid);
        g_autofree char *gids = g_strdup_printf("%u %u 1", gid, gid);
        write_file("/proc/self/setgroups", "deny");
        write_file("/proc/self/uid_map", uids);
        write_file("/proc/self/gid_map", gids);
    }
    g_autofree char *merged = g_build_filename(place->top, "merged", NULL);
    g_autofree char *options =
        g_strdup_printf("userxattr,lowerdir=%s,upperdir=%s/upper,"
                        "workdir=%s/work",
                        place->workspace, place->directory, place->directory);
    g_assert_cmpint(g_mkdir_with_parents(merged, 0755), ==, 0);
    g_assert_cmpint(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), ==, 0);
    g_assert_cmpint(mount("overlay", merged, "overlay", 0, options), ==, 0);
    *ret_user = (IpbLayerUser){uid, gid};
    g_assert_cmpint(chdir(merged), ==, 0);
    return open(merged, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void
put_here(const char *name, const char *text)
{
    g_autofree char *parent = g_path_get_dirname(name);
    g_assert_cmpint(g_mkdir_with_parents(parent, 0755), ==, 0);
    g_assert_true(g_file_set_contents(name, text, -1, NULL));
}

static void
change_inside(void)
{
    put_here("changed", "later");
    put_here("kept", "changed now");
    ipb_file_remove_tree("added", NULL);
    put_here("added", "a file now");
    ipb_file_remove_tree("replaced", NULL);
    put_here("replaced/again/deep", "deep");
    put_here("removed", "back");
    put_here("folder/a", "A");
    g_assert_cmpint(unlink("link"), ==, 0);
    g_assert_cmpint(link("folder/a", "link"), ==, 0);
}

#define LATER                                                                                      \
    "-replaced/x +replaced/again/ +added ~changed ~folder/a ~folder/b ~kept +link "                \
    "~removed +replaced/again/deep"

static void
check_layer(const Place *place, const char *wanted)
{
    g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place->layer, NULL);
    g_autofree char *text = describe(changes);
    g_assert_cmpstr(text, ==, wanted);
}

static void
check_in_layer(const Place *place, const char *name, const char *wanted)
{
    g_autofree char *path = path_of(place, true, name), *text = NULL;
    g_file_get_contents(path, &text, NULL, NULL);
    g_assert_cmpstr(text, ==, wanted);
}

typedef enum { KILLED_KEEP, KILLED_RESTORE, KILLED_DROP } KilledStep;

/* Does one step in a child, which is killed before its system call number @n_calls in that. */
static bool
copy_and_kill(const Place *place, KilledStep step, unsigned n_calls)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        GError *error = NULL;
        IpbLayerUser user;
        int inside = mount_overlay(place, &user);
        IpbLayer *layer = ipb_layer_open(place->directory, &error);
        g_assert_no_error(error);
        if (step != KILLED_KEEP)
            g_assert_true(ipb_layer_keep(layer, 1, &error));
        change_inside();
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        if (step == KILLED_KEEP)
            ipb_layer_keep(layer, 1, &error);
        else if (step == KILLED_RESTORE)
            ipb_layer_restore(layer, 1, inside, &user, &error);
        else
            ipb_layer_drop(layer, 1);
        _exit(error == NULL ? 0 : 1);
    }
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_true(WIFSTOPPED(status));
    for (unsigned i = 0; i < 2 * n_calls; i++) {
        g_assert_cmpint(ptrace(PTRACE_SYSCALL, child, NULL, NULL), ==, 0);
        g_assert_cmpint(waitpid(child, &status, 0), ==, child);
        if (!WIFSTOPPED(status)) {
            g_assert_true(WIFEXITED(status));
            g_assert_cmpint(WEXITSTATUS(status), ==, 0);
            return true;
        }
    }
    kill(child, SIGKILL);
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    return false;
}

/* Whatever the step, the layer that is left has the files before it, or those after it, and no
 * copies. */
static void
check_killed(KilledStep step, unsigned stride, unsigned least)
{
    bool has_ended = false;
    unsigned n_restored = 0, n_before = 0;
    for (unsigned n_calls = 1; !has_ended; n_calls += stride) {
        Place place;
        GError *error = NULL;
        g_assert_cmpuint(n_calls, <, 10000);
        begin(&place, NULL);
        write_everything(&place);
        ipb_layer_close(place.layer, false);
        has_ended = copy_and_kill(&place, step, n_calls);
        place.layer = ipb_layer_open(place.directory, &error);
        g_assert_no_error(error);
        g_autoptr(IpbLayerChanges) changes = ipb_layer_list(place.layer, NULL);
        bool is_restored = find(changes, "kept") == NULL;
        g_assert_true(!has_ended || is_restored == (step == KILLED_RESTORE));
        check_layer(&place, is_restored ? EVERYTHING : LATER);
        check_in_layer(&place, "changed", is_restored ? "new" : "later");
        check_in_layer(&place, "folder/b", "B");
        g_autofree char *copies = copy_of(&place, 1, "");
        g_assert_false(g_file_test(copies, G_FILE_TEST_EXISTS));
        n_restored += is_restored;
        n_before += !is_restored;
        end(&place, NULL);
    }
    g_assert_cmpuint(step == KILLED_RESTORE ? n_restored : n_before, >, least);
}

static void
test_kills_of_copies(void)
{
    check_killed(KILLED_KEEP, 7, 5);
    check_killed(KILLED_RESTORE, 7, 20);
    check_killed(KILLED_DROP, 7, 3);
}

/* The process that finishes a restore is killed, too, as often as one likes. */
static void
test_kills_of_recovery(void)
{
    static const char *const SKIPPED[] = {"changed", NULL};
    bool has_ended = false;
    for (unsigned n_calls = 1; !has_ended; n_calls += 3) {
        Place place;
        GError *error = NULL;
        int status;
        begin(&place, NULL);
        write_everything(&place);
        keep(&place, 7);
        put(&place, true, "later", "later");
        g_assert_true(ipb_copies_begin_restore(place.layer, 7, SKIPPED, &error));
        /* As a kill leaves it: copies stay. */
        ipb_fd_close(&place.layer->lock_fd);
        for (unsigned again = 0; again < 2 && !has_ended; again++) {
            pid_t child = fork();
            if (child == 0) {
                ptrace(PTRACE_TRACEME, 0, NULL, NULL);
                raise(SIGSTOP);
                _exit(ipb_layer_open(place.directory, &error) != NULL ? 0 : 1);
            }
            g_assert_cmpint(waitpid(child, &status, 0), ==, child);
            for (unsigned i = 0; i < 2 * n_calls && WIFSTOPPED(status); i++) {
                g_assert_cmpint(ptrace(PTRACE_SYSCALL, child, NULL, NULL), ==, 0);
                g_assert_cmpint(waitpid(child, &status, 0), ==, child);
            }
            has_ended = WIFEXITED(status);
            g_assert_true(!has_ended || WEXITSTATUS(status) == 0);
            if (!has_ended) {
                kill(child, SIGKILL);
                g_assert_cmpint(waitpid(child, &status, 0), ==, child);
            }
        }
        IpbLayer *left = ipb_layer_open(place.directory, &error);
        g_assert_no_error(error);
        ipb_layer_close(place.layer, false);
        place.layer = left;
        check_in_layer(&place, "later", NULL);
        check_in_layer(&place, "changed", NULL); /* skipped: it was committed */
        check_in_layer(&place, "replaced", "a file now");
        g_autofree char *mark = g_build_filename(place.directory, "restoring", NULL);
        g_autofree char *copies = g_build_filename(place.directory, "copies", NULL);
        g_assert_false(g_file_test(mark, G_FILE_TEST_EXISTS));
        g_assert_false(g_file_test(copies, G_FILE_TEST_EXISTS));
        end(&place, NULL);
    }
}

/* One process has a layer at a time. */
static void
test_lock(Place *place, const void *data)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_layer_open(place->directory, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_BUSY);
}

#define ADD(name, function) g_test_add("/layer/" name, Place, NULL, begin, function, end)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("commit", test_commit);
    ADD("parts", test_parts);
    ADD("frozen", test_frozen);
    ADD("conflicts", test_conflicts);
    ADD("just-before", test_just_before);
    ADD("afterwards", test_afterwards);
    ADD("removed-afterwards", test_removed_afterwards);
    ADD("hidden-below", test_hidden_below);
    ADD("hidden-committed", test_hidden_committed);
    ADD("protected", test_protected);
    ADD("protected-removal", test_protected_removal);
    ADD("special", test_special);
    ADD("link-in-workspace", test_link_in_workspace);
    ADD("deep", test_deep);
    ADD("many", test_many);
    ADD("discard", test_discard);
    ADD("empty", test_empty);
    ADD("lock", test_lock);
    ADD("copies", test_copies);
    ADD("bounds-of-copies", test_bounds_of_copies);
    g_test_add_func("/layer/kills", test_kills);
    g_test_add_func("/layer/kills-of-copies", test_kills_of_copies);
    g_test_add_func("/layer/kills-of-recovery", test_kills_of_recovery);
    return g_test_run();
}
