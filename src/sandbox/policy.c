/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of srt's configuration, version 0.0.19 (which ipybox 0.9 used) to 0.0.78, are in tables,
 * one row each: how a key is read into the policy, why it has no effect here, or why it is refused.
 * The keys "limits" and "filesystem.allowNames" are ours. A key that is in no table is an error: a
 * misspelt denial must not silently be no denial.
 */
#include "sandbox/policy.h"

#include <stddef.h>
#include <string.h>

#include "base/beneath.h"
#include "base/error.h"
#include "base/spelling.h"
#include "sandbox/address.h"
#include "sandbox/name-rules.h"

#define MAX_POLICY_SIZE (1024 * 1024)
#define MAX_LIST 4096 /* items of one list */
#define DEFAULT_SEARCH_DEPTH 3
#define MIN_SEARCH_DEPTH 1
#define MAX_SEARCH_DEPTH 10

/* The default of ipybox 0.9, for kernels. */
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
    policy->allow_names = empty_list();
    policy->denied_addresses = empty_list();
    policy->allow_unix_sockets = empty_list();
    policy->git_safe_directories = empty_list();
    policy->without_effect = empty_list();
    policy->added_domains = empty_list();
    policy->allowed_domains =
        g_ptr_array_new_with_free_func((GDestroyNotify) ipb_domain_pattern_free);
    policy->denied_domains =
        g_ptr_array_new_with_free_func((GDestroyNotify) ipb_domain_pattern_free);
    policy->ignore_violations =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_strfreev);
    policy->mandatory_deny_depth = DEFAULT_SEARCH_DEPTH;
    policy->allow_pty = true;
    return policy;
}

/* --- reading keys ----------------------------------------------------------------------------- */

typedef struct {
    IpbSandboxPolicy *policy;
    GPtrArray *without_effect;
    GHashTable *denial_reasons; /* text of an entry of deniedDomains → reason */
    GError **error;
} Reader;

typedef struct Key Key;

/* @path: of the key, for errors. */
typedef bool (*ReadFunction)(Reader *reader, const Key *key, const IpbJson *value,
                             const char *path);

struct Key {
    const char *name;
    ReadFunction read; /* checks the type, and sets the field of a key that has an effect */
    size_t offset;     /* of the field in IpbSandboxPolicy; 0: none */
    bool is_required;
    uint64_t min;               /* of a limit */
    const char *without_effect; /* why */
    const char *refused;        /* why, and what to do instead */
};

static bool fail(Reader *reader, const char *path, const char *format, ...) G_GNUC_PRINTF(3, 4);

