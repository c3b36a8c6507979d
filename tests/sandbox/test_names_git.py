# SPDX-License-Identifier: Apache-2.0
"""Attack suite I, git: what its files say decides. And git at work.

git on the host judges: after each attack it is asked what it would run, or works and runs it.
"""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from box import Box, make_settings
from kernels import Kernels
from names_hand import Inside, give, hand, kernel_hand, make, remove, state

# Of the user, whom code inside cannot change. It may use repositories of other users.
GLOBAL = """
[user]
    name = me
    email = me@example.org
[safe]
    directory = *
[protocol "file"]
    allow = always
[advice]
    detachedHead = false
"""


@pytest.fixture
def workspace(box: Box) -> Path:
    (box.place.home / ".gitconfig").write_text(GLOBAL)
    return box.place.workspace


def host(box: Box, *words: str, at: str = ".") -> subprocess.CompletedProcess[str]:
    """git outside."""
    return subprocess.run(
        ["git", *words],
        cwd=box.place.workspace / at,
        env=box.place.environ,
        capture_output=True,
        text=True,
    )


def make_repository(box: Box, user: str, at: str = ".") -> None:
    """A repository with a commit, as the user has it."""
    (box.place.workspace / at).mkdir(exist_ok=True)
    (box.place.workspace / at / "file").write_text("text\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        done = host(box, *words, at=at)
        assert done.returncode == 0, done.stderr
    box.prepare(user)


# --- configuration ---

# A program runs for each of them, sooner or later.
EVIL = {
    "core.fsmonitor": "evil",
    "core.hooksPath": "evil",
    "core.sshCommand": "evil",
    "core.pager": "evil",
    "core.editor": "evil",
    "core.askPass": "evil",
    "core.gitProxy": "evil",
    "core.attributesFile": "evil",
    "core.worktree": "/",
    "core.alternateRefsCommand": "evil",
    "sequence.editor": "evil",
    "alias.st": "!evil",
    "diff.external": "evil",
    "diff.x.command": "evil",
    "diff.x.textconv": "evil",
    "filter.x.clean": "evil",
    "filter.x.smudge": "evil",
    "filter.x.process": "evil",
    "merge.x.driver": "evil",
    "mergetool.x.cmd": "evil",
    "difftool.x.cmd": "evil",
    "include.path": "evil",
    "includeIf.gitdir:/.path": "evil",
    "credential.helper": "!evil",
    "gpg.program": "evil",
    "gpg.ssh.program": "evil",
    "pager.log": "evil",
    "browser.x.cmd": "evil",
    "man.x.cmd": "evil",
    "interactive.diffFilter": "evil",
    "remote.origin.uploadpack": "evil",
    "remote.origin.receivepack": "evil",
    "remote.origin.vcs": "evil",
    "remote.origin.proxy": "http://evil",
    "remote.x.url": "ext::evil",
    "submodule.x.update": "!evil",
    "url.ext::evil.insteadOf": "https://example.org/",
    "uploadpack.packObjectsHook": "evil",
    "trailer.x.command": "evil",
    "trailer.x.cmd": "evil",
    "sendemail.smtpServer": "/evil",
    "imap.tunnel": "evil",
    "instaweb.httpd": "evil",
    "guitool.x.cmd": "evil",
    "init.templateDir": "evil",
    "web.browser": "evil",
    "http.proxy": "evil",
    "lfs.url": "evil",
}
HARMLESS = {
    "user.name": "me",
    "user.email": "me@example.org",
    "core.autocrlf": "input",
    "core.bare": "false",
    "branch.main.remote": "origin",
    "branch.main.merge": "refs/heads/main",
    "remote.origin.url": "https://example.org/x.git",
    "remote.origin.fetch": "+refs/heads/*:refs/remotes/origin/*",
    "pull.rebase": "true",
    "push.default": "simple",
}


def config_of(box: Box, at: str = ".") -> Path:
    return box.place.workspace / at / ".git/config"


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "old"])
def test_keys(box: Box, workspace: Path, user: str, is_new: bool) -> None:
    """`git config` inside sets those that run nothing, in a repository of its own or the user's."""
    if not is_new:
        make_repository(box, user)
    wrong = []
    with hand(box, make_settings(), user=user) as inside:
        if is_new:
            assert inside("execute", "git", "init", "-q")[0] == 0
        for key, value in HARMLESS.items():
            status, _, errors = inside("execute", "git", "config", key, value)
            if status != 0 or host(box, "config", key).stdout != f"{value}\n":
                wrong.append((key, errors))
        before = state(config_of(box))
        for key, value in EVIL.items():
            inside("execute", "rm", "-f", ".git/config.lock")
            status, _, errors = inside("execute", "git", "config", key, value)
            if status == 0 or state(config_of(box)) != before:
                wrong.append((key, errors))
    assert wrong == []
    assert "evil" not in config_of(box).read_text()


