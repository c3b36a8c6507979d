/* SPDX-License-Identifier: Apache-2.0
 *
 * The configurations of the sandboxes of principals.
 */
#include "serve/mcp-http/private-sandbox.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "sandbox/policy.h"

static const char *const HIDDEN[] = {"/tokens", NULL};
static const char *const FIXED[] = {"/rules", NULL};

static char *
make_directory(void)
{
    g_autoptr(GError) error = NULL;
    char *path = ipb_file_make_temp_directory(NULL, "ipb-test-", &error);
    g_assert_no_error(error);
    return path;
}

static IpbSandboxPolicy *
write_and_load(const char *directory, const char *config)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path =
        ipb_private_sandbox_write(directory, "/root/of", "alice", config, HIDDEN, FIXED, &error);
    g_assert_no_error(error);
    IpbSandboxPolicy *policy = ipb_sandbox_policy_load(NULL, path, &error);
    g_assert_no_error(error);
    return policy;
}

static void
assert_list(char **list, const char *const *expected)
{
    g_assert_true(g_strv_equal((const char *const *) list, expected));
}

/* The default of kernels, but principals share no directory. */
static void
test_default(void)
{
    g_autofree char *directory = make_directory();
    g_autoptr(IpbSandboxPolicy) policy = write_and_load(directory, NULL);
    g_autoptr(IpbSandboxPolicy) expected = ipb_sandbox_policy_default();
    assert_list(policy->deny_read, (const char *const[]){".env", "/root/of", "/tokens", NULL});
    assert_list(policy->allow_read, (const char *const[]){"/root/of/alice", NULL});
    assert_list(policy->allow_write, (const char *const[]){".", NULL});
    g_assert_null(expected->deny_write[0]);
    assert_list(policy->deny_write, FIXED);
    g_assert_cmpuint(policy->allowed_domains->len, ==, expected->allowed_domains->len);
    g_assert_cmpuint(policy->denied_domains->len, ==, expected->denied_domains->len);
    g_assert_cmpint(policy->allow_pty, ==, expected->allow_pty);
    g_assert_cmpint(policy->allow_local_binding, ==, expected->allow_local_binding);
    g_assert_cmpuint(policy->mandatory_deny_depth, ==, expected->mandatory_deny_depth);
    ipb_file_remove_tree(directory, NULL);
}

/* One principal, whose workspace is the root: only the files are hidden. */
static void
test_one(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *directory = make_directory();
    g_autofree char *path =
        ipb_private_sandbox_write(directory, "/work[1]", NULL, NULL, HIDDEN, FIXED, &error);
    g_assert_no_error(error);
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_load(NULL, path, &error);
    g_assert_no_error(error);
    g_autoptr(IpbSandboxPolicy) expected = ipb_sandbox_policy_default();
    assert_list(policy->deny_read, (const char *const[]){".env", "/tokens", NULL});
    g_assert_null(policy->allow_read[0]);
    assert_list(policy->allow_write, (const char *const *) expected->allow_write);
    ipb_file_remove_tree(directory, NULL);
}

static void
test_given(void)
{
    static const char CONFIG[] =
        "{\"filesystem\":{\"denyRead\":[\"~\"],\"allowRead\":[\"/x\"],\"allowWrite\":[\".\"],"
        "\"denyWrite\":[\"data\"]},\"limits\":{\"memory\":\"1G\"},"
        "\"network\":{\"allowedDomains\":[\"example.org\"],\"deniedDomains\":[]}}";
    g_autoptr(GError) error = NULL;
    g_autofree char *directory = make_directory();
    g_autofree char *config = g_build_filename(directory, "given.json", NULL);
    ipb_file_write_atomic(config, CONFIG, strlen(CONFIG), 0600, &error);
    g_assert_no_error(error);
    g_autoptr(IpbSandboxPolicy) policy = write_and_load(directory, config);
    assert_list(policy->deny_read, (const char *const[]){"~", "/root/of", "/tokens", NULL});
    assert_list(policy->allow_read, (const char *const[]){"/x", "/root/of/alice", NULL});
    assert_list(policy->deny_write, (const char *const[]){"data", "/rules", NULL});
    g_assert_cmpuint(policy->allowed_domains->len, ==, 1);
    ipb_file_remove_tree(directory, NULL);
}

static void
test_refused(void)
{
    static const char *const HIDDEN_PATTERN[] = {"/to*kens", NULL};
    g_autofree char *directory = make_directory();
    g_autofree char *config = g_build_filename(directory, "given.json", NULL);
    g_autoptr(GError) root = NULL, hidden = NULL, missing = NULL, bad = NULL;
    g_assert_null(ipb_private_sandbox_write(directory, "/r[x]", "a", NULL, HIDDEN, FIXED, &root));
    g_assert_error(root, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_null(
        ipb_private_sandbox_write(directory, "/r", "a", NULL, HIDDEN_PATTERN, FIXED, &hidden));
    g_assert_error(hidden, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_null(ipb_private_sandbox_write(directory, "/r", "a", config, HIDDEN, FIXED, &missing));
    g_assert_error(missing, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    ipb_file_write_atomic(config, "{\"x\":1}", 7, 0600, NULL);
    g_assert_null(ipb_private_sandbox_write(directory, "/r", "a", config, HIDDEN, FIXED, &bad));
    g_assert_error(bad, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    ipb_file_remove_tree(directory, NULL);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/serve/private-sandbox/one", test_one);
    g_test_add_func("/serve/mcp-http/private-sandbox/default", test_default);
    g_test_add_func("/serve/mcp-http/private-sandbox/given", test_given);
    g_test_add_func("/serve/mcp-http/private-sandbox/refused", test_refused);
    return g_test_run();
}
