# SPDX-License-Identifier: Apache-2.0
"""Branches of kernels in sandboxes, as each user: their walls, their ends, their processes.

`tests/sdk/test_fork.py` has the rest, as the user of the tests.
"""

from __future__ import annotations

import json
import os

import pytest
import test_files as files
import test_syscalls
from box import PROBES, make_settings
from kernels import Kernels
from rpc_driver import RpcCore, RpcError

PROBE = """
import ctypes, os, signal
def tries(pid):
    found = []
    try:
        os.kill(pid, 0)
        found.append("signalled")
    except OSError:
        pass
    for name in ("environ", "maps", "mem", "fd/1", "root", "cwd"):
        path = f"/proc/{pid}/{name}"
        try:
            os.readlink(path) if name in ("fd/1", "root", "cwd") else open(path, "rb").close()
            found.append(name)
        except OSError:
            pass
    libc = ctypes.CDLL(None)
    if libc.ptrace(16, pid, 0, 0) == 0:  # PTRACE_ATTACH
        found.append("traced")
    return " ".join(found)
print(os.getpid(), os.getppid())
"""
POSTURE = """
lines = [line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line]
status = {name: value.strip() for name, value in lines}
print([status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
                                 "Seccomp", "Seccomp_filters", "Uid", "Gid")])
"""
# Programs inside find no Landlock, in a branch neither.
LANDLOCK = "print(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1))"


@pytest.fixture
def session(core: RpcCore, kernels: Kernels) -> str:
    session = core.open(sandbox=True, python=str(kernels.python))
    core.call("session.start", session=session)
    return session


def fork(core: RpcCore, session: str) -> str:
    return core.call("session.fork", session=session)["session"]


def has_signal_scope() -> bool:
    """Landlock limits signals from Linux 6.12 on."""
    return tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 12)


def test_walls(core: RpcCore, session: str) -> None:
    core.text(session, "x = 1")
    sessions = [session, fork(core, session), fork(core, session)]
    sessions.append(fork(core, sessions[1]))
    found = [(core.text(each, PROBE) or "").split() for each in sessions]
    pids = [int(pid) for pid, _ in found]
    assert [parent for _, parent in found[1:]] == ["1", "1", "1"]
    # The positive control: a kernel reaches what it has forked.
    assert "signalled" in (core.text(session, f"print(tries({pids[1]}))") or "")
    below = {0: {1, 2, 3}, 1: {3}, 2: set(), 3: set()}
    for i, each in enumerate(sessions):
        for j, pid in enumerate(pids):
            if i == j:
                continue
            seen = set((core.text(each, f"print(tries({pid}))") or "").split())
            allowed = {"signalled", "fd/1", "root", "cwd"} if j in below[i] else set()
            if not has_signal_scope():
                allowed.add("signalled")
            assert seen <= allowed, (i, j, seen)


def test_posture(core: RpcCore, session: str) -> None:
    """A branch has exactly the rights of its forerunner."""
    core.text(session, "import ctypes")
    branch = fork(core, session)
    assert core.text(branch, POSTURE) == core.text(session, POSTURE)
    assert core.text(branch, LANDLOCK) == core.text(session, LANDLOCK) == "-1"


def run_probe(core: RpcCore, kernels: Kernels, name: str, settings: dict, *args: str) -> dict:
    """Runs a probe of the attack suite in a branch of a branch, whose forerunners have ended."""
    path = kernels.box.write_settings(settings)
    session = core.open(sandbox=True, sandbox_config=path, python=str(kernels.python))
    core.call("session.start", session=session)
    for _ in range(2):
        forerunner, session = session, fork(core, session)
        core.call("session.close", session=forerunner)
    script = (PROBES / f"{name}.py").read_text()
    code = (
        f"import sys\nsys.argv = ['probe', *{args!r}]\nexec({script!r}, {{'__name__': '__main__'}})"
    )
    return json.loads(core.text(session, code) or "")


def test_attacks_by_system_calls(core: RpcCore, kernels: Kernels) -> None:
    """As in test_kernel_walls: the same results as in a kernel that was not forked."""
    results = run_probe(core, kernels, "syscalls", make_settings())
    right = {
        name: "ok" if name.startswith("twin: ") else test_syscalls.expected(name)
        for name in results
    }
    assert results == right


