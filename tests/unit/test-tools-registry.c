/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/registry.h"

#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

typedef struct {
    char *top;
    char *directory; /* of the registry; does not exist yet */
    char *path;
    IpbRegistry *registry;
} Test;

static void
set_up(Test *test)
{
    test->top = ipb_file_make_temp_directory(NULL, "registry-", NULL);
    test->directory = g_build_filename(test->top, "a", "ipybox", NULL);
    test->path = g_build_filename(test->directory, "servers.json", NULL);
    test->registry = ipb_registry_new(test->directory);
}

static void
tear_down(Test *test)
{
    ipb_registry_free(test->registry);
    g_assert_true(ipb_file_remove_tree(test->top, NULL));
    g_free(test->top);
    g_free(test->directory);
    g_free(test->path);
}

static void
write_text(Test *test, const char *text)
{
    g_assert_true(ipb_file_make_directories(test->directory, 0700, NULL));
    g_assert_true(ipb_file_write_atomic(test->path, text, strlen(text), 0600, NULL));
}

static char *
read_text(Test *test)
{
    char *text;
    size_t size;
    g_assert_true(ipb_file_read(test->path, 1 << 20, &text, &size, NULL));
    return text;
}

static IpbRegistration *
try_add(Test *test, const char *name, const char *params, const char *root, GError **error)
{
    g_autoptr(IpbJsonDoc) document =
        ipb_json_parse(params, strlen(params), &IPB_JSON_LIMITS_SMALL, NULL);
    return ipb_registry_add(test->registry, name, ipb_json_root(document), root, error);
}

static char *
add(Test *test, const char *name, const char *params, const char *root)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbRegistration) registration = try_add(test, name, params, root, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(strlen(registration->id), ==, 32);
    return g_strdup(registration->id);
}

/* "name:params:root,root" for each. */
static char *
list(Test *test)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) all = ipb_registry_list(test->registry, &error);
    g_assert_no_error(error);
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < all->len; i++) {
        const IpbRegistration *registration = g_ptr_array_index(all, i);
        g_autofree char *roots = g_strjoinv(",", registration->roots);
        g_string_append_printf(text, "%s:%s:%s\n", registration->name, registration->params_json,
                               roots);
    }
    return g_string_free(text, FALSE);
}

static void
expect_list(Test *test, const char *expected)
{
    g_autofree char *text = list(test);
    g_assert_cmpstr(text, ==, expected);
}

