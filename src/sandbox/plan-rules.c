/* SPDX-License-Identifier: Apache-2.0
 *
 * From the lists of the policy to rules about real paths. Everything is looked up now, before the sandbox is there, and what a
 * sandbox of before can have prepared is not trusted: an allowed path that leads through a symbolic link in a writable
 * directory, out of that directory, is not allowed.
 */
#include <string.h>
#include <sys/stat.h>

#include <dirent.h>

#include "base/error.h"
#include "sandbox/plan-private.h"

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

/* One path that a key names, or that its glob found. */
typedef struct {
    EntryKind kind;
    char *name; /* the key and what is written there, for people */
    char *path; /* before links are followed */
    IpbPath found;
    bool is_match; /* of a glob */
    bool is_total; /* the key ends in the two stars that mean everything below */
} Entry;

typedef struct {
    IpbPlanner *planner;
    GPtrArray *entries;
    EntryKind kind;
    const char *name;
    bool is_total;
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
    entry->is_total = collector->is_total;
    ipb_path_resolve(path, &entry->found);
    g_ptr_array_add(collector->entries, entry);
}

/* --- what is written --------------------------------------------------------------------------- */

static void
on_glob_match(const char *path, bool is_closed, void *data)
{
    Collector *collector = data;
    /* What cannot be looked into is denied as a whole, and not allowed at all. */
    if (is_closed && !is_denial(collector->kind))
        return;
    collector->n_matches++;
    bool was_total = collector->is_total;
    collector->is_total |= is_closed;
    add_entry(collector, path, true);
    collector->is_total = was_total;
}

/* Splits @text where the first part with a wildcard begins. Both are the caller's. */
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

static bool
expand_glob(Collector *collector, const char *text, GError **error)
{
    const IpbPlanOptions *options = collector->planner->options;
    g_autofree char *base = NULL;
    g_autofree char *pattern = NULL;
    split_pattern(text, &base, &pattern);
    g_autofree char *absolute =
        ipb_path_expand(base, collector->planner->plan->workspace, options->home);
    g_auto(IpbPath) found;
    ipb_path_resolve(absolute, &found);
    if (found.state == IPB_PATH_CLOSED)
        on_glob_match(absolute, true, collector);
    if (found.state != IPB_PATH_DIRECTORY)
        return true;
    g_autoptr(IpbGlob) glob = ipb_glob_new(pattern, error);
    return glob != NULL && ipb_glob_walk(glob,
                                         &(IpbGlobWalk){
                                             .base = found.real,
                                             .follow_links = is_denial(collector->kind),
                                             .only_directories = collector->is_total,
                                             .budget = &collector->planner->budget,
                                             .on_match = on_glob_match,
                                             .data = collector,
                                         },
                                         error);
}

/* Without the slashes at the end, and without the two stars that stand for everything below. */
static char *
strip(const char *text, bool *ret_is_total)
{
    size_t size = strlen(text);
    *ret_is_total = strcmp(text, "**") == 0 || g_str_has_suffix(text, "/**");
    if (*ret_is_total)
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
    const IpbPlanOptions *options = collector->planner->options;
    g_autofree char *stripped = strip(text, &collector->is_total);
    g_autofree char *name = g_strdup_printf("%s: %s", KEYS[collector->kind], text);
    g_autofree char *path =
        ipb_path_expand(stripped, collector->planner->plan->workspace, options->home);
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
        ipb_plan_warn(collector->planner, "%s: matches nothing that is there now", name);
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

/* --- what is meant ----------------------------------------------------------------------------- */

/* The writable directory in which a link on the way to an allowed path lies that leads out of it; NULL if there is none. */
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

static bool
is_allowed_path_fine(IpbPlanner *planner, const GPtrArray *entries, const Entry *entry)
{
    const char *link = NULL;
    /* A glob allows what it matches, not what a link there leads to. */
    if (entry->is_match && entry->found.links->len > 0)
        return false;
    if (entry->found.state == IPB_PATH_MISSING || entry->found.state == IPB_PATH_CLOSED) {
        if (planner->plan->policy->origin != NULL)
            ipb_plan_warn(planner, "%s: %s", entry->name,
                          entry->found.state == IPB_PATH_MISSING ? "there is nothing"
                                                                 : "it cannot be looked at");
        return false;
    }
    const char *writable = find_planted_link(entries, entry, &link);
    if (writable == NULL)
        return true;
    ipb_plan_warn(planner,
                  "%s: not allowed: the symbolic link %s lies in %s, which is writable, so a "
                  "sandbox could have made it; name %s itself",
                  entry->name, link, writable, entry->found.real);
    return false;
}

/* Denying "/" is denying what is in it; what the kernel shows there is ours anyway. */
static void
deny_root(IpbPlanner *planner, const Entry *entry)
{
    DIR *stream = opendir("/");
    const struct dirent *item;
    while (stream != NULL && (item = readdir(stream)) != NULL) {
        static const char *const OURS[] = {".", "..", "proc", "dev", "sys", NULL};
        g_autofree char *path = g_strconcat("/", item->d_name, NULL);
        struct stat info;
        if (g_strv_contains(OURS, item->d_name) || lstat(path, &info) < 0 || S_ISLNK(info.st_mode))
            continue;
        IpbPlanRule *rule = ipb_plan_rule_get(planner, path, S_ISDIR(info.st_mode));
        rule->deny_read = true;
        ipb_plan_set_reason(&rule->read_reason, entry->name);
    }
    if (stream != NULL)
        closedir(stream);
}

static void
deny_read(IpbPlanner *planner, const Entry *entry)
{
    const char *path = entry->found.real;
    if (entry->found.state == IPB_PATH_MISSING) {
        if (planner->plan->policy->origin != NULL && !entry->is_match)
            ipb_plan_warn(planner, "%s: there is nothing; what comes there later can be read",
                          entry->name);
        return;
    }
    bool is_closed = entry->found.state == IPB_PATH_CLOSED;
    if (is_closed)
        ipb_plan_warn(planner, "%s: it cannot be looked at, so %s is hidden", entry->name, path);
    if (strcmp(path, "/") == 0) {
        const IpbPlanRule *root = g_hash_table_lookup(planner->rules, "/");
        if (root == NULL || !root->allow_read)
            deny_root(planner, entry);
        return;
    }
    IpbPlanRule *rule =
        ipb_plan_rule_get(planner, path, is_closed || entry->found.state == IPB_PATH_DIRECTORY);
    rule->deny_read = true;
    rule->is_total |= is_closed || (entry->is_total && rule->is_directory);
    ipb_plan_set_reason(&rule->read_reason, entry->name);
}

static void
allow(IpbPlanner *planner, const Entry *entry)
{
    IpbPlanRule *rule =
        ipb_plan_rule_get(planner, entry->found.real, entry->found.state == IPB_PATH_DIRECTORY);
    if (entry->kind == ENTRY_ALLOW_READ) {
        rule->allow_read = true;
        ipb_plan_set_reason(&rule->read_reason, entry->name);
        return;
    }
    rule->allow_write = true;
    ipb_plan_set_reason(&rule->write_reason, entry->name);
}

static void
apply_entries(IpbPlanner *planner, const GPtrArray *entries)
{
    /* Allowed paths first: what denies "/" asks for them. */
    for (guint i = 0; i < entries->len; i++) {
        const Entry *entry = g_ptr_array_index(entries, i);
        if (!is_denial(entry->kind) && is_allowed_path_fine(planner, entries, entry))
            allow(planner, entry);
    }
    for (guint i = 0; i < entries->len; i++) {
        const Entry *entry = g_ptr_array_index(entries, i);
        if (entry->kind == ENTRY_DENY_READ)
            deny_read(planner, entry);
        else if (entry->kind == ENTRY_DENY_WRITE)
            ipb_plan_deny_write(planner, entry->path, entry->name);
    }
}

/* --- what the options say ---------------------------------------------------------------------- */

static void
add_keep(IpbPlanner *planner, const char *path)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (found.state != IPB_PATH_FILE && found.state != IPB_PATH_DIRECTORY)
        return;
    IpbPlanRule *rule = ipb_plan_rule_get(planner, found.real, found.state == IPB_PATH_DIRECTORY);
    rule->keep = true;
    const char *link = found.links->len > 0 ? g_ptr_array_index(found.links, 0) : NULL;
    if (link != NULL && ipb_path_is_in(path, link))
        g_hash_table_insert(planner->aliases, g_strdup(path), g_strdup(found.real));
    ipb_plan_set_reason(&rule->read_reason, "what runs in the sandbox needs it");
    ipb_plan_set_reason(&rule->write_reason, "what runs in the sandbox needs it as it is");
}

