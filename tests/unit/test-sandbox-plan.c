/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/plan.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "base/error.h"
#include "base/file.h"

#define NETWORK "\"network\": {\"allowedDomains\": [], \"deniedDomains\": []}"

/* A home directory with a workspace in it. */
typedef struct {
    char *home, *workspace;
} Place;

static void
make_place(Place *place, const void *data)
{
    /* In the build tree: each sandbox has a /tmp of its own. */
    g_autofree char *current = g_get_current_dir();
    g_autofree char *home = ipb_file_make_temp_directory(current, "test-plan-", NULL);
    place->home = realpath(home, NULL);
    place->workspace = g_build_filename(place->home, "ws", NULL);
    g_assert_cmpint(mkdir(place->workspace, 0755), ==, 0);
}

static void
remove_place(Place *place, const void *data)
{
    ipb_file_remove_tree(place->home, NULL);
    free(place->home);
    g_free(place->workspace);
}

/* @name is below the home directory; one that ends in "/" is a directory. */
static void
make(const Place *place, const char *name)
{
    g_autofree char *path = g_build_filename(place->home, name, NULL);
    g_autofree char *parent = g_path_get_dirname(path);
    g_assert_cmpint(g_mkdir_with_parents(parent, 0755), ==, 0);
    if (g_str_has_suffix(name, "/"))
        g_assert_cmpint(g_mkdir_with_parents(path, 0755), ==, 0);
    else
        g_assert_true(g_file_set_contents(path, "x", 1, NULL));
}

static void
make_link(const Place *place, const char *name, const char *target)
{
    g_autofree char *path = g_build_filename(place->home, name, NULL);
    g_autofree char *absolute = g_build_filename(place->home, target, NULL);
    g_assert_cmpint(symlink(absolute, path), ==, 0);
}

static IpbSandboxPolicy *
parse(const char *text)
{
    GError *error = NULL;
    IpbSandboxPolicy *policy = ipb_sandbox_policy_parse(text, strlen(text), "test", &error);
    g_assert_no_error(error);
    return policy;
}

static IpbSandboxPlan *
plan_with(const Place *place, const char *policy_text, IpbPlanOptions options)
{
    GError *error = NULL;
    g_autoptr(IpbSandboxPolicy) policy = parse(policy_text);
    options.policy = policy;
    options.workspace = place->workspace;
    options.home = place->home;
    options.limits = IPB_SANDBOX_LIMITS_DEFAULT;
    IpbSandboxPlan *plan = ipb_sandbox_plan_new(&options, &error);
    g_assert_no_error(error);
    return plan;
}

/* @files: the lists of "filesystem". */
static IpbSandboxPlan *
plan_files(const Place *place, const char *deny_read, const char *allow_read,
           const char *allow_write, const char *deny_write)
{
    g_autofree char *text =
        g_strdup_printf("{" NETWORK ", \"filesystem\": {\"denyRead\": [%s], \"allowRead\": [%s],"
                        " \"allowWrite\": [%s], \"denyWrite\": [%s]}}",
                        deny_read, allow_read, allow_write, deny_write);
    return plan_with(place, text, (IpbPlanOptions){0});
}

static const IpbPathAccess *
access_at(const IpbSandboxPlan *plan, const Place *place, const char *name)
{
    g_autofree char *path =
        name[0] == '/' ? g_strdup(name) : g_build_filename(place->home, name, NULL);
    return &ipb_path_rules_find(plan->paths, path)->access;
}

#define assert_access(plan, place, name, expected_view, expected_writable)                         \
    do {                                                                                           \
        const IpbPathAccess *found_access = access_at(plan, place, name);                          \
        g_assert_cmpint(found_access->view, ==, expected_view);                                    \
        g_assert_cmpint(found_access->is_writable, ==, expected_writable);                         \
    } while (0)

/* What ipb_sandbox_plan_access() says, which need not exist. */
#define assert_judged(plan, place, name, expected_readable, expected_writable)                     \
    do {                                                                                           \
        g_autofree char *judged_path = g_build_filename((place)->home, name, NULL);                \
        IpbPlanAccess judged = ipb_sandbox_plan_access(plan, judged_path);                         \
        g_assert_cmpint(judged.is_readable, ==, expected_readable);                                \
        g_assert_cmpint(judged.is_writable, ==, expected_writable);                                \
        g_assert_true(judged.reason != NULL);                                                      \
    } while (0)

