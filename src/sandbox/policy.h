/* SPDX-License-Identifier: Apache-2.0
 *
 * IpbSandboxPolicy: what a sandbox allows, in the JSON of Anthropic's sandbox-runtime (srt), with
 * the same keys and meaning. A key has its effect, or is listed as without effect, or is refused by
 * name. An unknown key or a wrong type is an error that names the key's path. Two keys are
 * ours: "limits" and "filesystem.allowNames". docs/internals/sandbox-policy.md has the table.
 *
 * A policy is pure data. Paths are as written (`~`, relative, globs); nothing is looked up in the
 * file system. A plan does that (plan.h).
 *
 * Ownership: reference-counted; it does not change while it is shared.
 */
#pragma once

#include "json/json.h"
#include "json/writer.h"
#include "sandbox/domain-pattern.h"
#include "sandbox/limits.h"

typedef struct {
    int references;
    /* "filesystem": NULL-terminated lists, as written */
    char **deny_read;
    char **allow_read;
    char **allow_write;
    char **deny_write;
    bool allow_git_config;
    char **allow_names;            /* patterns of names (name-rules.h); a key of ours, not of srt */
    unsigned mandatory_deny_depth; /* mandatoryDenySearchDepth, default 3 */
    /* "network" */
    GPtrArray *allowed_domains; /* IpbDomainPattern */
    GPtrArray *denied_domains;
    char **denied_addresses; /* deniedResolvedAddresses; ipb_address_range_parse() accepts each */
    bool strict_allowlist;
    bool allow_local_binding; /* without effect */
    bool allow_all_unix_sockets;
    char **allow_unix_sockets; /* paths as written */
    unsigned http_proxy_port;  /* The application's own proxies, used instead of ours; 0: ours */
    unsigned socks_proxy_port;
    IpbSandboxLimits limits; /* a key of ours, not of srt */
    /* the other keys */
    bool allow_pty;                /* true unless the configuration says false */
    bool allow_weaker_nested;      /* enableWeakerNestedSandbox */
    char **git_safe_directories;   /* git.safeDirectories, as written */
    GHashTable *ignore_violations; /* command pattern → char ** of paths */
    char **without_effect;         /* "key: why" of accepted keys that have no effect here */
    /* The file's absolute path, or the name that the caller gave; NULL: a built-in default */
    char *origin;
    /* Of allowed_domains, those that ipb_sandbox_policy_allow_domains() added, as written */
    char **added_domains;
} IpbSandboxPolicy;

/* The default for kernels, as in ipybox 0.9: the workspace and IPython's directories are writable,
 * `.env` is hidden, and there is no network. */
IpbSandboxPolicy *ipb_sandbox_policy_default(void);
/* The default of srt: everything is readable, nothing is writable, no network. */
IpbSandboxPolicy *ipb_sandbox_policy_closed(void);
/* @origin names the source in errors (may be NULL). INVALID: not JSON, an unknown key, a wrong
 * type, a key that is not supported. */
IpbSandboxPolicy *ipb_sandbox_policy_parse(const char *text, size_t size, const char *origin,
                                           GError **error);
/* Links below @base (may be NULL) are not followed. NOT_FOUND, INVALID, REFUSED (a link), LIMIT
 * (1 MiB), SYSTEM. */
IpbSandboxPolicy *ipb_sandbox_policy_load(const char *base, const char *path, GError **error);
/* Reads a policy from a value inside other JSON, such as server_params' "sandbox". */
IpbSandboxPolicy *ipb_sandbox_policy_from_json(const IpbJson *value, const char *origin,
                                               GError **error);
/* @limits: a JSON object like "limits" in a configuration. It replaces the limits of @policy that
 * it contains. INVALID. */
bool ipb_sandbox_policy_set_limits(IpbSandboxPolicy *policy, const char *limits, GError **error);
/* @domains: further entries of "network.allowedDomains", NULL-terminated. INVALID: one is none. */
bool ipb_sandbox_policy_allow_domains(IpbSandboxPolicy *policy, const char *const *domains,
                                      GError **error);
/* Writes the configuration @document, or, if that is NULL, the default one, with @domains as
 * further entries of "network.allowedDomains". */
void ipb_sandbox_policy_write_with_domains(IpbJsonWriter *writer, const IpbJson *document,
                                           const char *const *domains);
IpbSandboxPolicy *ipb_sandbox_policy_ref(IpbSandboxPolicy *policy);
void ipb_sandbox_policy_unref(IpbSandboxPolicy *policy);

typedef enum {
    IPB_DOMAIN_NOT_LISTED, /* no rule allows it */
    IPB_DOMAIN_ALLOWED,
    IPB_DOMAIN_DENIED, /* deniedDomains take precedence */
} IpbDomainVerdict;

/* May code inside connect to @host at @port? @port 0 asks about the name alone, as DNS does:
 * allowed if some port is. *ret_rule (may be NULL) is the rule that decided, borrowed, or NULL if
 * no rule did. */
IpbDomainVerdict ipb_sandbox_policy_judge(const IpbSandboxPolicy *policy, const IpbHost *host,
                                          unsigned port, const IpbDomainPattern **ret_rule);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(IpbSandboxPolicy, ipb_sandbox_policy_unref)
