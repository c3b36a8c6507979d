# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the Python SDK; tests/README.md lists them.

The SDK is imported here, from python/ipybox. A test that awaits something is a coroutine function.
The program under test is $IPYBOX_BIN, else build/ipybox.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from ipybox.core import close_core
from local_servers import write_commands


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def home() -> Iterator[harness.Place]:
    """The environment of all tests of this process.

    The tests share a core, since starting one for each would take most of the time. At the end
    nothing may be left of it.
    """
    before = harness.descendants()
    # Not below /tmp: each sandbox has a /tmp of its own.
    place = harness.Place.make(Path(tempfile.mkdtemp(prefix="ipb-", dir="/var/tmp")) / "x")
    place.root.parent.chmod(0o755)
    commands = place.root / "bin"
    write_commands(commands)
    place.environ["PATH"] = f"{commands}:{place.environ['PATH']}"
    place.environ["IPYBOX_BIN"] = str(
        harness.existing(
            Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
        )
    )
    yield place
    close_core()
    processes = harness.processes_left(before)
    files = place.left_behind()
    place.root = place.root.parent
    place.remove()
    assert not processes, "processes left behind:\n" + "\n".join(processes)
    assert not files, "files left behind:\n" + "\n".join(files)


@pytest.fixture(autouse=True)
def workspace(home: harness.Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory for the test, which is the current one.

    After the test no kernel and no MCP server may be left.
    """
    for name in list(os.environ):
        if not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    for name, value in home.environ.items():
        monkeypatch.setenv(name, value)
    directory = Path(tempfile.mkdtemp(prefix="ws-", dir=home.workspace))
    monkeypatch.chdir(directory)
    # What other tests of this process keep running is not ours.
    before = _extra_processes()
    yield directory
    left = kernels_left(before)
    assert not left, "left behind:\n" + "\n".join(left)


def kernels_left(before: set[int]) -> list[str]:
    """The new descendants of the core besides its forkservers, after a grace period."""
    deadline = time.monotonic() + harness.GRACE_SECONDS
    _reap_orphans()
    left = _extra_processes() - before
    while left and time.monotonic() < deadline:
        harness.wait_for_end(left, deadline)
        left = _extra_processes() - before
    return [harness.describe(pid) for pid in sorted(left)]


def _reap_orphans() -> None:
    """What a core that was killed has left became a child of this process, and ended then.

    The SDK itself reaps cores.
    """
    for pid in harness.descendants():
        if parent_of(pid) == os.getpid() and harness.is_zombie(pid, except_for="ipybox"):
            os.waitpid(pid, os.WNOHANG)


def _extra_processes() -> set[int]:
    """The descendants that are neither cores nor forkservers.

    A core is a child of this process; a forkserver is a child of a core.
    """
    ours = harness.descendants()
    cores = {pid for pid in ours if parent_of(pid) == os.getpid()}
    forkservers = {
        pid for pid in ours if parent_of(pid) in cores and "forkserver" in harness.describe(pid)
    }
    return ours - cores - forkservers


def parent_of(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])
