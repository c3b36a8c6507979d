/* SPDX-License-Identifier: Apache-2.0
 *
 * All paths are looked up now, before the sandbox exists. What an earlier sandbox may have prepared
 * is not trusted: if a path leads through a symbolic link in a writable directory, and out of that
 * directory, it is not allowed.
 */
#include "sandbox/policy-paths.h"

#include <string.h>
#include <sys/stat.h>

#include <dirent.h>

#include "sandbox/glob.h"
#include "sandbox/path.h"

/* Limits of file system walks. A plan that exceeds them is refused. */
#define MAX_GLOB_ENTRIES 500000
#define GLOB_TIMEOUT_MS 5000

typedef enum {
    ENTRY_DENY_READ,
    ENTRY_ALLOW_READ,
    ENTRY_ALLOW_WRITE,
    ENTRY_DENY_WRITE,
} EntryKind;

static const char *const KEYS[] = {
    "filesystem.denyRead",
    "filesystem.allowRead",
    "filesystem.allowWrite",
    "filesystem.denyWrite",
};

/* A path that a key names, or that its glob matched. */
typedef struct {
    EntryKind kind;
    char *name; /* the key and its text, for people */
    char *path; /* before links are followed */
    IpbPath found;
    bool is_match;        /* of a glob */
    bool is_link;         /* the glob matched a symbolic link, or something behind one */
    bool hides_all_below; /* the text ends in two stars, which stand for everything below */
} Entry;

typedef struct {
    IpbSandboxPlan *plan;
    const IpbPlanOptions *options;
    IpbGlobBudget budget;
    GPtrArray *entries;
    EntryKind kind;
    const char *name;
    bool hides_all_below;
    const GPtrArray *base_links; /* char *: symbolic links on the way to where a glob starts */
    size_t n_matches;
} Collector;

static void
free_entry(Entry *entry)
{
    g_free(entry->name);
    g_free(entry->path);
    ipb_path_clear(&entry->found);
    g_free(entry);
}

static bool
is_denial(EntryKind kind)
{
    return kind == ENTRY_DENY_READ || kind == ENTRY_DENY_WRITE;
}

static void
add_entry(Collector *collector, const char *path, bool is_match)
{
    Entry *entry = g_new0(Entry, 1);
    entry->kind = collector->kind;
    entry->name = g_strdup(collector->name);
    entry->path = g_strdup(path);
    entry->is_match = is_match;
    entry->hides_all_below = collector->hides_all_below;
    ipb_path_resolve(path, &entry->found);
    entry->is_link = is_match && entry->found.links->len > 0;
    for (guint i = 0; is_match && i < collector->base_links->len; i++)
        g_ptr_array_add(entry->found.links, g_strdup(g_ptr_array_index(collector->base_links, i)));
    g_ptr_array_add(collector->entries, entry);
}

/* --- what is written -------------------------------------------------------------------------- */

static void
on_glob_match(const char *path, bool is_closed, void *data)
{
    Collector *collector = data;
    /* A directory that cannot be listed is denied as a whole, and never allowed. */
    if (is_closed && !is_denial(collector->kind))
        return;
    collector->n_matches++;
    bool was_total = collector->hides_all_below;
    collector->hides_all_below |= is_closed;
    add_entry(collector, path, true);
    collector->hides_all_below = was_total;
}

/* Splits @text where the first part with a wildcard begins. The caller frees both. */
static void
split_pattern(const char *text, char **ret_base, char **ret_pattern)
{
    const char *wildcard = strpbrk(text, "*?[]");
    const char *slash = memrchr(text, '/', (size_t) (wildcard - text));
    if (slash == NULL) {
        *ret_base = g_strdup(".");
        *ret_pattern = g_strdup(text);
        return;
    }
    *ret_base = slash == text ? g_strdup("/") : g_strndup(text, (size_t) (slash - text));
    while (*slash == '/')
        slash++;
    *ret_pattern = g_strdup(slash);
}

