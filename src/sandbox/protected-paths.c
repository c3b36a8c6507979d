/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules for names (name-rules.h) protect files whether they exist or not. What exists is denied
 * here, too, so that a backend can cover it: as a second wall, or as the only one if it cannot
 * judge names. For that, writable directories are searched, mandatoryDenySearchDepth levels deep.
 * The search may give up.
 *
 * What ipybox itself uses, and what the configuration of a repository tells git to run, is denied
 * by its path, whatever its name is.
 */
#include "sandbox/protected-paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "sandbox/git-config.h"
#include "sandbox/glob.h"
#include "sandbox/path.h"

#define MAX_SEARCH_ENTRIES 200000
#define SEARCH_TIMEOUT_MS 2000
/* What the search adds. Each needs a mount or two, and a session must not fail because there are
 * thousands of directories with protected names. */
#define MAX_FOUND 500
/* For the submodules and worktrees of one repository. */
#define MAX_GIT_DEPTH 8

typedef struct {
    char *path;
    unsigned depth; /* of what is in it */
    bool is_git;    /* it is below ".git" */
} Directory;

typedef struct {
    IpbSandboxPlan *plan;
    const char *root; /* the writable directory that is searched */
    GQueue waiting;   /* Directory */
    IpbGlobBudget budget;
    unsigned n_found;
} Search;

typedef struct {
    IpbSandboxPlan *plan;
    const char *path;
} Worktree;

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

static void
deny_below(IpbSandboxPlan *plan, const char *directory, const char *name, const char *reason)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    ipb_path_rules_deny_write(plan->paths, path, reason);
}

/* --- the search ------------------------------------------------------------------------------- */

static bool
has_entry(const char *path, size_t directory_size, const char *name, void *data)
{
    struct stat info;
    g_autofree char *full = g_strdup_printf("%.*s/%s", (int) directory_size, path, name);
    return lstat(full, &info) == 0;
}

static IpbNameJudgement
judge(const Search *search, IpbNameAction action, bool is_a_directory, const char *path)
{
    const IpbNameQuestion question = {
        .action = action,
        .kind = is_a_directory ? IPB_NAME_DIRECTORY : IPB_NAME_FILE,
        .path = path,
        .root_size = strlen(search->root),
        .has_entry = has_entry,
    };
    return ipb_name_rules_judge(search->plan->names, &question);
}

/* git runs what is in hooks, but the directory itself may be changed. */
static bool
is_hooks(const Search *search, const char *path, const char *name)
{
    if (g_ascii_strcasecmp(name, "hooks") != 0)
        return false;
    g_autofree char *inside = g_build_filename(path, "x", NULL);
    return judge(search, IPB_NAME_WRITE, false, inside).verdict == IPB_NAME_REFUSED;
}

/* Returns true if @path is denied, so that nothing in it has to be. */
static bool
protect_entry(Search *search, const char *path, const char *name, bool is_a_directory)
{
    IpbNameJudgement judgement = judge(search, IPB_NAME_WRITE, is_a_directory, path);
    bool is_refused = judgement.verdict == IPB_NAME_REFUSED;
    if (!is_refused && !(is_a_directory && is_hooks(search, path, name)))
        return false;
    const char *who = is_refused ? judgement.rule->who : "git runs it";
    bool is_replaceable =
        is_refused && judge(search, IPB_NAME_PUT, is_a_directory, path).verdict == IPB_NAME_PARSED;
    search->n_found++;
    ipb_path_rules_deny_by_name(search->plan->paths, path, is_replaceable, who);
    return true;
}

/* Denies what core.hooksPath and core.fsmonitor name in @data, the working tree of a repository.
 * Code inside could not have set these keys. */
static bool
on_git_key(const char *name, const char *value, void *data)
{
    const Worktree *worktree = data;
    bool is_hooks = strcmp(name, "core.hookspath") == 0;
    if (value == NULL || *value == '\0' || *value == '~' ||
        (!is_hooks && strcmp(name, "core.fsmonitor") != 0))
        return true;
    /* Of a command, the program. */
    g_autofree char *text = g_strndup(value, is_hooks ? strlen(value) : strcspn(value, " \t"));
    g_autofree char *path = ipb_path_expand(text, worktree->path, worktree->path);
    g_auto(IpbPath) found;
    ipb_path_resolve(path, &found);
    /* A whole working tree is never denied; "true" is no file. */
    if (ipb_path_is_below(found.real, worktree->path) &&
        (is_hooks || found.state != IPB_PATH_MISSING))
        ipb_path_rules_deny_write(worktree->plan->paths, path,
                                  is_hooks ? "git runs what is in it (core.hooksPath)"
                                           : "git runs it (core.fsmonitor)");
    return true;
}

/* @git: a ".git". Its configuration is read without following a link: it may have changed since it
 * was found. */
static void
protect_named_files(const Search *search, const char *git)
{
    g_autofree char *path = g_build_filename(git, "config", NULL);
    g_autofree char *directory = g_path_get_dirname(git);
    g_autofree char *text = g_malloc(IPB_NAME_MAX_PARSED_BYTES);
    ipb_autofd fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
        return;
    ssize_t size = read(fd, text, IPB_NAME_MAX_PARSED_BYTES);
    unsigned line;
    if (size > 0)
        ipb_git_config_parse(text, (size_t) size, on_git_key, &(Worktree){search->plan, directory},
                             &line);
}

