/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules are resolved in the order of their paths, directories before what is in them. So the access
 * of the directory above is known when a path is resolved.
 */
#include "sandbox/path-rules.h"

#include <string.h>

#include "sandbox/path.h"

static const char NOT_WRITABLE[] = "nothing is writable unless it is listed as writable";

/* --- the object ------------------------------------------------------------------------------- */

static void
free_own_place(IpbOwnPlace *own)
{
    if (own == NULL)
        return;
    g_free(own->content);
    g_free(own->reason);
    g_free(own);
}

static void
free_rule(IpbPathRule *rule)
{
    g_free(rule->path);
    g_free(rule->read_reason);
    g_free(rule->write_reason);
    free_own_place(rule->own);
    g_free(rule);
}

static void
free_alias(IpbPathAlias *alias)
{
    g_free(alias->path);
    g_free(alias->real);
    g_free(alias);
}

IpbPathRules *
ipb_path_rules_new(void)
{
    IpbPathRules *rules = g_new0(IpbPathRules, 1);
    rules->sorted = g_ptr_array_new();
    rules->aliases = g_ptr_array_new_with_free_func((GDestroyNotify) free_alias);
    rules->warnings = g_ptr_array_new_with_free_func(g_free);
    rules->by_path =
        g_hash_table_new_full(g_str_hash, g_str_equal, NULL, (GDestroyNotify) free_rule);
    rules->all_aliases = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    return rules;
}

void
ipb_path_rules_free(IpbPathRules *rules)
{
    if (rules == NULL)
        return;
    g_ptr_array_unref(rules->sorted);
    g_ptr_array_unref(rules->aliases);
    g_ptr_array_unref(rules->warnings);
    g_hash_table_unref(rules->by_path);
    g_hash_table_unref(rules->all_aliases);
    g_free(rules);
}

/* --- adding rules ----------------------------------------------------------------------------- */

IpbPathRule *
ipb_path_rules_get(IpbPathRules *rules, const char *path, bool is_directory)
{
    IpbPathRule *rule = g_hash_table_lookup(rules->by_path, path);
    if (rule == NULL) {
        rule = g_new0(IpbPathRule, 1);
        rule->path = g_strdup(path);
        g_hash_table_insert(rules->by_path, rule->path, rule);
    }
    rule->is_directory |= is_directory;
    return rule;
}

const IpbPathRule *
ipb_path_rules_lookup(const IpbPathRules *rules, const char *path)
{
    return g_hash_table_lookup(rules->by_path, path);
}

void
ipb_path_rule_add_read_reason(IpbPathRule *rule, const char *reason)
{
    if (rule->read_reason == NULL)
        rule->read_reason = g_strdup(reason);
}

void
ipb_path_rule_add_write_reason(IpbPathRule *rule, const char *reason)
{
    if (rule->write_reason == NULL)
        rule->write_reason = g_strdup(reason);
}

IpbOwnPlace *
ipb_path_rule_set_own(IpbPathRule *rule, IpbOwnKind kind, const char *reason)
{
    free_own_place(rule->own);
    rule->own = g_new0(IpbOwnPlace, 1);
    rule->own->kind = kind;
    rule->own->reason = g_strdup(reason);
    return rule->own;
}

/* Why it is denied matters more than why it was allowed. */
static void
deny_write(IpbPathRule *rule, const char *reason)
{
    if (!rule->deny_write && !rule->deny_by_name)
        g_clear_pointer(&rule->write_reason, g_free);
    ipb_path_rule_add_write_reason(rule, reason);
}

void
ipb_path_rules_deny_write(IpbPathRules *rules, const char *path, const char *reason)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    ipb_path_rules_deny_links(rules, found.links, reason);
    bool is_directory = found.state == IPB_PATH_DIRECTORY || found.state == IPB_PATH_CLOSED;
    IpbPathRule *rule = ipb_path_rules_get(rules, found.real, is_directory);
    rule->is_missing |= found.state == IPB_PATH_MISSING;
    deny_write(rule, reason);
    rule->deny_write = true;
    rule->n_hard_links = is_directory ? 1 : found.n_hard_links;
}

void
ipb_path_rules_deny_links(IpbPathRules *rules, const GPtrArray *links, const char *reason)
{
    for (guint i = 0; i < links->len; i++) {
        IpbPathRule *rule = ipb_path_rules_get(rules, g_ptr_array_index(links, i), false);
        rule->is_missing = true;
        deny_write(rule, reason);
        rule->deny_write = true;
    }
}

