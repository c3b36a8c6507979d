/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/linux/mount-list.h"

#include <string.h>

#include "base/error.h"

/* A plan of these rules; the paths need not exist. */
static IpbSandboxPlan
resolve(IpbPathRules *rules)
{
    ipb_path_rules_resolve(rules);
    return (IpbSandboxPlan){.paths = rules};
}

static GPtrArray *
list(IpbPathRules *rules)
{
    GError *error = NULL;
    const IpbSandboxPlan plan = resolve(rules);
    GPtrArray *mounts = ipb_mount_list_new(&plan, false, &error);
    g_assert_no_error(error);
    return mounts;
}

#define assert_mount(mounts, index, expected_kind, expected_target)                                \
    do {                                                                                           \
        g_assert_cmpuint(mounts->len, >, index);                                                   \
        const IpbMount *found_mount = g_ptr_array_index(mounts, index);                            \
        g_assert_cmpint(found_mount->kind, ==, expected_kind);                                     \
        g_assert_cmpstr(found_mount->target, ==, expected_target);                                 \
    } while (0)

static void
test_root(void)
{
    g_autoptr(IpbPathRules) closed = ipb_path_rules_new(), open = ipb_path_rules_new();
    ipb_path_rules_get(open, "/", true)->allow_write = true;
    g_autoptr(GPtrArray) read_only = list(closed), writable = list(open);
    g_assert_cmpuint(read_only->len, ==, 1);
    assert_mount(read_only, 0, IPB_MOUNT_READ_ONLY, "/");
    g_assert_cmpuint(writable->len, ==, 1);
    assert_mount(writable, 0, IPB_MOUNT_WRITABLE, "/");
}

/* The directories above a protected one are pinned before the writable directory is mounted. */
static void
test_pins(void)
{
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    ipb_path_rules_get(rules, "/ws", true)->allow_write = true;
    ipb_path_rules_get(rules, "/ws/a/b/hooks", true)->deny_write = true;
    g_autoptr(GPtrArray) mounts = list(rules);
    g_assert_cmpuint(mounts->len, ==, 6);
    assert_mount(mounts, 0, IPB_MOUNT_READ_ONLY, "/");
    assert_mount(mounts, 1, IPB_MOUNT_READ_ONLY, "/ws");
    assert_mount(mounts, 2, IPB_MOUNT_READ_ONLY, "/ws/a");
    assert_mount(mounts, 3, IPB_MOUNT_READ_ONLY, "/ws/a/b");
    assert_mount(mounts, 4, IPB_MOUNT_WRITABLE, "/ws");
    assert_mount(mounts, 5, IPB_MOUNT_READ_ONLY, "/ws/a/b/hooks");
    const IpbMount *hooks = g_ptr_array_index(mounts, 5);
    g_assert_true(hooks->is_denial);
}

static void
test_hiding(void)
{
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    ipb_path_rules_get(rules, "/a", true)->deny_read = true;
    ipb_path_rules_get(rules, "/a/b", true)->allow_read = true;
    ipb_path_rules_get(rules, "/c", true)->deny_read = true;
    ipb_path_rules_get(rules, "/file", false)->deny_read = true;
    IpbPathRule *both = ipb_path_rules_get(rules, "/w", true);
    both->deny_read = both->allow_write = true;
    g_autoptr(GPtrArray) mounts = list(rules);
    g_assert_cmpuint(mounts->len, ==, 6);
    assert_mount(mounts, 1, IPB_MOUNT_HIDE_DIR, "/a");
    assert_mount(mounts, 2, IPB_MOUNT_READ_ONLY, "/a/b");
    assert_mount(mounts, 3, IPB_MOUNT_HIDE_DIR, "/c");
    assert_mount(mounts, 4, IPB_MOUNT_HIDE_FILE, "/file");
    assert_mount(mounts, 5, IPB_MOUNT_TMPFS, "/w");
    /* Only the first needs room for what is mounted in it. */
    g_assert_cmpuint(((IpbMount *) g_ptr_array_index(mounts, 1))->size_bytes, >, 0);
    g_assert_cmpuint(((IpbMount *) g_ptr_array_index(mounts, 3))->size_bytes, ==, 0);
}