static bool
has_text(const GPtrArray *texts, const char *part)
{
    for (guint i = 0; i < texts->len; i++)
        if (strstr(g_ptr_array_index(texts, i), part) != NULL)
            return true;
    return false;
}

static bool
has_path(const GPtrArray *paths, const Place *place, const char *name)
{
    g_autofree char *path = g_build_filename(place->home, name, NULL);
    for (guint i = 0; i < paths->len; i++)
        if (g_str_equal(g_ptr_array_index(paths, i), path))
            return true;
    return false;
}

/* --- the paths of the policy ------------------------------------------------------------------ */

static void
test_lists(Place *place, const void *data)
{
    make(place, "ws/src/kept.c");
    make(place, "ws/src/private/key");
    make(place, "ws/src/private/public/key");
    make(place, "other/file");
    g_autoptr(IpbSandboxPlan) plan =
        plan_files(place, "\"src/private\"", "\"~/ws/src/private/public\"", "\".\"",
                   "\"src/kept.c\", \"./src/private/public/\"");
    assert_access(plan, place, "ws", IPB_VIEW_HOST, true);
    assert_access(plan, place, "ws/new", IPB_VIEW_HOST, true);
    assert_access(plan, place, "ws/src/kept.c", IPB_VIEW_HOST, false);
    assert_access(plan, place, "ws/src/private/key", IPB_VIEW_HIDDEN, true);
    assert_access(plan, place, "ws/src/private/public/key", IPB_VIEW_HOST, false);
    assert_access(plan, place, "other/file", IPB_VIEW_HOST, false);
    assert_access(plan, place, "/etc/passwd", IPB_VIEW_HOST, false);
}

static void
test_workspace_in_hidden_home(Place *place, const void *data)
{
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "\"~\"", "", "", "");
    assert_access(plan, place, "other", IPB_VIEW_HIDDEN, false);
    assert_access(plan, place, "ws", IPB_VIEW_HOST, false);
    /* Two stars hide everything, whatever is in it. */
    g_autoptr(IpbSandboxPlan) total = plan_files(place, "\"~/**\"", "", "\".\"", "");
    assert_access(total, place, "ws", IPB_VIEW_HIDDEN, true);
    g_assert_true(has_text(total->warnings, "stays hidden"));
}

static void
test_globs(Place *place, const void *data)
{
    make(place, "ws/a.pem");
    make(place, "ws/deep/down/b.pem");
    make(place, "ws/c.txt");
    make(place, "ws/[odd]");
    g_autoptr(IpbSandboxPlan) plan =
        plan_files(place, "\"**/*.pem\", \"[odd]\", \"*.none\"", "", "\"*.txt\"", "");
    assert_access(plan, place, "ws/a.pem", IPB_VIEW_HIDDEN, false);
    assert_access(plan, place, "ws/deep/down/b.pem", IPB_VIEW_HIDDEN, false);
    assert_access(plan, place, "ws/[odd]", IPB_VIEW_HIDDEN, false);
    assert_access(plan, place, "ws/c.txt", IPB_VIEW_HOST, true);
    assert_access(plan, place, "ws", IPB_VIEW_HOST, false);
    g_assert_true(has_text(plan->warnings, "denyRead: *.none: matches nothing"));
}

/* A sandbox could have put a link into a directory that it may write. */
static void
test_planted_links(Place *place, const void *data)
{
    make(place, "secret/file");
    make(place, "ws/real/");
    make_link(place, "ws/out", "secret");
    make_link(place, "ws/in", "ws/real");
    make_link(place, "ok", "secret");
    g_autoptr(IpbSandboxPlan) plan =
        plan_files(place, "", "", "\".\", \"out\", \"in\", \"out/*\"", "");
    assert_access(plan, place, "secret", IPB_VIEW_HOST, false);
    assert_access(plan, place, "secret/file", IPB_VIEW_HOST, false);
    assert_access(plan, place, "ws/real", IPB_VIEW_HOST, true);
    g_assert_true(has_text(plan->warnings, "not allowed: the symbolic link"));
    g_autoptr(IpbSandboxPlan) fine = plan_files(place, "", "", "\"~/ok\"", "");
    assert_access(fine, place, "secret/file", IPB_VIEW_HOST, true);
    /* A denial follows links wherever they are. */
    g_autoptr(IpbSandboxPlan) denied = plan_files(place, "\"out\"", "", "\".\"", "\"in\"");
    assert_access(denied, place, "secret/file", IPB_VIEW_HIDDEN, false);
    assert_access(denied, place, "ws/real", IPB_VIEW_HOST, false);
    /* Nor can the links be replaced. */
    assert_judged(denied, place, "ws/in", true, false);
    assert_judged(denied, place, "ws/out", true, false);
}

