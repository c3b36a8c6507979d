/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/policy.h"

#include <string.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "sandbox/policy.h"

#define FILES "\"filesystem\": {\"denyRead\": [], \"allowWrite\": [\".\"], \"denyWrite\": []}"
#define NETWORK "\"network\": {\"allowedDomains\": [], \"deniedDomains\": []}"

static IpbSandboxPolicy *
parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    IpbSandboxPolicy *policy = ipb_sandbox_policy_parse(text, strlen(text), NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(policy);
    return policy;
}

/* The error's message has @part in it. */
static void
assert_refused(const char *text, const char *part)
{
    g_autoptr(GError) error = NULL;
    IpbSandboxPolicy *policy = ipb_sandbox_policy_parse(text, strlen(text), "/p.json", &error);
    g_assert_null(policy);
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    g_assert_true(g_str_has_prefix(error->message, "/p.json: "));
    if (strstr(error->message, part) == NULL)
        g_error("%s: not in: %s", part, error->message);
}

static void
assert_list(char **list, const char *const *expected)
{
    g_assert_true(g_strv_equal((const char *const *) list, expected));
}

static void
test_defaults(void)
{
    g_autoptr(IpbSandboxPolicy) kernels = ipb_sandbox_policy_default();
    assert_list(kernels->deny_read, (const char *const[]){".env", NULL});
    assert_list(kernels->allow_write,
                (const char *const[]){".", "~/Library/Jupyter", "~/.ipython", NULL});
    g_assert_cmpuint(kernels->mandatory_deny_depth, ==, 3);
    g_assert_true(kernels->allow_pty && kernels->allow_local_binding);
    g_assert_null(kernels->origin);
    g_autoptr(IpbSandboxPolicy) closed = ipb_sandbox_policy_closed();
    g_assert_null(closed->allow_write[0]);
    g_assert_cmpuint(closed->allowed_domains->len, ==, 0);
    g_autoptr(IpbSandboxPolicy) again = ipb_sandbox_policy_ref(closed);
    g_assert_true(again == closed);
}

static void
test_every_key(void)
{
    g_autoptr(IpbSandboxPolicy) policy = parse(
        "{\"network\": {\"allowedDomains\": [\"A.example.com\", \"*.example.org:443\", "
        "\"[::1]:80\"],"
        " \"deniedDomains\": [\"*:22\", \"bad.example.com\"],"
        " \"deniedDomainReasons\": {\"*:22\": \"use https\", \"other.com\": \"x\"},"
        " \"strictAllowlist\": true, \"deniedResolvedAddresses\": [\"10.0.0.0/8\", \"fc00::/7\"],"
        " \"allowUnixSockets\": [\"/run/docker.sock\"], \"allowAllUnixSockets\": true,"
        " \"allowLocalBinding\": false, \"allowMachLookup\": [\"com.example.*\"],"
        " \"httpProxyPort\": 8080, \"socksProxyPort\": 1.08e3},"
        " \"filesystem\": {\"denyRead\": [\"~/.ssh\"], \"allowRead\": [\"a\"], \"allowWrite\": "
        "[\"b/*/\"],"
        " \"denyWrite\": [\"c\", \"d\"], \"allowGitConfig\": true,"
        " \"allowNames\": [\".vscode/**\", \"~/.x\"], \"disabled\": false},"
        " \"ignoreViolations\": {\"*\": [\"/usr/bin\"], \"git push\": []},"
        " \"enableWeakerNestedSandbox\": true, \"enableWeakerNetworkIsolation\": true,"
        " \"allowAppleEvents\": false, \"ripgrep\": {\"command\": \"rg\"},"
        " \"mandatoryDenySearchDepth\": 10, \"allowPty\": false, \"seccomp\": {},"
        " \"bwrapPath\": \"/usr/bin/bwrap\", \"socatPath\": \"/usr/bin/socat\","
        " \"javaAgentJarPath\": \"/a.jar\", \"windows\": {}, \"git\": {\"safeDirectories\": "
        "[\"/g\"]}}");
    assert_list(policy->deny_read, (const char *const[]){"~/.ssh", NULL});
    assert_list(policy->allow_read, (const char *const[]){"a", NULL});
    assert_list(policy->allow_write, (const char *const[]){"b/*/", NULL});
    assert_list(policy->deny_write, (const char *const[]){"c", "d", NULL});
    assert_list(policy->allow_names, (const char *const[]){".vscode/**", "~/.x", NULL});
    assert_list(policy->denied_addresses, (const char *const[]){"10.0.0.0/8", "fc00::/7", NULL});
    assert_list(policy->allow_unix_sockets, (const char *const[]){"/run/docker.sock", NULL});
    assert_list(policy->git_safe_directories, (const char *const[]){"/g", NULL});
    g_assert_true(policy->allow_git_config && policy->strict_allowlist &&
                  policy->allow_all_unix_sockets && policy->allow_weaker_nested);
    g_assert_false(policy->allow_pty || policy->allow_local_binding);
    g_assert_cmpuint(policy->http_proxy_port, ==, 8080);
    g_assert_cmpuint(policy->socks_proxy_port, ==, 1080);
    g_assert_cmpuint(policy->mandatory_deny_depth, ==, 10);
    g_assert_cmpuint(g_hash_table_size(policy->ignore_violations), ==, 2);
    const IpbDomainPattern *domain = g_ptr_array_index(policy->allowed_domains, 1);
    g_assert_cmpstr(domain->host, ==, "example.org");
    g_assert_true(domain->is_wildcard);
    g_assert_cmpuint(domain->port, ==, 443);
    domain = g_ptr_array_index(policy->denied_domains, 0);
    g_assert_null(domain->host);
    g_assert_cmpstr(domain->reason, ==, "use https");
    /* allowLocalBinding, allowMachLookup, the unused reason, and eight of the root */
    g_assert_cmpuint(g_strv_length(policy->without_effect), ==, 11);
}

