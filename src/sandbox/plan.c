/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan is made in this order: rules for paths (policy-paths.c, protected-paths.c, own-paths.c),
 * the sockets that listen inside with the environment that leads programs to them, then the access
 * that follows from the rules (path-rules.c).
 */
#include "sandbox/plan.h"

#include <string.h>

#include "base/error.h"
#include "sandbox/own-paths.h"
#include "sandbox/path.h"
#include "sandbox/policy-paths.h"
#include "sandbox/protected-paths.h"

#define TOOL_PORT 8900
#define SOCKS_PORT 1080

/* If git.safeDirectories has more, all directories are safe. */
#define MAX_SAFE_DIRECTORIES 8

#define SOCKS_ADDRESS "localhost:" G_STRINGIFY(SOCKS_PORT)
#define SOCKS_URL "socks5h://" SOCKS_ADDRESS
/* Private networks, too, as in srt: they are allowed or denied by address, which needs no proxy. */
#define NOT_PROXIED "localhost,127.0.0.1,::1,169.254.0.0/16,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"

static const struct {
    const char *name;
    const char *value;
} PROXIES[] = {
    {"HTTP_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"HTTPS_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"http_proxy", IPB_PLAN_HTTP_PROXY_URL},
    {"https_proxy", IPB_PLAN_HTTP_PROXY_URL},
    /* Not socks5h://: Python's httpx fails on that without an extra package. */
    {"ALL_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"all_proxy", IPB_PLAN_HTTP_PROXY_URL},
    {"GRPC_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"grpc_proxy", IPB_PLAN_HTTP_PROXY_URL},
    {"FTP_PROXY", SOCKS_URL},
    {"ftp_proxy", SOCKS_URL},
    {"RSYNC_PROXY", SOCKS_ADDRESS},
    {"DOCKER_HTTP_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"DOCKER_HTTPS_PROXY", IPB_PLAN_HTTP_PROXY_URL},
    {"CLOUDSDK_PROXY_TYPE", "http"},
    {"CLOUDSDK_PROXY_ADDRESS", "localhost"},
    {"CLOUDSDK_PROXY_PORT", G_STRINGIFY(IPB_PLAN_HTTP_PROXY_PORT)},
    {"NO_PROXY", NOT_PROXIED},
    {"no_proxy", NOT_PROXIED},
};

/* They name sockets of the host, or hold the passwords of proxies. */
static const char *const UNSET[] = {
    "CLOUDSDK_PROXY_USERNAME",
    "CLOUDSDK_PROXY_PASSWORD",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "NOTIFY_SOCKET",
};

/* --- the network ------------------------------------------------------------------------------ */

static void
add_listener(IpbSandboxPlan *plan, IpbListenerKind kind, unsigned port, bool is_any_address)
{
    g_array_append_val(plan->listeners, ((IpbPlanListener){kind, port, is_any_address}));
}

static bool
has_network(const IpbPlanOptions *options)
{
    return options->policy->allowed_domains->len > 0 || options->is_network_kept;
}

static void
add_listeners(IpbSandboxPlan *plan, const IpbPlanOptions *options)
{
    unsigned tool_port = options->tool_port != 0 ? options->tool_port : TOOL_PORT;
    if (options->has_tools)
        add_listener(plan, IPB_LISTENER_TOOLS, tool_port, false);
    if (!has_network(options))
        return;
    add_listener(plan, IPB_LISTENER_HTTP_PROXY, IPB_PLAN_HTTP_PROXY_PORT, false);
    add_listener(plan, IPB_LISTENER_SOCKS, SOCKS_PORT, false);
    add_listener(plan, IPB_LISTENER_DNS_UDP, 53, true);
    add_listener(plan, IPB_LISTENER_DNS_TCP, 53, true);
    add_listener(plan, IPB_LISTENER_TLS, 443, true);
    add_listener(plan, IPB_LISTENER_HTTP, 80, true);
}

static void
add_variable(GPtrArray *environment, const char *name, const char *value)
{
    g_ptr_array_add(environment, g_strconcat(name, "=", value, NULL));
}

/* git over ssh reads no proxy variable. If socat is installed, ssh goes through the proxy with
 * it. */
static void
add_git_ssh(GPtrArray *environment)
{
    g_autofree char *socat = g_find_program_in_path("socat");
    if (socat != NULL)
        add_variable(environment, "GIT_SSH_COMMAND",
                     "ssh -o ControlMaster=no -o ControlPath=none -o ProxyCommand='socat - "
                     "PROXY:localhost:%h:%p,proxyport=" G_STRINGIFY(IPB_PLAN_HTTP_PROXY_PORT) "'");
}

static void
add_git_setting(GPtrArray *environment, unsigned *number, const char *value)
{
    g_autofree char *key = g_strdup_printf("GIT_CONFIG_KEY_%u", *number);
    g_autofree char *name = g_strdup_printf("GIT_CONFIG_VALUE_%u", *number);
    add_variable(environment, key, "safe.directory");
    add_variable(environment, name, value);
    ++*number;
}

/* git.safeDirectories: git trusts repositories in them, no matter which user owns them. */
static void
add_safe_directories(GPtrArray *environment, const IpbSandboxPlan *plan,
                     const IpbPlanOptions *options)
{
    char **directories = plan->policy->git_safe_directories;
    unsigned number = 0;
    if (g_strv_length(directories) > MAX_SAFE_DIRECTORIES)
        add_git_setting(environment, &number, "*");
    for (char **text = directories; *text != NULL && number != 1; text++) {
        g_autofree char *path = ipb_path_expand(*text, plan->workspace, options->home);
        g_autofree char *below = g_build_filename(path, "*", NULL);
        add_git_setting(environment, &number, path);
        add_git_setting(environment, &number, below);
    }
    if (number == 0)
        return;
    g_autofree char *count = g_strdup_printf("%u", number);
    add_variable(environment, "GIT_CONFIG_COUNT", count);
}

static void
add_environment(IpbSandboxPlan *plan, const IpbPlanOptions *options)
{
    g_autoptr(GPtrArray) environment = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) unset = g_ptr_array_new_with_free_func(g_free);
    add_variable(environment, "SANDBOX_RUNTIME", "1");
    add_variable(environment, "TMPDIR", "/tmp");
    for (size_t i = 0; i < G_N_ELEMENTS(PROXIES); i++) {
        if (has_network(options))
            add_variable(environment, PROXIES[i].name, PROXIES[i].value);
        else
            g_ptr_array_add(unset, g_strdup(PROXIES[i].name));
    }
    if (has_network(options))
        add_git_ssh(environment);
    add_safe_directories(environment, plan, options);
    for (size_t i = 0; i < G_N_ELEMENTS(UNSET); i++)
        g_ptr_array_add(unset, g_strdup(UNSET[i]));
    g_ptr_array_add(environment, NULL);
    g_ptr_array_add(unset, NULL);
    plan->environment = (char **) g_ptr_array_steal(environment, NULL);
    plan->unset = (char **) g_ptr_array_steal(unset, NULL);
}

/* --- the plan --------------------------------------------------------------------------------- */

static bool
check_absolute(const char *what, const char *path, GError **error)
{
    if (path != NULL && *path == '/')
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s is not an absolute path: \"%s\"",
                what, path != NULL ? path : "");
    return false;
}

static bool
check_options(const IpbPlanOptions *options, GError **error)
{
    return check_absolute("the workspace", options->workspace, error) &&
           check_absolute("the home directory (HOME)", options->home, error);
}

static void
free_glob(IpbPlanGlob *live)
{
    g_free(live->base);
    ipb_glob_free(live->glob);
    g_free(live->name);
    g_free(live);
}

static IpbSandboxPlan *
new_empty(const IpbPlanOptions *options)
{
    IpbSandboxPlan *plan = g_new0(IpbSandboxPlan, 1);
    plan->references = 1;
    plan->policy = ipb_sandbox_policy_ref((IpbSandboxPolicy *) options->policy);
    plan->paths = ipb_path_rules_new();
    plan->warnings = plan->paths->warnings;
    plan->globs = g_ptr_array_new_with_free_func((GDestroyNotify) free_glob);
    plan->listeners = g_array_new(FALSE, FALSE, sizeof(IpbPlanListener));
    plan->unix_sockets = g_ptr_array_new_with_free_func(g_free);
    plan->layer = g_strdup(options->layer);
    plan->limits = ipb_sandbox_limits_merge(&options->policy->limits, &options->limits);
    return plan;
}

/* The workspace must exist: relative paths start from it. */
static bool
find_workspace(IpbSandboxPlan *plan, const char *workspace, GError **error)
{
    g_auto(IpbPath) path;
    ipb_path_resolve(workspace, &path);
    if (path.state != IPB_PATH_DIRECTORY) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the workspace %s is not a directory", workspace);
        return false;
    }
    plan->workspace = g_steal_pointer(&path.real);
    return true;
}

