/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/git-config.h"

#include <string.h>

#include <gio/gio.h>

#include "base/file.h"

#define MODULE "/w/.git/modules/a/config"
#define LINKED "/w/top/.git/worktrees/linked/modules/a/config"
#define LINKED_ITSELF "/w/.git/worktrees/linked/config"

static bool
accepts_at(const char *path, const char *text)
{
    g_autofree char *reason = NULL;
    bool is_accepted = ipb_git_config_accepts(path, strlen("/w"), text, strlen(text), &reason);
    g_assert_true(is_accepted == (reason == NULL));
    return is_accepted;
}

static void
test_harmless(void)
{
    static const char *const TEXTS[] = {
        "",
        "\xef\xbb\xbf[core]\n\tbare = false\n",
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare\n; comment\n# another\n",
        "[user] name = \"A \\\"B\\\" C\" ; c\n email=a@b",
        ("[remote \"origin\"]\r\n\turl = git@example.com:a/b.git\r\n"
         "\tfetch = +refs/heads/*:refs/remotes/origin/*\r\n"),
        "[remote \"o\"]\nurl = https://u@example.com/x\npushurl = ../y\n",
        "[branch \"main\"]\nremote = origin\nmerge = refs/heads/main\n[branch \"l\"]\nremote = .\n",
        "[color \"diff\"]\nmeta = yellow\n[ADVICE]\ndetachedHead = false\n",
        "[submodule \"a\"]\n\tactive = true\n\turl = ../a\n\tupdate = rebase\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
        g_test_message("%s", TEXTS[i]);
        g_assert_true(accepts_at("/w/.git/config", TEXTS[i]));
    }
}

static void
test_dangerous(void)
{
    static const char *const TEXTS[] = {
        "[core]\nfsmonitor = x\n",
        "[core]fsmonitor=x",
        "[CORE]\nFsMonitor = x\n",
        "[core]\n bare = a\\\n b\n hooksPath = x\n",
        "[core] bare = \"x\" fsmonitor\n[core] sshCommand = x",
        "[a]\n[core]\nbare=1 ; \\\nfsmonitor=x\n", /* a comment does not continue */
        "[core]\neditor = x\n",
        "[core]\npager = x\n",
        "[core]\naskPass = x\n",
        "[core]\ngitProxy = x\n",
        "[core]\nprotectNTFS = false\n",
        "[core]\nattributesFile = x\n",
        "[include]\npath = x\n",
        "[includeIf \"gitdir:/\"]\npath = x\n",
        "[alias]\nst = !x\n",
        "[filter \"lfs\"]\nclean = x\n",
        "[diff \"x\"]\ntextconv = x\n",
        "[diff]\nexternal = x\n",
        "[merge \"x\"]\ndriver = x\n",
        "[credential]\nhelper = x\n",
        "[gpg]\nprogram = x\n",
        "[gpg \"ssh\"]\nprogram = x\n",
        "[url \"ext::x\"]\ninsteadOf = y\n",
        "[remote \"o\"]\nuploadpack = x\n",
        "[remote \"o\"]\nvcs = x\n",
        "[remote \"o\"]\nurl = ext::sh -c x\n",
        "[remote \"o\"]\nurl = -oProxyCommand=x\n",
        "[remote \"o\"]\nurl = ssh://-oProxyCommand=x/y\n",
        "[remote \"o\"]\nurl = other://x\n",
        "[remote \"o\"]\nurl = \"a\\nb\"\n",
        "[remote \"o\"]\nurl\n",
        "[remote.o]\nurl = fd::3\n",
        "[branch \"b\"]\nremote = ext::x\n",
        "[submodule \"s\"]\nupdate = !x\n",
        "[submodule \"s\"]\nurl = -x\n",
        "[gc]\nrecentObjectsHook = x\n",
        "[uploadpack]\npackObjectsHook = x\n",
        "[pack]\npackObjectsHook = x\n",
        "[man]\nviewer = x\n",
        "[core]\nworktree = /etc\n",
        "[core]\nworktree = ..\n", /* not in a submodule */
        "key = value\n",
        "[]\nkey = value\n",
        "[core\nbare = 1\n",
        "[core \"x]\nbare = 1\n",
        "[core]]\nbare = 1\n",
        "[core]\nbare = \"x\n",
        "[core]\nbare = \\x\n",
        "[core]\n1bare = x\n",
        "[core]\nbare : x\n",
        "[core \"a\"b]\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
        g_test_message("%s", TEXTS[i]);
        g_assert_false(accepts_at("/w/.git/config", TEXTS[i]));
    }
    g_autofree char *reason = NULL;
    g_assert_false(ipb_git_config_accepts("/w/.git/config", 2, "[core]\n\0", 8, &reason));
    g_clear_pointer(&reason, g_free);
    static const char FSMONITOR[] = "[core]\n\tfsmonitor = x\n";
    g_assert_false(
        ipb_git_config_accepts("/w/.git/config", 2, FSMONITOR, strlen(FSMONITOR), &reason));
    g_assert_nonnull(strstr(reason, "core.fsmonitor"));
}

