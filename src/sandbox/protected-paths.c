/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of protected files is srt's, plus those by which a cell could change its own next
 * sandbox. Files that exist are denied for writing. In the workspace and the home directory, files
 * that do not exist are listed as absent. Below writable directories the search goes
 * mandatoryDenySearchDepth levels deep.
 */
#include "sandbox/protected-paths.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/glob.h"

#define MAX_SEARCH_ENTRIES 200000
#define SEARCH_TIMEOUT_MS 2000
/* For the submodules and worktrees of one repository. */
#define MAX_GIT_ENTRIES 2000
#define MAX_GIT_DEPTH 8

/* Protected names, in any directory. */
static const struct {
    const char *name;
    const char *reason;
    bool is_absence_watched; /* in srt's list, or dangerous if it is created */
} PROTECTED[] = {
    {".bashrc", "bash runs it", true},
    {".bash_profile", "bash runs it", true},
    {".bash_login", "bash runs it", false},
    {".bash_logout", "bash runs it", false},
    {".profile", "shells run it", true},
    {".zshrc", "zsh runs it", true},
    {".zprofile", "zsh runs it", true},
    {".zshenv", "zsh runs it", false},
    {".zlogin", "zsh runs it", false},
    {".envrc", "direnv runs it", true},
    {".gitconfig", "git runs programs that it names", true},
    {".gitmodules", "git fetches what it names", true},
    {".ripgreprc", "ripgrep runs programs that it names", true},
    {".mcp.json", "MCP hosts start the servers that it names", true},
    {".srt-settings.json", "it says what commands in sandboxes may do", true},
    {".env", "ipybox and others take variables from it", true},
    {".vscode", "the editor runs what its settings name", true},
    {".idea", "the editor runs what its settings name", true},
};

/* Protected names below a directory ".claude". */
static const char *const CLAUDE[] = {"commands", "agents", "settings.json", "settings.local.json"};

static const char CLAUDE_REASON[] = "the agent obeys it";
static const char PLACE_REASON[] = "it tells git where hooks and configuration are";
static const char HOOKS_REASON[] = "git runs what is in it";
static const char CONFIG_REASON[] = "git runs programs that it names (allowGitConfig allows it)";

typedef struct {
    char *path;
    unsigned depth; /* of what is in it */
} Directory;

static void
free_directory(Directory *directory)
{
    g_free(directory->path);
    g_free(directory);
}

static bool
is_directory(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool
is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static void
deny_below(IpbSandboxPlan *plan, const char *directory, const char *name, const char *reason)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    ipb_path_rules_deny_write(plan->paths, path, reason);
}

/* --- git -------------------------------------------------------------------------------------- */

/* @repository: a ".git", or the directory of a submodule or a worktree in it. */
static void
protect_repository(IpbSandboxPlan *plan, const char *repository)
{
    deny_below(plan, repository, "hooks", HOOKS_REASON);
    deny_below(plan, repository, "commondir", PLACE_REASON);
    if (plan->policy->allow_git_config)
        return;
    deny_below(plan, repository, "config", CONFIG_REASON);
    deny_below(plan, repository, "config.worktree", CONFIG_REASON);
}

/* Protects the repositories below @directory, which is ".git/modules" or ".git/worktrees".
 * Submodules have names with slashes, and submodules of their own. */
static void
protect_repositories(IpbSandboxPlan *plan, const char *directory, unsigned depth,
                     IpbGlobBudget *budget)
{
    DIR *stream = depth <= MAX_GIT_DEPTH ? opendir(directory) : NULL;
    const struct dirent *entry;
    while (stream != NULL && budget->entries_left > 0 && (entry = readdir(stream)) != NULL) {
        g_autofree char *path = g_build_filename(directory, entry->d_name, NULL);
        g_autofree char *head = g_build_filename(path, "HEAD", NULL);
        g_autofree char *modules = g_build_filename(path, "modules", NULL);
        budget->entries_left--;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            !is_directory(path))
            continue;
        if (is_there(head))
            protect_repository(plan, path);
        protect_repositories(plan, is_there(head) ? modules : path, depth + 1, budget);
    }
    if (stream != NULL)
        closedir(stream);
}

