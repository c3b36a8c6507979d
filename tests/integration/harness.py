# SPDX-License-Identifier: Apache-2.0
"""What all pytest suites share: paths, the test's directories, and the check for leftovers."""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "test"

# How long ending processes (killed, not yet reaped) may take.
GRACE_SECONDS = 15.0

PR_SET_CHILD_SUBREAPER = 36


def existing(path: Path) -> Path:
    """Returns the path, or raises an error that says how to get it: nothing is skipped."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is missing; `make check-all` or scripts/test-setup makes it"
        )
    return path


def leave_out(items: list[Any]) -> None:
    """Tests that are not run, and do not count.

    An ordinary user does not run those marked needs_root.
    """
    if os.geteuid() != 0:
        items[:] = [item for item in items if item.get_closest_marker("needs_root") is None]


# How long a server may take to start. On a busy machine its imports take a while.
SERVER_LIMITS = {"connect_timeout": 120}


class Servers:
    """The `server_params` of third-party MCP servers, each a real one from PyPI or npm."""

    def time(self) -> dict:
        return self._params(CACHE / "mcp2/bin/mcp-server-time", "--local-timezone", "UTC")

    def git(self, repository: Path | str) -> dict:
        return self._params(CACHE / "mcp2/bin/mcp-server-git", "--repository", str(repository))

    def sqlite(self, database: Path | str) -> dict:
        return self._params(CACHE / "mcp1/bin/mcp-server-sqlite", "--db-path", str(database))

    def everything(self) -> dict:
        return self._npm("server-everything")

    def filesystem(self, *directories: Path | str) -> dict:
        return self._npm("server-filesystem", *map(str, directories))

    def _npm(self, name: str, *args: str) -> dict:
        modules = CACHE / "node/node_modules/@modelcontextprotocol"
        return self._params(
            CACHE / "node/bin/node", str(existing(modules / name / "dist/index.js")), *args
        )

    def _params(self, command: Path, *args: str) -> dict:
        return {"command": str(existing(command)), "args": list(args), "limits": SERVER_LIMITS}


def inspector_command() -> list[str]:
    """MCP Inspector's command line; followed by a server's command and `--method …`."""
    script = CACHE / "node/node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"
    return [str(existing(CACHE / "node/bin/node")), str(existing(script)), "--cli"]


def client_python(version: int) -> str:
    """A Python that has the official SDK (`mcp`) of major version 1 or 2."""
    return str(existing(CACHE / f"mcp{version}/bin/python"))


@dataclass
class Place:
    """The directories of one test, and the environment that keeps programs within them."""

    root: Path
    environ: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, root: Path) -> Place:
        place = cls(root)
        for path in (place.tmp, place.home, place.workspace, place.runtime, place.state):
            path.mkdir(parents=True)
        place.runtime.chmod(0o700)
        venv = existing(ROOT / ".venv")
        keep = ("LANG", "LC_ALL", "TERM", "CI", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")
        certificates = [
            n for n in os.environ if n.endswith(("_CERT", "_CA_CERTS", "SSL_CERT_FILE"))
        ]
        place.environ = {
            name: os.environ[name] for name in (*keep, *certificates) if name in os.environ
        }
        place.environ |= {
            "PATH": f"{venv}/bin:{CACHE}/node/bin:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(venv),
            "HOME": str(place.home),
            "TMPDIR": str(place.tmp),
            "XDG_CONFIG_HOME": str(place.home / ".config"),
            "XDG_CACHE_HOME": str(place.home / ".cache"),
            "XDG_DATA_HOME": str(place.home / ".local/share"),
            "XDG_STATE_HOME": str(place.state),
            "XDG_RUNTIME_DIR": str(place.runtime),
        }
        return place

    @property
    def tmp(self) -> Path:
        return self.root / "t"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def workspace(self) -> Path:
        return self.root / "ws"

    @property
    def runtime(self) -> Path:
        return self.root / "run"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def left_behind(self) -> list[str]:
        """Temporary files and sockets. A test's own files belong into the workspace."""
        found = [p for top in (self.tmp, self.runtime) for p in sorted(top.rglob("*"))]
        found += [p for p in sorted(self.root.rglob("*")) if p.is_socket() and p not in found]
        return [str(p.relative_to(self.root)) for p in found]

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


# Processes. This process is a child subreaper: orphans of a test are re-parented to it. So "left
# behind" means "still a descendant", and no process can hide by dropping a marker.


def prepare_process() -> None:
    """Makes this process a subreaper with ordinary signals, umask and environment."""
    # The tests may have been started in the background, where shells ignore SIGINT, with a strict
    # umask, or by a hook of git. The programs that they start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)
    for name in [
        name for name in os.environ if name.startswith("GIT_") and not name.startswith("GIT_SSL")
    ]:
        del os.environ[name]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def _children() -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text(errors="replace")
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    return children


def descendants() -> set[int]:
    """The processes below this one, including zombies."""
    children = _children()
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), []):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def own_mounts(pids: Iterable[int], root: Path) -> int:
    """The mounts of processes of ipybox.

    These are all of the mount namespaces that they have made. In the namespace of this process,
    which other programs use, too, they are those below @root.
    """
    ours = os.readlink("/proc/self/ns/mnt")
    points: dict[str, list[str]] = {}
    for pid in pids:
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
        points[os.readlink(f"/proc/{pid}/ns/mnt")] = [line.split()[4] for line in lines]
    points[ours] = [point for point in points.get(ours, []) if point.startswith(f"{root}/")]
    return sum(map(len, points.values()))


def describe(pid: int) -> str:
    try:
        command = (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
        return f"{pid} {command.strip()[:200] or Path(f'/proc/{pid}/comm').read_text().strip()}"
    except OSError:
        return str(pid)


def is_zombie(pid: int, except_for: str) -> bool:
    """Whether it has ended and was not reaped, and has another name than `except_for`."""
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return False
    return rest.split()[0] == "Z" and name.partition("(")[2] != except_for


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def wait_for_end(pids: set[int], deadline: float) -> None:
    """Waits until they end, and reaps each as it ends.

    Another process may wait for that, as the first process of a pid namespace waits for its
    children.
    """
    ends = {}
    for pid in pids:
        try:
            ends[os.pidfd_open(pid)] = pid
        except ProcessLookupError:
            pass
    while ends:
        poll = select.poll()
        for fd in ends:
            poll.register(fd, select.POLLIN)
        ready = poll.poll(max(0, deadline - time.monotonic()) * 1000)
        if not ready:
            break
        for fd, _ in ready:
            _reap(ends.pop(fd))
            os.close(fd)
    for fd in ends:
        os.close(fd)


def processes_left(before: set[int]) -> list[str]:
    """The descendants that are not in `before`, after a grace period. They are killed."""
    deadline = time.monotonic() + GRACE_SECONDS
    left = descendants() - before
    while left and time.monotonic() < deadline:
        wait_for_end(left, deadline)
        # Orphans of the ended ones are our children now.
        left = descendants() - before
    found = [describe(pid) for pid in sorted(left)]
    while left:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for_end(left, time.monotonic() + GRACE_SECONDS)
        left = (descendants() - before) - left
    return found


def run(
    command: list[str], place: Place, *, stdin: str | None = None, timeout: float = 120, **options
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end in the test's place. stdin is empty unless given."""
    options.setdefault("cwd", place.workspace)
    options.setdefault("env", place.environ)
    given = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
        **given,
        **options,
    )
