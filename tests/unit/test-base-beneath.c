/* SPDX-License-Identifier: Apache-2.0 */
#include "base/beneath.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

/* A workspace, and a directory outside of it that nothing may touch. */
typedef struct {
    char *top, *workspace, *outside;
    IpbBeneath *beneath;
} Place;

static char *
path_in(const char *directory, const char *name)
{
    return g_build_filename(directory, name, NULL);
}

static void
put(const char *directory, const char *name, const char *text)
{
    g_autofree char *path = path_in(directory, name);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static void
make(const char *directory, const char *name)
{
    g_autofree char *path = path_in(directory, name);
    g_assert_cmpint(g_mkdir_with_parents(path, 0755), ==, 0);
}

static void
link_to(const char *target, const char *directory, const char *name)
{
    g_autofree char *path = path_in(directory, name);
    g_assert_cmpint(symlink(target, path), ==, 0);
}

static void
set_up(Place *place)
{
    place->top = ipb_file_make_temp_directory(NULL, "ipybox-test-", NULL);
    place->workspace = path_in(place->top, "workspace");
    place->outside = path_in(place->top, "outside");
    make(place->top, "workspace");
    make(place->top, "outside");
    put(place->outside, "file", "outside");
    place->beneath = ipb_beneath_open(place->workspace, NULL);
    g_assert_nonnull(place->beneath);
}

static void
tear_down(Place *place)
{
    ipb_beneath_free(place->beneath);
    g_assert_true(ipb_file_remove_tree(place->top, NULL));
    g_free(place->outside);
    g_free(place->workspace);
    g_free(place->top);
}

static void
expect(GError *error, int code, const char *text)
{
    g_assert_error(error, IPYBOX_ERROR, code);
    if (strstr(error->message, text) == NULL)
        g_error("\"%s\" is not in: %s", text, error->message);
    g_error_free(error);
}

static void
expect_unread(const Place *place, const char *path, int code, const char *text)
{
    GError *error = NULL;
    g_autofree char *read = NULL;
    size_t size;
    g_assert_false(ipb_beneath_read(place->beneath, path, 100, &read, &size, &error));
    g_assert_null(read);
    expect(error, code, text);
}

static void
test_read(void)
{
    Place place;
    set_up(&place);
    put(place.workspace, "file", "inside");
    make(place.workspace, "directory");
    put(place.workspace, "directory/file", "deeper");
    g_autofree char *fifo = path_in(place.workspace, "fifo");
    g_assert_cmpint(mkfifo(fifo, 0600), ==, 0);
    link_to("../outside/file", place.workspace, "link");
    link_to("file", place.workspace, "link-inside");
    link_to("../outside", place.workspace, "elsewhere");
    link_to("/dev/zero", place.workspace, "device");
    static const char *const GOOD[] = {"file", "directory/file"};
    for (size_t i = 0; i < G_N_ELEMENTS(GOOD); i++) {
        g_autofree char *text = NULL;
        size_t size;
        g_assert_true(ipb_beneath_read(place.beneath, GOOD[i], 6, &text, &size, NULL));
        g_assert_cmpstr(text, ==, i == 0 ? "inside" : "deeper");
        g_assert_cmpuint(size, ==, 6);
    }
    expect_unread(&place, "nothing", IPYBOX_ERROR_NOT_FOUND, "workspace/nothing");
    expect_unread(&place, "link", IPYBOX_ERROR_REFUSED, "workspace/link is a symbolic link");
    expect_unread(&place, "link-inside", IPYBOX_ERROR_REFUSED, "a symbolic link");
    expect_unread(&place, "device", IPYBOX_ERROR_REFUSED, "a symbolic link");
    expect_unread(&place, "elsewhere/file", IPYBOX_ERROR_REFUSED,
                  "workspace/elsewhere is a symbolic link");
    expect_unread(&place, "fifo", IPYBOX_ERROR_INVALID, "not a regular file");
    expect_unread(&place, "directory", IPYBOX_ERROR_INVALID, "not a regular file");
    expect_unread(&place, "../outside/file", IPYBOX_ERROR_INVALID, "not a path below");
    expect_unread(&place, "/etc/passwd", IPYBOX_ERROR_INVALID, "not a path below");
    expect_unread(&place, "directory/../file", IPYBOX_ERROR_INVALID, "not a path below");
    expect_unread(&place, "", IPYBOX_ERROR_INVALID, "not a path below");
    put(place.workspace, "large", "1234567890123456789012345678901234567890");
    g_autofree char *text = NULL;
    size_t size;
    GError *error = NULL;
    g_assert_false(ipb_beneath_read(place.beneath, "large", 39, &text, &size, &error));
    expect(error, IPYBOX_ERROR_LIMIT, "larger than 39 bytes");
    tear_down(&place);
}

static void
test_directories(void)
{
    Place place;
    GError *error = NULL;
    set_up(&place);
    g_autoptr(IpbBeneath) made = ipb_beneath_descend(place.beneath, "a/b/c", 0755, &error);
    g_assert_no_error(error);
    g_assert_true(ipb_beneath_write(made, "file", "text", 4, 0644, NULL));
    g_autofree char *path = path_in(place.workspace, "a/b/c/file");
    g_assert_true(g_file_test(path, G_FILE_TEST_IS_REGULAR));
    g_assert_null(ipb_beneath_descend(place.beneath, "a/b/d", 0, &error));
    expect(g_steal_pointer(&error), IPYBOX_ERROR_NOT_FOUND, "a/b/d");
    link_to("../outside", place.workspace, "link");
    put(place.workspace, "file", "x");
    static const char *const BAD[][2] = {
        {"link", "workspace/link is a symbolic link"},
        {"link/new", "workspace/link is a symbolic link"},
        {"file/new", "workspace/file is a file, not a directory"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        g_assert_null(ipb_beneath_descend(place.beneath, BAD[i][0], 0755, &error));
        expect(g_steal_pointer(&error), IPYBOX_ERROR_REFUSED, BAD[i][1]);
    }
    g_assert_null(ipb_beneath_descend(place.beneath, "../outside/new", 0755, &error));
    expect(g_steal_pointer(&error), IPYBOX_ERROR_INVALID, "not a path below");
    g_autofree char *new = path_in(place.outside, "new");
    g_assert_false(g_file_test(new, G_FILE_TEST_EXISTS));
    tear_down(&place);
}

/* What leads to the trusted directory may contain links, and nothing below it. */
static void
test_trusted(void)
{
    Place place;
    GError *error = NULL;
    set_up(&place);
    link_to("workspace", place.top, "alias");
    link_to("../outside", place.workspace, "mcptools");
    g_autofree char *alias = path_in(place.top, "alias");
    g_autofree char *tools = path_in(alias, "tools");
    g_autofree char *planted = path_in(alias, "mcptools");
    g_autofree char *below = path_in(planted, "below");
    g_autoptr(IpbBeneath) good = ipb_beneath_open_in(alias, tools, 0755, &error);
    g_assert_no_error(error);
    g_autoptr(IpbBeneath) itself = ipb_beneath_open_in(alias, alias, 0, &error);
    g_assert_no_error(error);
    g_autoptr(IpbBeneath) elsewhere = ipb_beneath_open_in("/nowhere", tools, 0, &error);
    g_assert_no_error(error);
    g_assert_null(ipb_beneath_open_in(alias, planted, 0755, &error));
    expect(g_steal_pointer(&error), IPYBOX_ERROR_REFUSED, "mcptools is a symbolic link");
    g_assert_null(ipb_beneath_open_in(alias, below, 0755, &error));
    expect(g_steal_pointer(&error), IPYBOX_ERROR_REFUSED, "mcptools is a symbolic link");
    /* Not below the base: the last name is not followed either. */
    g_assert_null(ipb_beneath_open_in("/nowhere", planted, 0755, &error));
    expect(g_steal_pointer(&error), IPYBOX_ERROR_REFUSED, "mcptools is a symbolic link");
    /* A base is a directory, not the beginning of a name. */
    g_autofree char *half = path_in(place.top, "ali");
    g_autoptr(IpbBeneath) other = ipb_beneath_open_in(half, tools, 0, &error);
    g_assert_no_error(error);
    tear_down(&place);
}

static void
test_names(void)
{
    Place place;
    GError *error = NULL;
    char *name;
    set_up(&place);
    link_to("../outside/file", place.workspace, "link");
    g_assert_cmpint(ipb_beneath_create(place.beneath, "link", 0644), ==, -1);
    g_assert_cmpint(errno, ==, EEXIST);
    g_assert_cmpint(ipb_beneath_create(place.beneath, "../outside/new", 0644), ==, -1);
    g_assert_cmpint(errno, ==, EINVAL);
    g_assert_cmpint(ipb_beneath_kind(place.beneath, "link"), ==, S_IFLNK);
    g_assert_cmpint(ipb_beneath_kind(place.beneath, "none"), ==, 0);
    IpbBeneath *temporary = ipb_beneath_make_temporary(place.beneath, ".x-", &name, &error);
    g_assert_no_error(error);
    g_assert_true(ipb_beneath_write(temporary, "b", "1", 1, 0644, NULL));
    g_assert_true(ipb_beneath_write(temporary, "a", "2", 1, 0644, NULL));
    g_autoptr(GPtrArray) names = ipb_beneath_list(temporary, 2, NULL);
    g_assert_cmpuint(names->len, ==, 2);
    g_assert_cmpstr(g_ptr_array_index(names, 0), ==, "a");
    g_assert_null(ipb_beneath_list(temporary, 1, &error));
    expect(g_steal_pointer(&error), IPYBOX_ERROR_LIMIT, "more than 1");
    g_assert_cmpint(ipb_beneath_move(temporary, "a", place.beneath, "link"), ==, EEXIST);
    g_assert_cmpint(ipb_beneath_move(temporary, "a", place.beneath, "moved"), ==, 0);
    g_assert_true(ipb_beneath_swap(place.beneath, name, "package", NULL));
    g_assert_cmpint(ipb_beneath_kind(place.beneath, name), ==, 0);
    g_assert_true(ipb_beneath_swap(place.beneath, "link", "package", NULL));
    g_assert_cmpint(ipb_beneath_kind(place.beneath, "package"), ==, S_IFLNK);
    g_assert_true(ipb_beneath_remove_tree(place.beneath, "package", NULL));
    g_assert_true(ipb_beneath_remove_tree(place.beneath, "link", NULL));
    g_assert_true(ipb_beneath_remove_tree(place.beneath, "none", NULL));
    g_autofree char *file = path_in(place.outside, "file");
    g_assert_true(g_file_test(file, G_FILE_TEST_IS_REGULAR));
    ipb_beneath_free(temporary);
    g_free(name);
    tear_down(&place);
}

typedef struct {
    int directory;
    int is_over;
    unsigned n_swaps;
} Swapper;

/* Exchanges a directory and a link again and again. */
static gpointer
swap_names(gpointer data)
{
    Swapper *swapper = data;
    while (!g_atomic_int_get(&swapper->is_over)) {
        g_assert_cmpint(
            renameat2(swapper->directory, "mcptools", swapper->directory, "other", RENAME_EXCHANGE),
            ==, 0);
        swapper->n_swaps++;
    }
    return NULL;
}

/* Whatever the names are at a moment, nothing outside is read or written. */
static void
test_race(void)
{
    Place place;
    unsigned n_good = 0, n_bad = 0, n_led_astray = 0;
    set_up(&place);
    make(place.workspace, "mcptools/server");
    put(place.workspace, "mcptools/file", "inside");
    make(place.outside, "server");
    link_to("../outside", place.workspace, "other");
    g_autofree char *path = path_in(place.workspace, "mcptools/file");
    Swapper swapper = {.directory = ipb_beneath_fd(place.beneath)};
    GThread *thread = g_thread_new("swapper", swap_names, &swapper);
    for (int i = 0; i < 100000 && (i < 2000 || n_good < 100 || n_bad < 100 || n_led_astray == 0);
         i++) {
        g_autofree char *text = NULL;
        g_autofree char *name = g_strdup_printf("new-%d", i);
        size_t size;
        g_autoptr(IpbBeneath) deep =
            ipb_beneath_descend(place.beneath, "mcptools/server", 0755, NULL);
        g_autoptr(IpbBeneath) made =
            deep != NULL ? ipb_beneath_descend(deep, name, 0755, NULL) : NULL;
        if (ipb_beneath_read(place.beneath, "mcptools/file", 100, &text, &size, NULL))
            g_assert_cmpstr(text, ==, "inside");
        if (made != NULL)
            n_good++;
        else
            n_bad++;
        g_autofree char *followed = NULL; /* the control: an open that follows links */
        if (g_file_get_contents(path, &followed, NULL, NULL) && g_str_equal(followed, "outside"))
            n_led_astray++;
        sched_yield();
    }
    g_atomic_int_set(&swapper.is_over, 1);
    g_thread_join(thread);
    g_assert_cmpuint(n_good, >, 0);
    g_assert_cmpuint(n_bad, >, 0);
    g_assert_cmpuint(n_led_astray, >, 0);
    g_autofree char *server = path_in(place.outside, "server");
    g_autoptr(IpbBeneath) outside = ipb_beneath_open(server, NULL);
    g_autoptr(GPtrArray) names = ipb_beneath_list(outside, 10, NULL);
    g_assert_cmpuint(names->len, ==, 0);
    tear_down(&place);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/base/beneath/read", test_read);
    g_test_add_func("/base/beneath/directories", test_directories);
    g_test_add_func("/base/beneath/trusted", test_trusted);
    g_test_add_func("/base/beneath/names", test_names);
    g_test_add_func("/base/beneath/race", test_race);
    return g_test_run();
}
