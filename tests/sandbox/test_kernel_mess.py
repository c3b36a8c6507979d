# SPDX-License-Identifier: Apache-2.0
"""Attack suite F, kernels: processes are killed at every step, and kernels damage themselves.

The next cell works, and at the end nothing remains. The fixture `place` looks for processes,
mounts, sockets, cgroups and files. Bombs are in test_limits.py and test_kernels.py, commands in
test_mess.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from pathlib import Path

import harness
import pytest
import scripted_server
from kernels import Kernels
from mcp_driver import McpServer
from meeting import Meeting

# A service that hides: with its own session, environment and descriptors.
DAEMON = """
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 2000)
        os.chdir("/")
        os.execve("/bin/sh", ["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1000; done"], {})
    os._exit(0)
os.wait();
"""


def outer(pid_inside: str, server: McpServer) -> list[int]:
    """Processes of sandboxes below @server that have this pid inside."""
    ours = os.readlink(f"/proc/{server.process.pid}/ns/pid")
    found = []
    for pid in harness.descendants():
        try:
            text = Path(f"/proc/{pid}/status").read_text()
            inner = text.partition("NSpid:")[2].partition("\n")[0].split()[-1]
            if os.readlink(f"/proc/{pid}/ns/pid") != ours and inner == pid_inside:
                found.append(pid)
        except OSError:
            pass
    return found


def forkservers() -> list[int]:
    found = []
    for pid in harness.descendants():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
            if (
                b"forkserver.py" in command
                and b"forkserver.py" not in Path(f"/proc/{parent}/cmdline").read_bytes()
            ):
                found.append(pid)
        except OSError:
            pass
    return found


def boxed_forks(server: McpServer) -> list[int]:
    """The kernel: the process in the sandbox that is not its first process or a helper."""
    pid = server.cell("import os; print(os.getpid())")
    (found,) = outer(pid, server)
    return [found]


VICTIMS = {
    "kernel": boxed_forks,
    "pid 1": lambda server: outer("1", server),
    "forkserver": lambda server: forkservers(),
    "everybody": lambda server: [*outer("1", server), *boxed_forks(server), *forkservers()],
}


def kill(pids: list[int]) -> None:
    """Kills all of them, and waits until the last one has ended."""
    assert pids
    ends = [os.pidfd_open(pid) for pid in pids]
    for end in ends:
        with contextlib.suppress(ProcessLookupError):  # it went with another one
            signal.pidfd_send_signal(end, signal.SIGKILL)
    assert select.select(ends[-1:], [], [], 60)[0]
    for end in ends:
        os.close(end)


def assert_works(server: McpServer) -> None:
    """The first cell after a death may be lost.

    A kernel outlives its forkserver for a moment, so that cell may also succeed; then the second
    one runs in a fresh kernel and has a notice of the loss.
    """
    server.tool("execute_ipython_cell", {"code": "1"})
    output, *notices = server.cell("print('works')").split("\n\n[ipybox] ")
    assert output == "works"
    assert all("its state is lost" in notice for notice in notices)


@pytest.mark.parametrize("victim", VICTIMS)
def test_killing_while_idle(kernels: Kernels, victim: str) -> None:
    with kernels.serve() as server:
        server.cell(DAEMON)
        kill(VICTIMS[victim](server))
        assert_works(server)
        assert len(forkservers()) == 1
        assert len(outer("1", server)) <= 2


@pytest.mark.parametrize("victim", VICTIMS)
def test_killing_during_a_cell(kernel: Kernels, victim: str) -> None:
    with kernel.serve() as server:
        server.cell("1")
        pids = VICTIMS[victim](server)
        begun = Meeting(kernel.place.workspace / "begun")
        code = f"{DAEMON}{begun.code}\nimport time; time.sleep(1000)"
        cell = server.start_tool("execute_ipython_cell", {"code": code, "timeout": 90})
        begun.wait()
        kill(pids)
        if victim == "forkserver":
            # Its kernels continue, but they look like dead ones: in both cases the cell ends.
            server.notify("notifications/cancelled", {"requestId": cell})
        else:
            assert "kernel" in server.answer(cell)["result"]["content"][0]["text"]
        assert_works(server)


def test_killing_the_core_at_any_step(kernels: Kernels) -> None:
    """From the first moments, over warm-up and sandbox, to a cell and a server's call: what ipybox
    had started goes with it.
    """
    before = harness.descendants()
    for step in (0, 0.02, 0.1, 0.3, 0.6, 1.2):
        server = kernels.serve()
        server.start_tool(
            "execute_ipython_cell", {"code": DAEMON + "import time; time.sleep(1000)"}
        )
        until = time.monotonic() + step
        while time.monotonic() < until:
            time.sleep(0.005)
        server.process.kill()
        server.process.wait()
        server.process.stdin.close()
        server.process.stdout.close()
    assert harness.processes_left(before) == []


def test_the_client_goes_at_any_step(kernels: Kernels) -> None:
    """At the end of input ipybox ends with status 0, and soon, whatever it was doing."""
    before = harness.descendants()
    for step in (0, 0.02, 0.1, 0.3, 0.6):
        server = kernels.serve()
        server.start_tool(
            "execute_ipython_cell",
            {"code": DAEMON + "import time; time.sleep(1000)", "timeout": 1000},
        )
        until = time.monotonic() + step
        while time.monotonic() < until:
            time.sleep(0.005)
        assert server.close() == 0
    assert harness.processes_left(before) == []


@pytest.mark.parametrize("is_boxed", [True, False])
def test_killing_a_server(kernel: Kernels, is_boxed: bool) -> None:
    """A server that is killed, idle or in a call: that call fails, and the next one starts another
    server.
    """
    at = scripted_server.copy(kernel.place.workspace)
    params = scripted_server.params("results", "child", at=at, command="/usr/bin/python3")
    flags = [] if is_boxed else ["--unsandboxed-servers"]
    call = "from mcptools.fake import pid, hang\nprint(pid.run(pid.Params()))"
    with kernel.serve(*flags) as server:
        server.register("fake", params)
        for _ in range(2):
            inner = server.cell(call)
            pids = outer(inner, server) if is_boxed else [int(inner)]
            kill(
                [
                    pid
                    for pid in pids
                    if b"scripted_server" in Path(f"/proc/{pid}/cmdline").read_bytes()
                ]
            )
            server.tool("execute_ipython_cell", {"code": call})
        inner = server.cell(call)
        begun = Meeting(kernel.place.workspace / "begun")
        # The server says when it has the call. Killed before that, it is started once more.
        code = f"hang.run(hang.Params(begun={str(begun.path)!r}))"
        cell = server.start_tool("execute_ipython_cell", {"code": code})
        begun.wait()
        pids = outer(inner, server) if is_boxed else [int(inner)]
        kill(
            [pid for pid in pids if b"scripted_server" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        )
        assert server.answer(cell)["result"]["isError"]
        assert server.cell("print('works')") == "works"
        assert server.cell(call).isdigit()


# What a kernel does to itself


HARMS = {
    "exit": ("import os; os._exit(3)", "exit status 3"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "abort": ("import os; os.abort()", "SIGABRT"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
    "kill everybody": ("import os; os.kill(-1, 9); os.kill(os.getpid(), 9)", "SIGKILL"),
    "another program": (
        "import os; os.execv('/bin/sleep', ['sleep', '1000'])",
        "timeout|state is lost",
    ),
    "C code that sleeps": ("import ctypes; ctypes.PyDLL(None).sleep(1000)", "timeout"),
    "signals ignored": (
        "import signal, time\nfor n in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:\n"
        "    signal.signal(n, signal.SIG_IGN)\n"
        "for n in range(34, 65): signal.signal(n, signal.SIG_IGN)\n"
        "while True: time.sleep(1)",
        "timeout",
    ),
    "signals blocked": (
        "import signal, time\n"
        "signal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))\n"
        "while True: time.sleep(1)",
        "timeout",
    ),
    "stopped": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "timeout"),
    "all stopped": ("import os, signal; os.kill(0, signal.SIGSTOP)", "timeout"),
    "no descriptors": (
        "import os, time; os.closerange(0, 3000); time.sleep(1000)",
        "kernel|timeout",
    ),
    "no memory": (
        "import resource, time; resource.setrlimit(resource.RLIMIT_DATA, (0, 0)); "
        "x = bytearray(1 << 24)",
        "MemoryError|kernel",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_harm_to_itself(kernel: Kernels, harm: str) -> None:
    code, said = HARMS[harm]
    with kernel.serve() as server:
        text = server.failing_cell(DAEMON + code, timeout=2 if "timeout" in said else 60)
        assert any(word in text for word in said.split("|")), text
        server.tool("reset")
        assert server.cell("print('works')") == "works"
        # One sandbox, and perhaps one that is ready: earlier ones are gone.
        assert len(outer("1", server)) <= 2


@pytest.mark.parametrize(
    "code",
    [
        "while True: print('x' * 1000)",
        "import os\nwhile True: os.write(1, bytes(65536))",
        "!yes",
        "while True: display('x' * 100000)",
    ],
    ids=["print", "write", "child", "display"],
)
def test_floods(kernel: Kernels, code: str) -> None:
    """Such cells end with the timeout, and the core's memory is bounded."""
    with kernel.serve() as server:
        server.cell("1")
        result = server.tool(
            "execute_ipython_cell", {"code": code, "timeout": 1, "max_output_chars": 1000}
        )
        assert result["isError"] and "timeout" in result["content"][0]["text"]
        assert sum(len(block["text"]) for block in result["content"]) < 20_000
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert int(status.partition("VmHWM:")[2].split()[0]) < 300 * 1024
        assert server.cell("print('works')").endswith("works")