void
ipb_path_rules_deny_by_name(IpbPathRules *rules, const char *path, bool is_replaceable,
                            const char *reason)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    /* A link cannot be covered. What it leads to has another name. */
    if (found.state == IPB_PATH_MISSING || strcmp(found.real, path) != 0)
        return;
    bool is_directory = found.state != IPB_PATH_FILE;
    IpbPathRule *rule = ipb_path_rules_get(rules, path, is_directory);
    deny_write(rule, reason);
    rule->deny_by_name = true;
    rule->is_replaceable = is_replaceable;
    rule->n_hard_links = is_directory ? 1 : found.n_hard_links;
}

void
ipb_path_rules_add_alias(IpbPathRules *rules, const char *path, const char *real)
{
    g_hash_table_insert(rules->all_aliases, g_strdup(path), g_strdup(real));
}

void
ipb_path_rules_warn(IpbPathRules *rules, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_ptr_array_add(rules->warnings, g_strdup_vprintf(format, args));
    va_end(args);
}

/* --- one path --------------------------------------------------------------------------------- */

static void
derive_write(IpbPathAccess *access, const IpbPathRule *rule, bool with_names)
{
    bool is_denied = rule->deny_write || (with_names && rule->deny_by_name);
    if (rule->allow_write) {
        access->is_write_allowed = true;
        access->is_kept = false;
    }
    if (rule->keep)
        access->is_kept = true;
    if (is_denied)
        access->is_write_denied = true;
    if (rule->write_reason != NULL && (is_denied || !access->is_write_denied))
        access->write_reason = rule->write_reason;
    access->is_writable = access->is_write_allowed && !access->is_write_denied && !access->is_kept;
}

static IpbPathView
view_of_own_place(const IpbOwnPlace *own)
{
    return own->kind == IPB_OWN_DIRECTORY || own->kind == IPB_OWN_FILE ? IPB_VIEW_OWN
                                                                       : IPB_VIEW_SYSTEM;
}

/* A directory that the policy makes writable is the host's, not one of the sandbox's own. */
static bool
has_own_place(const IpbPathRule *rule, const IpbPathAccess *access, bool is_open)
{
    if (rule->own == NULL)
        return false;
    return rule->own->kind != IPB_OWN_DIRECTORY || !is_open || !rule->allow_write ||
           !access->is_writable;
}

static void
derive_view(IpbPathAccess *access, const IpbPathAccess *above, const IpbPathRule *rule)
{
    bool is_open = !above->hides_all_below && above->view != IPB_VIEW_SYSTEM;
    if (has_own_place(rule, access, is_open)) {
        access->view = view_of_own_place(rule->own);
        access->hides_all_below = false;
    } else if (rule->keep || (rule->allow_read && is_open)) {
        access->view = IPB_VIEW_HOST;
        access->hides_all_below = false;
    } else if (rule->deny_read && above->view != IPB_VIEW_OWN && above->view != IPB_VIEW_SYSTEM) {
        access->view = IPB_VIEW_HIDDEN;
        access->hides_all_below |= rule->hides_all_below;
    } else if ((rule->expose || rule->allow_write) && is_open && !rule->deny_read) {
        access->view = IPB_VIEW_HOST;
    } else if (rule->is_private && access->view == IPB_VIEW_HOST && !access->is_writable) {
        access->view = IPB_VIEW_OWN;
    }
    if (rule->read_reason != NULL)
        access->read_reason = rule->read_reason;
}

bool
ipb_path_rule_hides(const IpbPathRule *rule)
{
    const IpbPathAccess *access = &rule->access;
    if (rule->own != NULL && rule->own->kind == IPB_OWN_PROCESSES && rule->deny_read)
        return true;
    return access->view == IPB_VIEW_HIDDEN && !(rule->is_directory && access->is_writable);
}

static const char *
reason_of(const IpbPathRule *rule, const IpbPathAccess *access)
{
    if (access->view == IPB_VIEW_HOST && access->is_writable)
        return access->write_reason;
    if (rule->parent == NULL)
        return NOT_WRITABLE;
    if (rule->own != NULL && (access->view == IPB_VIEW_OWN || access->view == IPB_VIEW_SYSTEM))
        return ipb_path_rule_hides(rule) ? rule->read_reason : rule->own->reason;
    bool is_about_writing = access->view == IPB_VIEW_HOST && access->is_write_allowed;
    return is_about_writing && access->write_reason != NULL ? access->write_reason
                                                            : access->read_reason;
}

static void
resolve_rule(const IpbPathRules *rules, IpbPathRule *rule)
{
    IpbPathAccess above = {.view = IPB_VIEW_HOST}, unnamed_above = above;
    if (strcmp(rule->path, "/") != 0) {
        g_autofree char *directory = g_path_get_dirname(rule->path);
        rule->parent = ipb_path_rules_find(rules, directory);
        above = rule->parent->access;
        unnamed_above = rule->parent->unnamed;
    }
    rule->access = above;
    derive_write(&rule->access, rule, true);
    derive_view(&rule->access, &above, rule);
    rule->access.reason = reason_of(rule, &rule->access);
    rule->unnamed = unnamed_above;
    derive_write(&rule->unnamed, rule, false);
    derive_view(&rule->unnamed, &unnamed_above, rule);
    rule->unnamed.reason = reason_of(rule, &rule->unnamed);
}