def test_positive_control_of_keys(box: Box, workspace: Path, user: str) -> None:
    with hand(box, user=user, sandbox=False) as inside:
        assert inside("execute", "git", "init", "-q")[0] == 0
        for key, value in (HARMLESS | EVIL).items():
            # At the end, since git obeys it from then on.
            if key not in ("core.worktree", "include.path"):
                assert inside("execute", "git", "config", key, value)[0] == 0, key


def test_a_key_that_the_configuration_allows(box: Box, workspace: Path, user: str) -> None:
    settings = make_settings(allowGitConfig=True)
    script = "git init -q && git config core.fsmonitor evil && git config core.fsmonitor"
    done = box(["sh", "-c", script], settings, user=user)
    assert done.stdout == "evil\n", done.stderr


# The same for git as a key above, in other words.
EVIL_TEXTS = [
    "[core]\n\tfsmonitor = evil\n",
    "[CORE]\n\tFsMonitor=evil",
    "[core] fsmonitor = evil\n",
    "[core]fsmonitor=evil\n",
    "[core]\n\tbare = false\n[core]\n\tfsmonitor = evil\n",
    "[core]\r\n\tfsmonitor = evil\r\n",
    "\ufeff[core]\n\tfsmonitor = evil\n",
    "# comment\n; other\n[core]\n\n\n   fsmonitor   =   evil ; comment\n",
    '[core]\n\tx = "a\\\nb"\n\tfsmonitor = evil\n',
    '[core]\n\tfsmonitor = "ev"il\n',
    "[core]\n\tfsmonitor = e\\\nvil\n",
    "[include]\n\tpath = evil.config\n",
    '[includeIf "gitdir:/"]\n\tpath = evil.config\n',
    "[core]\n\tbare = true\n\tbare = false # x\n\tfsmonitor = evil\n",
    '[user]\n\tname = "[core]"\n[core]\n\tfsmonitor = evil\n',
    "[user]\n\tname = me #\\\n[core]\n\tfsmonitor = evil\n",
    "[user]\n\tname = me ;[x\n[core]\n\tfsmonitor = evil\n",
    "[user]name=me\n[core]\n\tfsmonitor = evil\n" + "#" * 70000,
]
HARMLESS_TEXTS = [
    "",
    "[core]\n\tbare = false\n",
    '[user]\n\tname = "[core] fsmonitor = evil"\n',
    "# [core]\n# fsmonitor = evil\n",
    "[user]\n\tname = fsmonitor\n",
]


def put_by_rename(inside: Inside, text: str, target: str) -> object:
    """As git itself does."""
    assert inside("create", "config.new", text) == "ok"
    result = inside("rename", "config.new", target)
    if result != "ok":
        inside("remove", "config.new")
    return result