/* A layer stands for the workspace and nothing else, and code inside must not reach it. */
static bool
check_layer(const IpbSandboxPlan *plan, GError **error)
{
    const char *problem = NULL;
    IpbPlanAccess access = ipb_sandbox_plan_access(plan, plan->workspace);
    IpbPlanAccess layer = ipb_sandbox_plan_access(plan, plan->layer);
    if (!access.is_writable || access.is_own || access.root_size != strlen(plan->workspace))
        problem = "filesystem.allowWrite must name the workspace, and no directory above it";
    else if (ipb_path_is_in(plan->layer, plan->workspace))
        problem = "the layer would be in it: choose another place with --staging-dir";
    else if (layer.is_readable || layer.is_writable)
        problem = "code could reach the layer: choose another place with --staging-dir";
    if (problem != NULL)
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID,
                    "the workspace %s cannot be staged: %s", plan->workspace, problem);
    return problem == NULL;
}

IpbSandboxPlan *
ipb_sandbox_plan_new(const IpbPlanOptions *options, GError **error)
{
    if (!check_options(options, error))
        return NULL;
    g_autoptr(IpbSandboxPlan) plan = new_empty(options);
    if (!find_workspace(plan, options->workspace, error) ||
        !ipb_policy_paths_add(plan, options, error))
        return NULL;
    /* Names are judged by real paths. */
    g_auto(IpbPath) home;
    ipb_path_resolve(options->home, &home);
    plan->home = g_steal_pointer(&home.real);
    plan->names = ipb_name_rules_new(options->policy, plan->home, error);
    if (plan->names == NULL)
        return NULL;
    ipb_protected_paths_add(plan, options);
    ipb_own_paths_add(plan, options, has_network(options));
    add_listeners(plan, options);
    add_environment(plan, options);
    ipb_path_rules_resolve(plan->paths);
    if (plan->layer != NULL && !check_layer(plan, error))
        return NULL;
    return g_steal_pointer(&plan);
}

