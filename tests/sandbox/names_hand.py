# SPDX-License-Identifier: Apache-2.0
"""The test's side of probes/hand.py: a hand in a command's or a kernel's sandbox.

    with hand(box, SETTINGS, user=user) as inside:
        assert inside("create", "x") == "ok"
        ...  # the host does something
        assert inside("write", ".mcp.json") == "EACCES"

What the test itself does is what a neighbour of the sandbox does: it works in the same directories,
outside.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from box import IS_ROOT, PROBES, Box, make_settings
from kernels import Kernels

Inside = Callable[..., Any]

# Longer texts of cells are cut.
PART = 2500

# How long races at random go on; `make verify-long` sets more.
RACE_SECONDS = float(os.environ.get("IPYBOX_TEST_RACE_SECONDS", "0"))


def script(*probes: str) -> str:
    return "\n".join((PROBES / f"{name}.py").read_text() for name in ("hand", *probes))


class Hand:
    """A command that does what it is asked to do."""

    def __init__(self, box: Box, line: list[str], **options: Any) -> None:
        self.errors = box.place.home / f"stderr-{box.n_settings}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                line,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                **({"cwd": box.place.workspace, "env": box.place.environ} | options),
            )

    def __call__(self, action: str, *args: object) -> Any:
        self.begin(action, *args)
        return self.end()

    def begin(self, action: str, *args: object) -> None:
        """For an action that waits for something that the test does then."""
        self.process.stdin.write(json.dumps([action, *args]) + "\n")
        self.process.stdin.flush()

    def end(self) -> Any:
        line = self.process.stdout.readline()
        assert line, f"the hand has gone: {self.said()}"
        return json.loads(line)

    def said(self) -> str:
        return self.errors.read_text(errors="replace")

    def close(self) -> str:
        """Ends it, and returns what ipybox and the command printed on stderr."""
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(120) == 0, self.said()
        return self.said()


def rounds() -> Iterator[int]:
    """Numbers from 0 on, at least one, until the time for a race is over."""
    end = time.monotonic() + RACE_SECONDS
    yield 0
    for number in itertools.count(1):
        if time.monotonic() > end:
            return
        yield number


@contextmanager
def hand(
    box: Box,
    settings: dict | None = None,
    *probes: str,
    user: str = "root",
    sandbox: bool = True,
    flags: tuple[str, ...] = (),
    **options: Any,
) -> Iterator[Hand]:
    command = ["/usr/bin/python3", "-I", "-c", script(*probes) + "\nserve()\n"]
    if sandbox:
        line = box.command(command, settings, user=user, flags=flags)
    else:
        line = [*box.become(user), *command]
    inside = Hand(box, line, **options)
    try:
        assert inside("pid") != []  # it runs, so all mounts are made
        yield inside
    finally:
        if inside.process.poll() is None and not inside.process.stdin.closed:
            inside.process.stdin.close()
            inside.process.wait(120)
        inside.process.stdout.close()


@contextmanager
def kernel_hand(
    kernels: Kernels,
    settings: dict | None = None,
    *probes: str,
    is_sandboxed: bool = True,
    has_default: bool = False,
    flags: tuple[str, ...] = (),
) -> Iterator[Inside]:
    """The same in a kernel: each action is a cell.

    With @has_default its configuration is the default of ipybox.
    """
    if is_sandboxed and not has_default:
        path = kernels.box.write_settings(make_settings() if settings is None else settings)
        flags = ("--sandbox-config", path, *flags)
    server = kernels.serve(*flags, is_sandboxed=is_sandboxed)

    def inside(action: str, *args: object) -> Any:
        words = json.dumps([action, *args])
        size = cell(f"answer = json.dumps(do(*json.loads({words!r})))\nprint(len(answer))")
        parts = [cell(f"print(answer[{at}:{at + PART}])") for at in range(0, int(size), PART)]
        return json.loads("".join(parts))

    def cell(code: str) -> str:
        # Lines of ipybox's own may follow, about what was refused.
        return server.cell(code).splitlines()[0]

    try:
        server.cell(f"exec({script(*probes)!r}, globals())")
        yield inside
    finally:
        server.close()


# --- the neighbour ---


def give(box: Box, path: Path, user: str) -> None:
    """The file belongs to the user that runs the sandbox."""
    if IS_ROOT and user != "root":
        os.chown(path, box.ordinary_id, box.ordinary_id, follow_symlinks=False)


def put(box: Box, path: Path, user: str, content: str = "old") -> None:
    """The neighbour creates a file in its place, in one step, as editors do."""
    new = box.place.root / "put.new"
    new.write_text(content)
    new.chmod(0o644)
    os.setxattr(new, "user.old", b"old")
    give(box, new, user)
    if path.is_dir() and not path.is_symlink():
        remove(path)
    new.replace(path)


def make(box: Box, path: Path, user: str, content: str = "old") -> None:
    """Like put(), with the directories on the way."""
    missing = [
        part
        for part in reversed(path.relative_to(box.place.root).parents)
        if not (box.place.root / part).exists()
    ]
    for part in missing:
        (box.place.root / part).mkdir()
        give(box, box.place.root / part, user)
    put(box, path, user, content)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def state(path: Path) -> tuple | None:
    """Everything about a file that code inside could change."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return None
    content = path.read_bytes() if stat.S_ISREG(info.st_mode) else None
    attributes = {
        name: os.getxattr(path, name, follow_symlinks=False)
        for name in os.listxattr(path, follow_symlinks=False)
    }
    kept = (info.st_ino, info.st_mode, info.st_uid, info.st_gid, info.st_nlink, info.st_ctime_ns)
    return (*kept, content, str(attributes))


def tree(directory: Path) -> set[str]:
    """The relative paths of everything in it."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}