def test_texts(box: Box, workspace: Path, user: str) -> None:
    make_repository(box, user)
    path = config_of(box)
    (workspace / "evil.config").write_text("[core]\n\tfsmonitor = evil\n")
    names = ("config", "config.worktree", "modules/x/config", "worktrees/w/config.worktree")
    with hand(box, make_settings(), user=user) as inside:
        assert inside("mkdirs", ".git/modules/x") == inside("mkdirs", ".git/worktrees/w") == "ok"
        for name in names:
            for text in HARMLESS_TEXTS:
                assert put_by_rename(inside, text, f".git/{name}") == "ok", (name, text)
            before = state(path.parent / name)
            for text in EVIL_TEXTS:
                assert put_by_rename(inside, text, f".git/{name}") == "EACCES", (name, text)
            # Not in place, and not by another name of the same file.
            assert inside("write", f".git/{name}", "") == "EACCES"
            assert inside("append", f".git/{name}", "") == "EACCES"
            assert inside("link", f".git/{name}", "linked") == "EACCES"
            assert inside("link", "evil.config", f".git/{name}") in ("EACCES", "EEXIST")
            assert inside("symlink", "../evil.config", f".git/{name}") in ("EACCES", "EEXIST")
            assert state(path.parent / name) == before
    assert host(box, "config", "core.fsmonitor").stdout == ""


def test_positive_control_of_texts(box: Box, workspace: Path, user: str) -> None:
    make_repository(box, user)
    (workspace / ".git/evil.config").write_text("[core]\n\tfsmonitor = evil\n")
    with hand(box, user=user, sandbox=False) as inside:
        for text in EVIL_TEXTS:
            assert put_by_rename(inside, text, ".git/config") == "ok"
            assert host(box, "config", "core.fsmonitor").stdout == "evil\n", text
        for text in HARMLESS_TEXTS:
            assert put_by_rename(inside, text, ".git/config") == "ok"
            assert host(box, "config", "core.fsmonitor").stdout == ""


def test_a_file_that_is_still_open(box: Box, workspace: Path, user: str) -> None:
    """It was read when it got its name, and must not be written afterwards."""
    make_repository(box, user)
    with hand(box, make_settings(), user=user) as inside:
        assert inside("create", "new", "[user]\n\tname = me\n") == "ok"
        assert inside("link", "new", "second") == "ok"
        (fd,) = inside("open", "new", 1)
        assert inside("rename", "new", ".git/config") == "ok"
        before = state(config_of(box))
        evil = "[core]\n\tfsmonitor = evil\n"
        # What the descriptor and the other name lead to is not git's file.
        inside("write", f"/proc/self/fd/{fd}", evil)
        inside("write", "second", evil)
        assert state(config_of(box)) == before
        assert host(box, "config", "user.name").stdout == "me\n"
        assert host(box, "config", "core.fsmonitor").stdout == ""


# --- hooks ---


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_hooks(box: Box, workspace: Path, user: str, is_sandboxed: bool) -> None:
    """In the repository, in those of submodules that do not exist yet, and where hooksPath says."""
    make_repository(box, user)
    ran, hook = box.place.root / "ran", "#!/bin/sh\ntouch {}\n"
    script = hook.format(ran)
    host(box, "config", "core.hooksPath", ".husky")
    give(box, config_of(box), user)
    places = [".husky", ".git/hooks", ".git/modules/sub/hooks", ".git/worktrees/w/hooks"]
    with hand(box, make_settings(), user=user, sandbox=is_sandboxed) as inside:
        for place in places:
            results = {inside("make", f"{place}/post-checkout", script)}
            results.add(inside("execute", "chmod", "755", f"{place}/post-checkout")[0] == 0)
            if is_sandboxed:
                assert results in ({"EACCES", False}, {"EROFS", False}), place
            else:
                assert results == {"ok", True}, place
    host(box, "checkout", "-q", "-b", "other")
    assert ran.exists() != is_sandboxed


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_a_submodule_that_is_not_initialised(
    box: Box, workspace: Path, user: str, is_sandboxed: bool
) -> None:
    """Its repository is planted before `git submodule update` makes it."""
    make_repository(box, user, "lib")
    make_repository(box, user, "top")
    done = host(box, "submodule", "add", "-q", str(workspace / "lib"), "sub", at="top")
    assert done.returncode == 0, done.stderr
    host(box, "commit", "-qm", "submodule", at="top")
    host(box, "submodule", "deinit", "-f", "sub", at="top")
    remove(workspace / "top/.git/modules/sub")
    box.prepare(user)
    ran = box.place.root / "ran"
    script = f"""
        git clone -q --bare lib planted; git -C planted config core.bare false
        printf '[core]\\n\\tfsmonitor = touch {ran}; false\\n' >>planted/config
        mkdir -p planted/hooks top/.git/modules
        printf '#!/bin/sh\\ntouch {ran}\\n' >planted/hooks/post-checkout
        chmod +x planted/hooks/post-checkout
        cp -r planted second; mv planted top/.git/modules/sub || mv second top/.git/modules/sub
        cp -r second/. top/.git/modules/sub; true
        """
    with hand(box, make_settings(), user=user, sandbox=is_sandboxed) as inside:
        assert inside("execute", "sh", "-c", script)[0] == 0
    host(box, "submodule", "update", "-q", "--init", at="top")
    host(box, "status", at="top")
    host(box, "status", at="top/sub")
    assert ran.exists() != is_sandboxed