/* Of a repository, only its own files and those of its submodules and worktrees matter. */
static bool
is_worth_a_look_in_git(const char *name)
{
    static const char *const DATA[] = {"objects", "refs", "logs", "info", NULL};
    return !g_strv_contains(DATA, name);
}

static bool
is_worth_a_look(const Search *search, const Directory *directory, const char *path,
                const char *name)
{
    const IpbPathRule *rule = ipb_path_rules_lookup(search->plan->paths, path);
    static const char *const KERNELS[] = {"/proc", "/sys", "/dev", NULL};
    if ((rule != NULL && (rule->keep || rule->deny_write)) || g_strv_contains(KERNELS, path) ||
        strcmp(name, "node_modules") == 0)
        return false;
    if (directory->is_git)
        return directory->depth < MAX_GIT_DEPTH && is_worth_a_look_in_git(name);
    /* A repository at the last level is still looked at. */
    return directory->depth < search->plan->policy->mandatory_deny_depth ||
           g_ascii_strcasecmp(name, ".git") == 0;
}

static void
add_directory(Search *search, const Directory *above, char *path, const char *name)
{
    bool is_dot_git = g_ascii_strcasecmp(name, ".git") == 0;
    if (is_dot_git)
        protect_named_files(search, path);
    Directory *next = g_new0(Directory, 1);
    next->path = path;
    next->is_git = is_dot_git || above->is_git;
    next->depth = is_dot_git && !above->is_git ? 1 : above->depth + 1;
    g_queue_push_tail(&search->waiting, next);
}

static bool
spend(Search *search)
{
    if (search->budget.entries_left == 0 || search->n_found >= MAX_FOUND ||
        g_get_monotonic_time() >= search->budget.deadline_us)
        return false;
    search->budget.entries_left--;
    return true;
}

static bool
search_directory(Search *search, const Directory *directory)
{
    DIR *stream = opendir(directory->path);
    const struct dirent *entry;
    bool is_fine = true;
    while (stream != NULL && is_fine && (entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        is_fine = spend(search);
        if (!is_fine)
            break;
        g_autofree char *path = g_build_filename(directory->path, entry->d_name, NULL);
        bool is_a_directory =
            entry->d_type == DT_DIR || (entry->d_type == DT_UNKNOWN && is_directory(path));
        if (!protect_entry(search, path, entry->d_name, is_a_directory) && is_a_directory &&
            is_worth_a_look(search, directory, path, entry->d_name))
            add_directory(search, directory, g_steal_pointer(&path), entry->d_name);
    }
    if (stream != NULL)
        closedir(stream);
    return is_fine;
}

/* Breadth first: if the search has to stop, files near the top matter most. */
static void
search_root(Search *search, const char *root)
{
    bool is_fine = true;
    search->root = root;
    g_autofree char *name = g_path_get_basename(root);
    if (protect_entry(search, root, name, is_directory(root)) || !is_directory(root))
        return;
    add_directory(search, &(Directory){0}, g_strdup(root), name);
    while (is_fine && !g_queue_is_empty(&search->waiting)) {
        Directory *directory = g_queue_pop_head(&search->waiting);
        is_fine = search_directory(search, directory);
        free_directory(directory);
    }
    g_queue_clear_full(&search->waiting, (GDestroyNotify) free_directory);
    search->plan->is_search_complete &= is_fine;
}

/* --- known places ----------------------------------------------------------------------------- */

/* ipybox uses these by itself: the environment of `ipybox doctor --setup`, and generated
 * packages. */
static void
protect_ipybox(IpbSandboxPlan *plan, const IpbPlanOptions *options)
{
    deny_below(plan, g_get_user_data_dir(), "ipybox", "kernels run what is in it");
    deny_below(plan, plan->workspace, "mcptools", "cells import the tools from it");
    for (const char *const *path = options->packages; path != NULL && *path != NULL; path++)
        ipb_path_rules_deny_write(plan->paths, *path, "cells import the tools from it");
    for (const char *const *path = options->environments; path != NULL && *path != NULL; path++)
        ipb_path_rules_deny_write(plan->paths, *path,
                                  "kernels of other sessions run what is in it");
    if (plan->policy->origin != NULL && plan->policy->origin[0] == '/')
        ipb_path_rules_deny_write(plan->paths, plan->policy->origin,
                                  "it says what the sandbox allows");
    for (const char *const *path = options->keep_out; path != NULL && *path != NULL; path++)
        ipb_path_rules_deny_write(plan->paths, *path, "it decides what later sandboxes may do");
}

void
ipb_protected_paths_add(IpbSandboxPlan *plan, const IpbPlanOptions *options)
{
    Search search = {
        .plan = plan,
        .waiting = G_QUEUE_INIT,
        .budget = {MAX_SEARCH_ENTRIES, g_get_monotonic_time() + SEARCH_TIMEOUT_MS * 1000},
    };
    /* A copy, because rules are added while it is used. */
    g_autoptr(GPtrArray) roots = g_ptr_array_new_with_free_func(g_free);
    GHashTableIter iter;
    IpbPathRule *rule;
    g_hash_table_iter_init(&iter, plan->paths->by_path);
    while (g_hash_table_iter_next(&iter, NULL, (void **) &rule))
        if (rule->allow_write && !rule->deny_write)
            g_ptr_array_add(roots, g_strdup(rule->path));
    plan->is_search_complete = true;
    protect_ipybox(plan, options);
    for (guint i = 0; i < roots->len; i++)
        search_root(&search, g_ptr_array_index(roots, i));
}