/* Returns false, so that it can end a function. */
static bool
fail(Reader *reader, const char *path, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *text = g_strdup_vprintf(format, args);
    va_end(args);
    g_set_error(reader->error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s: %s", path, text);
    return false;
}

static bool read_object(Reader *reader, const Key *keys, size_t n_keys, const IpbJson *value,
                        const char *path);

/* --- values ----------------------------------------------------------------------------------- */

static void *
field_of(const Reader *reader, const Key *key)
{
    return key->offset != 0 ? (char *) reader->policy + key->offset : NULL;
}

static bool
read_bool(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    bool *field = field_of(reader, key);
    if (!ipb_json_is(value, IPB_JSON_BOOL))
        return fail(reader, path, "true or false is expected");
    if (field != NULL)
        *field = ipb_json_bool(value, false);
    return true;
}

static bool
check_integer(Reader *reader, const IpbJson *value, const char *path, int64_t min, int64_t max,
              unsigned *ret_value)
{
    int64_t number;
    if (!ipb_json_int64(value, &number) || number < min || number > max)
        return fail(reader, path,
                    "an integer from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT " is expected", min,
                    max);
    *ret_value = (unsigned) number;
    return true;
}

static bool
read_port(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return check_integer(reader, value, path, 1, 65535, field_of(reader, key));
}

static bool
read_depth(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return check_integer(reader, value, path, MIN_SEARCH_DEPTH, MAX_SEARCH_DEPTH,
                         field_of(reader, key));
}

/* Returns a text without NUL in it, or NULL with an error. */
static const char *
read_text(Reader *reader, const IpbJson *value, const char *path)
{
    size_t size;
    const char *text = ipb_json_string(value, &size);
    if (text == NULL)
        fail(reader, path, "a string is expected");
    else if (strlen(text) != size)
        fail(reader, path, "a string without NUL is expected");
    else
        return text;
    return NULL;
}

static bool
check_array(Reader *reader, const IpbJson *value, const char *path)
{
    if (!ipb_json_is(value, IPB_JSON_ARRAY))
        return fail(reader, path, "an array is expected");
    if (ipb_json_length(value) > MAX_LIST)
        return fail(reader, path, "more than %d items", MAX_LIST);
    return true;
}

/* Checks one item, with an error. */
typedef bool (*CheckFunction)(Reader *reader, const char *text, const char *path);

static char **
read_list(Reader *reader, const IpbJson *value, const char *path, CheckFunction check)
{
    if (!check_array(reader, value, path))
        return NULL;
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(g_free);
    IPB_JSON_FOREACH (item, value) {
        g_autofree char *item_path = g_strdup_printf("%s[%u]", path, list->len);
        const char *text = read_text(reader, item, item_path);
        if (text == NULL || (check != NULL && !check(reader, text, item_path)))
            return NULL;
        g_ptr_array_add(list, g_strdup(text));
    }
    g_ptr_array_add(list, NULL);
    return (char **) g_ptr_array_steal(list, NULL);
}

static bool
read_list_field(Reader *reader, const Key *key, const IpbJson *value, const char *path,
                CheckFunction check)
{
    char ***field = field_of(reader, key);
    g_auto(GStrv) list = read_list(reader, value, path, check);
    if (list == NULL)
        return false;
    if (field != NULL) {
        g_strfreev(*field);
        *field = g_steal_pointer(&list);
    }
    return true;
}

static bool
check_not_empty(Reader *reader, const char *text, const char *path)
{
    return *text != '\0' || fail(reader, path, "the path is empty");
}

/* A glob that ends in "/" matches nothing. As a denial it would deny nothing. */
static bool
check_denied_path(Reader *reader, const char *text, const char *path)
{
    size_t size = strlen(text);
    if (size > 0 && text[size - 1] == '/' && (text[0] == '/' || text[0] == '~') &&
        strpbrk(text, "*?[]") != NULL)
        return fail(reader, path, "\"%s\" ends in \"/\", so it matches nothing: remove the \"/\"",
                    text);
    return check_not_empty(reader, text, path);
}

static bool
check_range(Reader *reader, const char *text, const char *path)
{
    IpbAddressRange range;
    return ipb_address_range_parse(text, &range) ||
           fail(reader, path,
                "\"%s\" is not an IP address or a range such as 10.0.0.0/8 or fc00::/7", text);
}

static bool
check_mach_name(Reader *reader, const char *text, const char *path)
{
    const char *star = strchr(text, '*');
    return star == NULL || star[1] == '\0' || fail(reader, path, "a \"*\" can only be at the end");
}

static bool
read_strings(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_list_field(reader, key, value, path, NULL);
}

static bool
read_paths(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_list_field(reader, key, value, path, check_not_empty);
}

static bool
read_denied_paths(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_list_field(reader, key, value, path, check_denied_path);
}

static bool
check_name_pattern(Reader *reader, const char *text, const char *path)
{
    const char *flaw = ipb_name_pattern_flaw(text);
    return flaw == NULL ||
           fail(reader, path,
                "\"%s\" is not a pattern of names: %s; write it as docs/name-rules.md does, such "
                "as \".vscode/**\" or \"~/.bashrc\"",
                text, flaw);
}

static bool
read_name_patterns(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_list_field(reader, key, value, path, check_name_pattern);
}

static bool
read_ranges(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_list_field(reader, key, value, path, check_range);
}

static bool
read_mach_names(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_list_field(reader, key, value, path, check_mach_name);
}

static bool
check_any_object(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return ipb_json_is(value, IPB_JSON_OBJECT) || fail(reader, path, "an object is expected");
}

static bool
check_program(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    const char *text = read_text(reader, value, path);
    return text != NULL && (*text == '/' || fail(reader, path, "an absolute path is expected"));
}

/* --- domains ---------------------------------------------------------------------------------- */

static bool
read_domains(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    GPtrArray *domains = *(GPtrArray **) field_of(reader, key);
    bool is_denial = domains == reader->policy->denied_domains;
    if (!check_array(reader, value, path))
        return false;
    IPB_JSON_FOREACH (item, value) {
        g_autofree char *item_path = g_strdup_printf("%s[%u]", path, domains->len);
        const char *text = read_text(reader, item, item_path);
        if (text == NULL)
            return false;
        const char *reason = NULL;
        IpbDomainPattern *domain = ipb_domain_pattern_parse(text, strlen(text), is_denial, &reason);
        if (domain == NULL)
            return fail(reader, item_path, "\"%s\" is not a domain: %s", text, reason);
        g_ptr_array_add(domains, domain);
    }
    return true;
}

/* The reasons are kept until deniedDomains has been read, whatever the order in the file. */
static bool
read_denial_reasons(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    if (!check_any_object(reader, key, value, path))
        return false;
    IPB_JSON_FOREACH (item, value) {
        const char *name = ipb_json_name(item, NULL);
        g_autofree char *item_path = g_strdup_printf("%s.%s", path, name);
        const char *text = read_text(reader, item, item_path);
        if (text == NULL)
            return false;
        if (*text == '\0')
            return fail(reader, item_path, "the reason is empty");
        g_hash_table_insert(reader->denial_reasons, g_strdup(name), g_strdup(text));
    }
    return true;
}

static void
apply_denial_reasons(Reader *reader)
{
    GPtrArray *domains = reader->policy->denied_domains;
    for (guint i = 0; i < domains->len; i++) {
        IpbDomainPattern *domain = g_ptr_array_index(domains, i);
        domain->reason = g_strdup(g_hash_table_lookup(reader->denial_reasons, domain->text));
    }
    GHashTableIter iter;
    void *name;
    g_hash_table_iter_init(&iter, reader->denial_reasons);
    while (g_hash_table_iter_next(&iter, &name, NULL)) {
        bool is_used = false;
        for (guint i = 0; i < domains->len && !is_used; i++)
            is_used = g_str_equal(((IpbDomainPattern *) g_ptr_array_index(domains, i))->text, name);
        if (!is_used)
            g_ptr_array_add(reader->without_effect,
                            g_strdup_printf("network.deniedDomainReasons.%s: no entry of "
                                            "network.deniedDomains has this text",
                                            (char *) name));
    }
}

/* --- the rest --------------------------------------------------------------------------------- */

static bool
read_ignored_violations(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    if (!check_any_object(reader, key, value, path))
        return false;
    IPB_JSON_FOREACH (item, value) {
        const char *pattern = ipb_json_name(item, NULL);
        g_autofree char *item_path = g_strdup_printf("%s.%s", path, pattern);
        char **paths = read_list(reader, item, item_path, NULL);
        if (paths == NULL)
            return false;
        g_hash_table_insert(reader->policy->ignore_violations, g_strdup(pattern), paths);
    }
    return true;
}

static bool
read_disabled(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    if (!read_bool(reader, key, value, path))
        return false;
    return !ipb_json_bool(value, true) ||
           fail(reader, path,
                "a sandbox without file rules is not supported: list writable paths in "
                "filesystem.allowWrite");
}

static bool
read_limit(Reader *reader, const Key *key, const IpbJson *value, const char *path, bool is_size)
{
    uint64_t limit;
    const char *expected = ipb_sandbox_limits_read(value, is_size, key->min, &limit);
    if (expected != NULL)
        return fail(reader, path, "%s, at least %" G_GUINT64_FORMAT, expected, key->min);
    *(uint64_t *) field_of(reader, key) = limit;
    return true;
}

static bool
read_size(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_limit(reader, key, value, path, true);
}

static bool
read_count(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_limit(reader, key, value, path, false);
}

/* --- the tables ------------------------------------------------------------------------------- */

#define FIELD(name) offsetof(IpbSandboxPolicy, name)

static const char MACOS_ONLY[] = "for macOS only";
static const char WINDOWS_ONLY[] = "for Windows only";
static const char NO_HELPERS[] = "the sandbox needs no helper programs";
static const char NO_TLS[] = "ipybox does not inspect TLS connections; remove the key";

static const Key FILESYSTEM_KEYS[] = {
    {"denyRead", read_denied_paths, FIELD(deny_read), .is_required = true},
    {"allowRead", read_paths, FIELD(allow_read)},
    {"allowWrite", read_paths, FIELD(allow_write), .is_required = true},
    {"denyWrite", read_denied_paths, FIELD(deny_write), .is_required = true},
    {"allowGitConfig", read_bool, FIELD(allow_git_config)},
    /* Ours. */
    {"allowNames", read_name_patterns, FIELD(allow_names)},
    {"disabled", read_disabled},
};

static const Key NETWORK_KEYS[] = {
    {"allowedDomains", read_domains, FIELD(allowed_domains), .is_required = true},
    {"deniedDomains", read_domains, FIELD(denied_domains), .is_required = true},
    {"deniedDomainReasons", read_denial_reasons},
    {"deniedResolvedAddresses", read_ranges, FIELD(denied_addresses)},
    {"strictAllowlist", read_bool, FIELD(strict_allowlist)},
    {"allowUnixSockets", read_strings, FIELD(allow_unix_sockets)},
    {"allowAllUnixSockets", read_bool, FIELD(allow_all_unix_sockets)},
    {"allowLocalBinding", read_bool, FIELD(allow_local_binding),
     .without_effect = "a sandbox has a loopback interface of its own, which only processes in "
                       "it can reach: listening there is always allowed"},
    {"allowMachLookup", read_mach_names, .without_effect = MACOS_ONLY},
    {"httpProxyPort", read_port, FIELD(http_proxy_port)},
    {"socksProxyPort", read_port, FIELD(socks_proxy_port)},
    {"mitmProxy", .refused = NO_TLS},
    {"tlsTerminate", .refused = NO_TLS},
    {"filterRequest", .refused = "a function cannot be in a file, and ipybox does not inspect "
                                 "TLS connections; remove the key"},
    {"parentProxy", .refused =
                        "connections through another proxy are not supported yet; remove "
                        "the key, or set network.httpProxyPort to the port of your own proxy"},
};

/* These are ours. With less than the minimum no program would start. */
static const Key LIMIT_KEYS[] = {
    {"memory", read_size, FIELD(limits.memory_bytes), .min = 16 << 20},
    {"processes", read_count, FIELD(limits.processes), .min = 1},
    {"cpuSeconds", read_count, FIELD(limits.cpu_s), .min = 1},
    {"openFiles", read_count, FIELD(limits.open_files), .min = 16},
    {"fileSize", read_size, FIELD(limits.file_bytes), .min = 1},
    {"temporaryFiles", read_size, FIELD(limits.tmp_bytes), .min = 1 << 20},
};

static const Key GIT_KEYS[] = {
    {"safeDirectories", read_strings, FIELD(git_safe_directories)},
};

static bool
read_git(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_object(reader, GIT_KEYS, G_N_ELEMENTS(GIT_KEYS), value, path);
}

static bool
read_limits(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_object(reader, LIMIT_KEYS, G_N_ELEMENTS(LIMIT_KEYS), value, path);
}

static bool
read_filesystem(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_object(reader, FILESYSTEM_KEYS, G_N_ELEMENTS(FILESYSTEM_KEYS), value, path);
}

static bool
read_network(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    return read_object(reader, NETWORK_KEYS, G_N_ELEMENTS(NETWORK_KEYS), value, path);
}

static const Key ROOT_KEYS[] = {
    {"network", read_network, .is_required = true},
    {"filesystem", read_filesystem, .is_required = true},
    {"ignoreViolations", read_ignored_violations},
    {"mandatoryDenySearchDepth", read_depth, FIELD(mandatory_deny_depth)},
    {"allowPty", read_bool, FIELD(allow_pty)},
    {"enableWeakerNestedSandbox", read_bool, FIELD(allow_weaker_nested)},
    {"git", read_git},
    {"limits", read_limits},
    {"enableWeakerNetworkIsolation", read_bool, .without_effect = MACOS_ONLY},
    {"allowAppleEvents", read_bool, .without_effect = MACOS_ONLY},
    {"windows", check_any_object, .without_effect = WINDOWS_ONLY},
    {"ripgrep", check_any_object, .without_effect = NO_HELPERS},
    {"seccomp", check_any_object, .without_effect = NO_HELPERS},
    {"bwrapPath", check_program, .without_effect = NO_HELPERS},
    {"socatPath", check_program, .without_effect = NO_HELPERS},
    {"javaAgentJarPath", check_program,
     .without_effect = "programs that do not use proxies, such as Java's, need no agent here"},
    {"credentials", .refused = "credentials are not supported yet; hide files with "
                               "filesystem.denyRead, and leave secrets out of the environment"},
};

static const struct {
    const char *prefix;
    const Key *keys;
    size_t n_keys;
} TABLES[] = {
    {"", ROOT_KEYS, G_N_ELEMENTS(ROOT_KEYS)},
    {"filesystem.", FILESYSTEM_KEYS, G_N_ELEMENTS(FILESYSTEM_KEYS)},
    {"network.", NETWORK_KEYS, G_N_ELEMENTS(NETWORK_KEYS)},
    {"git.", GIT_KEYS, G_N_ELEMENTS(GIT_KEYS)},
    {"limits.", LIMIT_KEYS, G_N_ELEMENTS(LIMIT_KEYS)},
};

/* --- objects ---------------------------------------------------------------------------------- */

/* A key with the right name in the wrong object is almost as near. */
static bool
fail_unknown(Reader *reader, const Key *keys, const char *name, const char *path)
{
    unsigned best = 2 * (unsigned) MAX(strlen(name) / 3, 2) + 2;
    g_autofree char *nearest = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(TABLES); i++) {
        for (size_t j = 0; j < TABLES[i].n_keys; j++) {
            const char *known = TABLES[i].keys[j].name;
            unsigned cost = 2 * ipb_spelling_distance(name, known) + (TABLES[i].keys != keys);
            if (cost >= best)
                continue;
            best = cost;
            g_free(nearest);
            nearest = g_strconcat(TABLES[i].prefix, known, NULL);
        }
    }
    if (nearest != NULL)
        return fail(reader, path, "unknown key; did you mean %s?", nearest);
    return fail(reader, path, "unknown key; ipybox-sandbox-config(5) lists all keys");
}

