/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/name-rules.h"

#include <string.h>

#include "base/error.h"

#define HOME "/home/u"
#define ROOT "/home/u/work"

static IpbNameRules *
make_rules(const char *const *allow_names, bool allow_git_config)
{
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_closed();
    if (allow_names != NULL) {
        g_strfreev(policy->allow_names);
        policy->allow_names = g_strdupv((char **) allow_names);
    }
    policy->allow_git_config = allow_git_config;
    g_autoptr(GError) error = NULL;
    IpbNameRules *rules = ipb_name_rules_new(policy, HOME, &error);
    g_assert_no_error(error);
    return rules;
}

/* A set of paths that exist, one a line. */
static bool
has_entry(const char *path, size_t directory_size, const char *name, void *data)
{
    g_autofree char *full = g_strdup_printf("%.*s/%s", (int) directory_size, path, name);
    return data != NULL && g_strv_contains(data, full);
}

static bool
has_only_samples(const char *path, size_t directory_size, const char *suffix, void *data)
{
    g_assert_cmpstr(suffix, ==, ".sample");
    return false;
}

static IpbNameVerdict
ask(const IpbNameRules *rules, IpbNameAction action, IpbNameKind kind, const char *path,
    const char *source, const char *const *entries)
{
    const IpbNameQuestion question = {
        .action = action,
        .kind = kind,
        .path = path,
        .root_size = strlen(ROOT),
        .source = source,
        .source_root_size = strlen(ROOT),
        .has_entry = has_entry,
        .data = (void *) entries,
    };
    IpbNameJudgement judgement = ipb_name_rules_judge(rules, &question);
    g_assert_true(judgement.verdict == IPB_NAME_ALLOWED || judgement.rule != NULL);
    return judgement.verdict;
}

static IpbNameVerdict
ask_file(const IpbNameRules *rules, IpbNameAction action, const char *name)
{
    g_autofree char *path =
        g_str_has_prefix(name, "/") ? g_strdup(name) : g_strconcat(ROOT "/", name, NULL);
    return ask(rules, action, IPB_NAME_FILE, path, NULL, NULL);
}

/* --- the table -------------------------------------------------------------------------------- */

static void
test_files(void)
{
    static const char *const REFUSED[] = {
        ".bashrc",
        "a/b/.bashrc",
        ".env",
        ".mcp.json",
        ".vscode/settings.json",
        "a/.vscode/deep/er",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/commands/x.md",
        ".claude/skills/a/SKILL.md",
        ".husky/pre-commit",
        "x.code-workspace",
        ".envrc",
        ".config/mise/config.toml",
        "a/.git/hooks/pre-commit",
        ".git/hooks/lib/x",
        ".git/hooks/x.sample/y",
        ".git/modules/a/b/hooks/pre-push",
        "x.git/hooks/update",
        ".git/remotes/origin",
        ".git/branches/origin",
        ".git/remotes/origin.sample",
        ".git/modules/a/remotes/origin",
        "x.git/remotes/origin",
        "x.git/branches/a/b",
        ".ipybox-new-1",
        HOME "/.ssh/config",
        HOME "/.ipython/profile_default/ipython_config.py",
        HOME "/.ipython/profile_default/startup/00.py",
        HOME "/.ipython/profile_x/db/rootmodules_cache",
        HOME "/.ipython/kernels/python3/kernel.json",
        HOME "/.config/fish/config.fish",
        HOME "/.local/bin/ls",
    };
    static const char *const ALLOWED[] = {
        "a.py",
        "Makefile",
        "package.json",
        "pyproject.toml",
        "CLAUDE.md",
        "bashrc",
        ".bashrc2",
        "a.bashrc",
        ".claude/worktrees/x",
        ".claude/settings",
        "vscode/settings.json",
        "src/hooks/useThing.ts",
        "config",
        "a/config",
        "objects",
        "refs",
        "HEAD",
        ".git",
        ".git/HEAD",
        ".git/index.lock",
        ".git/config.lock",
        ".git/commondir",
        ".git/refs/heads/config",
        ".git/logs/refs/heads/hooks/x",
        ".git/modules/a/refs/heads/config",
        ".git/hooks/pre-commit.sample",
        ".git/modules/a/hooks/x.sample",
        ".gitignore",
        "pyvenv.cfg",
        ".ssh/config",
        ".config/fish/config.fish",
        HOME "/.ipython/profile_default/history.sqlite-journal",
        HOME "/.ipython/profile_default/startup/README",
        HOME "/.ipython/profile_default/security/kernel.json",
        HOME "/.ipython/README",
    };
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    for (size_t i = 0; i < G_N_ELEMENTS(REFUSED); i++) {
        g_test_message("%s", REFUSED[i]);
        g_assert_cmpint(ask_file(rules, IPB_NAME_CREATE, REFUSED[i]), ==, IPB_NAME_REFUSED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_WRITE, REFUSED[i]), ==, IPB_NAME_REFUSED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_PUT, REFUSED[i]), ==, IPB_NAME_REFUSED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_REMOVE, REFUSED[i]), ==, IPB_NAME_REFUSED);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(ALLOWED); i++) {
        g_test_message("%s", ALLOWED[i]);
        g_assert_cmpint(ask_file(rules, IPB_NAME_CREATE, ALLOWED[i]), ==, IPB_NAME_ALLOWED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_WRITE, ALLOWED[i]), ==, IPB_NAME_ALLOWED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_PUT, ALLOWED[i]), ==, IPB_NAME_ALLOWED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_REMOVE, ALLOWED[i]), ==, IPB_NAME_ALLOWED);
    }
}

