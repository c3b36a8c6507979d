/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan as an object, and the order in which it comes about; see plan-private.h.
 */
#include "sandbox/plan.h"

#include "base/error.h"
#include "sandbox/plan-private.h"

/* What looking at the file system may cost before a plan is refused. */
#define MAX_GLOB_ENTRIES 500000
#define GLOB_TIMEOUT_MS 5000

IpbPlanMount *
ipb_plan_mount_new(IpbMountKind kind, const char *source, const char *target, const char *reason)
{
    IpbPlanMount *mount = g_new0(IpbPlanMount, 1);
    mount->kind = kind;
    mount->source = g_strdup(source);
    mount->target = g_strdup(target);
    mount->reason = g_strdup(reason);
    return mount;
}

void
ipb_plan_mount_free(IpbPlanMount *mount)
{
    if (mount == NULL)
        return;
    g_free(mount->source);
    g_free(mount->target);
    g_free(mount->content);
    g_free(mount->reason);
    g_free(mount);
}

static void
free_rule(IpbPlanRule *rule)
{
    g_free(rule->path);
    g_free(rule->read_reason);
    g_free(rule->write_reason);
    ipb_plan_mount_free(rule->fixed);
    g_free(rule);
}

IpbPlanRule *
ipb_plan_rule_get(IpbPlanner *planner, const char *path, bool is_directory)
{
    IpbPlanRule *rule = g_hash_table_lookup(planner->rules, path);
    if (rule == NULL) {
        rule = g_new0(IpbPlanRule, 1);
        rule->path = g_strdup(path);
        g_hash_table_insert(planner->rules, rule->path, rule);
    }
    rule->is_directory |= is_directory;
    return rule;
}

void
ipb_plan_set_reason(char **reason, const char *text)
{
    if (*reason == NULL)
        *reason = g_strdup(text);
}

void
ipb_plan_warn(IpbPlanner *planner, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_ptr_array_add(planner->plan->warnings, g_strdup_vprintf(format, args));
    va_end(args);
}

void
ipb_plan_deny_write(IpbPlanner *planner, const char *path, const char *reason)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    for (guint i = 0; i < found.links->len; i++)
        g_hash_table_add(planner->links, g_strdup(g_ptr_array_index(found.links, i)));
    if (found.state == IPB_PATH_MISSING) {
        g_hash_table_add(planner->absent, g_steal_pointer(&found.real));
        return;
    }
    bool is_directory = found.state == IPB_PATH_DIRECTORY || found.state == IPB_PATH_CLOSED;
    IpbPlanRule *rule = ipb_plan_rule_get(planner, found.real, is_directory);
    if (!rule->deny_write)
        g_clear_pointer(&rule->write_reason, g_free);
    rule->deny_write = true;
    rule->n_names = is_directory ? 1 : found.n_names;
    ipb_plan_set_reason(&rule->write_reason, reason);
}

static bool
check_absolute(const char *what, const char *path, GError **error)
{
    if (path != NULL && *path == '/')
        return true;
    g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "%s is no absolute path: \"%s\"", what,
                path != NULL ? path : "");
    return false;
}

static bool
check_options(const IpbPlanOptions *options, GError **error)
{
    return check_absolute("the workspace", options->workspace, error) &&
           check_absolute("the home directory (HOME)", options->home, error);
}

static IpbSandboxPlan *
new_empty(const IpbPlanOptions *options)
{
    IpbSandboxPlan *plan = g_new0(IpbSandboxPlan, 1);
    plan->references = 1;
    plan->policy = ipb_sandbox_policy_ref((IpbSandboxPolicy *) options->policy);
    plan->mounts = g_ptr_array_new_with_free_func((GDestroyNotify) ipb_plan_mount_free);
    plan->listeners = g_array_new(FALSE, FALSE, sizeof(IpbPlanListener));
    plan->absent = g_ptr_array_new_with_free_func(g_free);
    plan->links = g_ptr_array_new_with_free_func(g_free);
    plan->unix_sockets = g_ptr_array_new_with_free_func(g_free);
    plan->warnings = g_ptr_array_new_with_free_func(g_free);
    plan->limits = ipb_sandbox_limits_merge(&options->policy->limits, &options->limits);
    return plan;
}

/* The workspace must be there: everything starts from it. */
static bool
find_workspace(IpbPlanner *planner, GError **error)
{
    g_auto(IpbPath) path;
    ipb_path_resolve(planner->options->workspace, &path);
    if (path.state != IPB_PATH_DIRECTORY) {
        g_set_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID, "the workspace %s is no directory",
                    planner->options->workspace);
        return false;
    }
    planner->plan->workspace = g_steal_pointer(&path.real);
    return true;
}

static bool
make_plan(IpbPlanner *planner, GError **error)
{
    if (!find_workspace(planner, error) || !ipb_plan_add_rules(planner, error))
        return false;
    ipb_plan_add_mandatory(planner);
    ipb_plan_add_system(planner);
    ipb_plan_make_network(planner);
    return ipb_plan_make_mounts(planner, error);
}

IpbSandboxPlan *
ipb_sandbox_plan_new(const IpbPlanOptions *options, GError **error)
{
    if (!check_options(options, error))
        return NULL;
    g_autoptr(IpbSandboxPlan) plan = new_empty(options);
    g_autoptr(GHashTable) rules =
        g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify) free_rule);
    g_autoptr(GHashTable) absent = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) links = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GHashTable) aliases = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    IpbPlanner planner = {
        .options = options,
        .plan = plan,
        .rules = rules,
        .absent = absent,
        .links = links,
        .aliases = aliases,
        .budget = {MAX_GLOB_ENTRIES, g_get_monotonic_time() + GLOB_TIMEOUT_MS * 1000},
    };
    return make_plan(&planner, error) ? g_steal_pointer(&plan) : NULL;
}

const IpbPlanMount *
ipb_sandbox_plan_find_mount(const IpbSandboxPlan *plan, const char *path)
{
    for (guint i = plan->mounts->len; i > 0; i--) {
        const IpbPlanMount *mount = g_ptr_array_index(plan->mounts, i - 1);
        if (ipb_path_is_in(path, mount->target))
            return mount;
    }
    return NULL;
}

IpbSandboxPlan *
ipb_sandbox_plan_ref(IpbSandboxPlan *plan)
{
    plan->references++;
    return plan;
}

void
ipb_sandbox_plan_unref(IpbSandboxPlan *plan)
{
    if (plan == NULL || --plan->references > 0)
        return;
    ipb_sandbox_policy_unref(plan->policy);
    g_free(plan->workspace);
    g_ptr_array_unref(plan->mounts);
    g_array_unref(plan->listeners);
    g_strfreev(plan->environment);
    g_strfreev(plan->unset);
    g_ptr_array_unref(plan->absent);
    g_ptr_array_unref(plan->links);
    g_ptr_array_unref(plan->unix_sockets);
    g_ptr_array_unref(plan->warnings);
    g_free(plan);
}
