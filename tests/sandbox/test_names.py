# SPDX-License-Identifier: Apache-2.0
"""Attack suite I: which names code inside cannot give, change or take away.

Each name is tried where it does not exist, and where the host has created it after the start. The
names that git decides about by their contents are in test_names_git.py, all system calls in
test_names_calls.py.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from box import PROBES, Box, make_settings
from kernels import Kernels
from names_hand import (
    Hand,
    Inside,
    give,
    hand,
    kernel_hand,
    make,
    put,
    remove,
    rounds,
    state,
    tree,
)

# In each writable directory, on every level.
ANYWHERE = [
    # shells
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    # entering a directory
    ".env",
    ".envrc",
    # git
    ".gitconfig",
    ".git/hooks/pre-commit",
    ".git/hooks/post-checkout",
    ".git/modules/name/hooks/post-checkout",
    ".git/modules/with/slashes/hooks/post-checkout",
    ".git/worktrees/w/hooks/post-checkout",
    ".husky/pre-commit",
    ".husky/_/husky.sh",
    ".pre-commit-config.yaml",
    # agents and editors
    ".mcp.json",
    ".srt-settings.json",
    "sandbox-config.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/commands/x.md",
    ".claude/agents/x.md",
    ".cursor/mcp.json",
    ".windsurf/workflows/x.md",
    ".gemini/settings.json",
    ".codex/config.toml",
    ".opencode/agent/x.md",
    ".zed/settings.json",
    ".devcontainer/devcontainer.json",
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    # other programs
    ".ripgreprc",
]

# In the home directory only.
HOME = [
    ".ipython/kernels/python3/kernel.json",
    ".ipython/profile_default/startup/00.py",
    ".ipython/profile_default/ipython_config.py",
    ".ipython/profile_other/startup/00.py",
    ".ipython/nbextensions/x.js",
    ".ipython/extensions/x.py",
    ".local/share/jupyter/kernels/x/kernel.json",
    ".config/git/config",
    ".config/fish/config.fish",
    ".config/autostart/x.desktop",
    ".config/systemd/user/x.service",
    ".ssh/authorized_keys",
    ".local/bin/x",
]

# Names that look like them, and files that people run on purpose.
ORDINARY = [
    "bashrc",
    ".bashrc.bak",
    ".bashrc2",
    "x.mcp.json",
    ".mcp.json~",
    ".env.example",
    ".envs",
    "env",
    ".vscode-x/settings.json",
    "x.vscode/settings.json",
    ".github/workflows/x.yml",
    ".gitignore",
    ".gitattributes",
    ".git/info/exclude",
    ".git/objects/ab/cd",
    ".git/refs/heads/x",
    ".git/hooks/pre-commit.sample",
    ".git/description",
    ".claude/notes.md",
    "hooks/pre-commit",
    "config",
    "Makefile",
    "package.json",
    "setup.py",
    "pyvenv.cfg",
    ".venv/pyvenv.cfg",
    ".venv/bin/activate",
    "node_modules/.bin/x",
    ".ssh/known_hosts_not_in_home",
]

# Some file systems take these for the same names.
VARIANTS = [
    ".MCP.json",
    ".Env",
    ".ENV",
    ".Git/hooks/pre-commit",
    ".GIT/Hooks/pre-commit",
    ".git/HOOKS/pre-commit",
    ".VSCode/settings.json",
    ".Claude/Settings.JSON",
    ".HUSKY/pre-commit",
    ".ba\u017fhrc",  # a long s, which is an s without case
    ".v\u017fcode/settings.json",
    ".\u212airo/settings.json",  # the sign of kelvin, which is a k
    ".mcp\u200c.json",  # characters that HFS+ ignores
    "\ufeff.env",
    ".g\u200dit/hooks/pre-commit",
    ".claude\u2060/settings.json",
]

EVERYWHERE = [
    name if not prefix else f"{prefix}/{name}" for prefix in ("", "a/b") for name in ANYWHERE
]
DEEP = "a/b/c/d/e/f/g/h/i/j/k/l/m"


def ways_to_give(inside: Inside, name: str) -> dict[str, object]:
    """Every way to give the name to a file, a link or a directory with contents."""
    parent, base = os.path.split(name)
    found = {}
    if parent:
        found["its directories"] = inside("mkdirs", parent)
    found |= {
        "create": inside("create", name),
        "rename": inside("replace", name),
        "link": inside("link", "ordinary", name),
        "symlink": inside("symlink", "/etc/passwd", name),
    }
    return found


def test_names_that_do_not_exist(box: Box, user: str) -> None:
    wrong = {}
    names = [*EVERYWHERE, *VARIANTS, f"{DEEP}/.mcp.json", f"{DEEP}/.git/hooks/pre-commit"]
    with hand(box, make_settings(), user=user) as inside:
        assert inside("create", "ordinary") == "ok"
        for name in names:
            found = ways_to_give(inside, name)
            directories = found.pop("its directories", "ok")
            if directories != "ok" or set(found.values()) != {"EACCES"}:
                wrong[name] = (directories, found)
    assert wrong == {}
    files = {name for name in tree(box.place.workspace) if not is_directory(box, name)}
    assert files == {"ordinary"}


def is_directory(box: Box, name: str) -> bool:
    path = box.place.workspace / name
    return path.is_dir() and not path.is_symlink()


def test_positive_control(box: Box, user: str) -> None:
    with hand(box, user=user, sandbox=False) as inside:
        for name in [*EVERYWHERE, *VARIANTS]:
            assert inside("make", name) == "ok", name


def test_names_that_the_host_creates(box: Box, user: str) -> None:
    wrong = {}
    with hand(box, make_settings(), user=user) as inside:
        for name in EVERYWHERE:
            path = box.place.workspace / name
            make(box, path, user)
            before = state(path)
            results = ways_to_change(inside, name)
            if set(results.values()) != {"EACCES"} or state(path) != before:
                wrong[name] = results
            remove(path)
    assert wrong == {}


def ways_to_change(inside: Inside, name: str) -> dict[str, object]:
    return {
        "write": inside("write", name),
        "append": inside("append", name),
        "replace": inside("replace", name),
        "link": inside("link", name, "linked"),
        "rename": inside("rename", name, "moved"),
        "chmod": inside("chmod", name, 0o755),
        "remove": inside("remove", name),
    }


def test_positive_control_of_changes(box: Box, user: str) -> None:
    with hand(box, user=user, sandbox=False) as inside:
        for name in EVERYWHERE:
            make(box, box.place.workspace / name, user)
            found = ways_to_change(inside, name)
            # It has moved away then.
            assert found.pop("chmod") == found.pop("remove") == "ENOENT"
            assert set(found.values()) == {"ok"}, (name, found)
            for left in ("linked", "moved"):
                remove(box.place.workspace / left)


def test_directories_get_protected_names(box: Box, user: str) -> None:
    """What is in a directory comes along, if the directory is renamed, or a link leads to it."""
    wrong = {}
    with hand(box, make_settings(), user=user) as inside:
        for name in ANYWHERE:
            if "/" not in name:
                continue
            parent, _, below = name.partition("/")
            assert inside("make", f"plain/{below}") == "ok"
            found = [
                inside("rename", "plain", parent),
                inside("rename", "plain", parent.upper()),
                inside("symlink", "plain", parent),
            ]
            assert inside("mkdir", "empty") == inside("rmdir", "empty") == "ok"
            if set(found) != {"EACCES"}:
                wrong[name] = found
            remove(box.place.workspace / "plain")
            assert tree(box.place.workspace) == set()
    assert wrong == {}


def test_positive_control_of_directories(box: Box, user: str) -> None:
    with hand(box, user=user, sandbox=False) as inside:
        for name in ("plain", ".claude", ".git"):
            assert inside("make", f"from-{name}/x") == "ok"
            assert inside("rename", f"from-{name}", name) == "ok"
            assert inside("symlink", name, f"link-{name}") == "ok"


def test_ordinary_names(box: Box, user: str) -> None:
    """They can be created, changed, linked, renamed and removed."""
    wrong = {}
    with hand(box, make_settings(), user=user) as inside:
        for name in [prefix + name for prefix in ("", "a/b/") for name in ORDINARY]:
            results = {"make": inside("make", name), **ways_to_change_and_put_back(inside, name)}
            if set(results.values()) != {"ok"}:
                wrong[name] = results
    assert wrong == {}


def ways_to_change_and_put_back(inside: Inside, name: str) -> dict[str, object]:
    return {
        "write": inside("write", name),
        "append": inside("append", name),
        "replace": inside("replace", name),
        "chmod": inside("chmod", name, 0o755),
        "rename": inside("rename", name, "moved"),
        "rename back": inside("rename", "moved", name),
        "remove": inside("remove", name),
        "create": inside("create", name),
    }


def test_names_of_the_home_directory(box: Box, user: str) -> None:
    """They are protected there, and ordinary elsewhere. Shells' files are protected in both."""
    home = box.place.home
    settings = make_settings(allowWrite=[".", "~"])
    wrong = {}
    with hand(box, settings, user=user) as inside:
        assert inside("create", "ordinary") == "ok"
        for name in [*HOME, *ANYWHERE]:
            found = ways_to_give(inside, str(home / name))
            found.pop("its directories", None)
            path = home / name
            make(box, path, user)
            before = state(path)
            found |= ways_to_change(inside, str(path))
            if not set(found.values()) <= {"EACCES", "EROFS", "EXDEV"} or state(path) != before:
                wrong[name] = found
            remove(path)
        # Two directories that are mounted by themselves: a rename between them is another error.
        assert inside("create", str(home / "ordinary")) == "ok"
        assert inside("make", str(home / ".config/x/y")) == "ok"
    assert wrong == {}


