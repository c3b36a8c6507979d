# SPDX-License-Identifier: Apache-2.0
"""Attack suite I, neighbours: what the host does in the workspace while a sandbox runs.

The host replaces protected files as git, sed and editors do, creates new ones, and moves
directories. Mounts are lost then, or never were there; the names remain protected.
"""

from __future__ import annotations

import random
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from box import Box, make_settings
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

# Why it was refused: a rule for names; a rule for paths; a mount that still covers it, or that is
# between it and the other name.
REFUSED = {"EACCES", "EROFS", "EBUSY", "EXDEV"}

# A configuration that the sandbox itself uses, in the workspace.
CONFIGURATION = "sandbox.json"

NAMES = [
    ".env",
    ".mcp.json",
    ".bashrc",
    ".git/config",
    ".git/hooks/pre-commit",
    ".vscode/settings.json",
    ".claude/settings.json",
    "deep/er/still/deeper/than/the/search/.mcp.json",
    "mcptools/server.py",
]


# --- how the host replaces a file ---


def replace(box: Box, path: Path, user: str) -> None:
    put(box, path, user, "new")


def edit_with_sed(box: Box, path: Path, user: str) -> None:
    subprocess.run(["sed", "-i", "s/old/new/", str(path)], check=True)
    give(box, path, user)


def save_in_an_editor(box: Box, path: Path, user: str) -> None:
    """The old file is kept under another name until the new one is written."""
    backup = path.with_name(path.name + "~")
    path.rename(backup)
    path.write_text("new")
    give(box, path, user)
    backup.unlink()


def create_again(box: Box, path: Path, user: str) -> None:
    path.unlink()
    put(box, path, user, "new")


def replace_directory(box: Box, path: Path, user: str) -> None:
    """As `git stash`, `git checkout` or a reinstallation do."""
    aside = box.place.root / "aside"
    if path.parent != box.place.workspace and path.parent.exists():
        path.parent.rename(aside)
    make(box, path, user, "new")
    remove(aside)


WAYS = [replace, edit_with_sed, save_in_an_editor, create_again, replace_directory]


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest) -> Callable[[Box, Path, str], None]:
    return request.param


# --- what is tried inside ---


def attempts(name: str) -> list[tuple]:
    changes = [("write", name), ("append", name), ("replace", name), ("link", name, "linked")]
    if name == ".git/config":
        return changes  # what it says is protected; git may create it again
    return [*changes, ("chmod", name, 0o777), ("rename", name, "moved"), ("remove", name)]


def broken(
    inside: Inside,
    box: Box,
    user: str,
    names: list[str],
    expected: set[str],
) -> dict[str, list]:
    """What worked, or failed for another reason than it should, of all attempts."""
    found: dict[str, list] = {}
    for name in names:
        path = box.place.workspace / name
        for attempt in attempts(name):
            before = state(path)
            result = inside(*attempt)
            if result not in expected or state(path) != before:
                found.setdefault(name, []).append((attempt[0], result))
                for left in ("linked", "moved"):
                    remove(box.place.workspace / left)
                make(box, path, user, "new")
    return found


def prepare(box: Box, user: str) -> dict:
    """Makes the files, and returns settings that are one of them."""
    for name in [*NAMES, "ordinary", "deep/ordinary"]:
        make(box, box.place.workspace / name, user)
    return make_settings(denyRead=[".env"])


def test_replaced_files(box: Box, user: str, way: Callable[[Box, Path, str], None]) -> None:
    settings = prepare(box, user)
    with hand(box, settings, user=user) as inside:
        for name in [*NAMES, "ordinary"]:
            way(box, box.place.workspace / name, user)
        assert inside("read", ".env") == "EACCES"
        assert broken(inside, box, user, NAMES, REFUSED) == {}
        assert inside("read", ".mcp.json") == ["new"]
        assert inside("read", "ordinary") == ["new"]
        results = [inside(*attempt) for attempt in attempts("ordinary")]
        assert results == ["ok"] * (len(results) - 1) + ["ENOENT"]  # it was renamed before
    for name in NAMES:
        assert (box.place.workspace / name).read_text() == "new", name


def test_positive_control(box: Box, user: str, way: Callable[[Box, Path, str], None]) -> None:
    prepare(box, user)
    with hand(box, user=user, sandbox=False) as inside:
        for name in NAMES:
            way(box, box.place.workspace / name, user)
        assert inside("read", ".env") == ["new"]
        found = broken(inside, box, user, NAMES, REFUSED)
        assert {name: [one[1] for one in tried] for name, tried in found.items()} == {
            name: ["ok"] * len(attempts(name)) for name in NAMES
        }


