# SPDX-License-Identifier: Apache-2.0
"""`ipybox serve --pool N`: kernels that are ready before a client needs one."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_driver import Client, Serve, write_tokens

ALICE, BOB = "a" * 32, "b" * 32
PID = "import os; os.getpid()"


@pytest.fixture
def root() -> Iterator[Path]:
    """Not below /tmp, of which each sandbox has its own."""
    with tempfile.TemporaryDirectory(prefix="ipb-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def wait_until(condition, timeout: float = 120):
    """What is waited for has no event that a test could see."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def kernels(server: Serve) -> set[int]:
    """Kernels without sandboxes: the children of the forkserver that have the session's directory
    already, as a new one has when its kernel is ready."""
    found = set()
    for forkserver in children(server.process.pid):
        try:
            found |= set(children(forkserver))
        except FileNotFoundError:
            continue
    return found


def use(client: Client) -> int:
    """The process of its kernel."""
    return int(client.cell(PID))


@pytest.fixture
def unsandboxed(ipybox, place) -> Iterator[Serve]:
    with Serve(ipybox, place, "--unsandboxed-kernels", "--pool=2") as server:
        yield server


def test_sessions_get_ready_kernels(unsandboxed):
    """Each is used once, and replaced."""
    used: set[int] = set()
    for _ in range(4):
        ready = wait_until(lambda: len(found := kernels(unsandboxed) - used) == 2 and found)
        client = unsandboxed.client()
        pid = use(client)
        assert pid in ready and pid not in used
        used.add(pid)
        assert client.cell("'x' in globals(), len(In)") == "(False, 3)"
        client.cell("x = 1")


def test_more_sessions_than_ready_kernels(unsandboxed):
    wait_until(lambda: len(kernels(unsandboxed)) == 2)
    clients = [unsandboxed.client() for _ in range(5)]
    assert len({use(client) for client in clients}) == 5
    assert {client.cell("7") for client in clients} == {"7"}


def test_a_ready_kernel_that_dies(ipybox, place):
    """It is replaced, and the log says so."""
    options = ["--unsandboxed-kernels", "--pool=1"]
    with Serve(ipybox, place, *options, stderr=subprocess.PIPE) as server:
        (first,) = wait_until(lambda: kernels(server))
        os.kill(first, signal.SIGKILL)
        (second,) = wait_until(lambda: kernels(server) - {first})
        pid = use(server.client())
        assert pid == second
        server.process.stdin.close()
        log = server.process.stderr.read().decode()
    assert "a kernel that waited for a client ended, and is replaced in 1 s" in log
    assert "SIGKILL" in log


def test_environment_is_that_of_a_new_session(unsandboxed, workspace):
    """A ready kernel is not used if .env has changed."""
    before = wait_until(lambda: len(found := kernels(unsandboxed)) == 2 and found)
    (workspace / ".env").write_text("KERNEL_ENV_COLOUR=blue\n")
    client = unsandboxed.client()
    assert client.cell("import os; os.environ['COLOUR']") == "'blue'"
    assert use(client) not in before
    after = wait_until(
        lambda: len(found := kernels(unsandboxed) - before - {use(client)}) == 2 and found
    )
    other = unsandboxed.client()
    assert use(other) in after and other.cell("os.environ['COLOUR']") == "'blue'"


SEEN = """
import os, resource, signal, sys, threading
print(os.getcwd(), os.listdir(), sys.path, sys.argv, __name__)
print(sorted(globals()), [_, __, _i, _oh], get_ipython().execution_count, sys.exc_info())
print(In[1:], Out, list(get_ipython().user_ns_hidden) != [])
print(sorted(os.environ), os.environ["HOME"], len(os.listdir("/proc/self/fd")))
print([thread.name for thread in threading.enumerate()], os.umask(0o22), os.nice(0))
print(signal.getsignal(signal.SIGINT).__name__)
print(resource.getrlimit(resource.RLIMIT_NOFILE), len(os.listdir("/proc")) < 50)
"""


def test_a_ready_session_is_like_a_new_one(ipybox, place, root):
    """What code sees of its session, what its client sees, and what is left for a next cell."""
    seen = []
    for pool in ("--pool=0", "--pool=1"):
        with Serve(ipybox, place, f"--workspace={root}", pool) as server:
            client = server.client()
            seen.append(
                [
                    client.initialized["result"],
                    client.cell(SEEN),
                    client.cell("print('second')"),
                    client.call("list_variables", {}).json()["result"]["content"],
                    client.call("get_cell_result", {}).json()["result"]["content"],
                ]
            )
    for new, ready in zip(*seen):
        assert new == ready
    assert str(root) in seen[0][1] and seen[0][2].strip() == "second"


def test_principals(ipybox, place, root):
    """A ready kernel has the workspace and the sandbox of its principal."""
    tokens = write_tokens(place.home / "tokens", alice=ALICE, bob=BOB)
    with Serve(ipybox, place, tokens, f"--workspace={root}", "--pool=2") as server:
        for number in range(3):
            for token, name in ((ALICE, "alice"), (BOB, "bob")):
                client = server.client(token)
                code = f"import os; open('{number}', 'w').write('{name}'); os.getcwd()"
                assert client.cell(code) == repr(str(root / name))
                other = root / ("bob" if name == "alice" else "alice")
                assert "Error" in client.cell(f"os.listdir({str(other)!r})")
                assert client.delete() == 204
    assert [(root / "alice" / str(n)).read_text() for n in range(3)] == ["alice"] * 3
    assert [(root / "bob" / str(n)).read_text() for n in range(3)] == ["bob"] * 3


def test_limits(ipybox, place):
    """Clients get all sessions that there may be; the pool has what is left."""
    options = ["--unsandboxed-kernels", "--pool=3", "--max-sessions=3"]
    with Serve(ipybox, place, *options, stderr=subprocess.PIPE) as server:
        wait_until(lambda: len(kernels(server)) == 3)
        clients = [server.client() for _ in range(3)]
        used = {use(client) for client in clients}
        assert server.client().status == 503
        wait_until(lambda: kernels(server) == used)
        listed = clients[0].call("list_sessions", {}).json()["result"]["structuredContent"]
        session_id = listed["sessions"][0]["session_id"]
        closed = clients[0].call("close_session", {"session_id": session_id}).json()["result"]
        assert not closed["isError"], closed
        assert clients[0].delete() == 204
        (added,) = wait_until(lambda: kernels(server) - used)
        assert use(server.client()) == added
        server.process.stdin.close()
        assert "waited for a client ended" not in server.process.stderr.read().decode()


def test_drain(ipybox, place):
    """Ready kernels end with the server, and no others are made."""
    with Serve(ipybox, place, "--pool=3") as server:
        server.client().cell("1")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0


def test_usage(run_ipybox):
    for value in ("-1", "1001", "x"):
        done = run_ipybox("serve", f"--pool={value}")
        assert done.returncode == 2 and "pool" in done.stderr, done