def test_directories_on_the_way_to_names_of_the_home_directory(box: Box, user: str) -> None:
    """A directory that gets the name .ipython brings a kernel along."""
    home = box.place.home
    for name in ("plain/kernels/x/kernel.json", "plain2/startup/00.py", "plain3/autostart/x"):
        make(box, home / name, user)
    (home / ".config").mkdir(exist_ok=True)
    give(box, home / ".config", user)
    with hand(box, make_settings(allowWrite=["~"]), user=user) as inside:
        moves = {
            "plain": ".ipython",
            "plain/kernels": ".ipython/kernels",
            "plain2": ".ipython/profile_new",
            "plain2/startup": ".ipython/profile_default/startup",
            "plain3": ".config/git",
            "plain3/autostart": ".config/autostart",
        }
        assert inside("mkdirs", str(home / ".ipython/profile_default")) == "ok"
        assert inside("rmdir", str(home / ".ipython/profile_default")) == "ok"
        for source, target in moves.items():
            if target != ".ipython":
                inside("mkdirs", str((home / target).parent))
            else:
                assert inside("rmdir", str(home / target)) == "ok"
            results = (
                inside("rename", str(home / source), str(home / target)),
                inside("symlink", str(home / source), str(home / target)),
            )
            assert set(results) <= {"EACCES", "EROFS"}, (target, results)
        assert inside("rename", str(home / "plain"), str(home / "other")) == "ok"


