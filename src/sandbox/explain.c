/* SPDX-License-Identifier: Apache-2.0
 *
 * See the header.
 */
#include "sandbox/explain.h"

#include <string.h>

#include "json/writer.h"
#include "sandbox/backend.h"

typedef struct {
    const IpbSandboxPlan *plan;
    IpbSandboxDetails details;
} Explanation;

static const char *const LISTENER_NAMES[] = {
    [IPB_LISTENER_TOOLS] = "tools",     [IPB_LISTENER_HTTP_PROXY] = "http-proxy",
    [IPB_LISTENER_SOCKS] = "socks",     [IPB_LISTENER_DNS_UDP] = "dns-udp",
    [IPB_LISTENER_DNS_TCP] = "dns-tcp", [IPB_LISTENER_TLS] = "tls",
    [IPB_LISTENER_HTTP] = "http",
};

/* --- text ------------------------------------------------------------------------------------- */

/* Columns are counted in characters; @width 0: the last one. */
static void
add_cell(GString *text, const char *value, int width)
{
    g_string_append(text, value);
    long missing = width - g_utf8_strlen(value, -1);
    for (long i = 0; i < missing; i++)
        g_string_append_c(text, ' ');
    if (width > 0)
        g_string_append(text, "  ");
}

/* A number of bytes or of anything else, short. */
static char *
format_number(bool is_size, uint64_t value)
{
    static const char *const UNITS[] = {"KiB", "MiB", "GiB", "TiB"};
    if (value == 0)
        return g_strdup("no limit");
    if (!is_size)
        return g_strdup_printf("%" G_GUINT64_FORMAT, value);
    int unit = -1;
    while (value % 1024 == 0 && unit + 1 < (int) G_N_ELEMENTS(UNITS)) {
        value /= 1024;
        unit++;
    }
    return g_strdup_printf("%" G_GUINT64_FORMAT " %s", value, unit < 0 ? "bytes" : UNITS[unit]);
}

static void
add_heading(GString *text, const char *heading)
{
    g_string_append_printf(text, "%s%s\n", text->len > 0 ? "\n" : "", heading);
}

static void
add_list(GString *text, const char *heading, char **list)
{
    if (list[0] == NULL)
        return;
    add_heading(text, heading);
    for (char **item = list; *item != NULL; item++)
        g_string_append_printf(text, "  %s\n", *item);
}

static void
add_array(GString *text, const char *heading, const GPtrArray *array)
{
    if (array->len == 0)
        return;
    add_heading(text, heading);
    for (guint i = 0; i < array->len; i++)
        g_string_append_printf(text, "  %s\n", (char *) g_ptr_array_index(array, i));
}

static void
add_paths(GString *text, const GArray *paths)
{
    int width = 0;
    for (guint i = 0; i < paths->len; i++) {
        const IpbSandboxPathDetail *detail = &g_array_index(paths, IpbSandboxPathDetail, i);
        width = MAX(width, (int) g_utf8_strlen(detail->path, -1));
    }
    add_heading(text, "Files (a later line covers an earlier one)");
    for (guint i = 0; i < paths->len; i++) {
        const IpbSandboxPathDetail *detail = &g_array_index(paths, IpbSandboxPathDetail, i);
        g_string_append(text, "  ");
        add_cell(text, detail->kind, 9);
        add_cell(text, detail->path, width);
        add_cell(text, detail->reason, 0);
        if (detail->has_size) {
            g_autofree char *size = format_number(true, detail->size_bytes);
            g_string_append_printf(text, " (%s)", size);
        }
        g_string_append_c(text, '\n');
    }
}

/* Denied for writing although nothing is there, where code inside could create it; also symbolic
 * links that could be replaced. */
static bool
is_missing_and_denied(const IpbPathRule *rule)
{
    return rule->is_missing && rule->deny_write && rule->parent != NULL &&
           rule->parent->unnamed.view == IPB_VIEW_HOST && rule->parent->unnamed.is_writable;
}