# --- directories that git takes for repositories ---

CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = evil\n"
PARTS = ["HEAD", "objects", "refs", "config"]


def make_part(inside: Inside, way: str, directory: str, part: str) -> None:
    """Tries to give the part to the directory."""
    path = f"{directory}/{part}"
    source = f"parts/{directory}-{part}"
    content = {"HEAD": "ref: refs/heads/main\n", "config": CONFIG}.get(part)
    if way == "in place":
        inside("create", path, content) if content else inside("mkdir", path)
        return
    inside("make", source, content) if content else inside("mkdirs", source)
    if way == "renamed":
        inside("rename", source, path)
    elif way == "linked":
        inside("link" if content else "symlink", source if content else f"../{source}", path)
    elif way == "other case first":
        inside("rename", source, f"{directory}/{part.swapcase()}x")
        inside("rename", f"{directory}/{part.swapcase()}x", path)


WAYS = ["in place", "renamed", "linked", "other case first"]


def repositories(inside: Inside) -> list[str]:
    """Tries to make a repository with a program in its configuration, in every order."""
    made = []
    assert inside("mkdirs", "parts") == "ok"
    for number, order in enumerate(itertools.permutations(PARTS)):
        for way in WAYS:
            directory = f"bare-{number}-{way.replace(' ', '-')}"
            assert inside("mkdir", directory) == "ok"
            for part in order:
                make_part(inside, way, directory, part)
            made.append(directory)
    # Half of it in a directory, which then gets what is missing by a rename of its parent, and a
    # repository whose parts go away until its configuration is an ordinary file.
    inside("make", "halves/x/config", CONFIG)
    inside("make", "halves/x/HEAD", "ref: refs/heads/main\n")
    inside("mkdirs", "halves/y/objects")
    inside("mkdirs", "halves/y/refs")
    for part in ("objects", "refs"):
        inside("rename", f"halves/y/{part}", f"halves/x/{part}")
    made.append("halves/x")
    inside("execute", "git", "init", "-q", "--bare", "apart")
    for part in ("HEAD", "objects", "refs"):
        inside("rename", f"apart/{part}", f"apart/{part}-aside")
    inside("remove", "apart/config")
    inside("create", "apart/config", CONFIG)
    for part in ("HEAD", "objects", "refs"):
        inside("rename", f"apart/{part}-aside", f"apart/{part}")
    made.append("apart")
    inside("execute", "git", "init", "-q", "moved")
    inside("rename", "moved/.git", "moved/git")
    for part in ("HEAD", "objects", "refs"):
        inside("rename", f"moved/git/{part}", f"moved/{part}")
    inside("remove", "moved/git/config")
    inside("create", "moved/git/config", CONFIG)
    inside("rename", "moved/git", "moved/.git")
    for part in ("HEAD", "objects", "refs"):
        inside("rename", f"moved/{part}", f"moved/.git/{part}")
        inside("rename", f"moved/{part}", f"moved/git/{part}")
    made += ["moved", "moved/git", "moved/.git"]
    return made


def evil_ones(box: Box, directories: list[str]) -> list[str]:
    """Those where git on the host would run the program."""
    return [
        directory
        for directory in directories
        if (box.place.workspace / directory).exists()
        and "evil" in host(box, "config", "core.fsmonitor", at=directory).stdout
    ]


def test_bare_repositories(box: Box, workspace: Path, user: str) -> None:
    with hand(box, make_settings(), user=user) as inside:
        made = repositories(inside)
    assert evil_ones(box, made) == []
    assert len(made) == 24 * len(WAYS) + 5