static void
test_absent(Place *place, const void *data)
{
    g_autoptr(IpbSandboxPlan) plan =
        plan_files(place, "\"no1\"", "\"no2\"", "\".\", \"no3\"", "\"sub/no4\", \"~/no5\"");
    g_assert_true(has_text(plan->warnings, "allowRead: no2"));
    g_assert_true(has_text(plan->warnings, "allowWrite: no3"));
    /* What is denied is denied when it is created, too. */
    assert_judged(plan, place, "ws/no1", false, false);
    assert_judged(plan, place, "ws/no1/below", false, false);
    assert_judged(plan, place, "ws/sub/no4", true, false);
    assert_judged(plan, place, "ws/sub/no4/below", true, false);
    assert_judged(plan, place, "ws/sub/other", true, true);
    g_assert_true(ipb_sandbox_plan_denies_reading(plan));
    g_autofree char *above = g_build_filename(place->workspace, "sub", NULL);
    g_assert_true(ipb_sandbox_plan_has_denial_below(plan, above));
    g_autoptr(IpbSandboxPlan) open = plan_files(place, "", "", "\".\"", "");
    g_assert_false(ipb_sandbox_plan_denies_reading(open));
}

/* Globs hold for files that are created after the plan was made. */
static void
test_later_files(Place *place, const void *data)
{
    make(place, "ws/old/key.pem");
    g_autoptr(IpbSandboxPlan) plan =
        plan_files(place, "\"**/*.pem\", \"secret*\", \"total*/**\", \"~/docs\"",
                   "\"public*/*.pem\", \"~/docs/open*\"", "\".\"", "\"**/*.lock\", \"gen*/**\"");
    assert_judged(plan, place, "ws/old/key.pem", false, false);
    assert_judged(plan, place, "ws/new/key.pem", false, false);
    assert_judged(plan, place, "ws/key.pem/below", false, false);
    assert_judged(plan, place, "ws/key.pen", true, true);
    assert_judged(plan, place, "ws/secrets", false, false);
    assert_judged(plan, place, "ws/secrets/a/b", false, false);
    assert_judged(plan, place, "ws/a/secrets", true, true);
    /* For the same path, what allows wins; a deeper denial wins over it. */
    assert_judged(plan, place, "ws/public1/a.pem", true, true);
    assert_judged(plan, place, "ws/public1/a.pem/b.pem", false, false);
    assert_judged(plan, place, "ws/total1", true, true);
    assert_judged(plan, place, "ws/total1/x", false, false);
    assert_judged(plan, place, "ws/total1/public1/a.pem", false, false);
    assert_judged(plan, place, "ws/a.lock", true, false);
    assert_judged(plan, place, "ws/d/a.lock/below", true, false);
    assert_judged(plan, place, "ws/gen", true, true);
    assert_judged(plan, place, "ws/gen/x", true, false);
    g_assert_true(ipb_sandbox_plan_denies_reading(plan));
}

/* A directory stays if a glob names it: elsewhere, what is in it would not be denied. */
static void
test_later_directories(Place *place, const void *data)
{
    static const struct {
        const char *path;
        bool stays;
    } CASES[] = {
        {"keys", true},     {"keys/in", false},   {"a/keys", false}, {"conf1", true},
        {"conf1/x", false}, {"deep", true},       {"other", false},  {"other/key", false},
        {"locks", true},    {"locks/sub", false},
    };
    g_autoptr(IpbSandboxPlan) plan =
        plan_files(place, "\"**/*.pem\", \"keys/*.key\", \"conf*/x.key\", \"deep/**/*.key\"", "",
                   "\".\"", "\"locks/*.lock\"");
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *path = g_build_filename(place->workspace, CASES[i].path, NULL);
        g_test_message("%s", CASES[i].path);
        g_assert_cmpint(ipb_sandbox_plan_has_denial_below(plan, path), ==, CASES[i].stays);
    }
}