static void
test_reading(void)
{
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    g_assert_cmpint(ask_file(rules, IPB_NAME_READ, ".env"), ==, IPB_NAME_ALLOWED);
    g_assert_cmpint(ask_file(rules, IPB_NAME_READ, ".git/hooks/pre-commit"), ==, IPB_NAME_ALLOWED);
    g_assert_cmpint(ask_file(rules, IPB_NAME_READ, "a/.ipybox-new-12"), ==, IPB_NAME_REFUSED);
    g_assert_cmpint(ask_file(rules, IPB_NAME_READ, "a/.IPYBOX-NEW-12"), ==, IPB_NAME_REFUSED);
}

/* The names by which some file systems find the file, too. */
static void
test_spellings(void)
{
    static const char *const REFUSED[] = {
        ".BashRC",
        ".bashrc.",
        ".bashrc ",
        ".bashrc::$DATA",
        ".b\xe2\x80\x8b"
        "ashrc", /* zero-width space */
        "\xef\xbc\x8e"
        "bashrc",         /* fullwidth dot */
        ".ba\xc5\xbfhrc", /* long s */
        ".\xe2\x80\x8c"
        "env",
        ".GIT/hooks/pre-commit",
        "git~1/hooks/pre-commit",
        "GIT~1/HOOKS/pre-commit",
        ".g\xe2\x80\x8dit/hooks/x",
        ".VSCode/settings.json",
        ".Claude/Settings.JSON",
    };
    static const char *const ALLOWED[] = {
        "\xff\xfe.env", ".env\xff", "...", "\xc3\xa9nv", "bashrc\xe2\x80\x8b",
    };
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    for (size_t i = 0; i < G_N_ELEMENTS(REFUSED); i++) {
        g_test_message("%s", REFUSED[i]);
        g_assert_cmpint(ask_file(rules, IPB_NAME_CREATE, REFUSED[i]), ==, IPB_NAME_REFUSED);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(ALLOWED); i++)
        g_assert_cmpint(ask_file(rules, IPB_NAME_CREATE, ALLOWED[i]), ==, IPB_NAME_ALLOWED);
}

/* Programs that unpack give up if they cannot make a directory, and remove what they made. */
static void
test_directories(void)
{
    static const char *const NAMES[] = {ROOT "/.vscode", ROOT "/.claude/skills/x",
                                        ROOT "/.git/hooks", ROOT "/.git", ROOT "/.env"};
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    for (size_t i = 0; i < G_N_ELEMENTS(NAMES); i++) {
        IpbNameQuestion question = {.action = IPB_NAME_REMOVE,
                                    .kind = IPB_NAME_DIRECTORY,
                                    .path = NAMES[i],
                                    .root_size = strlen(ROOT),
                                    .is_rmdir = true};
        g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_ALLOWED);
        question.action = IPB_NAME_CREATE;
        g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_ALLOWED);
    }
}