def test_positive_control_of_bare_repositories(box: Box, workspace: Path, user: str) -> None:
    with hand(box, user=user, sandbox=False) as inside:
        made = repositories(inside)
    found = evil_ones(box, made)
    assert set(found) >= {name for name in made if name.startswith("bare-")}
    assert {"halves/x", "apart"} <= set(found)


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_where_git_looks_for_its_files(
    box: Box, workspace: Path, user: str, is_sandboxed: bool
) -> None:
    """commondir, gitdir and a file .git lead to other directories."""
    make_repository(box, user)
    (workspace / "other").mkdir()
    (workspace / "third").mkdir()
    box.prepare(user)
    with hand(box, make_settings(), user=user, sandbox=is_sandboxed) as inside:
        for part in ("config", "objects", "refs", "HEAD"):
            make_part(inside, "in place", "other", part)
        inside("create", ".git/commondir", "../other\n")
        inside("create", "third/.git", "gitdir: ../other\n")
    found = [host(box, "config", "core.fsmonitor", at=at).stdout for at in (".", "third")]
    assert found == (["", ""] if is_sandboxed else ["evil\n", "evil\n"])


# --- rebase ---

TODO = "pick 1234567 x\nexec evil\n"
EVIL_TODOS = [
    TODO,
    "x evil\n",
    "  exec evil\n",
    "\texec\tevil\n",
    "exec evil",
    "break\nexec evil\n",
    "pick 1234567 x\r\nexec evil\r\n",
    "merge -C 1234567 x\nx evil\n",
    "fixup -C 1234567 x\n x evil\n",
]
HARMLESS_TODOS = [
    "pick 1234567 exec evil\n",
    "# exec evil\n\nbreak\n",
    "squash 1234567 x\nreword 1234567 y\nlabel x\nreset onto\nnoop\n",
]


def test_a_list_of_what_to_rebase(box: Box, workspace: Path, user: str) -> None:
    make_repository(box, user)
    target = ".git/rebase-merge/git-rebase-todo"
    with hand(box, make_settings(), user=user) as inside:
        assert inside("mkdirs", ".git/rebase-merge") == "ok"
        for text in HARMLESS_TODOS:
            assert put_by_rename(inside, text, target) == "ok", text
        before = state(workspace / target)
        for text in EVIL_TODOS:
            assert put_by_rename(inside, text, target) == "EACCES", text
        assert inside("write", target, TODO) == inside("append", target, TODO) == "EACCES"
        assert inside("link", target, "linked") == "EACCES"
        assert state(workspace / target) == before


REBASE = """
for n in 1 2 3; do echo $n >>file; git commit -qam $n; done
GIT_SEQUENCE_EDITOR="sed -i '1i break'" git rebase -qi HEAD~2
echo 'exec touch {ran}' >>.git/rebase-merge/git-rebase-todo
printf 'exec touch {ran}\\n' >todo; mv todo .git/rebase-merge/git-rebase-todo
true
"""


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_a_rebase_that_the_host_continues(
    box: Box, workspace: Path, user: str, is_sandboxed: bool
) -> None:
    make_repository(box, user)
    ran = box.place.root / "ran"
    script = REBASE.format(ran=ran)
    with hand(box, make_settings(), user=user, sandbox=is_sandboxed) as inside:
        status, _, errors = inside("execute", "sh", "-c", script)
        assert status == 0, errors
    assert (workspace / ".git/rebase-merge").exists() and not ran.exists()
    host(box, "rebase", "--continue")
    host(box, "rebase", "--abort")
    assert ran.exists() != is_sandboxed


# --- git at work ---

