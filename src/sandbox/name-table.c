/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the line is drawn: a name is in the table if a program runs it, or takes from it what to
 * run, merely because it is there: when a shell starts, a directory is entered or opened, a commit
 * is made. What a person runs on purpose (Makefile, package.json, tests) is not.
 *
 * The order matters: the first row that says something about a name decides.
 */
#include "sandbox/name-table.h"

#define WRITE IPB_ACTION_BIT(IPB_NAME_WRITE)
#define CREATE IPB_ACTION_BIT(IPB_NAME_CREATE)
#define PUT IPB_ACTION_BIT(IPB_NAME_PUT)
#define REMOVE IPB_ACTION_BIT(IPB_NAME_REMOVE)
#define READ IPB_ACTION_BIT(IPB_NAME_READ)
#define CHANGES (WRITE | CREATE | PUT | REMOVE)

#define REFUSED(pattern, who)                                                                      \
    {                                                                                              \
        {pattern, who, "changes", "allowNames"}, IPB_ROW_REFUSED, IPB_PARSER_NONE, CHANGES, false  \
    }
#define ALLOWED(pattern, who)                                                                      \
    {                                                                                              \
        {pattern, who, "nothing", ""}, IPB_ROW_ALLOWED, IPB_PARSER_NONE, 0, false                  \
    }
#define MENTIONED(pattern, who)                                                                    \
    {                                                                                              \
        {pattern, who, "nothing", ""}, IPB_ROW_MENTIONED, IPB_PARSER_NONE, 0, true                 \
    }
#define PARSED(pattern, who, refused, key, parser)                                                 \
    {                                                                                              \
        {pattern, who, refused, key}, IPB_ROW_PARSED, parser, WRITE | CREATE, true                 \
    }
#define GIT(pattern, who, refused, key, parser)                                                    \
    {                                                                                              \
        {pattern, who, refused, key}, IPB_ROW_GIT, parser, 0, true                                 \
    }

#define FIRST_GIT_ROW 1