/* A hidden directory in a writable one is covered by an empty one of the sandbox's own. */
static void
test_covers(Place *place, const void *data)
{
    make(place, "ws/a/hidden/file");
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "\"a/hidden\"", "", "\".\"", "");
    assert_judged(plan, place, "ws/a/hidden", true, false);
    assert_judged(plan, place, "ws/a/hidden/new", true, true);
    g_autofree char *inside = g_build_filename(place->workspace, "a/hidden/new", NULL);
    g_assert_true(ipb_sandbox_plan_access(plan, inside).is_own);
    g_autofree char *above = g_build_filename(place->workspace, "a", NULL);
    g_assert_true(ipb_sandbox_plan_has_denial_below(plan, above));
}

/* The first wall of names is the rules for names; the plan's paths are the second. */
static void
test_names_apart(Place *place, const void *data)
{
    make(place, "ws/.git/config");
    make(place, "ws/.git/hooks/");
    make(place, "ws/.bashrc");
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "", "", "\".\"", "");
    assert_access(plan, place, "ws/.bashrc", IPB_VIEW_HOST, false);
    assert_judged(plan, place, "ws/.bashrc", true, true);
    assert_judged(plan, place, "ws/.git/config", true, true);
    g_autofree char *git = g_build_filename(place->workspace, ".git", NULL);
    g_assert_false(ipb_sandbox_plan_has_denial_below(plan, git));
    g_autofree char *config = g_build_filename(git, "config", NULL);
    g_assert_true(ipb_path_rules_lookup(plan->paths, config)->is_replaceable);
    g_assert_true(plan->is_search_complete);
}

/* What the user's own configuration tells git to run. */
static void
test_hooks_elsewhere(Place *place, const void *data)
{
    static const char CONFIG[] = "[core]\n\thooksPath = tools/hooks\n\tfsmonitor = ./watch -x\n";
    static const char WHOLE[] = "[core]\n\thooksPath = .\n\tfsmonitor = true\n";
    make(place, "ws/.git/");
    make(place, "ws/watch");
    make(place, "ws/sub/.git/");
    g_autofree char *config = g_build_filename(place->workspace, ".git/config", NULL);
    g_autofree char *other = g_build_filename(place->workspace, "sub/.git/config", NULL);
    g_assert_true(g_file_set_contents(config, CONFIG, -1, NULL));
    g_assert_true(g_file_set_contents(other, WHOLE, -1, NULL));
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "", "", "\".\"", "");
    assert_judged(plan, place, "ws/tools/hooks/pre-commit", true, false);
    assert_judged(plan, place, "ws/tools/other", true, true);
    assert_judged(plan, place, "ws/watch", true, false);
    assert_judged(plan, place, "ws/sub/file", true, true);
    assert_judged(plan, place, "ws/sub/true", true, true);
}

static void
test_many_protected_names(Place *place, const void *data)
{
    for (unsigned i = 0; i < 600; i++) {
        g_autofree char *name = g_strdup_printf("ws/%u/.vscode/", i);
        make(place, name);
    }
    make(place, "ws/.bashrc");
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "", "", "\".\"", "");
    g_assert_false(plan->is_search_complete);
    g_assert_cmpuint(plan->paths->sorted->len, <, 600);
    /* What is near the top is found first. */
    assert_access(plan, place, "ws/.bashrc", IPB_VIEW_HOST, false);
}

static void
test_hard_links(Place *place, const void *data)
{
    make(place, "ws/kept");
    g_autofree char *from = g_build_filename(place->workspace, "kept", NULL);
    g_autofree char *to = g_build_filename(place->workspace, "name", NULL);
    g_assert_cmpint(link(from, to), ==, 0);
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "", "", "\".\"", "\"kept\"");
    g_assert_true(has_text(plan->warnings, "has 2 names"));
}

static void
test_unix_sockets(Place *place, const void *data)
{
    make(place, "ws/sock");
    g_autoptr(IpbSandboxPlan) plan = plan_with(
        place,
        "{\"network\": {\"allowedDomains\": [], \"deniedDomains\": [],"
        " \"allowUnixSockets\": [\"sock\", \"~/none\"]},"
        " \"filesystem\": {\"denyRead\": [\".\"], \"allowWrite\": [\".\"], \"denyWrite\": []}}",
        (IpbPlanOptions){0});
    assert_access(plan, place, "ws/sock", IPB_VIEW_HOST, false);
    g_assert_true(has_path(plan->unix_sockets, place, "ws/sock"));
    g_assert_true(has_path(plan->unix_sockets, place, "none"));
    g_assert_true(has_text(plan->warnings, "~/none: there is no socket"));
}