static const Key *
find_key(const Key *keys, size_t n_keys, const char *name, size_t size)
{
    for (size_t i = 0; i < n_keys; i++)
        if (strlen(keys[i].name) == size && memcmp(keys[i].name, name, size) == 0)
            return &keys[i];
    return NULL;
}

static bool
read_key(Reader *reader, const Key *key, const IpbJson *value, const char *path)
{
    if (key->refused != NULL)
        return fail(reader, path, "%s", key->refused);
    if (key->without_effect != NULL)
        g_ptr_array_add(reader->without_effect,
                        g_strdup_printf("%s: %s", path, key->without_effect));
    return key->read(reader, key, value, path);
}

/* @path is empty for the whole configuration. */
static bool
read_object(Reader *reader, const Key *keys, size_t n_keys, const IpbJson *value, const char *path)
{
    const char *dot = *path != '\0' ? "." : "";
    if (!ipb_json_is(value, IPB_JSON_OBJECT))
        return fail(reader, *path != '\0' ? path : "the configuration", "an object is expected");
    IPB_JSON_FOREACH (item, value) {
        size_t size;
        const char *name = ipb_json_name(item, &size);
        const Key *key = find_key(keys, n_keys, name, size);
        g_autofree char *item_path = g_strconcat(path, dot, name, NULL);
        if (strlen(name) == size && ipb_json_get(value, name) != item)
            return fail(reader, item_path, "the key is given twice: remove one");
        bool is_fine = key != NULL ? read_key(reader, key, item, item_path)
                                   : fail_unknown(reader, keys, name, item_path);
        if (!is_fine)
            return false;
    }
    for (size_t i = 0; i < n_keys; i++) {
        if (!keys[i].is_required || ipb_json_get(value, keys[i].name) != NULL)
            continue;
        g_autofree char *item_path = g_strconcat(path, dot, keys[i].name, NULL);
        return fail(reader, item_path, "the key is missing; write [] for an empty list");
    }
    return true;
}