static void
test_worktree(void)
{
    g_assert_true(accepts_at(MODULE, "[core]\nworktree = ../../../a\n"));
    g_assert_true(accepts_at(MODULE, "[core]\nworktree = ../../../deep/er\n"));
    g_assert_true(accepts_at(LINKED, "[core]\nworktree = ../../../../../../linked/a\n"));
    g_assert_false(accepts_at(LINKED, "[core]\nworktree = ../../../../../../../a\n"));
    g_assert_false(accepts_at(LINKED_ITSELF, "[core]\nworktree = ../../../a\n"));
    g_assert_true(accepts_at(MODULE, "[core]\nworktree = ../../..\n"));
    g_assert_false(accepts_at(MODULE, "[core]\nworktree = ../../../../a\n"));
    g_assert_false(accepts_at(MODULE, "[core]\nworktree = ../../../a/../../b\n"));
    g_assert_false(accepts_at(MODULE, "[core]\nworktree = ../../../a/..\n"));
    g_assert_false(accepts_at(MODULE, "[core]\nworktree = ../../../b/.git\n"));
    g_assert_false(accepts_at(MODULE, "[core]\nworktree = /w/a\n"));
    g_assert_false(accepts_at(MODULE, "[core]\nworktree\n"));
    g_assert_false(accepts_at("/w/x.git/config", "[core]\nworktree = ../a\n"));
}

static bool
accepts_modules(const char *text)
{
    g_autofree char *reason = NULL;
    return ipb_git_modules_accepts(text, strlen(text), &reason);
}

static void
test_modules(void)
{
    g_assert_true(accepts_modules("[submodule \"a\"]\n\tpath = a\n\turl = ../a\n\tbranch = .\n"));
    g_assert_false(accepts_modules("[submodule \"a\"]\n\tpath = -a\n"));
    g_assert_false(accepts_modules("[submodule \"a\"]\n\turl = ext::x\n"));
    g_assert_false(accepts_modules("[submodule \"a\"]\n\tupdate = !x\n"));
    g_assert_false(accepts_modules("[core]\n\tbare = true\n"));
}

static void
test_todo(void)
{
    static const char *const HARMLESS[] = {
        "",
        "pick 1234 text\n# exec x\n\n",
        ("  p 1\n\tfixup -C 2\r\nlabel onto\nreset onto\n"
         "merge -C 1 topic # x\nupdate-ref refs/heads/a\nbreak\nnoop\ndrop 2"),
    };
    static const char *const DANGEROUS[] = {"exec ls",   "x ls",        "pick 1\n  exec\tls\n",
                                            "\texec ls", "unknown x\n", "pick 1\r\nx ls\r\n",
                                            "EXEC ls"};
    for (size_t i = 0; i < G_N_ELEMENTS(HARMLESS); i++) {
        g_autofree char *reason = NULL;
        g_assert_true(ipb_git_todo_accepts(HARMLESS[i], strlen(HARMLESS[i]), &reason));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(DANGEROUS); i++) {
        g_autofree char *reason = NULL;
        g_assert_false(ipb_git_todo_accepts(DANGEROUS[i], strlen(DANGEROUS[i]), &reason));
        g_assert_nonnull(reason);
    }
}