def test_packages_of_tools(box: Box, user: str) -> None:
    """Cells import from mcptools in the workspace, also if it does not exist yet."""
    with hand(box, make_settings(), user=user) as inside:
        assert inside("make", "plain/server.py") == "ok"
        results = [
            inside("make", "mcptools/server.py"),
            inside("symlink", "plain", "mcptools"),
            inside("rename", "plain", "mcptools"),
        ]
        assert set(results) <= {"EACCES", "EROFS"}, results
        assert inside("make", "deep/mcptools/server.py") == "ok"
    assert not (box.place.workspace / "mcptools/server.py").exists()
    assert not (box.place.workspace / "mcptools").is_symlink()


def test_environments_may_be_made(box: Box, user: str) -> None:
    """ipybox uses none that code inside could have made."""
    done = box(["/usr/bin/python3", "-m", "venv", "--without-pip", "env"], user=user)
    assert done.returncode == 0, done.stderr
    assert (box.place.workspace / "env/pyvenv.cfg").exists()


def test_in_kernels(kernels: Kernels) -> None:
    box, user, wrong = kernels.box, kernels.user, {}
    with kernel_hand(kernels) as inside:
        assert inside("create", "ordinary") == "ok"
        for name in ANYWHERE:
            found = ways_to_give(inside, name)
            found.pop("its directories", None)
            make(box, kernels.place.workspace / name, user)
            found |= ways_to_change(inside, name)
            if set(found.values()) != {"EACCES"}:
                wrong[name] = found
            remove(kernels.place.workspace / name)
    assert wrong == {}