static bool
read_policy(IpbSandboxPolicy *policy, const IpbJson *value, GError **error)
{
    g_autoptr(GPtrArray) without_effect = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GHashTable) reasons = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    Reader reader = {policy, without_effect, reasons, error};
    if (!read_object(&reader, ROOT_KEYS, G_N_ELEMENTS(ROOT_KEYS), value, ""))
        return false;
    apply_denial_reasons(&reader);
    g_ptr_array_add(without_effect, NULL);
    g_strfreev(policy->without_effect);
    policy->without_effect = (char **) g_ptr_array_steal(without_effect, NULL);
    return true;
}

/* --- where a policy comes from ---------------------------------------------------------------- */

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
    if (!read_policy(policy, value, error)) {
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
ipb_sandbox_policy_load(const char *base, const char *path, GError **error)
{
    g_autofree char *text = NULL;
    size_t size;
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    if (!ipb_beneath_read_in(base, absolute, MAX_POLICY_SIZE, &text, &size, error))
        return NULL;
    return ipb_sandbox_policy_parse(text, size, absolute, error);
}

bool
ipb_sandbox_policy_set_limits(IpbSandboxPolicy *policy, const char *limits, GError **error)
{
    g_autoptr(GError) cause = NULL;
    g_autoptr(IpbJsonDoc) doc =
        ipb_json_parse(limits, strlen(limits), &IPB_JSON_LIMITS_SMALL, &cause);
    if (doc == NULL) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "limits: not JSON: %s",
                    cause->message);
        return false;
    }
    Reader reader = {.policy = policy, .error = error};
    return read_object(&reader, LIMIT_KEYS, G_N_ELEMENTS(LIMIT_KEYS), ipb_json_root(doc), "limits");
}