static void
test_refusals(void)
{
    static const char *const CASES[][2] = {
        {"", "not JSON"},
        {"[]", "the configuration: an object"},
        {"{}", "network: the key is missing"},
        {"{" NETWORK "}", "filesystem: the key is missing"},
        {"{" NETWORK ", \"filesystem\": {\"denyRead\": [], \"allowWrite\": []}}",
         "filesystem.denyWrite: the key is missing"},
        {"{" FILES ", \"network\": 1}", "network: an object"},
        {"{" FILES ", \"network\": null}", "network: an object"},
        {"{" NETWORK "," NETWORK "," FILES "}", "network: the key is given twice"},
        {"{" NETWORK "," FILES ", \"alowPty\": true}", "did you mean allowPty?"},
        {"{" NETWORK "," FILES ", \"ALLOWPTY\": true}", "ALLOWPTY: unknown key; did you"},
        {"{" NETWORK "," FILES ", \"denyRead\": []}", "did you mean filesystem.denyRead?"},
        {"{" NETWORK "," FILES ", \"somethingElse\": 1}", "ipybox-sandbox-config(5)"},
        {"{" NETWORK "," FILES ", \"allowPty\": 1}", "allowPty: true or false"},
        {"{" NETWORK "," FILES ", \"allowPty\": null}", "allowPty: true or false"},
        {"{" NETWORK "," FILES ", \"mandatoryDenySearchDepth\": 0}", "from 1 to 10"},
        {"{" NETWORK "," FILES ", \"mandatoryDenySearchDepth\": 11}", "from 1 to 10"},
        {"{" NETWORK "," FILES ", \"mandatoryDenySearchDepth\": 2.5}", "from 1 to 10"},
        {"{" NETWORK "," FILES ", \"credentials\": {}}", "credentials: credentials are not"},
        {"{" NETWORK "," FILES ", \"bwrapPath\": \"bwrap\"}", "bwrapPath: an absolute path"},
        {"{" NETWORK "," FILES ", \"ignoreViolations\": {\"a\": \"b\"}}",
         "ignoreViolations.a: an array"},
        {"{" NETWORK "," FILES ", \"git\": {\"safeDirectories\": [1]}}",
         "git.safeDirectories[0]: a string"},
        {"{" NETWORK ", \"filesystem\": {\"denyRead\": [\"a\", \"\"], \"allowWrite\": [], "
         "\"denyWrite\": []}}",
         "filesystem.denyRead[1]: the path is empty"},
        {"{" NETWORK ", \"filesystem\": {\"denyRead\": [\"/x/*/\"], \"allowWrite\": [], "
         "\"denyWrite\": []}}",
         "it matches nothing"},
        {"{" NETWORK ", \"filesystem\": {\"denyRead\": [], \"allowWrite\": [], \"denyWrite\": [], "
         "\"allowNames\": [\"a\", \"**/.env\"]}}",
         "filesystem.allowNames[1]: \"**/.env\" is not a pattern of names"},
        {"{" NETWORK ", \"filesystem\": {\"denyRead\": [\"a\\u0000b\"], \"allowWrite\": [], "
         "\"denyWrite\": []}}",
         "without NUL"},
        {"{" NETWORK ", \"filesystem\": {\"denyRead\": [], \"allowWrite\": [], \"denyWrite\": [], "
         "\"disabled\": true}}",
         "filesystem.disabled"},
        {"{" FILES ", \"network\": {\"allowedDomains\": [], \"deniedDomains\": [], "
         "\"tlsTerminate\": {}}}",
         "network.tlsTerminate: ipybox does not inspect TLS"},
        {"{" FILES ", \"network\": {\"allowedDomains\": [], \"deniedDomains\": [], "
         "\"parentProxy\": {}}}",
         "network.parentProxy: "},
        {"{" FILES ", \"network\": {\"allowedDomains\": [], \"deniedDomains\": [], "
         "\"httpProxyPort\": 65536}}",
         "from 1 to 65535"},
        {"{" FILES ", \"network\": {\"allowedDomains\": [], \"deniedDomains\": [], "
         "\"deniedResolvedAddresses\": [\"example.com\"]}}",
         "deniedResolvedAddresses[0]: \"example.com\" is not an IP address"},
        {"{" FILES ", \"network\": {\"allowedDomains\": [\"*\"], \"deniedDomains\": []}}",
         "network.allowedDomains[0]: \"*\" is not a domain: too broad"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++)
        assert_refused(CASES[i][0], CASES[i][1]);
}

static IpbDomainVerdict
judge(const IpbSandboxPolicy *policy, const char *name, unsigned port)
{
    IpbHost host;
    g_assert_true(ipb_hostname_parse(name, strlen(name), &host, NULL));
    return ipb_sandbox_policy_judge(policy, &host, port, NULL);
}

static void
test_judge(void)
{
    g_autoptr(IpbSandboxPolicy) policy = parse(
        "{" FILES ", \"network\": {\"allowedDomains\": [\"Example.com\", \"*.example.org:443\","
        " \"[::ffff:192.0.2.1]:80\"], \"deniedDomains\": [\"*:22\", \"bad.example.org\"]}}");
    g_assert_cmpint(judge(policy, "example.com", 1), ==, IPB_DOMAIN_ALLOWED);
    g_assert_cmpint(judge(policy, "EXAMPLE.com.", 65535), ==, IPB_DOMAIN_ALLOWED);
    g_assert_cmpint(judge(policy, "example.com", 22), ==, IPB_DOMAIN_DENIED);
    g_assert_cmpint(judge(policy, "sub.example.com", 1), ==, IPB_DOMAIN_NOT_LISTED);
    g_assert_cmpint(judge(policy, "notexample.com", 1), ==, IPB_DOMAIN_NOT_LISTED);
    g_assert_cmpint(judge(policy, "example.org", 443), ==, IPB_DOMAIN_NOT_LISTED);
    g_assert_cmpint(judge(policy, "a.example.org", 443), ==, IPB_DOMAIN_ALLOWED);
    g_assert_cmpint(judge(policy, "a.b.example.org", 443), ==, IPB_DOMAIN_ALLOWED);
    g_assert_cmpint(judge(policy, "a.example.org", 80), ==, IPB_DOMAIN_NOT_LISTED);
    g_assert_cmpint(judge(policy, "bad.example.org", 443), ==, IPB_DOMAIN_DENIED);
    g_assert_cmpint(judge(policy, "192.0.2.1", 80), ==, IPB_DOMAIN_ALLOWED);
    g_assert_cmpint(judge(policy, "0xc0.0.513", 80), ==, IPB_DOMAIN_ALLOWED);
    g_assert_cmpint(judge(policy, "192.0.2.1", 443), ==, IPB_DOMAIN_NOT_LISTED);
    /* The name alone. */
    g_assert_cmpint(judge(policy, "example.com", 0), ==, IPB_DOMAIN_ALLOWED);
    g_assert_cmpint(judge(policy, "a.example.org", 0), ==, IPB_DOMAIN_ALLOWED);
    g_assert_cmpint(judge(policy, "bad.example.org", 0), ==, IPB_DOMAIN_DENIED);
    g_assert_cmpint(judge(policy, "other.net", 0), ==, IPB_DOMAIN_NOT_LISTED);
}

static void
test_load(void)
{
    g_autofree char *directory = g_dir_make_tmp("ipybox-policy-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(directory, "p.json", NULL);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_sandbox_policy_load(NULL, path, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_NOT_FOUND);
    g_clear_error(&error);
    g_assert_true(g_file_set_contents(path, "{" NETWORK "," FILES "}", -1, NULL));
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_load(NULL, path, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(policy->origin, ==, path);
    g_remove(path);
    g_rmdir(directory);
}

/* Configurations in the shape of srt's documentation. */
static void
test_documented(void)
{
    static const char *const CONFIGURATIONS[] = {
        "{\"filesystem\": {\"denyRead\": [], \"allowWrite\": [\".\"], \"denyWrite\": "
        "[\"~/private\"]},"
        " \"network\": {\"allowedDomains\": [], \"deniedDomains\": []}}",
        "{\"network\": {\"allowedDomains\": [\"gitlab.com\", \"*.gitlab.com\", \"pypi.org\"],"
        " \"deniedDomains\": [\"bad.example\"], \"allowUnixSockets\": [\"/run/podman.sock\"],"
        " \"allowLocalBinding\": false}, \"filesystem\": {\"denyRead\": [\"~/.gnupg\"],"
        " \"allowRead\": [], \"allowWrite\": [\".\", \"lib/\", \"t/\", \"/tmp\"],"
        " \"denyWrite\": [\".env\", \"conf/live.json\"]}, \"ignoreViolations\": {\"*\": [\"/opt\"],"
        " \"git fetch\": [\"/usr/bin/ssh\"]}, \"enableWeakerNestedSandbox\": false,"
        " \"enableWeakerNetworkIsolation\": false, \"allowAppleEvents\": false}",
        "{\"network\": {\"allowedDomains\": [], \"deniedDomains\": []}, \"filesystem\": "
        "{\"denyRead\": [\"/home\"], \"allowRead\": [\".\"], \"allowWrite\": [\".\"], "
        "\"denyWrite\": []}}",
        "{\"mandatoryDenySearchDepth\": 5, \"filesystem\": {\"denyRead\": [\"**/out/**\"],"
        " \"allowWrite\": [\"src/**/*.c\"], \"denyWrite\": []}, \"network\": "
        "{\"allowedDomains\": [\"app.test\", \"127.0.0.1:3000\"], \"deniedDomains\": [\"*:25\"]}}",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CONFIGURATIONS); i++) {
        g_autoptr(IpbSandboxPolicy) policy = parse(CONFIGURATIONS[i]);
        g_assert_nonnull(policy);
    }
}

static void
test_limits(void)
{
    g_autoptr(IpbSandboxPolicy) policy =
        parse("{" FILES ", " NETWORK ", \"limits\": {\"memory\": \"2G\", \"processes\": 7, "
              "\"cpuSeconds\": \"none\", \"fileSize\": 1000, \"temporaryFiles\": \"64M\"}}");
    IpbSandboxLimits fallback = {.processes = 9, .cpu_s = 5, .open_files = 100, .tmp_bytes = 1};
    IpbSandboxLimits limits = ipb_sandbox_limits_merge(&policy->limits, &fallback);
    g_assert_cmpuint(limits.memory_bytes, ==, UINT64_C(2) << 30);
    g_assert_cmpuint(limits.processes, ==, 7);
    g_assert_cmpuint(limits.cpu_s, ==, 0);
    g_assert_cmpuint(limits.open_files, ==, 100);
    g_assert_cmpuint(limits.file_bytes, ==, 1000);
    g_assert_cmpuint(limits.tmp_bytes, ==, 64 << 20);
}

static void
test_wrong_limits(void)
{
    static const struct {
        const char *limits, *part;
    } CASES[] = {
        {"7", "limits: an object"},
        {"{\"memory\": \"2X\"}", "limits.memory: a number of bytes"},
        {"{\"memory\": \"G\"}", "limits.memory"},
        {"{\"memory\": \"2GG\"}", "limits.memory"},
        {"{\"memory\": \"-2G\"}", "limits.memory"},
        {"{\"memory\": \"\"}", "limits.memory"},
        {"{\"memory\": \"99999999999999T\"}", "limits.memory"},
        {"{\"memory\": 1000}", "at least 16777216"},
        {"{\"memory\": true}", "limits.memory"},
        {"{\"processes\": \"2G\"}", "limits.processes: a whole number"},
        {"{\"processes\": 0}", "at least 1"},
        {"{\"processes\": 1.5}", "limits.processes"},
        {"{\"memroy\": \"2G\"}", "did you mean limits.memory?"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *text =
            g_strdup_printf("{" FILES ", " NETWORK ", \"limits\": %s}", CASES[i].limits);
        assert_refused(text, CASES[i].part);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/policy/defaults", test_defaults);
    g_test_add_func("/sandbox/policy/every-key", test_every_key);
    g_test_add_func("/sandbox/policy/refusals", test_refusals);
    g_test_add_func("/sandbox/policy/judge", test_judge);
    g_test_add_func("/sandbox/policy/load", test_load);
    g_test_add_func("/sandbox/policy/documented", test_documented);
    g_test_add_func("/sandbox/policy/limits", test_limits);
    g_test_add_func("/sandbox/policy/wrong-limits", test_wrong_limits);
    return g_test_run();
}