static void
test_renames(void)
{
    static const struct {
        IpbNameAction action;
        IpbNameKind kind;
        const char *path, *source;
        bool is_allowed;
    } CASES[] = {
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, "b", "a", true},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".claude", "a", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".vscode", "a", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git", "a", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git", "sub/.git", true},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git/modules/sub", "sub/.git", true},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git", ".git/modules/sub", false}, /* fsmonitor */
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, "x", ".git", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, "x", ".git/modules/a", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, "x", "y.git", true},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git/refs/y", ".git/refs/x", true},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, "x.git", "a", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, "x.git", "a/.git", true},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, "x.git", "y.git", true},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git", "y.git", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, "a/.git/hooks", "a/.git/x", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git/x", "a", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git/refs/heads/x", "a", true},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".git/x", ".git/refs/x", false},
        {IPB_NAME_PUT, IPB_NAME_DIRECTORY, ".env", "a", true},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".claude", NULL, false},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".claude/commands", NULL, false},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".git", NULL, false},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".git/hooks", NULL, false},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".git/hooks/x.sample", NULL, false},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".git/config", NULL, false},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".gitmodules", NULL, false},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".git/HEAD", NULL, true},
        {IPB_NAME_PUT, IPB_NAME_LINK, ".venv", NULL, true},
        {IPB_NAME_CREATE, IPB_NAME_SPECIAL, ".git/config", NULL, false},
        {IPB_NAME_CREATE, IPB_NAME_SPECIAL, ".env", NULL, false},
        {IPB_NAME_CREATE, IPB_NAME_SPECIAL, ".git/fsmonitor--daemon.ipc", NULL, false},
        {IPB_NAME_CREATE, IPB_NAME_SPECIAL, "socket", NULL, true},
        {IPB_NAME_REMOVE, IPB_NAME_DIRECTORY, ".claude", NULL, false},
        {IPB_NAME_REMOVE, IPB_NAME_DIRECTORY, ".vscode", NULL, false},
        {IPB_NAME_REMOVE, IPB_NAME_DIRECTORY, ".git", NULL, true},
        {IPB_NAME_REMOVE, IPB_NAME_DIRECTORY, ".git/hooks", NULL, false},
        {IPB_NAME_REMOVE, IPB_NAME_DIRECTORY, "a", NULL, true},
        {IPB_NAME_REMOVE, IPB_NAME_FILE, ".git", NULL, true},
        {IPB_NAME_WRITE, IPB_NAME_DIRECTORY, ".vscode", NULL, false},
        {IPB_NAME_WRITE, IPB_NAME_DIRECTORY, ".git", NULL, true},
    };
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    for (size_t i = 0; i < G_N_ELEMENTS(CASES); i++) {
        g_autofree char *path = g_strconcat(ROOT "/", CASES[i].path, NULL);
        g_autofree char *source =
            CASES[i].source != NULL ? g_strconcat(ROOT "/", CASES[i].source, NULL) : NULL;
        g_test_message("%s from %s", CASES[i].path, CASES[i].source);
        IpbNameVerdict verdict = ask(rules, CASES[i].action, CASES[i].kind, path, source, NULL);
        g_assert_cmpint(verdict == IPB_NAME_ALLOWED, ==, CASES[i].is_allowed);
    }
}

static void
test_roots(void)
{
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    IpbNameQuestion question = {.action = IPB_NAME_CREATE, .kind = IPB_NAME_FILE};
    /* The root's own name counts, those above it do not. */
    question.path = "/srv/.vscode/x";
    question.root_size = strlen("/srv/.vscode");
    g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_REFUSED);
    question.path = "/srv/.vscode/a/x";
    question.root_size = strlen("/srv/.vscode/a");
    g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_ALLOWED);
    /* "/" is a root, too. */
    question.path = "/.bashrc";
    question.root_size = 1;
    g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_REFUSED);
    question.path = HOME "/.ssh/authorized_keys";
    g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_REFUSED);
    /* The home directory cannot be replaced. */
    question = (IpbNameQuestion){
        .action = IPB_NAME_REMOVE, .kind = IPB_NAME_DIRECTORY, .path = HOME, .root_size = 1};
    g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_REFUSED);
    question.path = "/home";
    g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_REFUSED);
    question.path = "/home/u2";
    g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_ALLOWED);
}

/* --- git -------------------------------------------------------------------------------------- */

static void
test_git_config(void)
{
    static const char *const PLACES[] = {".git/config",
                                         "a/.git/config",
                                         ".git/modules/x/y/config",
                                         "x.git/config",
                                         ".git/worktrees/a/config.worktree",
                                         "config.worktree"};
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    g_autoptr(IpbNameRules) open_rules = make_rules(NULL, true);
    for (size_t i = 0; i < G_N_ELEMENTS(PLACES); i++) {
        g_assert_cmpint(ask_file(rules, IPB_NAME_WRITE, PLACES[i]), ==, IPB_NAME_REFUSED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_CREATE, PLACES[i]), ==, IPB_NAME_REFUSED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_PUT, PLACES[i]), ==, IPB_NAME_PARSED);
        g_assert_cmpint(ask_file(rules, IPB_NAME_REMOVE, PLACES[i]), ==, IPB_NAME_ALLOWED);
        g_assert_cmpint(ask_file(open_rules, IPB_NAME_WRITE, PLACES[i]), ==, IPB_NAME_ALLOWED);
        g_assert_cmpint(ask_file(open_rules, IPB_NAME_PUT, PLACES[i]), ==, IPB_NAME_ALLOWED);
        g_autofree char *path = g_strconcat(ROOT "/", PLACES[i], NULL);
        IpbNameQuestion question = {
            .action = IPB_NAME_WRITE, .path = path, .root_size = strlen(ROOT), .is_mode = true};
        g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_ALLOWED);
    }
}