/* --- further domains -------------------------------------------------------------------------- */

bool
ipb_sandbox_policy_allow_domains(IpbSandboxPolicy *policy, const char *const *domains,
                                 GError **error)
{
    for (const char *const *domain = domains; *domain != NULL; domain++) {
        const char *reason = NULL;
        IpbDomainPattern *pattern =
            policy->allowed_domains->len < MAX_LIST
                ? ipb_domain_pattern_parse(*domain, strlen(*domain), false, &reason)
                : NULL;
        if (pattern == NULL) {
            g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                        "allowed domains: \"%s\" is not a domain: %s", *domain,
                        reason != NULL ? reason : "there are too many");
            return false;
        }
        g_ptr_array_add(policy->allowed_domains, pattern);
    }
    g_strfreev(policy->added_domains);
    policy->added_domains = g_strdupv((char **) domains);
    return true;
}

static void
write_domains(IpbJsonWriter *writer, const IpbJson *listed, const char *const *domains)
{
    ipb_json_begin_array(writer);
    IPB_JSON_FOREACH (item, listed)
        ipb_json_write_value(writer, item);
    for (; *domains != NULL; domains++)
        ipb_json_write_string(writer, *domains);
    ipb_json_end_array(writer);
}

static void
write_network(IpbJsonWriter *writer, const IpbJson *network, const char *const *domains)
{
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (member, network) {
        const char *name = ipb_json_name(member, NULL);
        ipb_json_key(writer, name);
        if (g_str_equal(name, "allowedDomains"))
            write_domains(writer, member, domains);
        else
            ipb_json_write_value(writer, member);
    }
    ipb_json_end_object(writer);
}

