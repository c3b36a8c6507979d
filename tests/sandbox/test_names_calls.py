# SPDX-License-Identifier: Apache-2.0
"""Attack suite I: every system call that can make, change or read a file that has a protected name.

Each action of probes/names_calls.py is done to a protected name and to an ordinary one. The first
is refused, and from outside nothing has changed; the second works, and something has changed. The
protected file exists from the start, so that a mount covers it, or it is created by the host while
the sandbox runs, so that only its name protects it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from box import Box, make_settings
from kernels import Kernels
from names_hand import Inside, give, hand, kernel_hand, put, remove, state

SETTINGS = make_settings(denyRead=["**/*.key"])

# A protected name, and an ordinary one.
CHANGED = ("deep/.mcp.json", "deep/ordinary.json")
READ = ("deep/a.key", "deep/a.keys")

# These are refused for every name.
REFUSED_FOR_ALL = {
    "change: FS_IOC_SETFLAGS": "EPERM",
    "change: FS_IOC_FSSETXATTR": "EPERM",
    "change: file_setattr": "ENOSYS",
    # No program needs another process' descriptor in this way.
    "change: by the parent's /proc/PID/fd": "EACCES",
    "change: setxattrat": "ENOSYS",
    "change: setxattrat, a descriptor": "ENOSYS",
    "change: removexattrat": "ENOSYS",
}

# A directory with the name of a protected file is not that file.
ALLOWED = {
    "make: rename of a directory",
    "make: mkdir",
    "make: mkdirat",
    "make: mkdir, trailing slashes",
}

# What only root may do, even without a sandbox.
FOR_ROOT = {"make: O_TMPFILE, linkat, AT_EMPTY_PATH"}


class Attempts:
    """Does each action to two names, and looks at them from outside."""

    def __init__(self, box: Box, user: str, kind: str, names: tuple[str, str]) -> None:
        self.box, self.user, self.kind = box, user, kind
        self.paths = [box.place.workspace / name for name in names]
        self.names = names
        self.results: dict[str, tuple] = {}
        for name in ("deep", "own"):
            path = box.place.workspace / name
            path.mkdir()
            give(box, path, user)

    def restore(self, path: Path) -> None:
        if self.kind == "make":
            remove(path)
        else:
            put(self.box, path, self.user)

    def one(self, inside: Inside, action: str, number: int) -> tuple[object, bool]:
        """What came of it, and whether anything has changed."""
        path = self.paths[number]
        before = state(path)
        result = inside(action, self.names[number])
        has_changed = state(path) != before
        if has_changed or number == 1:
            self.restore(path)
        return result, has_changed

    def run(self, inside: Inside) -> None:
        self.restore(self.paths[1])
        for action in inside("names", self.kind):
            self.results[action] = (*self.one(inside, action, 0), *self.one(inside, action, 1))
        shutil.rmtree(self.box.place.workspace / "own")

    def wrong(self, allowed: set[str]) -> dict[str, tuple]:
        return {
            action: found
            for action, found in self.results.items()
            if not self.is_right(action, found, allowed)
        }

    def is_right(self, action: str, found: tuple, allowed: set[str]) -> bool:
        result, has_changed, twin, twin_has_changed = found
        if action in REFUSED_FOR_ALL:
            expected = REFUSED_FOR_ALL[action]
            return (result, twin) == (expected, expected) and not has_changed
        if action in FOR_ROOT and twin == "ENOENT" and not twin_has_changed:
            twin, twin_has_changed = "ok", True
        if action in ALLOWED:
            return found == ("ok", True, "ok", True)
        is_fine = twin == (["old"] if self.kind == "read" else "ok")
        return (
            isinstance(result, str)
            and result in allowed
            and not has_changed
            and is_fine
            and (twin_has_changed or self.kind == "read")
        )


@pytest.fixture(params=["make", "change", "read"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def attempts(box: Box, user: str, kind: str, is_there: bool) -> Attempts:
    made = Attempts(box, user, kind, READ if kind == "read" else CHANGED)
    if is_there:
        made.restore(made.paths[0])
    return made


def test_names_of_the_host(box: Box, user: str, kind: str) -> None:
    """The file was created by the host after the start."""
    made = attempts(box, user, kind, False)
    with hand(box, SETTINGS, "names_calls", user=user) as inside:
        made.restore(made.paths[0])
        made.run(inside)
    # A file that may not be read may not get another name either, by a rule for paths.
    assert made.wrong({"EACCES", "EROFS"} if kind == "read" else {"EACCES"}) == {}
    assert len(made.results) > 15


def test_names_that_were_there(box: Box, user: str) -> None:
    made = attempts(box, user, "change", True)
    with hand(box, SETTINGS, "names_calls", user=user) as inside:
        made.run(inside)
    # The mounts that cover it are of another kind.
    assert made.wrong({"EACCES", "EROFS", "EBUSY", "EXDEV"}) == {}


def test_in_kernels(kernels: Kernels, kind: str) -> None:
    made = attempts(kernels.box, kernels.user, kind, False)
    with kernel_hand(kernels, SETTINGS, "names_calls") as inside:
        made.restore(made.paths[0])
        made.run(inside)
    assert made.wrong({"EACCES", "EROFS"} if kind == "read" else {"EACCES"}) == {}


def test_positive_control(box: Box, user: str, kind: str) -> None:
    """Without a sandbox each of them works with both names, so the attempts are real."""
    made = attempts(box, user, kind, True)
    with hand(box, None, "names_calls", user=user, sandbox=False) as inside:
        made.run(inside)
    works = "ok" if kind != "read" else ["old"]
    failed = {
        action: found
        for action, found in made.results.items()
        if found[0] != works
        or found[2] != works
        or (kind != "read" and not (found[1] and found[3]))
    }
    assert set(failed) <= (FOR_ROOT if user != "root" else set()), failed


@pytest.fixture
def never(box: Box, user: str) -> Iterator[tuple[Box, str, Path]]:
    path = box.place.workspace / CHANGED[0]
    for name in ("deep", "own"):
        (box.place.workspace / name).mkdir()
        give(box, box.place.workspace / name, user)
    yield box, user, path


# Refused to a descriptor that may only read, with or without a sandbox.
NEVER = {
    "never: ftruncate, a descriptor to read": "EINVAL",
    "never: a writable mapping": "EACCES",
    "never: a mapping made writable": "EACCES",
    "never: write, a descriptor to read": "EBADF",
    "never: fallocate, a descriptor to read": "EBADF",
    "never: F_SETFL": "EBADF",
}
# Calls that do not exist inside, whatever they are used for.
GONE = {
    "never: openat2": "ENOSYS",
    "never: io_uring": "ENOSYS",
    "never: clone3": "ENOSYS",
    "never: open_by_handle_at": "EPERM",
    "never: btrfs, a subvolume": "EPERM",
    "never: btrfs, a snapshot": "EPERM",
    "never: btrfs, subvolume 2": "EPERM",
    "never: btrfs, snapshot 2": "EPERM",
    "never: btrfs, destroy": "EPERM",
}


def test_what_never_works(never: tuple[Box, str, Path]) -> None:
    box, user, path = never
    with hand(box, SETTINGS, "names_calls", user=user) as inside:
        put(box, path, user)
        before = state(path)
        results = {name: inside(name, CHANGED[0]) for name in inside("names", "never")}
    assert results == NEVER | GONE and state(path) == before


def test_positive_control_of_what_never_works(never: tuple[Box, str, Path]) -> None:
    """Without a sandbox the calls exist: they fail otherwise, or work."""
    box, user, path = never
    put(box, path, user)
    with hand(box, None, "names_calls", user=user, sandbox=False) as inside:
        results = {name: inside(name, CHANGED[0]) for name in NEVER | GONE}
    assert {name: results[name] for name in NEVER} == NEVER
    same = {name for name in GONE if results[name] == GONE[name]}
    # For root alone.
    for_root = {
        "never: open_by_handle_at",
        "never: btrfs, a subvolume",
        "never: btrfs, a snapshot",
    }
    assert same <= (for_root if user != "root" else set()), results