static void
test_bare_repositories(void)
{
    static const char *const HALF[] = {ROOT "/d/HEAD", ROOT "/d/config", NULL};
    static const char *const CLEAN[] = {ROOT "/d/HEAD", ROOT "/d/hooks", NULL};
    static const char *const WHOLE[] = {ROOT "/d/refs", ROOT "/d/objects", NULL};
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    g_assert_cmpint(ask(rules, IPB_NAME_CREATE, IPB_NAME_DIRECTORY, ROOT "/d/refs", NULL, HALF), ==,
                    IPB_NAME_REFUSED);
    g_assert_cmpint(ask(rules, IPB_NAME_PUT, IPB_NAME_LINK, ROOT "/d/objects", NULL, HALF), ==,
                    IPB_NAME_REFUSED);
    /* Without a look at hooks nothing is assumed of them. */
    IpbNameQuestion question = {.action = IPB_NAME_CREATE,
                                .kind = IPB_NAME_DIRECTORY,
                                .path = ROOT "/d/refs",
                                .root_size = strlen(ROOT),
                                .has_entry = has_entry,
                                .data = (void *) CLEAN};
    g_assert_cmpint(ipb_name_rules_judge(rules, &question).verdict, ==, IPB_NAME_REFUSED);
    question.has_other = has_only_samples;
    IpbNameJudgement judgement = ipb_name_rules_judge(rules, &question);
    g_assert_cmpint(judgement.verdict, ==, IPB_NAME_ALLOWED);
    g_assert_true(judgement.is_structural);
    /* In a repository, wherever it is. */
    g_assert_cmpint(ask(rules, IPB_NAME_CREATE, IPB_NAME_FILE, ROOT "/d/config", NULL, WHOLE), ==,
                    IPB_NAME_REFUSED);
    g_assert_cmpint(ask(rules, IPB_NAME_PUT, IPB_NAME_FILE, ROOT "/d/config", NULL, WHOLE), ==,
                    IPB_NAME_PARSED);
    g_assert_cmpint(ask(rules, IPB_NAME_CREATE, IPB_NAME_FILE, ROOT "/d/hooks/update", NULL, WHOLE),
                    ==, IPB_NAME_REFUSED);
    g_assert_cmpint(
        ask(rules, IPB_NAME_CREATE, IPB_NAME_FILE, ROOT "/d/hooks/update.sample", NULL, WHOLE), ==,
        IPB_NAME_ALLOWED);
    g_assert_cmpint(ask(rules, IPB_NAME_PUT, IPB_NAME_DIRECTORY, ROOT "/d/hooks", ROOT "/x", WHOLE),
                    ==, IPB_NAME_REFUSED);
    g_assert_cmpint(ask(rules, IPB_NAME_PUT, IPB_NAME_FILE, ROOT "/d/HEAD", NULL, WHOLE), ==,
                    IPB_NAME_ALLOWED);
}

/* --- allowNames ------------------------------------------------------------------------------- */

static void
test_allowed_names(void)
{
    static const char *const PATTERNS[] = {
        ".vscode/**", "~/.ssh/known_hosts", ".git/hooks/**",      "sub/.zed/**",
        ".env",       "*.code-workspace",   ".claude/settings.*", NULL};
    g_autoptr(IpbNameRules) rules = make_rules(PATTERNS, false);
    static const char *const ALLOWED[] = {".vscode/a/b",
                                          HOME "/.ssh/known_hosts",
                                          ".git/hooks/x",
                                          "sub/.zed/settings.json",
                                          "a/.env",
                                          "x.code-workspace",
                                          ".claude/settings.local.json"};
    static const char *const REFUSED[] = {".vs/x", HOME "/.ssh/config", ".zed/x",
                                          ".claude/agents/x"};
    for (size_t i = 0; i < G_N_ELEMENTS(ALLOWED); i++)
        g_assert_cmpint(ask_file(rules, IPB_NAME_CREATE, ALLOWED[i]), ==, IPB_NAME_ALLOWED);
    for (size_t i = 0; i < G_N_ELEMENTS(REFUSED); i++)
        g_assert_cmpint(ask_file(rules, IPB_NAME_CREATE, REFUSED[i]), ==, IPB_NAME_REFUSED);
    /* What is allowed in one place does not get to another. */
    g_assert_cmpint(ask(rules, IPB_NAME_PUT, IPB_NAME_DIRECTORY, ROOT "/other", ROOT "/sub", NULL),
                    ==, IPB_NAME_REFUSED);
    g_assert_cmpint(ask(rules, IPB_NAME_PUT, IPB_NAME_DIRECTORY, ROOT "/.vscode", ROOT "/a", NULL),
                    ==, IPB_NAME_ALLOWED);
}