/* --- what people should know ------------------------------------------------------------------ */

static void
warn_about(IpbPathRules *rules, const IpbPathRule *rule)
{
    const IpbPathAccess *access = &rule->access;
    if (rule->allow_write && access->view == IPB_VIEW_SYSTEM)
        ipb_path_rules_warn(rules, "%s: no effect: the sandbox has a %s of its own",
                            rule->write_reason, rule->path);
    else if (rule->allow_write && access->view == IPB_VIEW_HIDDEN)
        ipb_path_rules_warn(rules, "filesystem.allowWrite: %s stays hidden (%s)", rule->path,
                            access->read_reason);
    else if (rule->allow_write && access->view == IPB_VIEW_HOST && !access->is_writable)
        ipb_path_rules_warn(rules, "filesystem.allowWrite: %s stays read-only (%s)", rule->path,
                            access->write_reason);
    if (rule->allow_read && access->view != IPB_VIEW_HOST)
        ipb_path_rules_warn(rules, "filesystem.allowRead: %s %s", rule->path,
                            access->view == IPB_VIEW_HIDDEN ? "stays hidden"
                                                            : "is the sandbox's own");
    bool is_above_writable = rule->parent != NULL && rule->parent->access.is_writable;
    if ((rule->deny_write || rule->deny_by_name) && rule->n_hard_links > 1 && is_above_writable &&
        access->view == IPB_VIEW_HOST)
        ipb_path_rules_warn(rules,
                            "%s has %lu names (hard links); those in writable directories can be "
                            "written",
                            rule->path, rule->n_hard_links);
}

static void
warn_about_root(IpbPathRules *rules)
{
    if (ipb_path_rules_lookup(rules, "/")->access.is_writable)
        ipb_path_rules_warn(rules,
                            "filesystem.allowWrite: /: protected and hidden files stay as they "
                            "are, but the directories that contain them can be renamed");
}

/* --- all paths -------------------------------------------------------------------------------- */

/* "/" sorts before every other byte, so that a directory is followed by what is in it. */
static int
compare_paths(const char *a, const char *b)
{
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    unsigned char left = (unsigned char) (*a == '/' ? 1 : *a);
    unsigned char right = (unsigned char) (*b == '/' ? 1 : *b);
    return (int) left - (int) right;
}

static int
compare_rules(const void *a, const void *b)
{
    return compare_paths((*(IpbPathRule *const *) a)->path, (*(IpbPathRule *const *) b)->path);
}

static const IpbPathAccess *
find_access_above(const IpbPathRules *rules, const char *path)
{
    g_autofree char *directory = g_path_get_dirname(path);
    return &ipb_path_rules_find(rules, directory)->access;
}

static void
collect_aliases(IpbPathRules *rules)
{
    GHashTableIter iter;
    void *path, *real;
    g_hash_table_iter_init(&iter, rules->all_aliases);
    while (g_hash_table_iter_next(&iter, &path, &real)) {
        IpbPathView view = find_access_above(rules, path)->view;
        if (view != IPB_VIEW_HIDDEN && view != IPB_VIEW_OWN)
            continue;
        IpbPathAlias *alias = g_new(IpbPathAlias, 1);
        *alias = (IpbPathAlias){g_strdup(path), g_strdup(real)};
        g_ptr_array_add(rules->aliases, alias);
    }
}

void
ipb_path_rules_resolve(IpbPathRules *rules)
{
    ipb_path_rules_get(rules, "/", true);
    GHashTableIter iter;
    void *rule;
    g_hash_table_iter_init(&iter, rules->by_path);
    while (g_hash_table_iter_next(&iter, NULL, &rule))
        g_ptr_array_add(rules->sorted, rule);
    g_ptr_array_sort(rules->sorted, compare_rules);
    for (guint i = 0; i < rules->sorted->len; i++) {
        resolve_rule(rules, g_ptr_array_index(rules->sorted, i));
        warn_about(rules, g_ptr_array_index(rules->sorted, i));
    }
    warn_about_root(rules);
    collect_aliases(rules);
}

const IpbPathRule *
ipb_path_rules_find(const IpbPathRules *rules, const char *path)
{
    g_autofree char *copy = g_strdup(path);
    for (;;) {
        const IpbPathRule *rule = ipb_path_rules_lookup(rules, copy);
        char *slash = strrchr(copy, '/');
        if (rule != NULL || slash == NULL || copy[1] == '\0')
            return rule;
        slash[slash == copy ? 1 : 0] = '\0';
    }
}
