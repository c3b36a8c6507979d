# SPDX-License-Identifier: Apache-2.0
"""Attack suite I, the supervisor as a confused deputy, and neighbours that race.

Each attack has a control without a sandbox.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, make_settings
from names_hand import give, hand, make, remove

DENIED = make_settings(denyRead=[".env"])


# --- procfs: the core opens files for code inside ---

# Prints the environment of the process whose id is in a file.
PEEK = 'cat "$1/$(cat "$2")/environ" 2>&1 | tr "\\0" "\\n"'
WITH_PROC = 'mount -t proc proc "$1" && shift && exec "$@"'


# Not in a user namespace: there, a procfs of the host shows processes of other users.
@pytest.mark.needs_root
@pytest.mark.parametrize("user", ["root", "user"])
@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_another_procfs(box: Box, user: str, is_sandboxed: bool) -> None:
    """A second procfs, as in a container's root, shows all processes of the host."""
    proc = box.place.root / "proc"
    proc.mkdir()
    pid = box.place.workspace / "pid"
    with subprocess.Popen(
        [*box.become(user), "sh", "-c", "echo ready; read line"],
        env={"PATH": os.environ["PATH"], "MARK": "of-a-neighbour"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as neighbour:
        assert neighbour.stdout.readline() == b"ready\n"
        pid.write_text(str(neighbour.pid))
        give(box, pid, user)
        command = ["sh", "-c", PEEK, "sh", str(proc), str(pid)]
        line = (
            box.command(command, DENIED, user=user)
            if is_sandboxed
            else [*box.become(user), *command]
        )
        mounting = ["unshare", "--mount", "--propagation", "private", "sh", "-c", WITH_PROC, "sh"]
        done = box.run([*mounting, str(proc), *line], timeout=60)
        neighbour.stdin.close()
    assert ("of-a-neighbour" in done.stdout) == (not is_sandboxed), done.stdout


@pytest.fixture
def shared_memory() -> Iterator[int]:
    """The size of a segment of System V shared memory of the host."""
    size = 424_242
    libc = ctypes.CDLL(None)
    segment = libc.shmget(0, size, 0o1600)
    assert segment >= 0
    yield size
    libc.shmctl(segment, 0, None)


@pytest.mark.parametrize("settings", [DENIED, make_settings()], ids=["reads judged", "not judged"])
def test_sysvipc(box: Box, user: str, settings: dict, shared_memory: int) -> None:
    command = ["cat", "/proc/sysvipc/shm"]
    assert str(shared_memory) in box(command, user=user, sandbox=False).stdout
    assert str(shared_memory) not in box(command, settings, user=user).stdout


# --- renaming the directory above ---


@pytest.mark.parametrize("denied", ["tools/hooks", "tools/*.cfg"])
@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_a_directory_is_moved_to_where_names_below_are_denied(
    box: Box, user: str, denied: str, is_sandboxed: bool
) -> None:
    settings = make_settings(denyWrite=[denied])
    name = denied.replace("*", "a")
    with hand(box, settings, user=user, sandbox=is_sandboxed) as inside:
        assert inside("make", name.replace("tools", "other")) == "ok"
        inside("rename", "other", "tools")
    assert (box.place.workspace / name).exists() == (not is_sandboxed)


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_what_git_is_told_to_run_is_moved_there(box: Box, user: str, is_sandboxed: bool) -> None:
    make(box, box.place.workspace / ".git/HEAD", user, "ref: refs/heads/main\n")
    config = "[core]\n\trepositoryformatversion = 0\n\thooksPath = tools/hooks\n"
    make(box, box.place.workspace / ".git/config", user, config)
    for name in ("objects", "refs"):
        (box.place.workspace / ".git" / name).mkdir()
        give(box, box.place.workspace / ".git" / name, user)
    with hand(box, user=user, sandbox=is_sandboxed) as inside:
        assert inside("make", "other/hooks/pre-commit") == "ok"
        inside("rename", "other", "tools")
    assert (box.place.workspace / "tools/hooks/pre-commit").exists() == (not is_sandboxed)


GLOBS = [("conf/*.pem", "conf/x.pem"), ("a/**/secret", "a/b/c/secret")]


@pytest.mark.parametrize(("denied", "name"), GLOBS)
@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_a_directory_above_what_a_pattern_denies_is_moved(
    box: Box, user: str, denied: str, name: str, is_sandboxed: bool
) -> None:
    """The file appears after the start, so no mount covers it."""
    top, rest = name.split("/", 1)
    settings = make_settings(denyRead=[denied])
    with hand(box, settings, user=user, sandbox=is_sandboxed) as inside:
        make(box, box.place.workspace / name, user, "secret")
        if is_sandboxed:
            assert inside("read", name) == "EACCES"
        inside("rename", top, "moved")
        found = inside("read", f"moved/{rest}")
    assert (found == ["secret"]) == (not is_sandboxed), found


@pytest.mark.parametrize(("denied", "name"), GLOBS)
@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_it_is_moved_away_changed_and_moved_back(
    box: Box, user: str, denied: str, name: str, is_sandboxed: bool
) -> None:
    top, rest = name.split("/", 1)
    settings = make_settings(denyWrite=[denied])
    with hand(box, settings, user=user, sandbox=is_sandboxed) as inside:
        make(box, box.place.workspace / name, user)
        inside("rename", top, "moved")
        inside("write", f"moved/{rest}")
        inside("rename", "moved", top)
    text = (box.place.workspace / name).read_text()
    assert (text == "evil") == (not is_sandboxed)


# --- neighbours ---


def test_nobody_inside_stops_other_sandboxes(box: Box, user: str) -> None:
    """Code inside locks what it can open; another sandbox makes a repository."""
    with (
        hand(box, None, "names_attacker", user=user) as first,
        hand(box, None, user=user) as second,
    ):
        for path in (box.place.environ["HOME"], "/", str(box.place.workspace)):
            first("flock", path)
        for name in ("objects", "refs"):
            assert second("mkdir", name) == "ok"
        assert second("create", "HEAD") == "ok"


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_a_directory_is_exchanged_while_a_call_waits_for_the_lock(
    box: Box, user: str, is_sandboxed: bool
) -> None:
    """Another program holds the lock. Both sandboxes wait, and one has found its path already."""
    won = 0
    options = {"user": user, "sandbox": is_sandboxed}
    with hand(box, **options) as first, hand(box, **options) as second:
        for i in range(30):
            place, old, new = box.place.workspace, f"e{i}", f"f{i}"
            assert second("make", f"{old}/HEAD") == "ok"
            locks = [os.open(path, os.O_RDONLY) for path in (box.place.environ["HOME"], "/")]
            for lock in locks:
                fcntl.flock(lock, fcntl.LOCK_EX)
            first.begin("create", f"{old}/config")
            assert second("rename", old, new) == "ok"
            assert second("mkdir", old) == "ok"
            second.begin("mkdir", f"{new}/objects")
            for lock in locks:
                os.close(lock)
            first.end()
            second.end()
            won += {"HEAD", "config", "objects"} <= set(os.listdir(place / new))
    assert (won > 0) == (not is_sandboxed)


# Deep, because it takes longer then to judge a path.
DEPTH = 500
ROUNDS = 500


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_hooks_are_made_while_another_sandbox_makes_the_repository(
    box: Box, user: str, is_sandboxed: bool
) -> None:
    with (
        hand(box, None, "names_attacker", user=user, sandbox=is_sandboxed) as first,
        hand(box, None, "names_attacker", user=user, sandbox=is_sandboxed) as second,
    ):
        for inside in (second, first):
            assert inside("go_down", DEPTH) == "ok"
        assert second("mkdir", "hk") == "ok"
        first.begin("create_until", "hk/pre-commit", "end")
        (won,) = second("complete_repositories", ROUNDS)
        first.end()
    assert (won > 0) == (not is_sandboxed)


# --- bind ---


@pytest.mark.parametrize("is_sandboxed", [True, False])
def test_the_address_changes_in_a_workspace_below_tmp(
    box: Box, user: str, is_sandboxed: bool
) -> None:
    """The sandbox's own /tmp is above, where sockets may be made."""
    workspace = Path(tempfile.mkdtemp(dir="/tmp", prefix="ws-"))
    give(box, workspace, user)
    try:
        settings = make_settings(allowWrite=[str(workspace)])
        own = "/tmp/ipybox-test.sock" if is_sandboxed else f"{workspace}/own"
        with hand(box, settings, "names_attacker", user=user, sandbox=is_sandboxed) as inside:
            (made,) = inside("bind_while_it_changes", own, f"{workspace}/.mcp.json", 5000)
    finally:
        remove(workspace)
    assert made == (not is_sandboxed)