static void
add_missing(GString *text, const IpbSandboxPlan *plan)
{
    bool is_first = true;
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        if (!is_missing_and_denied(rule))
            continue;
        if (is_first)
            add_heading(text, "Must not be created or replaced");
        is_first = false;
        g_string_append_printf(text, "  %s  %s\n", rule->path, rule->write_reason);
    }
}

/* --- names ------------------------------------------------------------------------------------ */

/* Is @rule a directory that may be written, in one that may not? */
static bool
is_writable_root(const IpbPathRule *rule)
{
    bool is_writable = rule->unnamed.view == IPB_VIEW_HOST && rule->unnamed.is_writable;
    const IpbPathRule *above = rule->parent;
    return is_writable &&
           (above == NULL || above->unnamed.view != IPB_VIEW_HOST || !above->unnamed.is_writable);
}

/* Does the rule refuse anything under this plan? Those about the home directory do if the place is
 * writable. */
static bool
applies(const IpbSandboxPlan *plan, const IpbNameRule *rule)
{
    if (g_str_equal(rule->refused, "nothing") ||
        (plan->policy->allow_git_config && g_str_equal(rule->key, "allowGitConfig")))
        return false;
    if (rule->pattern[0] != '~')
        return true;
    size_t size = strcspn(rule->pattern, "*");
    g_autofree char *start = g_strndup(rule->pattern + 1, size - 1);
    g_autofree char *path = g_strconcat(plan->home, start, NULL);
    if (g_str_has_suffix(path, "/"))
        path[strlen(path) - 1] = '\0';
    IpbPlanAccess access = ipb_sandbox_plan_access(plan, path);
    return access.is_writable && !access.is_own;
}

static void
add_names(GString *text, const IpbSandboxPlan *plan)
{
    g_autoptr(GString) roots = g_string_new(NULL);
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        if (is_writable_root(rule))
            g_string_append_printf(roots, "%s%s", roots->len > 0 ? ", " : "", rule->path);
    }
    if (roots->len == 0)
        return;
    g_autofree char *heading = g_strdup_printf("Names that are protected below %s", roots->str);
    add_heading(text, heading);
    for (char **pattern = plan->policy->allow_names; *pattern != NULL; pattern++)
        g_string_append_printf(text, "  allowed (filesystem.allowNames): %s\n", *pattern);
    const char *who = NULL;
    const IpbNameRule *rule;
    for (size_t i = 0; (rule = ipb_name_rules_at(i)) != NULL; i++) {
        if (!applies(plan, rule))
            continue;
        bool is_new = who == NULL || !g_str_equal(rule->who, who);
        if (is_new)
            g_string_append_printf(text, "%s  %s: ", who != NULL ? "\n" : "", rule->who);
        g_string_append_printf(text, "%s%s", is_new ? "" : ", ", rule->pattern);
        who = rule->who;
    }
    g_string_append_c(text, '\n');
}

static void
add_domains(GString *text, const char *word, const GPtrArray *domains)
{
    for (guint i = 0; i < domains->len; i++) {
        const IpbDomainPattern *domain = g_ptr_array_index(domains, i);
        g_string_append(text, "  ");
        add_cell(text, word, 9);
        g_string_append_printf(text, "%s%s%s\n", domain->text, domain->reason != NULL ? "  " : "",
                               domain->reason != NULL ? domain->reason : "");
    }
}

static void
add_network(GString *text, const IpbSandboxPlan *plan)
{
    const IpbSandboxPolicy *policy = plan->policy;
    add_heading(text, policy->allowed_domains->len > 0 ? "Network"
                                                       : "Network: none, no domain is allowed");
    add_domains(text, "denied", policy->denied_domains);
    for (char **range = policy->denied_addresses; *range != NULL; range++)
        g_string_append_printf(text, "  denied     %s  for all names that resolve to it\n", *range);
    add_domains(text, "allowed", policy->allowed_domains);
    for (guint i = 0; i < plan->listeners->len; i++) {
        const IpbPlanListener *listener = &g_array_index(plan->listeners, IpbPlanListener, i);
        g_string_append_printf(text, "  listens    %s:%u  %s\n",
                               listener->is_any_address ? "*" : "127.0.0.1", listener->port,
                               LISTENER_NAMES[listener->kind]);
    }
    if (policy->allow_all_unix_sockets)
        g_string_append(text, "  sockets    all Unix sockets of the host\n");
    for (guint i = 0; i < plan->unix_sockets->len; i++)
        g_string_append_printf(text, "  socket     %s\n",
                               (char *) g_ptr_array_index(plan->unix_sockets, i));
}