/* Code inside reaches a kept path by a second name, where there would be nothing otherwise. */
static const char *
follow_alias(const IpbSandboxPlan *plan, const char *path)
{
    for (guint i = 0; i < plan->paths->aliases->len; i++) {
        const IpbPathAlias *alias = g_ptr_array_index(plan->paths->aliases, i);
        if (ipb_path_is_in(path, alias->path))
            return alias->real;
    }
    return path;
}

const IpbPathRule *
ipb_sandbox_plan_find_rule(const IpbSandboxPlan *plan, const char *path)
{
    const IpbPathRule *rule = ipb_path_rules_find(plan->paths, follow_alias(plan, path));
    while (rule->parent != NULL && rule->access.view == rule->parent->access.view &&
           rule->access.is_writable == rule->parent->access.is_writable)
        rule = rule->parent;
    return rule;
}

/* The writable directory that @rule is in, from the top. */
static size_t
find_root_size(const IpbPathRule *rule)
{
    while (rule->parent != NULL && rule->parent->unnamed.view == IPB_VIEW_HOST &&
           rule->parent->unnamed.is_writable)
        rule = rule->parent;
    return strlen(rule->path);
}

/* --- globs, for what was created later --- */

/* The size of the deepest match of @live on the way to @path; 0: none. */
static size_t
match_size(const IpbPlanGlob *live, const char *path)
{
    size_t size = strlen(live->base);
    if (!ipb_path_is_below(path, live->base))
        return 0;
    size += live->base[size - 1] != '/';
    size_t matched = ipb_glob_match_size(live->glob, path + size);
    if (matched == 0)
        return 0;
    /* With two stars at the end, what is below is meant. */
    return live->hides_all_below && path[size + matched] == '\0' ? 0 : size + matched;
}