/* --- the options ------------------------------------------------------------------------------ */

static const char OPEN[] = "{" NETWORK ", \"filesystem\": {\"denyRead\": [\"~/**\"],"
                           " \"allowWrite\": [\"~\"], \"denyWrite\": []}}";

static void
test_options(Place *place, const void *data)
{
    make(place, "python/bin/python3");
    make(place, "state/registry");
    make(place, "log");
    make_link(place, "py", "python");
    g_autofree char *keep = g_build_filename(place->home, "py/bin", NULL);
    g_autofree char *hide = g_build_filename(place->home, "state", NULL);
    g_autofree char *keep_out = g_build_filename(place->home, "log", NULL);
    g_autoptr(IpbSandboxPlan) plan =
        plan_with(place, OPEN,
                  (IpbPlanOptions){.keep = (const char *const[]){keep, "/none", NULL},
                                   .hide = (const char *const[]){hide, "/none", NULL}});
    assert_access(plan, place, "python/bin/python3", IPB_VIEW_HOST, false);
    assert_access(plan, place, "state/registry", IPB_VIEW_HIDDEN, true);
    /* The interpreter is reached by the name of the link, too. */
    g_autofree char *alias = g_build_filename(place->home, "py/bin/python3", NULL);
    const IpbPathRule *rule = ipb_sandbox_plan_find_rule(plan, alias);
    g_assert_cmpint(rule->access.view, ==, IPB_VIEW_HOST);
    g_autoptr(IpbSandboxPlan) closed =
        plan_with(place,
                  "{" NETWORK ", \"filesystem\": {\"denyRead\": [],"
                  " \"allowWrite\": [\"~\"], \"denyWrite\": []}}",
                  (IpbPlanOptions){.keep_out = (const char *const[]){keep_out, NULL}});
    assert_access(closed, place, "log", IPB_VIEW_HOST, false);
}

static void
test_wrong_options(Place *place, const void *data)
{
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_closed();
    const IpbPlanOptions wrong[] = {
        {.policy = policy, .workspace = "relative", .home = "/"},
        {.policy = policy, .workspace = "/", .home = ""},
        {.policy = policy, .workspace = "/", .home = NULL},
        {.policy = policy, .workspace = "/none/here", .home = "/"},
        {.policy = policy, .workspace = "/etc/passwd", .home = "/"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(ipb_sandbox_plan_new(&wrong[i], &error));
        g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
    }
}

/* --- what is protected ------------------------------------------------------------------------ */

static void
test_protected(Place *place, const void *data)
{
    make(place, "ws/.git/config");
    make(place, "ws/.git/hooks/");
    make(place, "ws/sub/.bashrc");
    make(place, "ws/sub/.GIT/hooks/");
    make(place, ".ipython/profile_default/");
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "", "", "\"~\"", "");
    assert_access(plan, place, "ws/.git/index", IPB_VIEW_HOST, true);
    assert_access(plan, place, "ws/.git/config", IPB_VIEW_HOST, false);
    assert_access(plan, place, "ws/.git/hooks/pre-commit", IPB_VIEW_HOST, false);
    assert_access(plan, place, "ws/sub/.bashrc", IPB_VIEW_HOST, false);
    assert_access(plan, place, "ws/sub/.GIT/hooks", IPB_VIEW_HOST, false);
    assert_access(plan, place, ".ipython/profile_default", IPB_VIEW_HOST, false);
    assert_judged(plan, place, "ws/mcptools", true, false);
    assert_judged(plan, place, "ws/mcptools/x/y.py", true, false);
    g_autoptr(IpbSandboxPlan) config =
        plan_with(place,
                  "{" NETWORK ", \"filesystem\": {\"denyRead\": [], \"allowWrite\": [\".\"],"
                  " \"denyWrite\": [], \"allowGitConfig\": true}}",
                  (IpbPlanOptions){0});
    assert_access(config, place, "ws/.git/config", IPB_VIEW_HOST, true);
    assert_access(config, place, "ws/.git/hooks", IPB_VIEW_HOST, false);
}

