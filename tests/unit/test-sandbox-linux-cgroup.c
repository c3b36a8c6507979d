/* SPDX-License-Identifier: Apache-2.0
 *
 * A directory takes the place of the mounted cgroups. Checks which group is ours, and that nothing
 * remains if no group can be made.
 */
#include "sandbox/linux/cgroup.h"

#include <unistd.h>

#include <glib/gstdio.h>

#include "base/file.h"

#define OTHER_USER 65534

typedef struct {
    char *mount;
} Fixture;

static void
write_file(const Fixture *fixture, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(fixture->mount, name, NULL);
    g_autofree char *directory = g_path_get_dirname(path);
    g_assert_cmpint(g_mkdir_with_parents(directory, 0755), ==, 0);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

/* A group that may be delegated: @procs are in it. */
static void
make_group(const Fixture *fixture, const char *name, const char *procs, const char *divided)
{
    const char *const files[][2] = {
        {"cgroup.controllers", "cpu io memory pids\n"},
        {"cgroup.subtree_control", divided},
        {"cgroup.procs", procs},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_build_filename(name, files[i][0], NULL);
        write_file(fixture, path, files[i][1]);
    }
}

static void
set_up(Fixture *fixture, const void *data)
{
    fixture->mount = g_dir_make_tmp("ipb-XXXXXX", NULL);
    g_assert_nonnull(fixture->mount);
}

static void
tear_down(Fixture *fixture, const void *data)
{
    g_assert_true(ipb_file_remove_tree(fixture->mount, NULL));
    g_free(fixture->mount);
}

static void
assert_found(const Fixture *fixture, const char *membership, const char *group)
{
    g_autofree char *found = ipb_cgroup_find_delegated_at(fixture->mount, membership);
    g_autofree char *expected =
        group != NULL ? g_build_filename(fixture->mount, group, NULL) : NULL;
    g_assert_cmpstr(found, ==, expected);
}

static void
test_ours(Fixture *fixture, const void *data)
{
    g_autofree char *self = g_strdup_printf("%d\n", (int) getpid());
    make_group(fixture, "a/scope", self, "\n");
    assert_found(fixture, "5:pids:/x\n0::/a/scope\n", "a/scope");
    assert_found(fixture, "0::/a/scope", "a/scope");
    assert_found(fixture, "0::/a/other\n", NULL);
    assert_found(fixture, "5:pids:/a/scope\n", NULL);
    assert_found(fixture, "", NULL);
    /* When we have moved. */
    make_group(fixture, "a/scope", "", "memory pids\n");
    assert_found(fixture, "0::/a/scope/ipybox.core\n", "a/scope");
}

static void
test_others(Fixture *fixture, const void *data)
{
    g_autofree char *self = g_strdup_printf("%d\n1\n", (int) getpid());
    make_group(fixture, "session", self, "\n");
    assert_found(fixture, "0::/session\n", NULL);
    /* Who has divided it has the right to have processes in it, as the root of a container has. */
    make_group(fixture, "session", self, "memory pids\n");
    assert_found(fixture, "0::/session\n", "session");
    /* A process of a foreign pid namespace. */
    make_group(fixture, "session", "0\n", "\n");
    assert_found(fixture, "0::/session\n", NULL);
}

/* A process of another user counts, too, although we may not send it signals. */
static void
test_other_user(Fixture *fixture, const void *data)
{
    bool is_root = geteuid() == 0;
    if (is_root) {
        g_assert_cmpint(chown(fixture->mount, OTHER_USER, OTHER_USER), ==, 0);
        g_assert_cmpint(setresuid(OTHER_USER, OTHER_USER, 0), ==, 0);
    }
    g_autofree char *with_init = g_strdup_printf("%d\n1\n", (int) getpid());
    make_group(fixture, "session", with_init, "\n");
    assert_found(fixture, "0::/session\n", NULL);
    g_autofree char *self = g_strdup_printf("%d\n", (int) getpid());
    make_group(fixture, "session", self, "\n");
    assert_found(fixture, "0::/session\n", "session");
    if (is_root)
        g_assert_cmpint(setresuid(0, 0, 0), ==, 0);
}

static void
test_controllers(Fixture *fixture, const void *data)
{
    g_autofree char *self = g_strdup_printf("%d\n", (int) getpid());
    make_group(fixture, "g", self, "\n");
    write_file(fixture, "g/cgroup.controllers", "cpu memory\n");
    assert_found(fixture, "0::/g\n", NULL);
    write_file(fixture, "g/cgroup.controllers", "");
    assert_found(fixture, "0::/g\n", NULL);
}

static guint
count_entries(const char *path)
{
    guint n = 0;
    g_autoptr(GDir) directory = g_dir_open(path, 0, NULL);
    g_assert_nonnull(directory);
    while (g_dir_read_name(directory) != NULL)
        n++;
    return n;
}

/* These are no groups, so nothing can be made, and nothing is left. */
static void
test_failure(Fixture *fixture, const void *data)
{
    make_group(fixture, "g", "", "memory pids\n");
    g_autofree char *group = g_build_filename(fixture->mount, "g", NULL);
    guint before = count_entries(group);
    IpbSandboxLimits limits = {.memory_bytes = 1 << 20};
    g_assert_null(ipb_cgroup_new_at(group, &limits));
    g_assert_cmpuint(count_entries(group), ==, before);
    g_assert_null(ipb_cgroup_new_at("/dev/null", &limits));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, func) g_test_add("/cgroup/" name, Fixture, NULL, set_up, func, tear_down)
    ADD("ours", test_ours);
    ADD("others", test_others);
    ADD("other-user", test_other_user);
    ADD("controllers", test_controllers);
    ADD("failure", test_failure);
    return g_test_run();
}