static void
test_add_and_get(void)
{
    Test test;
    struct stat info;
    set_up(&test);
    expect_list(&test, "");
    g_assert_cmpint(access(test.directory, F_OK), !=, 0); /* reading creates nothing */
    g_autofree char *id =
        add(&test, "github", "{ \"command\": \"x\",\n\"args\":[\"${A}\"] }", NULL);
    g_autofree char *other = add(&test, "github", "{\"command\":\"y\"}", "/r");
    g_autofree char *same = add(&test, "github", "{\"args\":[\"${A}\"],\"command\":\"x\"}", NULL);
    g_assert_cmpstr(id, ==, same);
    g_assert_cmpstr(id, !=, other);
    expect_list(&test, "github:{\"command\":\"x\",\"args\":[\"${A}\"]}:\n"
                       "github:{\"command\":\"y\"}:/r\n");
    g_autoptr(GError) error = NULL;
    g_autoptr(IpbRegistration) found = ipb_registry_get(test.registry, other, &error);
    g_assert_cmpstr(found->params_json, ==, "{\"command\":\"y\"}");
    g_assert_null(ipb_registry_get(test.registry, "0", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_assert_cmpint(stat(test.path, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 0777, ==, 0600);
    g_assert_cmpint(stat(test.directory, &info), ==, 0);
    g_assert_cmpint(info.st_mode & 0777, ==, 0700);
    /* Another object acts like another process. */
    g_autoptr(IpbRegistry) again = ipb_registry_new(test.directory);
    g_autoptr(IpbRegistration) read = ipb_registry_get(again, id, NULL);
    g_assert_cmpstr(read->name, ==, "github");
    tear_down(&test);
}

static void
test_roots(void)
{
    Test test;
    set_up(&test);
    g_free(add(&test, "a", "{\"command\":\"x\"}", "/r1"));
    g_free(add(&test, "a", "{\"command\":\"x\"}", "/r2"));
    g_free(add(&test, "a", "{\"command\":\"x\"}", "/r1"));
    g_free(add(&test, "b", "{\"command\":\"x\"}", "/r1"));
    expect_list(&test, "a:{\"command\":\"x\"}:/r2,/r1\nb:{\"command\":\"x\"}:/r1\n");
    /* From now on, the package "a" in /r1 belongs to another server. */
    g_free(add(&test, "a", "{\"command\":\"y\"}", "/r1"));
    expect_list(&test, "a:{\"command\":\"x\"}:/r2\nb:{\"command\":\"x\"}:/r1\n"
                       "a:{\"command\":\"y\"}:/r1\n");
    tear_down(&test);
}

static void
test_remove(void)
{
    Test test;
    g_autoptr(GError) error = NULL;
    set_up(&test);
    g_free(add(&test, "a", "{\"command\":\"x\"}", NULL));
    g_autofree char *id = add(&test, "a", "{\"command\":\"y\"}", NULL);
    g_free(add(&test, "b", "{\"command\":\"z\"}", NULL));
    g_assert_false(ipb_registry_remove(test.registry, "a", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, id));
    g_clear_error(&error);
    g_assert_true(ipb_registry_remove(test.registry, id, &error));
    g_assert_true(ipb_registry_remove(test.registry, "b", &error));
    expect_list(&test, "a:{\"command\":\"x\"}:\n");
    g_assert_false(ipb_registry_remove(test.registry, "b", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    tear_down(&test);
}

static void
expect_invalid(Test *test, const char *name, const char *params, const char *root)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(try_add(test, name, params, root, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

static void
test_bad_arguments(void)
{
    Test test;
    set_up(&test);
    g_autofree char *long_name = g_strnfill(129, 'x');
    expect_invalid(&test, "", "{\"command\":\"x\"}", NULL);
    expect_invalid(&test, "a b", "{\"command\":\"x\"}", NULL);
    expect_invalid(&test, "../x", "{\"command\":\"x\"}", NULL);
    expect_invalid(&test, "é", "{\"command\":\"x\"}", NULL);
    expect_invalid(&test, long_name, "{\"command\":\"x\"}", NULL);
    expect_invalid(&test, "a", "{\"command\":\"x\"}", "relative");
    expect_invalid(&test, "a", "{}", NULL);
    expect_invalid(&test, "a", "[]", NULL);
    g_assert_cmpint(access(test.directory, F_OK), !=, 0);
    tear_down(&test);
}

/* The error for a file that cannot be understood names it and says what to do. The file is never
 * overwritten. */
static void
test_corrupt(void)
{
    static const char *const TEXTS[] = {
        "",
        "{",
        "[]",
        "{\"version\":2,\"servers\":[]}",
        "{\"version\":1}",
        "{\"version\":1,\"servers\":{}}",
        "{\"version\":1,\"servers\":[{}]}",
        "{\"version\":1,\"servers\":[{\"name\":\"a\",\"params\":[],\"roots\":[]}]}",
        "{\"version\":1,\"servers\":[{\"name\":\"a\",\"params\":{},\"roots\":[1]}]}",
        "{\"version\":1,\"servers\":[{\"name\":\"a\\u0000\",\"params\":{},\"roots\":[]}]}",
    };
    Test test;
    set_up(&test);
    for (size_t i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
        g_autoptr(GError) error = NULL;
        g_test_message("%s", TEXTS[i]);
        write_text(&test, TEXTS[i]);
        g_assert_null(ipb_registry_list(test.registry, &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
        g_assert_nonnull(strstr(error->message, test.path));
        g_assert_nonnull(strstr(error->message, "move it away"));
        g_clear_error(&error);
        g_assert_null(try_add(&test, "a", "{\"command\":\"x\"}", NULL, &error));
        g_assert_nonnull(error);
        g_clear_error(&error);
        g_assert_false(ipb_registry_remove(test.registry, "a", &error));
        g_autofree char *text = read_text(&test);
        g_assert_cmpstr(text, ==, TEXTS[i]);
    }
    tear_down(&test);
}

static void
test_unknown_members_are_kept(void)
{
    Test test;
    set_up(&test);
    write_text(&test, "{\"later\":[1.50],\"version\":1,\"servers\":[{\"name\":\"a\",\"params\":"
                      "{\"command\":\"x\"},\"roots\":[],\"note\":{\"k\": 2}}]}");
    g_free(add(&test, "b", "{\"command\":\"y\"}", NULL));
    g_autofree char *text = read_text(&test);
    g_assert_nonnull(strstr(text, "\"later\":[1.50]"));
    g_assert_nonnull(strstr(text, "\"note\":{\"k\":2}"));
    tear_down(&test);
}

/* An id that was written by hand does not mean another server. */
static void
test_ids_are_computed(void)
{
    Test test;
    set_up(&test);
    g_autofree char *id = add(&test, "a", "{\"command\":\"x\"}", NULL);
    g_autofree char *text =
        g_strdup_printf("{\"version\":1,\"servers\":[{\"id\":\"%s\",\"name\":\"a\",\"params\":"
                        "{\"command\":\"evil\"},\"roots\":[]}]}",
                        id);
    write_text(&test, text);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_registry_get(test.registry, id, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    tear_down(&test);
}

static void
test_writable_by_others(void)
{
    Test test;
    g_autoptr(GError) error = NULL;
    set_up(&test);
    g_free(add(&test, "a", "{\"command\":\"x\"}", NULL));
    g_assert_cmpint(chmod(test.path, 0666), ==, 0);
    g_assert_null(ipb_registry_list(test.registry, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED);
    g_clear_error(&error);
    g_assert_cmpint(chmod(test.path, 0644), ==, 0);
    expect_list(&test, "a:{\"command\":\"x\"}:\n");
    g_assert_cmpint(chmod(test.directory, 0777), ==, 0);
    g_assert_null(ipb_registry_list(test.registry, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_REFUSED);
    tear_down(&test);
}

/* Several processes add at the same time, and nothing is lost. */
static void
test_processes(void)
{
    enum { N_PROCESSES = 4, N_ADDS = 8 };
    Test test;
    set_up(&test);
    for (int i = 0; i < N_PROCESSES; i++) {
        if (fork() != 0)
            continue;
        for (int j = 0; j < N_ADDS; j++) {
            g_autofree char *name = g_strdup_printf("s%d_%d", i, j);
            g_autoptr(IpbRegistration) added =
                try_add(&test, name, "{\"command\":\"x\"}", NULL, NULL);
            if (added == NULL)
                _exit(1);
        }
        _exit(0);
    }
    for (int i = 0; i < N_PROCESSES; i++) {
        int status;
        g_assert_cmpint(wait(&status), >, 0);
        g_assert_cmpint(status, ==, 0);
    }
    g_autoptr(GPtrArray) all = ipb_registry_list(test.registry, NULL);
    g_assert_cmpuint(all->len, ==, N_PROCESSES * N_ADDS);
    tear_down(&test);
}

static void
test_default_place(void)
{
    g_autoptr(IpbRegistry) registry = ipb_registry_new(NULL);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_registry_get(registry, "none", &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
}

int
main(int argc, char **argv)
{
    /* G_TEST_OPTION_ISOLATE_DIRS would do this, and leak. */
    g_autofree char *state = ipb_file_make_temp_directory(NULL, "registry-state-", NULL);
    g_setenv("XDG_STATE_HOME", state, TRUE);
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/tools/registry/add-and-get", test_add_and_get);
    g_test_add_func("/tools/registry/roots", test_roots);
    g_test_add_func("/tools/registry/remove", test_remove);
    g_test_add_func("/tools/registry/bad-arguments", test_bad_arguments);
    g_test_add_func("/tools/registry/corrupt", test_corrupt);
    g_test_add_func("/tools/registry/unknown-members-are-kept", test_unknown_members_are_kept);
    g_test_add_func("/tools/registry/ids-are-computed", test_ids_are_computed);
    g_test_add_func("/tools/registry/writable-by-others", test_writable_by_others);
    g_test_add_func("/tools/registry/processes", test_processes);
    g_test_add_func("/tools/registry/default-place", test_default_place);
    int status = g_test_run();
    g_assert_true(ipb_file_remove_tree(state, NULL));
    return status;
}