WORK = {
    "init": """
        git init -q .; git config user.name me; git config --unset user.name
        git config --add user.email a; test "$(git config user.email)" = a
        git init -q again; git init -q --separate-git-dir=elsewhere separate; git -C separate status
        git init -q --template= bare-of-templates; git init -q --initial-branch=x named
        """,
    "commit": """
        git init -q -b main .; for n in 1 2 3; do echo $n >f$n; git add f$n; git commit -qm $n; done
        echo more >>f1; git commit -qa --amend -m amended; git tag -a v1 -m tag; git branch other
        git mv f2 g2; git rm -q f3; git commit -qm moved; git checkout -q other; echo x >x
        git add x; git commit -qm x; git tag x; git merge -q -m merged main; git log; git fsck
        test -f g2; git revert --no-edit HEAD^; git reset -q --hard v1; git cherry-pick x
        git show --stat; git reflog; git describe; git archive HEAD | tar -t; git clean -qfdx
        """,
    "checkout": """
        git init -q -b main .; mkdir -p d/e; for n in $(seq 300); do echo $n >d/e/$n; done
        git add .; git commit -qm all; git checkout -q -b b; git rm -qr d; git commit -qm none
        git checkout -q main; test -f d/e/300; git checkout -q b; ! test -e d; git switch -q main
        ln -s d link; chmod +x d/e/1; git add .; git commit -qm modes; git checkout -q b
        git checkout -q main; test -x d/e/1 -a -L link; git restore --source=HEAD~1 .; git stash -q
        """,
    "rebase": """
        git init -q -b main .; echo a >a; git add a; git commit -qm a; git checkout -q -b side
        for n in 1 2 3; do echo $n >s$n; git add .; git commit -qm s$n; done; git checkout -q main
        echo b >b; git add b; git commit -qm b; git checkout -q side
        git rebase -q main; test -f b -a -f s3
        GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' GIT_EDITOR=true git rebase -qi HEAD~3
        test "$(git rev-list --count HEAD)" = 4
        GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~2; git rebase --continue
        git format-patch -q -1 --stdout >p; git reset -q --hard HEAD~1; git am -q p
        git rebase -q --apply main
        """,
    "a conflict": """
        git init -q -b main .; echo a >f; git add f; git commit -qm a; git checkout -q -b side
        echo side >f; git commit -qam side; git checkout -q main; echo main >f; git commit -qam main
        git checkout -q side; ! git rebase -q main; echo both >f; git add f
        GIT_EDITOR=true git rebase --continue; ! git merge -q main~1 -m x -s recursive || true
        ! git rebase -q --onto main~1 main; git rebase --abort
        """,
    "stash": """
        git init -q -b main .; echo a >f; git add f; git commit -qm a; echo b >f; echo new >n
        git stash -qu; test "$(cat f)" = a -a ! -e n; git stash pop -q; test "$(cat f)" = b -a -e n
        git stash -q; git stash apply -q; git stash drop -q
        """,
    "submodules": """
        git init -q -b main lib; (cd lib; echo l >l; git add l; git commit -qm l)
        git init -q -b main top; cd top; git submodule add -q ../lib sub; git commit -qm sub; cd ..
        git clone -q top copy; cd copy; git submodule update -q --init; test -f sub/l
        git submodule foreach -q 'git status'; (cd sub; git checkout -q main; echo m >l
        git commit -qam m); git commit -qam bump; git submodule deinit -f sub
        git clone -q --recurse-submodules ../top ../second; test -f ../second/sub/l
        git submodule update -q --init; git mv sub moved; git commit -qm moved
        """,
    "worktrees": """
        git init -q -b main .; echo a >a; git add a; git commit -qm a
        git worktree add -q ../x/w 2>/dev/null || git worktree add -q w; cd w; echo w >w; git add w
        git commit -qm w; git log --oneline; cd ..; git worktree list; git worktree lock w
        git worktree unlock w; git worktree move w w2; git -C w2 status; git worktree remove w2
        git worktree add -q -b y w3; rm -r w3; git worktree prune
        """,
    "gc": """
        git init -q -b main .; for n in $(seq 20); do echo $n >f; git add f; git commit -qm $n; done
        git gc -q --prune=now; git repack -qad; git pack-refs --all; git fsck; git prune
        git reflog expire --expire=now --all; git count-objects -v; git maintenance run --task=gc
        git commit-graph write; git multi-pack-index write
        """,
    "clones and remotes": """
        git init -q -b main a; (cd a; echo a >a; git add a; git commit -qm a)
        git clone -q a b; git clone -q --bare a bare; git clone -q --mirror a mirror
        git clone -q --shared a shared; git clone -q --depth 1 "file://$PWD/a" shallow
        cd b; git remote add upstream ../bare; git fetch -q upstream; git remote rename upstream up
        echo b >>a; git commit -qam b; git push -q up main; git push -q up main:other
        git branch -u up/other; git pull -q; git remote set-url up ../mirror
        git remote remove up; git config --list --local; cd ../bare; git log --oneline other
        """,
    "sparse": """
        git init -q -b main .; mkdir a b; echo 1 >a/1; echo 2 >b/2; git add .; git commit -qm 1
        git sparse-checkout init --cone; git sparse-checkout set a; ! test -e b/2
        git sparse-checkout disable; test -e b/2
        """,
    "notes and bisect": """
        git init -q -b main .; for n in 1 2 3 4 5; do echo $n >f; git add f; git commit -qm $n; done
        git notes add -m note; git bisect start HEAD HEAD~4
        git bisect run sh -c 'test $(cat f) -lt 3'
        git bisect reset; git update-index --refresh; git write-tree
        git bundle create x.bundle HEAD; git clone -q x.bundle from; git rerere
        """,
}