void
ipb_sandbox_policy_write_with_domains(IpbJsonWriter *writer, const IpbJson *document,
                                      const char *const *domains)
{
    g_autoptr(IpbJsonDoc) stock =
        ipb_json_parse(DEFAULT_POLICY, strlen(DEFAULT_POLICY), &IPB_JSON_LIMITS_SMALL, NULL);
    ipb_json_begin_object(writer);
    IPB_JSON_FOREACH (member, document != NULL ? document : ipb_json_root(stock)) {
        const char *name = ipb_json_name(member, NULL);
        ipb_json_key(writer, name);
        if (g_str_equal(name, "network"))
            write_network(writer, member, domains);
        else
            ipb_json_write_value(writer, member);
    }
    ipb_json_end_object(writer);
}

/* --- the rules for hosts ---------------------------------------------------------------------- */

/* @port 0 asks about the name alone. Then a denial with a port does not apply, but an allowing rule
 * does. */
static const IpbDomainPattern *
find_rule(const GPtrArray *rules, const IpbHost *host, unsigned port, bool is_denial)
{
    for (guint i = 0; i < rules->len; i++) {
        const IpbDomainPattern *rule = g_ptr_array_index(rules, i);
        bool is_port_fine = rule->port == 0 || (port == 0 ? !is_denial : rule->port == port);
        if (is_port_fine && ipb_domain_pattern_matches(rule, host))
            return rule;
    }
    return NULL;
}