def test_replaced_files_in_kernels(kernels: Kernels) -> None:
    settings = prepare(kernels.box, kernels.user)
    with kernel_hand(kernels, settings) as inside:
        for name in NAMES:
            replace(kernels.box, kernels.place.workspace / name, kernels.user)
        assert inside("read", ".env") == "EACCES"
        assert broken(inside, kernels.box, kernels.user, NAMES, REFUSED) == {}


def test_replaced_configuration(box: Box, user: str) -> None:
    """What the sandbox may do is in a file of the workspace with an ordinary name."""
    path = box.place.workspace / CONFIGURATION
    box.place.home.joinpath("unused").touch()
    box.write_settings = lambda settings: str(path)  # type: ignore[method-assign]
    make(
        box,
        path,
        user,
        '{"network": {"allowedDomains": [], "deniedDomains": []}, '
        '"filesystem": {"denyRead": [], "allowWrite": ["."], "denyWrite": []}}',
    )
    with hand(box, None, user=user) as inside:
        for way in (replace, save_in_an_editor, create_again):
            way(box, path, user)
            assert broken(inside, box, user, [CONFIGURATION], REFUSED) == {}
        assert inside("create", CONFIGURATION + ".new") == "ok"


def test_replaced_rules_and_log(kernels: Kernels) -> None:
    """Approval rules, the audit log and the record of a session, in its workspace."""
    workspace = kernels.place.workspace
    rules, log, record = (workspace / name for name in ("rules.json", "audit.jsonl", "r.jsonl"))
    make(kernels.box, rules, kernels.user, '{"rules": [], "default": "deny"}')
    make(kernels.box, log, kernels.user, "")
    make(kernels.box, record, kernels.user, "")
    record.chmod(0o600)
    flags = ("--approve", str(rules), "--audit-log", str(log), "--record", str(record))
    with kernel_hand(kernels, None, flags=flags) as inside:
        for path in (rules, log, record):
            replace(kernels.box, path, kernels.user)
            assert broken(inside, kernels.box, kernels.user, [path.name], REFUSED) == {}
        assert inside("create", "other.jsonl") == "ok"