static void
add_hidden(IpbPlanner *planner, const char *path)
{
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (found.state == IPB_PATH_MISSING || strcmp(found.real, "/") == 0)
        return;
    IpbPlanRule *rule = ipb_plan_rule_get(planner, found.real, found.state != IPB_PATH_FILE);
    rule->deny_read = rule->is_total = true;
    ipb_plan_set_reason(&rule->read_reason, "ipybox's own state");
}

static void
add_unix_socket(IpbPlanner *planner, const char *text)
{
    g_autofree char *path = ipb_path_expand(text, planner->plan->workspace, planner->options->home);
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    if (found.state == IPB_PATH_FILE) {
        IpbPlanRule *rule = ipb_plan_rule_get(planner, found.real, false);
        rule->expose = true;
        ipb_plan_set_reason(&rule->read_reason, "network.allowUnixSockets");
        /* Or another socket could be put in its place. */
        ipb_plan_deny_write(planner, found.real, "network.allowUnixSockets: stays what it is");
    } else {
        ipb_plan_warn(planner, "network.allowUnixSockets: %s: there is no socket", text);
    }
    g_ptr_array_add(planner->plan->unix_sockets, g_steal_pointer(&found.real));
}

static void
add_options(IpbPlanner *planner)
{
    const IpbPlanOptions *options = planner->options;
    const IpbSandboxPolicy *policy = planner->plan->policy;
    IpbPlanRule *workspace = ipb_plan_rule_get(planner, planner->plan->workspace, true);
    workspace->expose = true;
    ipb_plan_set_reason(&workspace->read_reason, "the workspace");
    for (const char *const *path = options->keep; path != NULL && *path != NULL; path++)
        add_keep(planner, *path);
    for (const char *const *path = options->hide; path != NULL && *path != NULL; path++)
        add_hidden(planner, *path);
    for (char **path = policy->allow_unix_sockets; *path != NULL; path++)
        add_unix_socket(planner, *path);
}

bool
ipb_plan_add_rules(IpbPlanner *planner, GError **error)
{
    const IpbSandboxPolicy *policy = planner->plan->policy;
    g_autoptr(GPtrArray) entries = g_ptr_array_new_with_free_func((GDestroyNotify) free_entry);
    Collector collector = {.planner = planner, .entries = entries};
    if (!read_list(&collector, ENTRY_ALLOW_WRITE, policy->allow_write, error) ||
        !read_list(&collector, ENTRY_ALLOW_READ, policy->allow_read, error) ||
        !read_list(&collector, ENTRY_DENY_READ, policy->deny_read, error) ||
        !read_list(&collector, ENTRY_DENY_WRITE, policy->deny_write, error))
        return false;
    apply_entries(planner, entries);
    add_options(planner);
    return true;
}
