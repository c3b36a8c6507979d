/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules for names and the parsers of git's files. The first byte says what is asked; the rest is a
 * path, or two with a new line between them, or the contents of a file.
 *
 * For any path, upper and lower case are judged alike, and a directory that could be renamed to a
 * name could not hold what is refused below that name. For any contents that a parser accepts, what
 * was dangerous alone is still refused behind them.
 */
#include <stdint.h>
#include <string.h>

#include "sandbox/git-config.h"
#include "sandbox/name-rules.h"

#define ROOT "/home/u/w"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
has_entry(const char *path, size_t directory_size, const char *name, void *data)
{
    g_assert(directory_size >= 1 && directory_size <= strlen(path));
    return false;
}

static IpbNameVerdict
ask(const IpbNameRules *rules, IpbNameAction action, IpbNameKind kind, const char *path,
    const char *source)
{
    const IpbNameQuestion question = {
        .action = action,
        .kind = kind,
        .path = path,
        .root_size = strlen(ROOT),
        .source = source,
        .source_root_size = strlen(ROOT),
        .has_entry = has_entry,
    };
    IpbNameJudgement judgement = ipb_name_rules_judge(rules, &question);
    g_assert(judgement.verdict == IPB_NAME_ALLOWED || judgement.rule != NULL);
    return judgement.verdict;
}

/* Whatever is refused below @target must have been refused below @source. */
static void
check_cover(const IpbNameRules *rules, const char *target, const char *source)
{
    static const char *const BELOW[] = {
        "config",      "hooks/update", "settings.json",    "commands/x",      "x",
        "a/b",         ".bashrc",      "modules/a/config", "origin",          "a/hooks/x",
        ".git/config", "config.toml",  "profile_x/y",      "config.worktree",
    };
    if (ask(rules, IPB_NAME_PUT, IPB_NAME_DIRECTORY, target, source) != IPB_NAME_ALLOWED)
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(BELOW); i++) {
        g_autofree char *there = g_strconcat(target, "/", BELOW[i], NULL);
        g_autofree char *here = g_strconcat(source, "/", BELOW[i], NULL);
        if (ask(rules, IPB_NAME_CREATE, IPB_NAME_FILE, there, NULL) == IPB_NAME_REFUSED)
            g_assert(ask(rules, IPB_NAME_CREATE, IPB_NAME_FILE, here, NULL) == IPB_NAME_REFUSED);
    }
}

static void
check_paths(const IpbNameRules *rules, char *text)
{
    char *newline = strchr(text, '\n');
    if (newline != NULL)
        *newline = '\0';
    g_autofree char *path = g_strconcat(ROOT "/", text, NULL);
    g_autofree char *upper = g_ascii_strup(text, -1);
    g_autofree char *upper_path = g_strconcat(ROOT "/", upper, NULL);
    for (int action = IPB_NAME_READ; action <= IPB_NAME_REMOVE; action++)
        for (int kind = IPB_NAME_FILE; kind <= IPB_NAME_SPECIAL; kind++)
            g_assert(ask(rules, (IpbNameAction) action, (IpbNameKind) kind, path, NULL) ==
                     ask(rules, (IpbNameAction) action, (IpbNameKind) kind, upper_path, NULL));
    if (newline == NULL || newline[1] == '\0' || *text == '\0')
        return;
    g_autofree char *source = g_strconcat(ROOT "/", newline + 1, NULL);
    check_cover(rules, path, source);
}

static void
check_contents(const char *text, size_t size)
{
    static const char DANGER[] = "\n[core]\n\tfsmonitor = x\n", EXEC[] = "\nexec x\n";
    g_autoptr(GByteArray) longer = g_byte_array_new();
    g_autofree char *reason = NULL, *more = NULL, *todo = NULL, *todo_more = NULL, *modules = NULL;
    g_byte_array_append(longer, (const guint8 *) text, (guint) size);
    g_byte_array_append(longer, (const guint8 *) DANGER, sizeof DANGER - 1);
    bool is_accepted = ipb_git_config_accepts(ROOT "/.git/config", 9, text, size, &reason);
    g_assert(is_accepted == (reason == NULL));
    g_assert(!ipb_git_config_accepts(ROOT "/.git/config", 9, (const char *) longer->data,
                                     longer->len, &more) ||
             size > 0);
    /* A value may go on behind a "\\" at the end, so nothing else can be said then. */
    if (size == 0 || text[size - 1] != '\\')
        g_assert(more != NULL);
    g_byte_array_set_size(longer, (guint) size);
    g_byte_array_append(longer, (const guint8 *) EXEC, sizeof EXEC - 1);
    ipb_git_todo_accepts(text, size, &todo);
    g_assert(!ipb_git_todo_accepts((const char *) longer->data, longer->len, &todo_more));
    ipb_git_modules_accepts(text, size, &modules);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static IpbNameRules *rules;
    if (rules == NULL) {
        g_autoptr(IpbSandboxPolicy) policy = ipb_sandbox_policy_closed();
        rules = ipb_name_rules_new(policy, "/home/u", NULL);
        g_assert(rules != NULL);
    }
    if (size == 0)
        return 0;
    g_autofree char *text = g_strndup((const char *) data + 1, size - 1);
    if (data[0] == 'p')
        check_paths(rules, text);
    else if (data[0] == 'a')
        g_assert(ipb_name_pattern_flaw(text) == NULL || *ipb_name_pattern_flaw(text) != '\0');
    else
        check_contents((const char *) data + 1, size - 1);
    return 0;
}