def test_after_a_restart_of_the_kernel(kernels: Kernels) -> None:
    server = kernels.serve()
    code = "try: open('.mcp.json', 'w')\nexcept OSError as e: print(type(e).__name__)"
    try:
        before = server.cell(code)
        server.tool("reset")
        assert server.cell(code).splitlines()[0] == before.splitlines()[0] == "PermissionError"
        assert server.cell("open('ordinary', 'w'); print('fine')") == "fine"
    finally:
        server.close()


# --- trees that a search does not get to the end of ---


def many_directories(top: Path, count: int, name: str) -> None:
    for number in range(count):
        (top / f"{number}" / name).mkdir(parents=True)


@pytest.mark.parametrize("which", [".git/modules", ".vscode", "files"])
def test_large_trees(box: Box, which: str) -> None:
    """A session starts, and names are protected that no search has found."""
    workspace = box.place.workspace
    if which == ".git/modules":
        # Each of them is a repository, or could be one.
        many_directories(workspace / ".git/modules", 3000, "refs")
        deep = ".git/modules/2999/hooks/post-checkout"
    elif which == ".vscode":
        many_directories(workspace / "projects", 3000, ".vscode")
        deep = "projects/2999/.vscode/settings.json"
    else:
        make_files(workspace, 220_000)
        deep = "z/z/z/z/.vscode/settings.json"
    make(box, workspace / deep, "root")
    before = state(workspace / deep)
    with hand(box, make_settings()) as inside:
        assert set(ways_to_change(inside, deep).values()) <= {"EACCES", "EROFS", "EBUSY", "EXDEV"}
        assert inside("create", str(Path(deep).parent / ".mcp.json")) in {"EACCES", "EROFS"}
        assert inside("create", "ordinary") == "ok"
    assert state(workspace / deep) == before
    with hand(box, make_settings(), sandbox=False) as inside:
        assert set(ways_to_change(inside, deep).values()) > {"ok"}