def test_attacks_on_files(core: RpcCore, kernels: Kernels) -> None:
    outside = files.make_tree(kernels.box)
    kernels.box.prepare(kernels.user)
    before = files.snapshot(outside)
    results = run_probe(core, kernels, "files", files.SETTINGS, str(outside))
    expected = {name: files.expected(name, kernels.user) for name in results}
    wrong = {
        name: (result, expected[name])
        for name, result in results.items()
        if result not in expected[name]
    }
    assert not wrong, "(is, should be): " + str(wrong)
    assert files.snapshot(outside) == before


def test_files(core: RpcCore, session: str) -> None:
    core.text(session, "import os")
    branch = fork(core, session)
    core.call("session.close", session=session)
    assert core.text(branch, "open('new.txt', 'w').write('new')") == "3"
    hook = "os.makedirs('.git/hooks', exist_ok=True); open('.git/hooks/pre-commit', 'w')"
    for code in ("open('.bashrc', 'w')", hook):
        result = core.execute(branch, code)
        assert result["status"] == "error", result
        assert "PermissionError" in str(result)


def test_fresh_kernels_of_a_staged_session(core: RpcCore, kernels: Kernels) -> None:
    """A kernel that enters the sandbox of others has the rights of the first one, and is apart."""
    first = core.open(sandbox=True, workspace_mode="staged", python=str(kernels.python))
    core.text(first, "import ctypes")
    posture = core.text(first, POSTURE)
    sessions = [first, fork(core, first), fork(core, first)]
    where = core.text(first, "import os; print(os.readlink('/proc/self/ns/mnt'))")
    for each in sessions[:2]:
        core.call("session.reset", session=each)
        assert core.text(each, "import os; print(os.readlink('/proc/self/ns/mnt'))") == where
        assert core.text(each, POSTURE) == posture
        assert core.text(each, f"import ctypes\n{LANDLOCK}") == "-1"
    pids = [int((core.text(each, PROBE) or "").split()[0]) for each in sessions]
    for i, each in enumerate(sessions):
        for j, pid in enumerate(pids):
            seen = set((core.text(each, f"print(tries({pid}))") or "").split())
            allowed = set() if has_signal_scope() else {"signalled"}
            assert i == j or seen <= allowed, (i, j, seen)
    core.text(sessions[0], "open('new', 'w').write('new'); None")
    core.call("session.close", session=sessions[0])
    core.call("session.close", session=sessions[1])
    assert core.text(sessions[2], "print(open('new').read())") == "new"
    assert core.call("session.commit", session=sessions[2])["total"] == 1
    assert (kernels.place.workspace / "new").read_text() == "new"


# It may be reaped at any time.
IS_ALIVE = """
import os, subprocess
def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().split()[2] not in "XZ"
    except (FileNotFoundError, ProcessLookupError):
        return False
"""


def test_ends(core: RpcCore, session: str) -> None:
    """What a kernel started ends with it; the sandbox ends with the last kernel."""
    core.text(session, IS_ALIVE)
    branches = [fork(core, session), fork(core, session)]
    start = "subprocess.Popen(['sleep', '1000'], start_new_session=True).pid"
    alive = "is_alive({0})"
    child = core.text(branches[0], start)
    kept = core.text(session, start)
    core.call("session.close", session=branches[0])
    assert core.text(branches[1], alive.format(child)) == "False"
    assert core.text(branches[1], alive.format(kept)) == "True"
    core.call("session.close", session=session)
    assert core.text(branches[1], alive.format(kept)) == "False"
    result = core.execute(branches[1], "os._exit(3)")
    assert (result["status"], "exit status 3" in str(result)) == ("lost", True)
    assert core.text(branches[1], "'os' in globals()") == "False"


def test_unknown_sessions(core: RpcCore, session: str) -> None:
    with pytest.raises(RpcError, match="no session"):
        core.call("session.fork", session="s99")
    with pytest.raises(RpcError, match="seed"):
        core.call("session.fork", session=session, seed=-1)