static void
test_own_places(void)
{
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    IpbPathRule *processes = ipb_path_rules_get(rules, "/proc", true);
    processes->deny_read = true;
    ipb_path_rule_set_own(processes, IPB_OWN_PROCESSES, "own");
    ipb_path_rule_set_own(ipb_path_rules_get(rules, "/dev", true), IPB_OWN_DEVICES, "own");
    ipb_path_rule_set_own(ipb_path_rules_get(rules, "/dev/pts", true), IPB_OWN_TERMINALS, "own");
    ipb_path_rule_set_own(ipb_path_rules_get(rules, "/etc/hosts", false), IPB_OWN_FILE, "own")
        ->content = g_strdup("hosts");
    IpbPathRule *tmp = ipb_path_rules_get(rules, "/tmp", true);
    ipb_path_rule_set_own(tmp, IPB_OWN_DIRECTORY, "own")->size_bytes = 4096;
    g_autoptr(GPtrArray) mounts = list(rules);
    g_assert_cmpuint(mounts->len, ==, 7);
    assert_mount(mounts, 1, IPB_MOUNT_DEV, "/dev");
    assert_mount(mounts, 2, IPB_MOUNT_DEVPTS, "/dev/pts");
    assert_mount(mounts, 3, IPB_MOUNT_FILE, "/etc/hosts");
    g_assert_cmpstr(((IpbMount *) g_ptr_array_index(mounts, 3))->content, ==, "hosts");
    /* /proc is hidden on request. */
    assert_mount(mounts, 4, IPB_MOUNT_PROC, "/proc");
    assert_mount(mounts, 5, IPB_MOUNT_HIDE_DIR, "/proc");
    assert_mount(mounts, 6, IPB_MOUNT_TMPFS, "/tmp");
    g_assert_cmpuint(((IpbMount *) g_ptr_array_index(mounts, 6))->size_bytes, ==, 4096);
}

static void
test_alias(void)
{
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    ipb_path_rules_get(rules, "/home", true)->deny_read = true;
    ipb_path_rules_add_alias(rules, "/home/py", "/opt/py");
    g_autoptr(GPtrArray) mounts = list(rules);
    g_assert_cmpuint(mounts->len, ==, 3);
    assert_mount(mounts, 2, IPB_MOUNT_READ_ONLY, "/home/py");
    g_assert_cmpstr(((IpbMount *) g_ptr_array_index(mounts, 2))->source, ==, "/opt/py");
}

/* What is missing cannot be covered. What git replaces is covered only if names are not judged. */
static void
test_not_covered(void)
{
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    ipb_path_rules_get(rules, "/ws", true)->allow_write = true;
    IpbPathRule *missing = ipb_path_rules_get(rules, "/ws/a/missing", false);
    missing->deny_write = missing->is_missing = true;
    IpbPathRule *config = ipb_path_rules_get(rules, "/ws/.git/config", false);
    config->deny_by_name = config->is_replaceable = true;
    const IpbSandboxPlan plan = resolve(rules);
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) judged = ipb_mount_list_new(&plan, true, &error);
    g_autoptr(GPtrArray) not_judged = ipb_mount_list_new(&plan, false, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(judged->len, ==, 2);
    assert_mount(judged, 1, IPB_MOUNT_WRITABLE, "/ws");
    g_assert_cmpuint(not_judged->len, ==, 5);
    assert_mount(not_judged, 4, IPB_MOUNT_READ_ONLY, "/ws/.git/config");
}

static void
test_too_many(void)
{
    g_autoptr(IpbPathRules) rules = ipb_path_rules_new();
    for (int i = 0; i < 4001; i++) {
        g_autofree char *path = g_strdup_printf("/%d", i);
        ipb_path_rules_get(rules, path, false)->deny_read = true;
    }
    const IpbSandboxPlan plan = resolve(rules);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_mount_list_new(&plan, false, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/mount-list/root", test_root);
    g_test_add_func("/sandbox/mount-list/pins", test_pins);
    g_test_add_func("/sandbox/mount-list/hiding", test_hiding);
    g_test_add_func("/sandbox/mount-list/own-places", test_own_places);
    g_test_add_func("/sandbox/mount-list/alias", test_alias);
    g_test_add_func("/sandbox/mount-list/not-covered", test_not_covered);
    g_test_add_func("/sandbox/mount-list/too-many", test_too_many);
    return g_test_run();
}