/* @git: a ".git". In a worktree it is a file that says where the repository is. */
static void
protect_git(IpbSandboxPlan *plan, const char *git)
{
    static const char *const PARTS[] = {"modules", "worktrees"};
    IpbGlobBudget budget = {.entries_left = MAX_GIT_ENTRIES};
    if (!g_file_test(git, G_FILE_TEST_IS_DIR)) {
        ipb_path_rules_deny_write(plan->paths, git, PLACE_REASON);
        return;
    }
    protect_repository(plan, git);
    for (size_t i = 0; i < G_N_ELEMENTS(PARTS); i++) {
        g_autofree char *part = g_build_filename(git, PARTS[i], NULL);
        protect_repositories(plan, part, 1, &budget);
    }
}

static void
protect_claude(IpbSandboxPlan *plan, const char *claude, bool with_absent)
{
    for (size_t i = 0; i < G_N_ELEMENTS(CLAUDE); i++) {
        g_autofree char *path = g_build_filename(claude, CLAUDE[i], NULL);
        if (with_absent || is_there(path))
            ipb_path_rules_deny_write(plan->paths, path, CLAUDE_REASON);
    }
}

/* --- the search ------------------------------------------------------------------------------- */

/* Ignores case, as some file systems do. */
static bool
protect_entry(IpbSandboxPlan *plan, const char *path, const char *name)
{
    if (g_ascii_strcasecmp(name, ".git") == 0)
        protect_git(plan, path);
    else if (g_ascii_strcasecmp(name, ".claude") == 0)
        protect_claude(plan, path, false);
    else
        for (size_t i = 0; i < G_N_ELEMENTS(PROTECTED); i++)
            if (g_ascii_strcasecmp(name, PROTECTED[i].name) == 0) {
                ipb_path_rules_deny_write(plan->paths, path, PROTECTED[i].reason);
                return true;
            }
    return false;
}

static bool
is_worth_a_look(const IpbSandboxPlan *plan, const char *path, const struct dirent *entry)
{
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)
        return false;
    const IpbPathRule *rule = ipb_path_rules_lookup(plan->paths, path);
    static const char *const KERNELS[] = {"/proc", "/sys", "/dev", NULL};
    if ((rule != NULL && (rule->keep || rule->deny_write)) || g_strv_contains(KERNELS, path))
        return false;
    return strcmp(entry->d_name, "node_modules") != 0 &&
           g_ascii_strcasecmp(entry->d_name, ".git") != 0 && is_directory(path);
}

static bool
search_directory(IpbSandboxPlan *plan, const Directory *directory, GQueue *waiting,
                 IpbGlobBudget *budget)
{
    DIR *stream = opendir(directory->path);
    const struct dirent *entry;
    bool is_fine = true;
    while (stream != NULL && is_fine && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        is_fine = budget->entries_left > 0 && g_get_monotonic_time() < budget->deadline_us;
        if (!is_fine)
            break;
        budget->entries_left--;
        g_autofree char *path = g_build_filename(directory->path, entry->d_name, NULL);
        if (entry->d_name[0] == '.' && protect_entry(plan, path, entry->d_name))
            continue;
        if (directory->depth >= plan->policy->mandatory_deny_depth ||
            !is_worth_a_look(plan, path, entry))
            continue;
        Directory *next = g_new0(Directory, 1);
        next->path = g_steal_pointer(&path);
        next->depth = directory->depth + 1;
        g_queue_push_tail(waiting, next);
    }
    if (stream != NULL)
        closedir(stream);
    return is_fine;
}

