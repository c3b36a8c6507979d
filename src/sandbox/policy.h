/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxPolicy: what a sandbox allows, in the JSON of Anthropic's sandbox-runtime (srt): same keys, same meaning. Each key is
 * honoured, or listed as without effect here, or refused by name; an unknown key or a wrong type is an error with the key's path. One
 * key is ours: "limits".
 * docs/internals/sandbox-policy.md has the table.
 *
 * Pure data: paths are as written (`~`, relative, globs), nothing is looked up in the file system; plan.h does that.
 * Ownership: reference-counted, unchanging.
 */
#pragma once

#include "json/json.h"
#include "sandbox/domain-pattern.h"
#include "sandbox/limits.h"

typedef struct {
    int references;
    /* filesystem: NULL-terminated lists, as written */
    char **deny_read;
    char **allow_read;
    char **allow_write;
    char **deny_write;
    bool allow_git_config;
    unsigned mandatory_deny_depth; /* mandatoryDenySearchDepth, default 3 */
    /* network */
    GPtrArray *allowed_domains; /* IpbDomainPattern */
    GPtrArray *denied_domains;
    char **denied_addresses; /* deniedResolvedAddresses: each parses with ipb_address_range_parse */
    bool strict_allowlist;
    bool allow_local_binding; /* has no effect: see without_effect */
    bool allow_all_unix_sockets;
    char **allow_unix_sockets; /* paths as written */
    unsigned http_proxy_port;  /* the application's own proxy instead of ours; 0: ours */
    unsigned socks_proxy_port;
    IpbSandboxLimits limits; /* ours, not srt's */
    /* the rest */
    bool allow_pty;                /* true unless the configuration says false */
    bool allow_weaker_nested;      /* enableWeakerNestedSandbox */
    char **git_safe_directories;   /* git.safeDirectories, as written */
    GHashTable *ignore_violations; /* command pattern → char ** of paths */
    char **without_effect;         /* "key: why" of keys that were accepted and do nothing here */
    char
        *origin; /* the file's absolute path, or what was given as such; NULL: a built-in default */
} IpbSandboxPolicy;

/* The default of kernels, which is the original's: the workspace and IPython's directories are writable, `.env` is hidden, no network. */
IpbSandboxPolicy *ipb_sandbox_policy_default(void);
/* srt's own default: everything is readable, nothing is writable, no network. */
IpbSandboxPolicy *ipb_sandbox_policy_closed(void);
/* @origin names the source in errors (may be NULL). INVALID: not JSON, an unknown key, a wrong type, a key that is not offered. */
IpbSandboxPolicy *ipb_sandbox_policy_parse(const char *text, size_t size, const char *origin,
                                           GError **error);
/* NOT_FOUND, INVALID, LIMIT (1 MiB), SYSTEM. */
IpbSandboxPolicy *ipb_sandbox_policy_load(const char *path, GError **error);
/* The same from a value inside other JSON, such as server_params' "sandbox". */
IpbSandboxPolicy *ipb_sandbox_policy_from_json(const IpbJson *value, const char *origin,
                                               GError **error);
/* @limits: a JSON object as "limits" in a configuration; what it says replaces what @policy says. INVALID. */
bool ipb_sandbox_policy_set_limits(IpbSandboxPolicy *policy, const char *limits, GError **error);
IpbSandboxPolicy *ipb_sandbox_policy_ref(IpbSandboxPolicy *policy);
void ipb_sandbox_policy_unref(IpbSandboxPolicy *policy);

typedef enum {
    IPB_DOMAIN_NOT_LISTED, /* nothing allows it */
    IPB_DOMAIN_ALLOWED,
    IPB_DOMAIN_DENIED, /* deniedDomains come first */
} IpbDomainVerdict;

/* May something inside talk to @host at @port? @port 0 asks about the name alone, as DNS does: allowed if some port is.
 * *ret_rule (may be NULL) is the rule that decided, borrowed; NULL where no rule did. */
IpbDomainVerdict ipb_sandbox_policy_judge(const IpbSandboxPolicy *policy, const IpbHost *host,
                                          unsigned port, const IpbDomainPattern **ret_rule);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSandboxPolicy, ipb_sandbox_policy_unref)