/* The size of the path of the nearest rule that says something about reading. */
static size_t
find_reading_size(const IpbPathRule *rule)
{
    while (rule->parent != NULL && !rule->deny_read && !rule->allow_read && !rule->keep &&
           !rule->expose && !rule->allow_write && !rule->is_private && rule->own == NULL)
        rule = rule->parent;
    return rule->parent != NULL ? strlen(rule->path) : 0;
}

static void
deny_reading(IpbPlanAccess *access, const char *reason)
{
    access->is_readable = access->is_writable = false;
    access->root_size = 0;
    access->reason = reason;
}

/* The deeper match wins, also against a rule; for the same path, what allows. */
static void
apply_reading_globs(const IpbSandboxPlan *plan, const IpbPathRule *rule, const char *path,
                    IpbPlanAccess *access)
{
    size_t allowed = 0, denied = find_reading_size(rule);
    const IpbPlanGlob *denying = NULL, *hiding = NULL;
    bool is_hidden = rule->unnamed.view == IPB_VIEW_HIDDEN;
    if (!is_hidden)
        allowed = denied;
    for (guint i = 0; i < plan->globs->len; i++) {
        const IpbPlanGlob *live = g_ptr_array_index(plan->globs, i);
        if (live->kind != IPB_GLOB_DENY_READ && live->kind != IPB_GLOB_ALLOW_READ)
            continue;
        size_t size = match_size(live, path);
        if (live->kind == IPB_GLOB_ALLOW_READ) {
            allowed = MAX(allowed, size);
        } else if (size > denied) {
            denied = size;
            denying = live;
        }
        if (size > 0 && live->kind == IPB_GLOB_DENY_READ && live->hides_all_below)
            hiding = live;
    }
    if (hiding != NULL && !rule->unnamed.is_kept)
        deny_reading(access, is_hidden ? access->reason : hiding->name);
    else if (denying != NULL && denied > allowed)
        deny_reading(access, denying->name);
    else if (is_hidden && allowed >= denied && allowed > 0 && !rule->unnamed.hides_all_below)
        access->is_readable = true;
}

static void
apply_writing_globs(const IpbSandboxPlan *plan, const char *path, IpbPlanAccess *access)
{
    for (guint i = 0; i < plan->globs->len && access->is_writable; i++) {
        const IpbPlanGlob *live = g_ptr_array_index(plan->globs, i);
        if (live->kind != IPB_GLOB_DENY_WRITE || match_size(live, path) == 0)
            continue;
        access->is_writable = false;
        access->root_size = 0;
        access->reason = live->name;
    }
}

/* Is @path where something of the sandbox's own covers what the host has in a writable directory?
 * The name belongs to the host. If it were moved, the cover would be gone. */
static bool
is_cover(const IpbPathRule *rule, const char *path)
{
    return path[strlen(rule->path)] == '\0' && rule->parent != NULL &&
           rule->parent->unnamed.view == IPB_VIEW_HOST && rule->parent->unnamed.is_writable;
}

IpbPlanAccess
ipb_sandbox_plan_access(const IpbSandboxPlan *plan, const char *path)
{
    const IpbPathRule *rule = ipb_path_rules_find(plan->paths, path);
    const IpbPathAccess *found = &rule->unnamed;
    /* A hidden directory that may be written is an empty one of the sandbox's own. */
    bool is_scratch = found->view == IPB_VIEW_HIDDEN && found->is_writable && rule->is_directory &&
                      !rule->is_missing;
    bool is_own = found->view == IPB_VIEW_OWN || found->view == IPB_VIEW_SYSTEM || is_scratch;
    bool is_writable = is_own || (found->view == IPB_VIEW_HOST && found->is_writable);
    IpbPlanAccess access = {
        .is_readable = is_own || found->view != IPB_VIEW_HIDDEN,
        .is_writable = is_writable,
        .is_own = is_own,
        .is_system = found->view == IPB_VIEW_SYSTEM,
        .root_size = is_writable && !is_own ? find_root_size(rule) : 0,
        .reason = found->reason,
    };
    if (is_own && is_cover(rule, path))
        access.is_own = access.is_writable = false;
    if (!is_own && plan->globs->len > 0) {
        apply_reading_globs(plan, rule, path, &access);
        apply_writing_globs(plan, path, &access);
    }
    return access;
}