/* --- the same as git -------------------------------------------------------------------------- */

static bool
on_entry(const char *name, const char *value, void *data)
{
    g_string_append_printf(data, "%s%s%s%c", name, value != NULL ? "\n" : "",
                           value != NULL ? value : "", '\1');
    return true;
}

#define N_ROUNDS 400

static const char *const PIECES[] = {
    "[",
    "]",
    "[core]",
    "[a \"",
    "\"]",
    "\"",
    "\\",
    "\n",
    "\r",
    "\r\n",
    " ",
    "\t",
    "=",
    " = ",
    "#",
    ";",
    "a",
    "B",
    "1",
    "-",
    ".",
    "\\n",
    "\\\"",
    "\\\n",
    "fsmonitor",
    "\xc3\xbc",
    "\xff",
    "[x.y]",
    "[b \"c\"]",
    "\v",
    "\xef\xbb\xbf",
    "key = v\n",
};

/* What `git config --list` reads from random files is what we read. */
static void
test_differential(void)
{
    g_autofree char *current = g_get_current_dir();
    g_autofree char *directory = ipb_file_make_temp_directory(current, "test-git-config-", NULL);
    g_autofree char *path = g_build_filename(directory, "config", NULL);
    const char *const argv[] = {"git", "config", "--file", path, "--list", "-z", NULL};
    unsigned n_read = 0;
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        static const char *const STARTS[] = {"", "[s]\n", "[s]\nk = ", "[s]\nk", "[a \""};
        static const char *const ENDS[] = {"", "\n", "\nj = x", "\"]\nj = x"};
        g_autoptr(GString) text =
            g_string_new(STARTS[g_test_rand_int_range(0, G_N_ELEMENTS(STARTS))]);
        int n = g_test_rand_int_range(0, 8);
        for (int i = 0; i < n; i++)
            g_string_append(text, PIECES[g_test_rand_int_range(0, G_N_ELEMENTS(PIECES))]);
        g_string_append(text, ENDS[g_test_rand_int_range(0, G_N_ELEMENTS(ENDS))]);
        g_assert_true(g_file_set_contents(path, text->str, (gssize) text->len, NULL));
        gsize size = 0;
        g_autoptr(GSubprocess) git = g_subprocess_newv(
            argv, G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_SILENCE, NULL);
        g_assert_nonnull(git);
        g_autoptr(GBytes) bytes = NULL;
        g_assert_true(g_subprocess_communicate(git, NULL, NULL, &bytes, NULL, NULL));
        const char *found = bytes != NULL ? g_bytes_get_data(bytes, &size) : "";
        g_autoptr(GString) expected = g_string_new_len(found, (gssize) size);
        for (gsize i = 0; i < expected->len; i++)
            if (expected->str[i] == '\0')
                expected->str[i] = '\1';
        g_autoptr(GString) ours = g_string_new(NULL);
        unsigned line;
        bool is_read = ipb_git_config_parse(text->str, text->len, on_entry, ours, &line);
        if (is_read != (g_subprocess_get_exit_status(git) == 0) ||
            (is_read && !g_string_equal(ours, expected))) {
            g_autofree char *shown = g_strescape(text->str, NULL);
            g_autofree char *a = g_strescape(ours->str, NULL);
            g_autofree char *b = g_strescape(expected->str, NULL);
            g_error("\"%s\": ours %d \"%s\", git %d \"%s\"", shown, is_read, a,
                    g_subprocess_get_exit_status(git), b);
        }
        n_read += is_read && ours->len > 0;
    }
    g_assert_cmpuint(n_read, >, 20);
    ipb_file_remove_tree(directory, NULL);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/sandbox/git-config/harmless", test_harmless);
    g_test_add_func("/sandbox/git-config/dangerous", test_dangerous);
    g_test_add_func("/sandbox/git-config/worktree", test_worktree);
    g_test_add_func("/sandbox/git-config/modules", test_modules);
    g_test_add_func("/sandbox/git-config/todo", test_todo);
    g_test_add_func("/sandbox/git-config/differential", test_differential);
    return g_test_run();
}