static void
test_search_depth(Place *place, const void *data)
{
    make(place, "ws/1/2/.bashrc");
    make(place, "ws/node_modules/.bashrc");
    static const char POLICY[] = "{" NETWORK ", \"filesystem\": {\"denyRead\": [],"
                                 " \"allowWrite\": [\".\"], \"denyWrite\": []},"
                                 " \"mandatoryDenySearchDepth\": %d}";
    g_autofree char *two = g_strdup_printf(POLICY, 2), *three = g_strdup_printf(POLICY, 3);
    g_autoptr(IpbSandboxPlan) shallow = plan_with(place, two, (IpbPlanOptions){0});
    g_autoptr(IpbSandboxPlan) deep = plan_with(place, three, (IpbPlanOptions){0});
    assert_access(shallow, place, "ws/1/2/.bashrc", IPB_VIEW_HOST, true);
    assert_access(deep, place, "ws/1/2/.bashrc", IPB_VIEW_HOST, false);
    assert_access(deep, place, "ws/node_modules/.bashrc", IPB_VIEW_HOST, true);
}

/* --- what a sandbox has of its own ------------------------------------------------------------ */

static void
test_own_paths(Place *place, const void *data)
{
    make(place, ".npm/_logs/");
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "", "", "", "");
    assert_access(plan, place, "/proc/1", IPB_VIEW_SYSTEM, false);
    assert_access(plan, place, "/dev/null", IPB_VIEW_SYSTEM, false);
    assert_access(plan, place, "/dev/pts/0", IPB_VIEW_SYSTEM, false);
    assert_access(plan, place, "/dev/shm/x", IPB_VIEW_OWN, false);
    assert_access(plan, place, "/tmp/none", IPB_VIEW_OWN, false);
    assert_access(plan, place, "/run/none", IPB_VIEW_OWN, false);
    assert_access(plan, place, "/sys", IPB_VIEW_HOST, false);
    const IpbPathRule *hosts = ipb_path_rules_lookup(plan->paths, "/etc/hosts");
    g_assert_cmpint(hosts->own->kind, ==, IPB_OWN_FILE);
    g_assert_nonnull(strstr(hosts->own->content, "127.0.0.1 localhost"));
    uint64_t sum = 0;
    static const char *const PLACES[] = {"/tmp", "/run", "/dev/shm"};
    for (size_t i = 0; i < G_N_ELEMENTS(PLACES); i++)
        sum += ipb_path_rules_lookup(plan->paths, PLACES[i])->own->size_bytes;
    g_assert_cmpuint(sum, ==, plan->limits.tmp_bytes);
}

static void
test_fewer_own_paths(Place *place, const void *data)
{
    g_autoptr(IpbSandboxPlan) plan = plan_with(
        place,
        "{\"network\": {\"allowedDomains\": [], \"deniedDomains\": [],"
        " \"allowAllUnixSockets\": true}, \"allowPty\": false,"
        " \"filesystem\": {\"denyRead\": [], \"allowWrite\": [\"/tmp\"], \"denyWrite\": []}}",
        (IpbPlanOptions){0});
    g_assert_null(ipb_path_rules_lookup(plan->paths, "/dev/pts"));
    assert_access(plan, place, "/run", IPB_VIEW_HOST, false);
    assert_access(plan, place, "/tmp", IPB_VIEW_HOST, true);
}

/* --- the network, the environment, limits ----------------------------------------------------- */

static bool
has_entry(char **list, const char *prefix)
{
    for (; *list != NULL; list++)
        if (g_str_has_prefix(*list, prefix))
            return true;
    return false;
}

static const char DOMAIN[] = "{\"network\": {\"allowedDomains\": [\"example.com\"],"
                             " \"deniedDomains\": []}, \"limits\": {\"processes\": 7,"
                             " \"memory\": \"none\"}, \"git\": {\"safeDirectories\": [\"a\"]},"
                             " \"filesystem\": {\"denyRead\": [], \"allowWrite\": [],"
                             " \"denyWrite\": []}}";

static void
test_no_network(Place *place, const void *data)
{
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "", "", "", "");
    g_assert_cmpuint(plan->listeners->len, ==, 0);
    g_assert_false(has_entry(plan->environment, "HTTP_PROXY="));
    g_assert_true(has_entry(plan->environment, "TMPDIR=/tmp"));
    g_assert_true(has_entry(plan->unset, "HTTP_PROXY"));
    g_assert_true(has_entry(plan->unset, "SSH_AUTH_SOCK"));
    g_autoptr(IpbSandboxPlan) kept =
        plan_with(place,
                  "{" NETWORK ", \"filesystem\": {\"denyRead\": [], \"allowWrite\": [],"
                  " \"denyWrite\": []}}",
                  (IpbPlanOptions){.is_network_kept = true});
    g_assert_cmpuint(kept->listeners->len, ==, 6);
}