/* Does a glob deny something below @path that it would not deny if @path had another name? Whether
 * @path leaves the directory where the glob holds is not asked. */
static bool
has_glob_below(const IpbPlanGlob *live, const char *path)
{
    if (live->kind != IPB_GLOB_DENY_READ && live->kind != IPB_GLOB_DENY_WRITE)
        return false;
    if (ipb_path_is_in(live->base, path))
        return true;
    if (!ipb_path_is_below(path, live->base))
        return false;
    size_t size = strlen(live->base);
    return ipb_glob_depends_on(live->glob, path + size + (live->base[size - 1] != '/'));
}

bool
ipb_sandbox_plan_has_denial_below(const IpbSandboxPlan *plan, const char *path)
{
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        bool is_cover = rule->own != NULL || rule->is_private;
        if ((rule->deny_write || rule->deny_read || rule->keep || is_cover) &&
            ipb_path_is_below(rule->path, path))
            return true;
    }
    for (guint i = 0; i < plan->globs->len; i++)
        if (has_glob_below(g_ptr_array_index(plan->globs, i), path))
            return true;
    return false;
}

/* Is what @live denies below @from denied below @to, too? */
static bool
covers_move(const IpbPlanGlob *live, const char *from, const char *to)
{
    size_t size = strlen(live->base);
    if (strcmp(live->base, from) == 0 || ipb_path_is_below(live->base, from))
        return false;
    if (!ipb_path_is_below(from, live->base))
        return true;
    size += live->base[size - 1] != '/';
    return ipb_glob_covers_below(live->glob, from + size,
                                 ipb_path_is_below(to, live->base) ? to + size : NULL);
}

bool
ipb_sandbox_plan_loses_denial(const IpbSandboxPlan *plan, const char *from, const char *to)
{
    for (guint i = 0; i < plan->globs->len; i++) {
        const IpbPlanGlob *live = g_ptr_array_index(plan->globs, i);
        if ((live->kind == IPB_GLOB_DENY_READ || live->kind == IPB_GLOB_DENY_WRITE) &&
            !covers_move(live, from, to))
            return true;
    }
    return false;
}

bool
ipb_sandbox_plan_denies_reading(const IpbSandboxPlan *plan)
{
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        if (rule->judges_reading && rule->unnamed.view == IPB_VIEW_HIDDEN)
            return true;
    }
    for (guint i = 0; i < plan->globs->len; i++)
        if (((IpbPlanGlob *) g_ptr_array_index(plan->globs, i))->kind == IPB_GLOB_DENY_READ)
            return true;
    return false;
}

bool
ipb_sandbox_plan_is_writable_below(const IpbSandboxPlan *plan, const char *path)
{
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        if (rule->access.view == IPB_VIEW_HOST && rule->access.is_writable &&
            ipb_path_is_below(path, rule->path))
            return true;
    }
    return false;
}

IpbSandboxPlan *
ipb_sandbox_plan_ref(IpbSandboxPlan *plan)
{
    g_atomic_int_inc(&plan->references);
    return plan;
}

void
ipb_sandbox_plan_unref(IpbSandboxPlan *plan)
{
    if (plan == NULL || !g_atomic_int_dec_and_test(&plan->references))
        return;
    ipb_sandbox_policy_unref(plan->policy);
    g_free(plan->workspace);
    g_free(plan->layer);
    g_free(plan->home);
    ipb_path_rules_free(plan->paths);
    ipb_name_rules_free(plan->names);
    g_ptr_array_unref(plan->globs);
    g_array_unref(plan->listeners);
    g_ptr_array_unref(plan->unix_sockets);
    g_strfreev(plan->environment);
    g_strfreev(plan->unset);
    g_free(plan);
}