@pytest.mark.parametrize("work", WORK)
def test_work(box: Box, workspace: Path, user: str, work: str) -> None:
    settings = make_settings(denyRead=[".env"])
    done = box(["bash", "-exc", WORK[work]], settings, user=user)
    assert done.returncode == 0, done.stderr
    assert not list(workspace.rglob("*.lock")) and not list(workspace.rglob(".ipybox-new-*"))


def test_work_in_the_users_repository(box: Box, workspace: Path, user: str) -> None:
    """One that existed, so that mounts cover its hooks and its configuration."""
    make_repository(box, user)
    script = """
        git config user.name you; git remote add origin ../x; echo more >>file
        git commit -qam more; git checkout -q -b b; git config branch.b.remote origin
        git branch -m c; git branch -D main 2>/dev/null || git branch -D master; git gc -q
        git worktree add -q w; git worktree remove w; git remote remove origin; git stash list
        """
    done = box(["bash", "-exc", script], make_settings(denyRead=[".env"]), user=user)
    assert done.returncode == 0, done.stderr
    assert host(box, "config", "user.name").stdout == "you\n"
    assert host(box, "log", "--oneline").stdout.count("\n") == 2
    assert host(box, "fsck").returncode == 0


def test_work_in_a_kernel(kernels: Kernels) -> None:
    (kernels.place.home / ".gitconfig").write_text(GLOBAL)
    script = "".join(WORK[name] for name in ("init",)) + "mkdir other; cd other\n" + WORK["rebase"]
    with kernel_hand(kernels, make_settings(denyRead=[".env"])) as inside:
        status, _, errors = inside("execute", "bash", "-exc", script)
    assert status == 0, errors


def test_a_clone_that_brings_refused_names(box: Box, workspace: Path, user: str) -> None:
    """The clone fails or leaves them out, says which, and `allowNames` permits them."""
    make_repository(box, user, "origin")
    for name in (".envrc", ".vscode/settings.json", "ordinary"):
        make(box, workspace / "origin" / name, user, "text")
    host(box, "add", ".", at="origin")
    assert host(box, "commit", "-qm", "more", at="origin").returncode == 0
    box.prepare(user)
    done = box(["git", "clone", "-q", "origin", "copy"], user=user)
    assert not (workspace / "copy/.envrc").exists()
    assert not (workspace / "copy/.vscode/settings.json").exists()
    assert ".envrc" in done.stderr and "allowNames" in done.stderr, done.stderr
    allowed = make_settings(allowNames=[".envrc", ".vscode/**"])
    done = box(["git", "clone", "-q", "origin", "second"], allowed, user=user)
    assert done.returncode == 0, done.stderr
    assert (workspace / "second/.vscode/settings.json").read_text() == "text"
    # A rule that is not named holds.
    done = box(["sh", "-c", "echo x > second/.mcp.json"], allowed, user=user)
    assert done.returncode != 0 and not (workspace / "second/.mcp.json").exists()