/* Keeps the glob for files that are created later, and owns it. */
static void
add_live_glob(Collector *collector, const char *base, IpbGlob *glob)
{
    IpbPlanGlob *live = g_new0(IpbPlanGlob, 1);
    live->kind = collector->kind == ENTRY_DENY_READ    ? IPB_GLOB_DENY_READ
                 : collector->kind == ENTRY_ALLOW_READ ? IPB_GLOB_ALLOW_READ
                 : collector->kind == ENTRY_DENY_WRITE ? IPB_GLOB_DENY_WRITE
                                                       : IPB_GLOB_ALLOW_WRITE;
    live->base = g_strdup(base);
    live->glob = glob;
    live->hides_all_below = collector->hides_all_below;
    live->name = g_strdup(collector->name);
    g_ptr_array_add(collector->plan->globs, live);
}

static bool
expand_glob(Collector *collector, const char *text, GError **error)
{
    g_autofree char *base = NULL;
    g_autofree char *pattern = NULL;
    split_pattern(text, &base, &pattern);
    g_autofree char *absolute =
        ipb_path_expand(base, collector->plan->workspace, collector->options->home);
    g_auto(IpbPath) found;
    ipb_path_resolve(absolute, &found);
    IpbGlob *glob = ipb_glob_new(pattern, error);
    if (glob == NULL)
        return false;
    add_live_glob(collector, found.real, glob);
    collector->base_links = found.links;
    if (found.state == IPB_PATH_CLOSED)
        on_glob_match(absolute, true, collector);
    if (found.state != IPB_PATH_DIRECTORY)
        return true;
    return ipb_glob_walk(glob,
                         &(IpbGlobWalk){
                             .base = found.real,
                             .follow_links = is_denial(collector->kind),
                             .only_directories = collector->hides_all_below,
                             .budget = &collector->budget,
                             .on_match = on_glob_match,
                             .data = collector,
                         },
                         error);
}

/* Removes slashes at the end, and the two stars that stand for everything below. */
static char *
strip(const char *text, bool *ret_hides_all)
{
    size_t size = strlen(text);
    *ret_hides_all = strcmp(text, "**") == 0 || g_str_has_suffix(text, "/**");
    if (*ret_hides_all)
        size -= 2;
    while (size > 0 && text[size - 1] == '/')
        size--;
    if (size > 0)
        return g_strndup(text, size);
    return g_strdup(text[0] == '/' ? "/" : ".");
}

static bool
read_entry(Collector *collector, const char *text, GError **error)
{
    g_autofree char *stripped = strip(text, &collector->hides_all_below);
    g_autofree char *name = g_strdup_printf("%s: %s", KEYS[collector->kind], text);
    g_autofree char *path =
        ipb_path_expand(stripped, collector->plan->workspace, collector->options->home);
    collector->name = name;
    collector->n_matches = 0;
    struct stat info;
    bool is_pattern = ipb_glob_is_pattern(stripped);
    /* A file may be named like a pattern. */
    if (!is_pattern || lstat(path, &info) == 0) {
        add_entry(collector, path, false);
        collector->n_matches++;
    }
    if (is_pattern && !expand_glob(collector, stripped, error)) {
        g_prefix_error(error, "%s: ", name);
        return false;
    }
    if (collector->n_matches == 0)
        ipb_path_rules_warn(collector->plan->paths, "%s: matches nothing at present", name);
    return true;
}

static bool
read_list(Collector *collector, EntryKind kind, char **list, GError **error)
{
    collector->kind = kind;
    for (char **text = list; *text != NULL; text++)
        if (!read_entry(collector, *text, error))
            return false;
    return true;
}

/* --- what is meant ---------------------------------------------------------------------------- */

/* Looks for a symbolic link on the way to an allowed path that is in a writable directory and leads
 * out of it. Returns that directory, or NULL. */
static const char *
find_planted_link(const GPtrArray *entries, const Entry *entry, const char **ret_link)
{
    for (guint i = 0; i < entries->len; i++) {
        const Entry *writable = g_ptr_array_index(entries, i);
        if (writable->kind != ENTRY_ALLOW_WRITE || writable == entry ||
            writable->found.state != IPB_PATH_DIRECTORY ||
            ipb_path_is_in(entry->found.real, writable->found.real))
            continue;
        for (guint j = 0; j < entry->found.links->len; j++) {
            *ret_link = g_ptr_array_index(entry->found.links, j);
            if (ipb_path_is_below(*ret_link, writable->found.real))
                return writable->found.real;
        }
    }
    return NULL;
}