static void
test_patterns(void)
{
    static const char *const BAD[] = {"",     "/a",     "a//b", "a/", "..",  "a/../b",
                                      ".",    "**",     "/**",  "*",  "a**", "a/*",
                                      "**/a", "a/**/b", "a*b*", "~/", "~/**"};
    static const char *const GOOD[] = {"a", ".a/b", "a/**", "~/a", "*.x", "a*", "a/b*c/d/**"};
    for (size_t i = 0; i < G_N_ELEMENTS(BAD); i++) {
        g_test_message("%s", BAD[i]);
        g_assert_nonnull(ipb_name_pattern_flaw(BAD[i]));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(GOOD); i++)
        g_assert_cmpstr(ipb_name_pattern_flaw(GOOD[i]), ==, NULL);
}

static void
test_too_many_patterns(void)
{
    g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_closed();
    g_strfreev(policy->allow_names);
    policy->allow_names = g_new0(char *, 2001);
    for (unsigned i = 0; i < 2000; i++)
        policy->allow_names[i] = g_strdup_printf("name%u", i);
    g_autoptr(GError) error = NULL;
    g_assert_null(ipb_name_rules_new(policy, HOME, &error));
    g_assert_error(error, IPYBOX_ERROR, IPYBOX_ERROR_INVALID);
}

/* Each row of the table has its texts, and is a pattern that allowNames takes. */
static void
test_table(void)
{
    size_t n = 0;
    for (const IpbNameRule *rule; (rule = ipb_name_rules_at(n)) != NULL; n++) {
        g_assert_true(rule->pattern[0] != '\0' && rule->who[0] != '\0' && rule->refused[0] != '\0');
        if (strstr(rule->pattern, "**/") == NULL)
            g_assert_cmpstr(ipb_name_pattern_flaw(rule->pattern), ==, NULL);
    }
    g_assert_cmpuint(n, >, 100);
}

/* --- many random calls ------------------------------------------------------------------------ */

/* A file system in memory. The owner of contents is what the test is about. */
typedef struct Node Node;
struct Node {
    IpbNameKind kind;
    bool is_judged; /* contents were accepted by a parser, or are the host's */
    unsigned n_links;
    GHashTable *entries; /* of a directory: name → Node */
};

static Node *
new_node(IpbNameKind kind, bool is_judged)
{
    Node *node = g_new0(Node, 1);
    node->kind = kind;
    node->is_judged = is_judged;
    if (kind == IPB_NAME_DIRECTORY)
        node->entries = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return node;
}

static void
unref_node(Node *node)
{
    GHashTableIter iter;
    void *child;
    if (--node->n_links > 0)
        return;
    if (node->entries != NULL) {
        g_hash_table_iter_init(&iter, node->entries);
        while (g_hash_table_iter_next(&iter, NULL, &child))
            unref_node(child);
        g_hash_table_unref(node->entries);
    }
    g_free(node);
}

typedef struct {
    Node *root; /* at ROOT */
    const IpbNameRules *rules;
} World;

static Node *
look_up(const World *world, const char *path, size_t size)
{
    g_autofree char *copy = g_strndup(path, size);
    g_auto(GStrv) names = g_strsplit(copy + strlen(ROOT), "/", -1);
    Node *node = world->root;
    for (char **name = names; *name != NULL && node != NULL; name++)
        if (**name != '\0')
            node = node->entries != NULL ? g_hash_table_lookup(node->entries, *name) : NULL;
    return node;
}

static bool
world_has_entry(const char *path, size_t directory_size, const char *name, void *data)
{
    const Node *node = look_up(data, path, directory_size);
    return node != NULL && node->entries != NULL && g_hash_table_contains(node->entries, name);
}

static bool
world_has_other(const char *path, size_t directory_size, const char *suffix, void *data)
{
    const Node *node = look_up(data, path, directory_size);
    if (node == NULL || node->entries == NULL)
        return true;
    GHashTableIter iter;
    void *name;
    g_hash_table_iter_init(&iter, node->entries);
    while (g_hash_table_iter_next(&iter, &name, NULL))
        if (!g_str_has_suffix(name, suffix))
            return true;
    return false;
}

static IpbNameVerdict
ask_world(World *world, IpbNameAction action, IpbNameKind kind, const char *path,
          const char *source, bool is_rmdir)
{
    const IpbNameQuestion question = {
        .action = action,
        .kind = kind,
        .path = path,
        .root_size = strlen(ROOT),
        .source = source,
        .source_root_size = strlen(ROOT),
        .is_rmdir = is_rmdir,
        .has_entry = world_has_entry,
        .has_other = world_has_other,
        .data = world,
    };
    return world->rules != NULL ? ipb_name_rules_judge(world->rules, &question).verdict
                                : IPB_NAME_ALLOWED;
}