static void
add_limits(GString *text, const Explanation *explanation)
{
    const char *group = explanation->details.limit_group;
    IpbSandboxLimit limit;
    add_heading(text, "Limits");
    for (size_t i = 0; ipb_sandbox_limits_at(&explanation->plan->limits, i, &limit); i++) {
        g_autofree char *value = format_number(limit.is_size, limit.value);
        g_string_append(text, "  ");
        add_cell(text, limit.name, 14);
        add_cell(text, value, 8);
        g_string_append_printf(text, "%s\n", limit.reason);
    }
    if (group != NULL)
        g_string_append_printf(
            text, "  memory and processes of the whole sandbox together: cgroup %s\n", group);
    else
        g_string_append(text, "  memory of each process: no cgroup is delegated to ipybox (see "
                              "ipybox doctor)\n");
}

static char *
explain_as_text(const Explanation *explanation)
{
    const IpbSandboxPlan *plan = explanation->plan;
    GString *text = g_string_new(NULL);
    g_string_append_printf(text, "workspace  %s\npolicy     %s\n", plan->workspace,
                           plan->policy->origin != NULL ? plan->policy->origin
                                                        : "built-in default");
    add_paths(text, explanation->details.paths);
    add_missing(text, plan);
    add_names(text, plan);
    add_network(text, plan);
    add_limits(text, explanation);
    add_list(text, "Environment", plan->environment);
    add_list(text, "Removed from the environment", plan->unset);
    add_list(text, "Keys without effect", plan->policy->without_effect);
    add_array(text, "Warnings", plan->warnings);
    return g_string_free(text, FALSE);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void
write_list(IpbJsonWriter *writer, const char *name, char **list)
{
    ipb_json_key(writer, name);
    ipb_json_begin_array(writer);
    for (char **item = list; *item != NULL; item++)
        ipb_json_write_string(writer, *item);
    ipb_json_end_array(writer);
}

static void
write_array(IpbJsonWriter *writer, const char *name, const GPtrArray *array)
{
    ipb_json_key(writer, name);
    ipb_json_begin_array(writer);
    for (guint i = 0; i < array->len; i++)
        ipb_json_write_string(writer, g_ptr_array_index(array, i));
    ipb_json_end_array(writer);
}

static void
write_paths(IpbJsonWriter *writer, const GArray *paths)
{
    ipb_json_key(writer, "mounts");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < paths->len; i++) {
        const IpbSandboxPathDetail *detail = &g_array_index(paths, IpbSandboxPathDetail, i);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "kind", detail->kind);
        ipb_json_member_string(writer, "target", detail->path);
        if (detail->content != NULL)
            ipb_json_member_string(writer, "content", detail->content);
        if (detail->size_bytes > 0)
            ipb_json_member_int(writer, "size_bytes", (int64_t) detail->size_bytes);
        ipb_json_member_string(writer, "reason", detail->reason);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
}

static void
write_missing(IpbJsonWriter *writer, const IpbSandboxPlan *plan)
{
    ipb_json_key(writer, "absent");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        if (is_missing_and_denied(rule))
            ipb_json_write_string(writer, rule->path);
    }
    ipb_json_end_array(writer);
}