/* Warns once for all matches of a glob. */
static void
warn_about_link(IpbPathRules *rules, const Entry *entry, const char *link, const char *writable)
{
    g_autofree char *advice =
        entry->is_match ? g_strdup("") : g_strdup_printf("; name %s itself", entry->found.real);
    g_autofree char *warning =
        g_strdup_printf("%s: not allowed: the symbolic link %s is in %s, which is writable, so a "
                        "sandbox could have created it%s",
                        entry->name, link, writable, advice);
    guint n = rules->warnings->len;
    if (n == 0 || !g_str_equal(g_ptr_array_index(rules->warnings, n - 1), warning))
        ipb_path_rules_warn(rules, "%s", warning);
}

static bool
may_be_allowed(IpbSandboxPlan *plan, const GPtrArray *entries, const Entry *entry)
{
    const char *link = NULL;
    /* A glob allows what it matches, not the target of a link. */
    if (entry->is_link)
        return false;
    if (entry->found.state == IPB_PATH_MISSING || entry->found.state == IPB_PATH_CLOSED) {
        if (plan->policy->origin != NULL)
            ipb_path_rules_warn(plan->paths, "%s: %s", entry->name,
                                entry->found.state == IPB_PATH_MISSING ? "it does not exist"
                                                                       : "it cannot be accessed");
        return false;
    }
    const char *writable = find_planted_link(entries, entry, &link);
    if (writable == NULL)
        return true;
    warn_about_link(plan->paths, entry, link, writable);
    return false;
}

/* Denying "/" denies everything in it, except what the sandbox has of its own. */
static void
deny_root(IpbSandboxPlan *plan, const Entry *entry)
{
    DIR *stream = opendir("/");
    const struct dirent *item;
    while (stream != NULL && (item = readdir(stream)) != NULL) {
        static const char *const OURS[] = {".", "..", "proc", "dev", "sys", NULL};
        g_autofree char *path = g_strconcat("/", item->d_name, NULL);
        struct stat info;
        if (g_strv_contains(OURS, item->d_name) || lstat(path, &info) < 0 || S_ISLNK(info.st_mode))
            continue;
        IpbPathRule *rule = ipb_path_rules_get(plan->paths, path, S_ISDIR(info.st_mode));
        rule->deny_read = rule->judges_reading = true;
        ipb_path_rule_add_read_reason(rule, entry->name);
    }
    if (stream != NULL)
        closedir(stream);
}

static void
deny_read(IpbSandboxPlan *plan, const Entry *entry)
{
    const char *path = entry->found.real;
    ipb_path_rules_deny_links(plan->paths, entry->found.links, entry->name);
    bool is_missing = entry->found.state == IPB_PATH_MISSING;
    if (is_missing && entry->is_match)
        return;
    bool is_closed = entry->found.state == IPB_PATH_CLOSED;
    if (is_closed)
        ipb_path_rules_warn(plan->paths, "%s: it cannot be accessed, so %s is hidden", entry->name,
                            path);
    if (strcmp(path, "/") == 0) {
        const IpbPathRule *root = ipb_path_rules_lookup(plan->paths, "/");
        if (root == NULL || !root->allow_read)
            deny_root(plan, entry);
        return;
    }
    IpbPathRule *rule = ipb_path_rules_get(plan->paths, path,
                                           is_closed || entry->found.state == IPB_PATH_DIRECTORY);
    rule->deny_read = rule->judges_reading = true;
    rule->is_missing |= is_missing;
    rule->hides_all_below |=
        is_closed || (entry->hides_all_below && (rule->is_directory || is_missing));
    ipb_path_rule_add_read_reason(rule, entry->name);
}

static void
allow(IpbSandboxPlan *plan, const Entry *entry)
{
    IpbPathRule *rule = ipb_path_rules_get(plan->paths, entry->found.real,
                                           entry->found.state == IPB_PATH_DIRECTORY);
    if (entry->kind == ENTRY_ALLOW_READ) {
        rule->allow_read = true;
        ipb_path_rule_add_read_reason(rule, entry->name);
        return;
    }
    rule->allow_write = true;
    ipb_path_rule_add_write_reason(rule, entry->name);
}