const IpbNameRow IPB_NAME_TABLE[] = {
    /* ipybox */
    {{IPB_NAME_OWN_PREFIX "*", "ipybox writes checked contents to it", "everything", "allowNames"},
     IPB_ROW_REFUSED,
     IPB_PARSER_NONE,
     CHANGES | READ,
     true},
    /* git: FIRST_GIT_ROW, in the order of IpbGitRow */
    GIT(".git/**/config", "git runs programs that it names",
        "changes in place, and contents with keys that may run something", "allowGitConfig",
        IPB_PARSER_GIT_CONFIG),
    GIT(".git/**/hooks/**", "git runs it", "changes of all but *.sample", "allowNames",
        IPB_PARSER_NONE),
    GIT(".git/**/remotes/**", "git fetches what it names", "changes", "allowNames",
        IPB_PARSER_NONE),
    GIT(".git/**/branches/**", "git fetches what it names", "changes", "allowNames",
        IPB_PARSER_NONE),
    GIT(".git", "git uses it as a repository",
        "making it a symbolic link, renaming an ordinary directory to it, and moving it elsewhere",
        "allowNames", IPB_PARSER_NONE),
    PARSED("config.worktree", "git runs programs that it names",
           "changes in place, and contents with keys that may run something", "allowGitConfig",
           IPB_PARSER_GIT_CONFIG),
    PARSED("git-rebase-todo", "git runs the commands in it",
           "changes in place, and contents with \"exec\"", "allowNames", IPB_PARSER_GIT_TODO),
    {{".gitmodules", "git fetches what it names",
      "changes in place, and renaming a file with other keys to it", "allowNames"},
     IPB_ROW_PARSED,
     IPB_PARSER_GIT_MODULES,
     WRITE,
     true},
    {{".git/fsmonitor--daemon.ipc", "git asks it which files changed", "changes", "allowNames"},
     IPB_ROW_REFUSED,
     IPB_PARSER_NONE,
     CHANGES,
     true},
    REFUSED(".gitconfig", "git runs programs that it names"),
    REFUSED("~/.config/git/**", "git runs programs that it names"),
    MENTIONED("commondir",
              "git looks for configuration and hooks where it says; other rules protect them"),
    MENTIONED("gitdir", "git finds a working tree by it; other rules protect the repository"),
    REFUSED(".husky/**", "git's hooks are often in it"),
    REFUSED(".githooks/**", "git's hooks are often in it"),
    REFUSED(".pre-commit-config.yaml", "pre-commit runs what it names when a commit is made"),
    REFUSED("lefthook.yml", "lefthook runs what it names when a commit is made"),
    REFUSED("lefthook.yaml", "lefthook runs what it names when a commit is made"),
    REFUSED(".lefthook.yml", "lefthook runs what it names when a commit is made"),
    REFUSED(".lefthook.yaml", "lefthook runs what it names when a commit is made"),
    REFUSED(".lefthook/**", "lefthook runs it when a commit is made"),
    REFUSED(".hg/hgrc", "Mercurial runs hooks that it names"),
    REFUSED(".hgrc", "Mercurial runs hooks that it names"),
    REFUSED(".jj/repo/config.toml", "jj runs programs that it names"),
    /* shells */
    REFUSED(".bashrc", "bash runs it"),
    REFUSED(".bash_profile", "bash runs it"),
    REFUSED(".bash_login", "bash runs it"),
    REFUSED(".bash_logout", "bash runs it"),
    REFUSED(".bash_aliases", "bash runs it"),
    REFUSED(".profile", "shells run it"),
    REFUSED(".zshrc", "zsh runs it"),
    REFUSED(".zprofile", "zsh runs it"),
    REFUSED(".zshenv", "zsh runs it"),
    REFUSED(".zlogin", "zsh runs it"),
    REFUSED(".zlogout", "zsh runs it"),
    REFUSED(".kshrc", "ksh runs it"),
    REFUSED(".mkshrc", "ksh runs it"),
    REFUSED(".cshrc", "csh runs it"),
    REFUSED(".tcshrc", "csh runs it"),
    REFUSED("~/.login", "csh runs it"),
    REFUSED("~/.logout", "csh runs it"),
    REFUSED(".inputrc", "shells type what it binds to keys"),
    REFUSED("~/.config/fish/**", "fish runs it"),
    REFUSED("~/.local/share/fish/**", "fish runs it"),
    REFUSED("~/.xprofile", "desktops run or obey it at login"),
    REFUSED("~/.xinitrc", "desktops run or obey it at login"),
    REFUSED("~/.xsession", "desktops run or obey it at login"),
    REFUSED("~/.xsessionrc", "desktops run or obey it at login"),
    REFUSED("~/.pam_environment", "desktops run or obey it at login"),
    /* entering a directory */
    REFUSED(".envrc", "direnv runs it"),
    REFUSED(".direnv/**", "direnv runs what is in it"),
    REFUSED("~/.config/direnv/**", "direnv runs it"),
    REFUSED(".env", "ipybox and others take variables from it"),
    REFUSED("mise.toml", "mise runs hooks and sets variables from it"),
    REFUSED(".mise.toml", "mise runs hooks and sets variables from it"),
    REFUSED(".mise/**", "mise runs hooks and sets variables from it"),
    REFUSED(".config/mise/**", "mise runs hooks and sets variables from it"),
    REFUSED(".tool-versions", "shells find programs where it says"),
    /* agents */
    REFUSED(".claude/commands/**", "the agent obeys it"),
    REFUSED(".claude/agents/**", "the agent obeys it"),
    REFUSED(".claude/hooks/**", "the agent obeys it"),
    REFUSED(".claude/skills/**", "the agent obeys it"),
    REFUSED(".claude/plugins/**", "the agent obeys it"),
    REFUSED(".claude/settings*.json", "the agent runs hooks that it names"),
    REFUSED(".claude.json", "the agent starts the servers that it names"),
    REFUSED(".mcp.json", "MCP hosts start the servers that it names"),
    REFUSED(".cursor/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".windsurf/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".gemini/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".codex/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".opencode/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".agents/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".agent/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".kiro/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".roo/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".kilocode/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".continue/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".cline/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".amazonq/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".junie/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".qwen/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".goose/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".factory/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".augment/**", "the agent starts servers and obeys commands that it names"),
    REFUSED(".trae/**", "the agent starts servers and obeys commands that it names"),
    REFUSED("opencode.json", "the agent starts servers that it names"),
    REFUSED("opencode.jsonc", "the agent starts servers that it names"),
    REFUSED("crush.json", "the agent starts servers that it names"),
    REFUSED(".crush.json", "the agent starts servers that it names"),
    REFUSED(".aider.conf.yml", "the agent runs commands that it names"),
    REFUSED(".srt-settings.json", "it says what commands in sandboxes may do"),
    REFUSED("sandbox-config.json", "ipybox's plugins take from it what sandboxes may do"),
    /* editors */
    REFUSED(".vscode/**", "the editor runs what its settings name"),
    REFUSED(".idea/**", "the editor runs what its settings name"),
    REFUSED(".zed/**", "the editor runs what its settings name"),
    REFUSED(".fleet/**", "the editor runs what its settings name"),
    REFUSED(".vs/**", "the editor runs what its settings name"),
    REFUSED("*.code-workspace", "the editor runs what its settings name"),
    REFUSED(".devcontainer/**", "the editor runs commands that it names on this machine"),
    REFUSED(".devcontainer.json", "the editor runs commands that it names on this machine"),
    REFUSED(".vimrc", "vim runs it"),
    REFUSED(".exrc", "vim runs it"),
    REFUSED(".nvimrc", "vim runs it"),
    REFUSED(".nvim.lua", "vim runs it"),
    REFUSED("~/.vim/**", "vim runs it"),
    REFUSED("~/.config/nvim/**", "vim runs it"),
    REFUSED("~/.emacs", "Emacs runs it"),
    REFUSED("~/.emacs.d/**", "Emacs runs it"),
    REFUSED("~/.config/emacs/**", "Emacs runs it"),
    /* Python */
    ALLOWED("~/.ipython/profile_*/history.sqlite*", "IPython keeps its history in it"),
    ALLOWED("~/.ipython/profile_*/startup/README",
            "IPython writes it, and runs only *.py and *.ipy"),
    ALLOWED("~/.ipython/profile_*/log/**", "IPython writes it while cells run"),
    ALLOWED("~/.ipython/profile_*/pid/**", "IPython writes it while cells run"),
    ALLOWED("~/.ipython/profile_*/security/**", "IPython writes it while cells run"),
    REFUSED("~/.ipython/profile_*/**", "IPython runs it"),
    REFUSED("~/.ipython/ipython_*/**", "IPython runs it"),
    REFUSED("~/.ipython/extensions/**", "IPython and Jupyter run it"),
    REFUSED("~/.ipython/kernels/**", "IPython and Jupyter run it"),
    REFUSED("~/.ipython/nbextensions/**", "IPython and Jupyter run it"),
    REFUSED("~/.local/share/jupyter/kernels/**", "Jupyter runs it"),
    REFUSED("~/.local/share/jupyter/nbextensions/**", "Jupyter runs it"),
    REFUSED("~/.local/share/jupyter/labextensions/**", "Jupyter runs it"),
    REFUSED("~/Library/Jupyter/kernels/**", "Jupyter runs it"),
    REFUSED("~/Library/Jupyter/nbextensions/**", "Jupyter runs it"),
    REFUSED("~/Library/Jupyter/labextensions/**", "Jupyter runs it"),
    REFUSED("~/.jupyter/**", "Jupyter runs it"),
    REFUSED(".pdbrc", "Python's debugger runs it"),
    MENTIONED(
        "pyvenv.cfg",
        "Python reads it at its start; ipybox uses no environment that a sandbox could change"),
    /* other programs */
    REFUSED(".ripgreprc", "ripgrep runs programs that it names"),
    REFUSED(".gdbinit", "gdb runs it"),
    REFUSED(".lldbinit", "lldb runs it"),
    REFUSED("~/.sqliterc", "sqlite3 runs commands in it"),
    REFUSED("~/.psqlrc", "psql runs commands in it"),
    REFUSED("~/.ssh/**", "ssh and sshd run programs that it names, and accept keys that it lists"),
    REFUSED("~/.gnupg/**", "gpg runs programs that it names"),
    REFUSED("~/.npmrc", "package managers of JavaScript run programs that it names"),
    REFUSED("~/.yarnrc", "package managers of JavaScript run programs that it names"),
    REFUSED("~/.yarnrc.yml", "package managers of JavaScript run programs that it names"),
    REFUSED("~/.pip/**", "pip installs from where it says"),
    REFUSED("~/.config/pip/**", "pip installs from where it says"),
    REFUSED("~/.pydistutils.cfg", "pip installs from where it says"),
    REFUSED("~/.cargo/bin/**", "cargo and shells run it"),
    REFUSED("~/.cargo/env", "cargo and shells run it"),
    REFUSED("~/.cargo/config", "cargo and shells run it"),
    REFUSED("~/.cargo/config.toml", "cargo and shells run it"),
    REFUSED("~/.docker/**", "docker, kubectl and aws run helpers that it names"),
    REFUSED("~/.kube/**", "docker, kubectl and aws run helpers that it names"),
    REFUSED("~/.aws/**", "docker, kubectl and aws run helpers that it names"),
    REFUSED("~/.curlrc", "curl and wget write files where it says"),
    REFUSED("~/.wgetrc", "curl and wget write files where it says"),
    REFUSED("~/.tmux.conf", "tmux and screen run commands in it"),
    REFUSED("~/.config/tmux/**", "tmux and screen run commands in it"),
    REFUSED("~/.screenrc", "tmux and screen run commands in it"),
    REFUSED("~/.local/bin/**", "shells find programs in it"),
    REFUSED("~/bin/**", "shells find programs in it"),
    REFUSED("~/.config/autostart/**", "the desktop session starts or obeys it"),
    REFUSED("~/.config/systemd/**", "the desktop session starts or obeys it"),
    REFUSED("~/.config/environment.d/**", "the desktop session starts or obeys it"),
    REFUSED("~/.local/share/systemd/**", "the desktop session starts or obeys it"),
    REFUSED("~/.local/share/applications/**", "the desktop session starts or obeys it"),
    REFUSED("~/.local/share/dbus-1/**", "the desktop session starts or obeys it"),
    REFUSED("~/Library/LaunchAgents/**", "macOS starts it at login"),
};

const size_t IPB_NAME_TABLE_SIZE = G_N_ELEMENTS(IPB_NAME_TABLE);

const IpbNameRow *
ipb_name_table_git(IpbGitRow row)
{
    return &IPB_NAME_TABLE[FIRST_GIT_ROW + row];
}