/* Searches breadth first: if the search has to stop, files near the top matter most. */
static void
search(IpbSandboxPlan *plan, const char *root, IpbGlobBudget *budget)
{
    GQueue waiting = G_QUEUE_INIT;
    Directory *first = g_new0(Directory, 1);
    first->path = g_strdup(root);
    first->depth = 1;
    g_queue_push_tail(&waiting, first);
    bool is_fine = true;
    while (is_fine && !g_queue_is_empty(&waiting)) {
        Directory *directory = g_queue_pop_head(&waiting);
        is_fine = search_directory(plan, directory, &waiting, budget);
        free_directory(directory);
    }
    g_queue_clear_full(&waiting, (GDestroyNotify) free_directory);
    if (!is_fine)
        ipb_path_rules_warn(
            plan->paths,
            "%s has so many files that the search for those to protect was given up: "
            "deeper ones are not protected; a smaller mandatoryDenySearchDepth helps",
            root);
}

/* --- known places ----------------------------------------------------------------------------- */

/* Protects the names in @directory, whether they exist or not. */
static void
protect_names(IpbSandboxPlan *plan, const char *directory)
{
    for (size_t i = 0; i < G_N_ELEMENTS(PROTECTED); i++)
        if (PROTECTED[i].is_absence_watched)
            deny_below(plan, directory, PROTECTED[i].name, PROTECTED[i].reason);
    g_autofree char *claude = g_build_filename(directory, ".claude", NULL);
    protect_claude(plan, claude, true);
    /* A repository that is created inside needs its configuration, but not its hooks. */
    g_autofree char *git = g_build_filename(directory, ".git", NULL);
    if (is_there(git))
        protect_git(plan, git);
    else
        deny_below(plan, git, "hooks", HOOKS_REASON);
}

/* IPython runs the files in its profiles, and imports from its extensions. */
static void
protect_ipython(IpbSandboxPlan *plan, const char *home)
{
    static const char REASON[] = "IPython runs it";
    g_autofree char *ipython = g_build_filename(home, ".ipython", NULL);
    deny_below(plan, ipython, "profile_default", REASON);
    deny_below(plan, ipython, "extensions", REASON);
    DIR *stream = opendir(ipython);
    const struct dirent *entry;
    while (stream != NULL && (entry = readdir(stream)) != NULL)
        if (g_str_has_prefix(entry->d_name, "profile_") ||
            g_str_has_prefix(entry->d_name, "ipython_"))
            deny_below(plan, ipython, entry->d_name, REASON);
    if (stream != NULL)
        closedir(stream);
}

/* ipybox uses these by itself: the environment of `ipybox doctor --setup`, and generated
 * packages. */
static void
protect_ipybox(IpbSandboxPlan *plan)
{
    deny_below(plan, g_get_user_data_dir(), "ipybox", "kernels run what is in it");
    deny_below(plan, plan->workspace, "mcptools", "cells import the tools from it");
}

void
ipb_protected_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options)
{
    IpbGlobBudget budget = {MAX_SEARCH_ENTRIES, g_get_monotonic_time() + SEARCH_TIMEOUT_MS * 1000};
    /* A copy, because rules are added while it is used. */
    g_autoptr(GPtrArray) roots = g_ptr_array_new_with_free_func(g_free);
    GHashTableIter iter;
    IpbPathRule *rule;
    g_hash_table_iter_init(&iter, plan->paths->by_path);
    while (g_hash_table_iter_next(&iter, NULL, (void **) &rule))
        if (rule->allow_write && !rule->deny_write)
            g_ptr_array_add(roots, g_strdup(rule->path));
    for (guint i = 0; i < roots->len; i++) {
        const char *root = g_ptr_array_index(roots, i);
        g_autofree char *name = g_path_get_basename(root);
        protect_entry(plan, root, name);
        if (is_directory(root))
            search(plan, root, &budget);
    }
    protect_names(plan, plan->workspace);
    protect_names(plan, options->home);
    protect_ipython(plan, options->home);
    protect_ipybox(plan);
    if (plan->policy->origin != NULL && plan->policy->origin[0] == '/')
        ipb_path_rules_deny_write(plan->paths, plan->policy->origin,
                                  "it says what the sandbox allows");
    for (const char *const *path = options->keep_out; path != NULL && *path != NULL; path++)
        ipb_path_rules_deny_write(plan->paths, *path, "it decides what later sandboxes may do");
}