static void
apply_entries(IpbSandboxPlan *plan, const GPtrArray *entries)
{
    /* Allowed paths first: a denial of "/" looks them up. */
    for (guint i = 0; i < entries->len; i++) {
        const Entry *entry = g_ptr_array_index(entries, i);
        if (!is_denial(entry->kind) && may_be_allowed(plan, entries, entry))
            allow(plan, entry);
    }
    for (guint i = 0; i < entries->len; i++) {
        const Entry *entry = g_ptr_array_index(entries, i);
        if (entry->kind == ENTRY_DENY_READ)
            deny_read(plan, entry);
        else if (entry->kind == ENTRY_DENY_WRITE)
            ipb_path_rules_deny_write(plan->paths, entry->path, entry->name);
    }
}

/* --- the options ------------------------------------------------------------------------------ */

static void
add_kept(IpbPathRules *rules, const char *path)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (found.state != IPB_PATH_FILE && found.state != IPB_PATH_DIRECTORY)
        return;
    IpbPathRule *rule = ipb_path_rules_get(rules, found.real, found.state == IPB_PATH_DIRECTORY);
    rule->keep = true;
    const char *link = found.links->len > 0 ? g_ptr_array_index(found.links, 0) : NULL;
    /* A Python that is started through a link finds its modules by the name of the link. */
    if (link != NULL && ipb_path_is_in(path, link))
        ipb_path_rules_add_alias(rules, path, found.real);
    ipb_path_rule_add_read_reason(rule, "programs in the sandbox need it");
    ipb_path_rule_add_write_reason(rule, "programs in the sandbox need it unchanged");
}

static void
add_hidden(IpbPathRules *rules, const char *path)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (found.state == IPB_PATH_MISSING || strcmp(found.real, "/") == 0)
        return;
    IpbPathRule *rule = ipb_path_rules_get(rules, found.real, found.state != IPB_PATH_FILE);
    rule->deny_read = rule->hides_all_below = true;
    ipb_path_rule_add_read_reason(rule, "ipybox's own state");
}

static void
add_unix_socket(IpbSandboxPlan *plan, const char *text, const char *home)
{
    g_autofree char *path = ipb_path_expand(text, plan->workspace, home);
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (found.state == IPB_PATH_FILE) {
        IpbPathRule *rule = ipb_path_rules_get(plan->paths, found.real, false);
        rule->expose = true;
        ipb_path_rule_add_read_reason(rule, "network.allowUnixSockets");
        /* Otherwise code inside could put another socket in its place. */
        ipb_path_rules_deny_write(plan->paths, found.real,
                                  "network.allowUnixSockets: it cannot be replaced");
    } else {
        ipb_path_rules_warn(plan->paths, "network.allowUnixSockets: %s: there is no socket", text);
    }
    g_ptr_array_add(plan->unix_sockets, g_steal_pointer(&found.real));
}

static void
add_options(IpbSandboxPlan *plan, const IpbPlanOptions *options)
{
    IpbPathRule *workspace = ipb_path_rules_get(plan->paths, plan->workspace, true);
    workspace->expose = true;
    ipb_path_rule_add_read_reason(workspace, "the workspace");
    for (const char *const *path = options->keep; path != NULL && *path != NULL; path++)
        add_kept(plan->paths, *path);
    for (const char *const *path = options->hide; path != NULL && *path != NULL; path++)
        add_hidden(plan->paths, *path);
    for (char **path = plan->policy->allow_unix_sockets; *path != NULL; path++)
        add_unix_socket(plan, *path, options->home);
}

bool
ipb_policy_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options, GError **error)
{
    const IpbSandboxPolicy *policy = plan->policy;
    g_autoptr(GPtrArray) entries = g_ptr_array_new_with_free_func((GDestroyNotify) free_entry);
    Collector collector = {
        .plan = plan,
        .options = options,
        .budget = {MAX_GLOB_ENTRIES, g_get_monotonic_time() + GLOB_TIMEOUT_MS * 1000},
        .entries = entries,
    };
    if (!read_list(&collector, ENTRY_ALLOW_WRITE, policy->allow_write, error) ||
        !read_list(&collector, ENTRY_ALLOW_READ, policy->allow_read, error) ||
        !read_list(&collector, ENTRY_DENY_READ, policy->deny_read, error) ||
        !read_list(&collector, ENTRY_DENY_WRITE, policy->deny_write, error))
        return false;
    apply_entries(plan, entries);
    add_options(plan, options);
    return true;
}