def make_files(top: Path, count: int) -> None:
    """Names of one file, as many as it may have, in directories of a thousand."""
    each = 1000
    for number in range(count // each):
        directory = top / f"many-{number}"
        directory.mkdir()
        if number % 50 == 0:
            file = directory / "file"
            file.touch()
        for n in range(each):
            os.link(file, directory / f"{n}")


def test_a_name_that_appears_between(box: Box, user: str) -> None:
    """The host makes an ordinary file, code inside opens it, and only then it gets the name."""
    path = box.place.workspace / "plain"
    put(box, path, user)
    with hand(box, make_settings(), user=user) as inside:
        (fd,) = inside("open", "plain", os.O_RDONLY)
        path.rename(box.place.workspace / ".mcp.json")
        before = state(box.place.workspace / ".mcp.json")
        assert inside("write", f"/proc/self/fd/{fd}") == "EACCES"
        assert inside("chmod", f"/proc/self/fd/{fd}", 0o777) == "EACCES"
        assert state(box.place.workspace / ".mcp.json") == before
        (box.place.workspace / ".mcp.json").rename(path)
        assert inside("write", f"/proc/self/fd/{fd}") == "ok"


def races(box: Box, user: str, is_sandboxed: bool) -> Hand:
    for name in ("own", "deep"):
        (box.place.workspace / name).mkdir()
        give(box, box.place.workspace / name, user)
    return hand(
        box, make_settings(denyRead=["**/*.key"]), "names_races", user=user, sandbox=is_sandboxed
    )


# How often each call is tried; those that take the disk longer less often.
SWAPS = {
    "open": 100_000,
    "chmod": 100_000,
    "rename": 10_000,
    "link": 10_000,
    "symlink": 10_000,
    "truncate": 10_000,
}


@pytest.mark.parametrize("is_sandboxed", [True, False])
@pytest.mark.parametrize("call", SWAPS)
def test_a_thread_that_swaps_path_texts(
    box: Box,
    user: str,
    call: str,
    is_sandboxed: bool,
    record_property: Callable[[str, object], None],
) -> None:
    """What is checked is what is used: nothing gets through, although both were tried."""
    program = build_swapper(box)
    for name in ("own", "deep"):
        (box.place.workspace / name).mkdir()
    ordinary, protected = "deep/x-mcp.json", "deep//.mcp.json"
    path = box.place.workspace / protected
    if call in ("chmod", "truncate"):
        make(box, box.place.workspace / ordinary, user)
    box.prepare(user)
    # Without a sandbox the first moments are enough.
    times = SWAPS[call] if is_sandboxed else 20_000
    if is_sandboxed:
        with hand(box, make_settings(), user=user) as inside:
            before = put_if(box, path, user, call in ("chmod", "truncate"))
            for _ in rounds():
                status, out, errors = inside(
                    "execute", program, call, ordinary, protected, str(times)
                )
                assert (status, errors, state(path)) == (0, "", before)
                worked, refused = map(int, out.split())
                assert worked > 0 and refused > 0, out
                record_property("attempts", times)
    else:
        before = put_if(box, path, user, call in ("chmod", "truncate"))
        done = box(
            [program, call, ordinary, protected, str(times)], user=user, sandbox=False, timeout=280
        )
        assert done.returncode == 0 and state(path) != before, done.stdout


def put_if(box: Box, path: Path, user: str, is_there: bool) -> tuple | None:
    if is_there:
        put(box, path, user)
    return state(path)


def build_swapper(box: Box) -> str:
    program = box.place.home / "swap"
    source = PROBES / "swap.c"
    subprocess.run(["cc", "-O2", "-pthread", "-o", str(program), str(source)], check=True)
    return str(program)


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_a_thread_that_swaps_directories(box: Box, user: str, is_sandboxed: bool) -> None:
    """Two ordinary directories, of which one has a protected place below it."""
    workspace = box.place.workspace
    with races(box, user, is_sandboxed) as inside:
        make(box, workspace / "one/x/settings.json", user)
        make(box, workspace / "two/.vscode/settings.json", user)
        (workspace / "two/x").symlink_to(".vscode")
        make(box, workspace / "three/settings.json", user)
        make(box, workspace / "four/.vscode/settings.json", user)
        (workspace / "link").symlink_to("three")
        (workspace / "link2").symlink_to("four/.vscode")
        for name in ("two/x", "link", "link2"):
            give(box, workspace / name, user)
        first = inside("swap_names", "one", "two", "one/x/settings.json", 3000)
        second = inside("swap_names", "link", "link2", "link/settings.json", 3000)
    found = {path.read_text() for path in workspace.glob("*/.vscode/settings.json")}
    assert found == {"old"} if is_sandboxed else "evil" in found
    if is_sandboxed:
        assert min(*first, *second) > 0, (first, second)


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_a_thread_that_swaps_names_to_read(box: Box, user: str, is_sandboxed: bool) -> None:
    workspace = box.place.workspace
    with races(box, user, is_sandboxed) as inside:
        make(box, workspace / "one/a.key", user, "secret")
        make(box, workspace / "two/a.key", user, "secret")
        make(box, workspace / "one/plain", user, "plain")
        (workspace / "link").symlink_to("one/plain")
        (workspace / "link2").symlink_to("one/a.key")
        for name in ("link", "link2"):
            give(box, workspace / name, user)
        found = inside("read_while_names_swap", "link", "link2", "link", 3000)
    assert found == (["plain"] if is_sandboxed else ["plain", "secret"])