static const char *const ALPHABET[] = {
    ".git",    "config",        "hooks",           "HEAD",    "refs",     "objects", "modules",
    "a",       "x.git",         "pre-commit",      ".claude", "commands", ".vscode", "y.sample",
    ".bashrc", "settings.json", "config.worktree", "logs",    "remotes"};

static char *
random_path(GRand *random)
{
    GString *path = g_string_new(ROOT);
    int n = g_rand_int_range(random, 1, 6);
    for (int i = 0; i < n; i++)
        g_string_append_printf(path, "/%s",
                               ALPHABET[g_rand_int_range(random, 0, G_N_ELEMENTS(ALPHABET))]);
    return g_string_free(path, FALSE);
}

static Node *
directory_of(const World *world, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash + 1;
    Node *node = look_up(world, path, (size_t) (slash - path));
    return node != NULL && node->kind == IPB_NAME_DIRECTORY ? node : NULL;
}

static void
link_node(Node *directory, const char *name, Node *node)
{
    node->n_links++;
    g_hash_table_insert(directory->entries, g_strdup(name), node);
}

static void
unlink_name(Node *directory, const char *name)
{
    Node *node = g_hash_table_lookup(directory->entries, name);
    g_hash_table_remove(directory->entries, name);
    unref_node(node);
}

/* PUT: performed by a backend as it should be. A parser may accept: then there is a new file. */
static void
put(World *world, Node *directory, const char *name, const char *path, Node *node,
    const char *source, bool is_rename)
{
    IpbNameVerdict verdict =
        ask_world(world, IPB_NAME_PUT, node->kind, path, is_rename ? source : NULL, false);
    if (verdict == IPB_NAME_REFUSED)
        return;
    const char *source_name;
    Node *from = is_rename ? directory_of(world, source, &source_name) : NULL;
    if (from != NULL &&
        ask_world(world, IPB_NAME_REMOVE, node->kind, source, NULL, false) == IPB_NAME_REFUSED)
        return;
    if (source != NULL && !is_rename &&
        ask_world(world, IPB_NAME_WRITE, node->kind, source, NULL, false) == IPB_NAME_REFUSED)
        return;
    node->n_links++;
    if (from != NULL)
        unlink_name(from, source_name);
    if (g_hash_table_contains(directory->entries, name))
        unlink_name(directory, name);
    if (verdict == IPB_NAME_PARSED)
        link_node(directory, name, new_node(IPB_NAME_FILE, true));
    else
        link_node(directory, name, node);
    unref_node(node);
}

static void
create(World *world, Node *directory, const char *name, const char *path, IpbNameKind kind)
{
    IpbNameAction action = kind == IPB_NAME_LINK ? IPB_NAME_PUT : IPB_NAME_CREATE;
    if (g_hash_table_contains(directory->entries, name) ||
        ask_world(world, action, kind, path, NULL, false) != IPB_NAME_ALLOWED)
        return;
    link_node(directory, name, new_node(kind, kind == IPB_NAME_DIRECTORY));
}