def git(box: Box, *words: str) -> subprocess.CompletedProcess[str]:
    """git on the host. Another user may own the repository."""
    return subprocess.run(
        ["git", "-c", "safe.directory=*", *words],
        cwd=box.place.workspace,
        env=box.place.environ,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_a_program_for_git_to_run(box: Box, user: str, is_sandboxed: bool) -> None:
    """After `git config` on the host, a program is planted; the next `git status` would run it."""
    assert git(box, "init", "--quiet", "--template=").returncode == 0
    make(box, box.place.workspace / "file", user)
    box.prepare(user)
    settings, ran = make_settings(), box.place.root / "ran"
    with hand(box, settings, user=user, sandbox=is_sandboxed) as inside:
        assert git(box, "config", "user.name", "me").returncode == 0
        give(box, box.place.workspace / ".git/config", user)
        line = f'[core]\n\tfsmonitor = "touch {ran}; false"\n'
        assert (inside("append", ".git/config", line) == "ok") != is_sandboxed
    assert git(box, "config", "user.name").stdout == "me\n"
    git(box, "status")
    assert ran.exists() != is_sandboxed


# --- what the user creates ---


def test_an_env_that_the_user_creates(box: Box, user: str) -> None:
    """It is not readable, stays where it is, and is not changed."""
    settings, path = make_settings(denyRead=[".env"]), box.place.workspace / ".env"
    with hand(box, settings, user=user) as inside:
        assert inside("read", ".env") == "ENOENT"
        put(box, path, user, "secret")
        before = state(path)
        assert inside("read", ".env") == "EACCES"
        assert broken(inside, box, user, [".env"], REFUSED) == {}
        assert inside("execute", "grep", "-r", "secret", ".")[1] == ""
    assert state(path) == before
    assert tree(box.place.workspace) == {".env"}
    assert box(["cat", ".env"], user=user, sandbox=False).stdout == "secret"


def test_an_env_that_the_user_creates_beside_a_kernel(kernels: Kernels) -> None:
    """The default configuration denies to read it."""
    path = kernels.place.workspace / ".env"
    with kernel_hand(kernels, None, flags=(), has_default=True) as inside:
        assert inside("read", ".env") == "ENOENT"
        put(kernels.box, path, kernels.user, "secret")
        before = state(path)
        assert inside("read", ".env") == "EACCES"
        assert broken(inside, kernels.box, kernels.user, [".env"], REFUSED) == {}
    assert state(path) == before


DENIED = ["**/*.key", "private", "private-too/**", "deep/tokens"]
SECRETS = [
    "a.key",
    "deep/a.key",
    "new/deep/er/and/er/than/any/search/a.key",
    ".ssh/a.key",
    "private/w",
    "private/x/y",
    "private-too/x",
    "deep/tokens",
]
READABLE = ["a.keys", "deep/a.key.txt", "private-not/x", "deep/tokens-not", "new/a"]


def test_files_denied_for_reading_that_the_user_creates(box: Box, user: str) -> None:
    with hand(box, make_settings(denyRead=DENIED), user=user) as inside:
        for name in SECRETS + READABLE:
            make(box, box.place.workspace / name, user, "secret")
            expected = "EACCES" if name in SECRETS else ["secret"]
            assert inside("read", name) == expected, name
            link = "link-" + name.replace("/", "-").replace(".", "-")
            assert inside("symlink", name, link) == "ok"
            assert inside("read", link) == expected, name
        for name in SECRETS:
            assert inside("link", name, "linked") in REFUSED, name
            assert inside("rename", name, "moved") in REFUSED, name
    assert all((box.place.workspace / name).read_text() == "secret" for name in SECRETS + READABLE)


# --- directories that the host moves ---


def moved(inside: Inside, box: Box, user: str, to: str) -> tuple[int, Path]:
    """A descriptor inside, of a directory that the host has moved since."""
    make(box, box.place.workspace / "plain/ordinary", user)
    make(box, box.place.workspace / "plain/settings.json", user, "secret")
    (fd,) = inside("open", "plain", 0o200000)
    assert inside("read_at", fd, "settings.json") == ["secret"]
    target = box.place.workspace / to
    target.parent.mkdir(exist_ok=True)
    give(box, target.parent, user)
    (box.place.workspace / "plain").rename(target)
    return fd, target


@pytest.mark.parametrize("to", [".claude", ".vscode", ".husky", ".git/hooks", "mcptools"])
def test_a_directory_gets_a_protected_name(box: Box, user: str, to: str) -> None:
    # A rule for paths, as this is one place only.
    expected = {"EROFS"} if to == "mcptools" else {"EACCES"}
    with hand(box, make_settings(), user=user) as inside:
        fd, target = moved(inside, box, user, to)
        before = state(target / "settings.json")
        assert inside("write_at", fd, "settings.json") in expected
        assert inside("create_at", fd, "commands") in expected
        assert inside("fchdir", fd) == "ok"
        assert inside("write", "settings.json") in expected
        assert inside("replace", "settings.json") in expected
        assert inside("remove", "settings.json") in expected
        assert state(target / "settings.json") == before
        # Its name is ordinary again.
        target.rename(box.place.workspace / "plain")
        assert inside("write_at", fd, "settings.json") == "ok"
        assert inside("create_at", fd, "commands") == "ok"


def test_a_directory_gets_a_name_denied_for_reading(box: Box, user: str) -> None:
    with hand(box, make_settings(denyRead=["private"]), user=user) as inside:
        fd, target = moved(inside, box, user, "private")
        assert inside("read_at", fd, "settings.json") == "EACCES"
        assert inside("read", "private/settings.json") == "EACCES"
        assert inside("fchdir", fd) == "ok"
        assert inside("read", "settings.json") == "EACCES"
        target.rename(box.place.workspace / "plain")
        assert inside("read_at", fd, "settings.json") == ["secret"]


def test_a_directory_is_moved_out_of_the_workspace(box: Box, user: str) -> None:
    """It is not writable there, although code inside has it open."""
    with hand(box, make_settings(), user=user) as inside:
        make(box, box.place.workspace / "plain/file", user)
        (fd,) = inside("open", "plain", 0o200000)
        outside = box.place.root / "outside"
        (box.place.workspace / "plain").rename(outside)
        before = state(outside / "file")
        assert inside("write_at", fd, "file") in REFUSED
        assert inside("create_at", fd, "new") in REFUSED
        assert state(outside / "file") == before and tree(outside) == {"file"}
        outside.rename(box.place.workspace / "plain")
        assert inside("write_at", fd, "file") == "ok"


# --- everything at random ---

STORM = [".env", ".mcp.json", ".git/config", ".claude/settings.json", "deep/.bashrc"]
ROUNDS = 200


def shake(box: Box, user: str, inside: Hand, seed: int) -> list[str]:
    """The host creates, replaces, moves and removes the files until the storm inside ends.

    Returns what it found that it had not written itself.
    """
    chance, evil = random.Random(seed), []
    while not select.select([inside.process.stdout], [], [], 0)[0]:
        path = box.place.workspace / chance.choice(STORM)
        try:
            if path.read_text() != "secret":
                evil.append(path.name)
        except FileNotFoundError:
            pass
        match chance.randrange(5):
            case 0 | 1:
                make(box, path, user, "secret")
            case 2:
                remove(path)
            case 3:
                if path.exists():
                    aside = path.with_name("aside")
                    path.rename(aside)
                    aside.rename(path)
            case 4:
                if path.parent != box.place.workspace and path.parent.exists():
                    aside = box.place.workspace / "aside"
                    path.parent.rename(aside)
                    aside.rename(path.parent)
    return evil


def test_a_host_that_renames_at_random(
    box: Box, user: str, record_property: Callable[[str, object], None]
) -> None:
    names = [*STORM]
    for name in names:
        make(box, box.place.workspace / name, user, "secret")
    # While the host calls a directory "aside", what is in it has an ordinary name.
    settings = make_settings(denyRead=[*STORM, "aside"], denyWrite=["aside"])
    with hand(box, settings, "names_races", user=user) as inside:
        for number in rounds():
            inside.begin("storm", names, ROUNDS)
            evil = shake(box, user, inside, 15 + number)
            assert (inside.end(), evil) == ([0, 0], [])
            record_property("attempts", 4 * len(names) * ROUNDS)


def test_positive_control_of_a_host_that_renames(box: Box, user: str) -> None:
    for name in STORM:
        make(box, box.place.workspace / name, user, "secret")
    with hand(box, None, "names_races", user=user, sandbox=False) as inside:
        inside.begin("storm", STORM, ROUNDS)
        evil = shake(box, user, inside, 15)
        changed, secrets = inside.end()
        assert changed > 0 and secrets > 0 and evil != []


# --- the end of a session ---

PLANTED = [".bashrc", ".vscode/settings.json", "d/.mcp.json", ".git/hooks/post-checkout"]
ENDS = [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGKILL]


def plant(inside: Inside) -> list[object]:
    """Plants files, in directories that cannot be changed afterwards."""
    results = [inside("mkdirs", "d"), inside("create", "ordinary")]
    for name in PLANTED:
        results.append(inside("make", name))
    for name in (".vscode", ".git/hooks", "d"):
        inside("chmod", name, 0o555)
    return results


def planted(box: Box) -> list[str]:
    """The files that are there, of which every one is a success of code inside."""
    found = [name for name in PLANTED if (box.place.workspace / name).exists()]
    for path in box.place.workspace.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    return found


@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
def test_nothing_remains_after_a_signal(box: Box, user: str, number: signal.Signals) -> None:
    """Nothing has to be moved away, because nothing was created."""
    with hand(box, make_settings(), user=user) as inside:
        results = plant(inside)
        inside.process.send_signal(number)
        inside.process.wait(60)
    assert planted(box) == []
    assert results[:2] == ["ok", "ok"] and set(results[2:]) == {"EACCES"}
    assert (box.place.workspace / "ordinary").exists()


def test_positive_control_of_the_end(box: Box, user: str) -> None:
    with hand(box, user=user, sandbox=False) as inside:
        assert set(plant(inside)) == {"ok"}
    assert planted(box) == PLANTED


def test_two_sessions_in_one_workspace(box: Box, user: str) -> None:
    """The second one does not take what the first one left for the user's."""
    with hand(box, make_settings(), user=user) as first:
        plant(first)
        with hand(box, make_settings(), user=user) as second:
            plant(second)
            # Neither can use what the other one has open.
            assert first("mkdirs", "shared") == "ok"
            (fd,) = first("open", "shared", 0o200000)
            assert second("rename", "shared", ".claude") == "EACCES"
            assert second("rename", "shared", "renamed") == "ok"
            assert first("create_at", fd, "settings.json") == "ok"
            assert second("rename", "renamed", ".claude") == "EACCES"
            first.close()
        assert planted(box) == []
    assert planted(box) == []
