/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy as an object: where it comes from, and its life. What the keys mean stands in policy-keys.c.
 */
#include "sandbox/policy.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "sandbox/policy-private.h"

#define MAX_POLICY_SIZE (1024 * 1024)
#define DEFAULT_SEARCH_DEPTH 3

/* The original's, for kernels. */
static const char DEFAULT_POLICY[] =
    "{\"allowPty\": true,"
    " \"filesystem\": {\"denyRead\": [\".env\"],"
    " \"allowWrite\": [\".\", \"~/Library/Jupyter\", \"~/.ipython\"], \"denyWrite\": []},"
    " \"network\": {\"allowedDomains\": [], \"deniedDomains\": [], \"allowLocalBinding\": true}}";

static char **
empty_list(void)
{
    return g_new0(char *, 1);
}

IpbSandboxPolicy *
ipb_sandbox_policy_closed(void)
{
    IpbSandboxPolicy *policy = g_new0(IpbSandboxPolicy, 1);
    policy->references = 1;
    policy->deny_read = empty_list();
    policy->allow_read = empty_list();
    policy->allow_write = empty_list();
    policy->deny_write = empty_list();
    policy->denied_addresses = empty_list();
    policy->allow_unix_sockets = empty_list();
    policy->git_safe_directories = empty_list();
    policy->without_effect = empty_list();
    policy->allowed_domains =
        g_ptr_array_new_with_free_func((GDestroyNotify) ipb_policy_domain_free);
    policy->denied_domains =
        g_ptr_array_new_with_free_func((GDestroyNotify) ipb_policy_domain_free);
    policy->ignore_violations =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_strfreev);
    policy->mandatory_deny_depth = DEFAULT_SEARCH_DEPTH;
    policy->allow_pty = true;
    return policy;
}

IpbSandboxPolicy *
ipb_sandbox_policy_default(void)
{
    IpbSandboxPolicy *policy =
        ipb_sandbox_policy_parse(DEFAULT_POLICY, strlen(DEFAULT_POLICY), NULL, NULL);
    g_assert(policy != NULL);
    return policy;
}

IpbSandboxPolicy *
ipb_sandbox_policy_from_json(const IpbJson *value, const char *origin, GError **error)
{
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_closed();
    policy->origin = g_strdup(origin);
    if (!ipb_policy_read(policy, value, error)) {
        if (origin != NULL)
            g_prefix_error(error, "%s: ", origin);
        return NULL;
    }
    return g_steal_pointer(&policy);
}

IpbSandboxPolicy *
ipb_sandbox_policy_parse(const char *text, size_t size, const char *origin, GError **error)
{
    const char *name = origin != NULL ? origin : "sandbox configuration";
    g_autoptr(GError) cause = NULL;
    if (size > MAX_POLICY_SIZE) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_LIMIT, "%s: larger than 1 MiB", name);
        return NULL;
    }
    g_autoptr(IpbJsonDoc) doc = ipb_json_parse(text, size, &IPB_JSON_LIMITS_SMALL, &cause);
    if (doc == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s: not JSON: %s", name,
                    cause->message);
        return NULL;
    }
    return ipb_sandbox_policy_from_json(ipb_json_root(doc), origin, error);
}

IpbSandboxPolicy *
ipb_sandbox_policy_load(const char *path, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    if (!ipb_file_read(absolute, MAX_POLICY_SIZE, &text, &size, error))
        return NULL;
    return ipb_sandbox_policy_parse(text, size, absolute, error);
}

IpbSandboxPolicy *
ipb_sandbox_policy_ref(IpbSandboxPolicy *policy)
{
    policy->references++;
    return policy;
}

void
ipb_sandbox_policy_unref(IpbSandboxPolicy *policy)
{
    if (policy == NULL || --policy->references > 0)
        return;
    g_strfreev(policy->deny_read);
    g_strfreev(policy->allow_read);
    g_strfreev(policy->allow_write);
    g_strfreev(policy->deny_write);
    g_strfreev(policy->denied_addresses);
    g_strfreev(policy->allow_unix_sockets);
    g_strfreev(policy->git_safe_directories);
    g_strfreev(policy->without_effect);
    g_ptr_array_unref(policy->allowed_domains);
    g_ptr_array_unref(policy->denied_domains);
    g_hash_table_unref(policy->ignore_violations);
    g_free(policy->origin);
    g_free(policy);
}