static bool
is_below(const char *path, const char *above)
{
    size_t size = strlen(above);
    return strncmp(path, above, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

static bool
may_replace(const Node *node, const Node *old)
{
    if (old == NULL)
        return true;
    bool is_directory = node->kind == IPB_NAME_DIRECTORY;
    if (is_directory != (old->kind == IPB_NAME_DIRECTORY))
        return false;
    return !is_directory || g_hash_table_size(old->entries) == 0;
}

static void
exchange(World *world, Node *first, const char *first_name, const char *first_path, Node *second,
         const char *second_name, const char *second_path)
{
    Node *a = g_hash_table_lookup(first->entries, first_name);
    Node *b = g_hash_table_lookup(second->entries, second_name);
    if (a == NULL || b == NULL || is_below(first_path, second_path) ||
        is_below(second_path, first_path))
        return;
    if (ask_world(world, IPB_NAME_PUT, a->kind, second_path, first_path, false) !=
            IPB_NAME_ALLOWED ||
        ask_world(world, IPB_NAME_PUT, b->kind, first_path, second_path, false) !=
            IPB_NAME_ALLOWED ||
        ask_world(world, IPB_NAME_REMOVE, a->kind, first_path, NULL, false) != IPB_NAME_ALLOWED ||
        ask_world(world, IPB_NAME_REMOVE, b->kind, second_path, NULL, false) != IPB_NAME_ALLOWED)
        return;
    g_hash_table_insert(first->entries, g_strdup(first_name), b);
    g_hash_table_insert(second->entries, g_strdup(second_name), a);
}

static void
step(World *world, GRand *random)
{
    g_autofree char *path = random_path(random);
    g_autofree char *other = random_path(random);
    const char *name, *other_name;
    Node *directory = directory_of(world, path, &name);
    Node *other_directory = directory_of(world, other, &other_name);
    if (directory == NULL)
        return;
    Node *node = g_hash_table_lookup(directory->entries, name);
    switch (g_rand_int_range(random, 0, 9)) {
    case 0:
        create(world, directory, name, path, IPB_NAME_FILE);
        break;
    case 1:
    case 2:
        create(world, directory, name, path, IPB_NAME_DIRECTORY);
        break;
    case 3:
        create(world, directory, name, path, IPB_NAME_LINK);
        break;
    case 4:
        if (node != NULL && node->kind == IPB_NAME_FILE &&
            ask_world(world, IPB_NAME_WRITE, node->kind, path, NULL, false) == IPB_NAME_ALLOWED)
            node->is_judged = false;
        break;
    case 5:
    case 6:
        if (node != NULL && other_directory != NULL && !is_below(other, path) &&
            may_replace(node, g_hash_table_lookup(other_directory->entries, other_name)))
            put(world, other_directory, other_name, other, node, path, true);
        break;
    case 7:
        if (node != NULL && node->kind == IPB_NAME_FILE && other_directory != NULL &&
            !g_hash_table_contains(other_directory->entries, other_name))
            put(world, other_directory, other_name, other, node, path, false);
        else if (other_directory != NULL)
            exchange(world, directory, name, path, other_directory, other_name, other);
        break;
    case 8:
        if (node == NULL)
            break;
        bool is_directory = node->kind == IPB_NAME_DIRECTORY;
        if (is_directory && g_hash_table_size(node->entries) > 0)
            break;
        if (ask_world(world, IPB_NAME_REMOVE, node->kind, path, NULL, is_directory) ==
            IPB_NAME_ALLOWED)
            unlink_name(directory, name);
        break;
    }
}

/* --- what must not be found in a tree, written without the rules --- */

static char *
find_bad_file(const Node *parent, const char *path, const char *name, const char *harmless)
{
    const Node *directory = g_hash_table_lookup(parent->entries, name);
    GHashTableIter iter;
    void *key, *value;
    if (directory != NULL && directory->kind == IPB_NAME_LINK)
        return g_strconcat(path, "/", name, NULL);
    if (directory == NULL || directory->entries == NULL)
        return NULL;
    g_hash_table_iter_init(&iter, directory->entries);
    while (g_hash_table_iter_next(&iter, &key, &value))
        if (((Node *) value)->kind != IPB_NAME_DIRECTORY && !g_str_has_suffix(key, harmless))
            return g_strconcat(path, "/", name, "/", key, NULL);
    return NULL;
}

/* git also needs HEAD, but it may be in another directory, with a commondir. */
static char *
find_bad_part(const Node *directory, const char *path, unsigned *n_seen)
{
    if (!g_hash_table_contains(directory->entries, "objects") ||
        !g_hash_table_contains(directory->entries, "refs"))
        return NULL;
    const Node *config = g_hash_table_lookup(directory->entries, "config");
    ++*n_seen;
    if (config != NULL && config->kind != IPB_NAME_DIRECTORY &&
        (config->kind == IPB_NAME_LINK || !config->is_judged))
        return g_strconcat(path, "/config", NULL);
    char *found = find_bad_file(directory, path, "hooks", ".sample");
    return found != NULL ? found : find_bad_file(directory, path, "remotes", "/");
}

static bool
is_bad(const Node *node, const char *name, const char *above)
{
    static const char *const FILES[] = {".bashrc", "config.worktree", NULL};
    static const char *const TREES[] = {".vscode", ".claude", NULL};
    bool is_in_claude = strcmp(above, ".claude") == 0;
    if (node->kind == IPB_NAME_LINK &&
        (g_strv_contains(TREES, name) || (is_in_claude && strcmp(name, "commands") == 0)))
        return true;
    return (node->kind == IPB_NAME_LINK || !node->is_judged) &&
           (g_strv_contains(FILES, name) || (is_in_claude && strcmp(name, "settings.json") == 0));
}

static char *
find_bad(const Node *node, const char *path, const char *name, const char *above, unsigned *n_seen)
{
    GHashTableIter iter;
    void *key, *value;
    if (is_bad(node, name, above))
        return g_strdup(path);
    if (node->kind != IPB_NAME_DIRECTORY)
        return NULL;
    char *found = find_bad_part(node, path, n_seen);
    bool is_tree = strcmp(name, ".vscode") == 0 ||
                   (strcmp(above, ".claude") == 0 && strcmp(name, "commands") == 0);
    g_hash_table_iter_init(&iter, node->entries);
    while (found == NULL && g_hash_table_iter_next(&iter, &key, &value)) {
        g_autofree char *below = g_strconcat(path, "/", key, NULL);
        if (is_tree && ((Node *) value)->kind != IPB_NAME_DIRECTORY)
            return g_steal_pointer(&below);
        found = find_bad(value, below, key, name, n_seen);
    }
    return found;
}

/* Returns what was found, or NULL. @rules: NULL: every call is allowed. */
static char *
make_calls(const IpbNameRules *rules, GRand *random, unsigned *n_repositories)
{
    World world = {new_node(IPB_NAME_DIRECTORY, true), rules};
    char *found = NULL;
    world.root->n_links = 1;
    for (unsigned i = 0; i < 3000 && found == NULL; i++) {
        step(&world, random);
        if (i % 50 == 0)
            found = find_bad(world.root, "", "work", "", n_repositories);
    }
    unref_node(world.root);
    return found;
}

/* Whatever code inside does with allowed calls: no name that is protected gets contents that it
 * chose. */
static void
test_random_calls(void)
{
    g_autoptr(IpbNameRules) rules = make_rules(NULL, false);
    GRand *random = g_rand_new_with_seed((guint32) g_test_rand_int());
    unsigned n_repositories = 0;
    for (unsigned round = 0; round < 600; round++) {
        g_autofree char *found = make_calls(rules, random, &n_repositories);
        g_assert_cmpstr(found, ==, NULL);
    }
    /* Otherwise the test shows little. */
    g_assert_cmpuint(n_repositories, >, 100);
    /* Without rules, something is found at once. */
    g_autofree char *bad = make_calls(NULL, random, &n_repositories);
    g_assert_nonnull(bad);
    g_rand_free(random);
}

/* --- the page --------------------------------------------------------------------------------- */

/* One line for each run of blanks. */
static char *
squeeze(const char *text)
{
    GString *squeezed = g_string_new(NULL);
    for (; *text != '\0'; text++)
        if (!g_ascii_isspace(*text))
            g_string_append_c(squeezed, *text);
        else if (squeezed->len > 0 && squeezed->str[squeezed->len - 1] != ' ')
            g_string_append_c(squeezed, ' ');
    return g_string_free(squeezed, FALSE);
}

static bool
is_like(const IpbNameRule *a, const IpbNameRule *b)
{
    return g_str_equal(a->who, b->who) && g_str_equal(a->refused, b->refused) &&
           g_str_equal(a->key, b->key);
}

/* What the page has for rows that say the same about several names. */
static char *
make_item(size_t *index)
{
    const IpbNameRule *first = ipb_name_rules_at(*index), *rule;
    GString *item = g_string_new(NULL);
    for (; (rule = ipb_name_rules_at(*index)) != NULL && is_like(rule, first); ++*index)
        g_string_append_printf(item, "%s`%s`", rule == first ? "- " : ", ", rule->pattern);
    g_string_append_printf(item, ": %s", first->who);
    if (!g_str_equal(first->refused, "changes"))
        g_string_append_printf(item, ". Refused: %s", first->refused);
    if (*first->key != '\0' && !g_str_equal(first->key, "allowNames"))
        g_string_append_printf(item, ". Key: `%s`", first->key);
    return g_string_free(item, FALSE);
}

/* docs/name-rules.md has the rows of the table, in their order, and no others. */
static void
test_page(void)
{
    g_autofree char *path = g_test_build_filename(G_TEST_DIST, "../../docs/name-rules.md", NULL);
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    char *start = strstr(text, "\n### ");
    g_assert_nonnull(start);
    g_autoptr(GString) rows = g_string_new(NULL);
    g_auto(GStrv) lines = g_strsplit(start, "\n", -1);
    for (char **line = lines; *line != NULL; line++)
        if (!g_str_has_prefix(*line, "#"))
            g_string_append_printf(rows, "%s ", *line);
    g_autoptr(GString) expected = g_string_new(NULL);
    for (size_t i = 0; ipb_name_rules_at(i) != NULL;) {
        g_autofree char *item = make_item(&i);
        g_string_append_printf(expected, "%s ", item);
    }
    g_autofree char *found = squeeze(rows->str);
    g_assert_cmpstr(found, ==, expected->str);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/name-rules/files", test_files);
    g_test_add_func("/name-rules/reading", test_reading);
    g_test_add_func("/name-rules/spellings", test_spellings);
    g_test_add_func("/name-rules/directories", test_directories);
    g_test_add_func("/name-rules/renames", test_renames);
    g_test_add_func("/name-rules/roots", test_roots);
    g_test_add_func("/name-rules/git-config", test_git_config);
    g_test_add_func("/name-rules/bare-repositories", test_bare_repositories);
    g_test_add_func("/name-rules/allowed-names", test_allowed_names);
    g_test_add_func("/name-rules/patterns", test_patterns);
    g_test_add_func("/name-rules/too-many-patterns", test_too_many_patterns);
    g_test_add_func("/name-rules/table", test_table);
    g_test_add_func("/name-rules/random-calls", test_random_calls);
    g_test_add_func("/name-rules/page", test_page);
    return g_test_run();
}