static void
test_network(Place *place, const void *data)
{
    g_autoptr(IpbSandboxPlan) plan =
        plan_with(place, DOMAIN, (IpbPlanOptions){.has_tools = true, .tool_port = 8901});
    g_assert_cmpuint(plan->listeners->len, ==, 7);
    const IpbPlanListener *tools = &g_array_index(plan->listeners, IpbPlanListener, 0);
    g_assert_cmpint(tools->kind, ==, IPB_LISTENER_TOOLS);
    g_assert_cmpuint(tools->port, ==, 8901);
    g_assert_false(tools->is_any_address);
    g_assert_true(has_entry(plan->environment, "HTTP_PROXY=" IPB_PLAN_HTTP_PROXY_URL));
    g_assert_false(has_entry(plan->unset, "HTTP_PROXY"));
    g_assert_true(has_entry(plan->environment, "GIT_CONFIG_COUNT=2"));
    const IpbPathRule *resolv = NULL;
    for (guint i = 0; i < plan->paths->sorted->len; i++) {
        const IpbPathRule *rule = g_ptr_array_index(plan->paths->sorted, i);
        if (rule->own != NULL && rule->own->content != NULL &&
            strstr(rule->own->content, "nameserver") != NULL)
            resolv = rule;
    }
    g_assert_nonnull(resolv);
}

static void
test_limits(Place *place, const void *data)
{
    g_autoptr(IpbSandboxPlan) plan = plan_with(place, DOMAIN, (IpbPlanOptions){0});
    g_assert_cmpuint(plan->limits.processes, ==, 7);
    g_assert_cmpuint(plan->limits.memory_bytes, ==, 0);
    g_assert_cmpuint(plan->limits.open_files, ==, IPB_SANDBOX_LIMITS_DEFAULT.open_files);
}

/* --- questions -------------------------------------------------------------------------------- */

static void
test_questions(Place *place, const void *data)
{
    make(place, "ws/src/deep/file");
    make(place, "ws/src/.bashrc");
    g_autoptr(IpbSandboxPlan) plan = plan_files(place, "", "", "\".\"", "\"src/deep\"");
    g_autofree char *file = g_build_filename(place->workspace, "src/deep/file", NULL);
    g_autofree char *other = g_build_filename(place->workspace, "src/other", NULL);
    /* The rule at which things change, not the nearest one. */
    g_assert_true(g_str_has_suffix(ipb_sandbox_plan_find_rule(plan, file)->path, "/src/deep"));
    g_assert_cmpstr(ipb_sandbox_plan_find_rule(plan, other)->path, ==, place->workspace);
    g_assert_cmpstr(ipb_sandbox_plan_find_rule(plan, "/usr/lib")->path, ==, "/");
    g_assert_true(ipb_sandbox_plan_is_writable_below(plan, other));
    g_assert_false(ipb_sandbox_plan_is_writable_below(plan, place->workspace));
    g_assert_false(ipb_sandbox_plan_is_writable_below(plan, "/usr/lib"));
}

#define ADD(name, function)                                                                        \
    g_test_add("/sandbox/plan/" name, Place, NULL, make_place, function, remove_place)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("lists", test_lists);
    ADD("workspace-in-hidden-home", test_workspace_in_hidden_home);
    ADD("globs", test_globs);
    ADD("planted-links", test_planted_links);
    ADD("absent", test_absent);
    ADD("later-files", test_later_files);
    ADD("later-directories", test_later_directories);
    ADD("covers", test_covers);
    ADD("names-apart", test_names_apart);
    ADD("hooks-elsewhere", test_hooks_elsewhere);
    ADD("many-protected-names", test_many_protected_names);
    ADD("hard-links", test_hard_links);
    ADD("unix-sockets", test_unix_sockets);
    ADD("options", test_options);
    ADD("wrong-options", test_wrong_options);
    ADD("protected", test_protected);
    ADD("search-depth", test_search_depth);
    ADD("own-paths", test_own_paths);
    ADD("fewer-own-paths", test_fewer_own_paths);
    ADD("no-network", test_no_network);
    ADD("network", test_network);
    ADD("limits", test_limits);
    ADD("questions", test_questions);
    return g_test_run();
}