IpbDomainVerdict
ipb_sandbox_policy_judge(const IpbSandboxPolicy *policy, const IpbHost *host, unsigned port,
                         const IpbDomainPattern **ret_rule)
{
    IpbDomainVerdict verdict = IPB_DOMAIN_DENIED;
    const IpbDomainPattern *rule = find_rule(policy->denied_domains, host, port, true);
    if (rule == NULL) {
        rule = find_rule(policy->allowed_domains, host, port, false);
        verdict = rule != NULL ? IPB_DOMAIN_ALLOWED : IPB_DOMAIN_NOT_LISTED;
    }
    if (ret_rule != NULL)
        *ret_rule = rule;
    return verdict;
}

IpbSandboxPolicy *
ipb_sandbox_policy_ref(IpbSandboxPolicy *policy)
{
    g_atomic_int_inc(&policy->references);
    return policy;
}

void
ipb_sandbox_policy_unref(IpbSandboxPolicy *policy)
{
    if (policy == NULL || !g_atomic_int_dec_and_test(&policy->references))
        return;
    g_strfreev(policy->deny_read);
    g_strfreev(policy->allow_read);
    g_strfreev(policy->allow_write);
    g_strfreev(policy->deny_write);
    g_strfreev(policy->allow_names);
    g_strfreev(policy->denied_addresses);
    g_strfreev(policy->allow_unix_sockets);
    g_strfreev(policy->git_safe_directories);
    g_strfreev(policy->without_effect);
    g_ptr_array_unref(policy->allowed_domains);
    g_ptr_array_unref(policy->denied_domains);
    g_hash_table_unref(policy->ignore_violations);
    g_free(policy->origin);
    g_strfreev(policy->added_domains);
    g_free(policy);
}