static void
write_names(IpbJsonWriter *writer, const IpbSandboxPlan *plan)
{
    const IpbNameRule *rule;
    ipb_json_key(writer, "names");
    ipb_json_begin_array(writer);
    for (size_t i = 0; (rule = ipb_name_rules_at(i)) != NULL; i++) {
        if (!applies(plan, rule))
            continue;
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "pattern", rule->pattern);
        ipb_json_member_string(writer, "who", rule->who);
        ipb_json_member_string(writer, "refused", rule->refused);
        ipb_json_member_string(writer, "key", rule->key);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    write_list(writer, "allow_names", plan->policy->allow_names);
    ipb_json_member_bool(writer, "search_complete", plan->is_search_complete);
}

static void
write_domains(IpbJsonWriter *writer, const char *name, const GPtrArray *domains)
{
    ipb_json_key(writer, name);
    ipb_json_begin_array(writer);
    for (guint i = 0; i < domains->len; i++) {
        const IpbDomainPattern *domain = g_ptr_array_index(domains, i);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "domain", domain->text);
        if (domain->reason != NULL)
            ipb_json_member_string(writer, "reason", domain->reason);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
}

static void
write_network(IpbJsonWriter *writer, const IpbSandboxPlan *plan)
{
    write_domains(writer, "allowed_domains", plan->policy->allowed_domains);
    write_domains(writer, "denied_domains", plan->policy->denied_domains);
    write_list(writer, "denied_addresses", plan->policy->denied_addresses);
    ipb_json_key(writer, "listeners");
    ipb_json_begin_array(writer);
    for (guint i = 0; i < plan->listeners->len; i++) {
        const IpbPlanListener *listener = &g_array_index(plan->listeners, IpbPlanListener, i);
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "kind", LISTENER_NAMES[listener->kind]);
        ipb_json_member_int(writer, "port", listener->port);
        ipb_json_member_bool(writer, "any_address", listener->is_any_address);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    write_array(writer, "unix_sockets", plan->unix_sockets);
    ipb_json_member_bool(writer, "all_unix_sockets", plan->policy->allow_all_unix_sockets);
}

static void
write_limits(IpbJsonWriter *writer, const Explanation *explanation)
{
    IpbSandboxLimit limit;
    ipb_json_key(writer, "limits");
    ipb_json_begin_array(writer);
    for (size_t i = 0; ipb_sandbox_limits_at(&explanation->plan->limits, i, &limit); i++) {
        ipb_json_begin_object(writer);
        ipb_json_member_string(writer, "name", limit.name);
        ipb_json_member_int(writer, "value", (int64_t) limit.value);
        ipb_json_member_string(writer, "reason", limit.reason);
        ipb_json_end_object(writer);
    }
    ipb_json_end_array(writer);
    ipb_json_member_string(writer, "cgroup", explanation->details.limit_group);
}

static char *
explain_as_json(const Explanation *explanation)
{
    const IpbSandboxPlan *plan = explanation->plan;
    IpbJsonWriter *writer = ipb_json_writer_new();
    ipb_json_begin_object(writer);
    ipb_json_member_string(writer, "workspace", plan->workspace);
    ipb_json_member_string(writer, "policy", plan->policy->origin);
    write_paths(writer, explanation->details.paths);
    write_missing(writer, plan);
    write_names(writer, plan);
    write_network(writer, plan);
    write_limits(writer, explanation);
    write_list(writer, "environment", plan->environment);
    write_list(writer, "unset", plan->unset);
    write_list(writer, "without_effect", plan->policy->without_effect);
    write_array(writer, "warnings", plan->warnings);
    ipb_json_end_object(writer);
    g_autofree char *text = ipb_json_writer_finish(writer, NULL);
    return g_strconcat(text, "\n", NULL);
}

char *
ipb_sandbox_explain(const IpbSandboxPlan *plan, bool as_json, GError **error)
{
    Explanation explanation = {.plan = plan};
    IpbSandboxDetails *details = &explanation.details;
    if (!IPB_SANDBOX_BACKEND.explain(plan, details, error))
        return NULL;
    char *text = as_json ? explain_as_json(&explanation) : explain_as_text(&explanation);
    g_array_unref(details->paths);
    g_ptr_array_unref(details->owner);
    g_free(details->limit_group);
    return text;
}