def test_daemons_end_with_the_session(kernels: Kernels) -> None:
    with kernels.serve() as server:
        server.cell(DAEMON)
        assert (
            server.cell("print(len([n for n in os.listdir('/proc') if n.isdigit()]) > 2)") == "True"
        )
        server.tool("reset")
        assert (
            server.cell("import os; print(len([n for n in os.listdir('/proc') if n.isdigit()]))")
            == "2"
        )
        server.cell(DAEMON)


def test_positive_control(kernel: Kernels) -> None:
    """Without a sandbox the daemon exists, and survives the `reset`. So the tests could find it."""
    with kernel.serve(is_sandboxed=False) as server:
        server.cell(DAEMON)
        deadline = time.monotonic() + 30
        while not any("sleep 1000" in harness.describe(pid) for pid in harness.descendants()):
            assert time.monotonic() < deadline
            server.cell("1")


def test_a_command_line_that_is_killed(kernels: Kernels) -> None:
    """`ipybox run`, ended by signals that can be caught and by the one that cannot."""
    before = harness.descendants()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        begun = Meeting(kernels.place.workspace / "begun")
        code = f"{DAEMON}{begun.code}\nimport time; time.sleep(1000)"
        process = harness.subprocess.Popen(
            kernels.command("run", "-c", code),
            cwd=kernels.place.workspace,
            env=kernels.environ,
            stdout=-3,
            stderr=-3,
            stdin=-3,
        )
        begun.wait()
        process.send_signal(number)
        assert process.wait(60) != 0
        assert json.dumps(harness.processes_left(before)) == "[]"
