# SPDX-License-Identifier: Apache-2.0
"""Kernels that die, hang and flood.

The cause is reported at once, and the next cell works.
"""

from __future__ import annotations

import os
import select
import signal
import types
from pathlib import Path

import pytest
from mcp_driver import McpServer
from meeting import DIE, Meeting, run_while_idle, wait_until_reaped

# How a kernel can end, and what the error must say.
DEATHS = {
    "exit": ("import os; print('said', flush=True); os._exit(3)", "exit status 3|exited"),
    "segfault": ("print('said', flush=True)\nimport ctypes; ctypes.string_at(0)", "SIGSEGV"),
    "abort": ("print('said', flush=True)\nimport os; os.abort()", "SIGABRT"),
    "kill": ("print('said', flush=True)\nimport os; os.kill(os.getpid(), 9)", "SIGKILL"),
    "terminate": ("print('said', flush=True)\nimport os; os.kill(os.getpid(), 15)", "SIGTERM"),
    "limit": (
        "print('said', flush=True)\n"
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass",
        "SIGXCPU|SIGKILL",
    ),
}


@pytest.mark.parametrize("name", DEATHS)
def test_death_is_told_with_its_cause(mcp, name):
    code, causes = DEATHS[name]
    mcp.cell("x = 1")
    text = mcp.failing_cell(code)
    assert any(cause in text for cause in causes.split("|")), text
    assert "said" in text, "what was printed before is lost"
    assert mcp.cell("'x' in globals()") == "False"


def test_death_with_a_child_that_keeps_the_pipes(mcp):
    """A background child holds fd 1 open.

    The death is reported at once all the same, and the child is killed.
    """
    text = mcp.failing_cell(
        "import subprocess, os\np = subprocess.Popen(['sleep', '1000'])\n"
        "print(p.pid, flush=True)\nos._exit(1)"
    )
    pid = next(line for line in text.splitlines() if line.isdigit())
    assert mcp.cell("1") == "1"
    assert not Path("/proc", pid).exists()


def test_death_while_idle(mcp, workspace):
    go = Meeting(workspace / "go")
    pid = mcp.cell(run_while_idle(go, DIE))
    go.wait()
    wait_until_reaped(pid)
    text = mcp.cell("print('fresh')")
    assert (
        text.startswith("fresh\n\n[ipybox] while idle, the kernel was killed by SIGKILL")
        and text.count("\n") == 2
    )
    assert mcp.cell("print('fresh')") == "fresh"


def test_out_of_memory(mcp):
    """A limit on the address space is a MemoryError for a cell, and the kernel keeps running."""
    text = mcp.failing_cell(
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "x = bytearray(8 << 30)"
    )
    assert "MemoryError" in text
    assert mcp.cell("1") == "1"


def test_sigint_ignored_ends_in_a_fresh_kernel(mcp):
    mcp.cell("x = 1")
    code = (
        "import signal, time\n"
        "for s in (signal.SIGINT, signal.SIGRTMIN + 6): signal.signal(s, signal.SIG_IGN)\n"
        "while True: time.sleep(1)"
    )
    text = mcp.failing_cell(code, timeout=2)
    assert (
        "exceeded timeout of 2.00s (approval wait excluded). The kernel is gone; variables "
        "are lost: the cell did not"
    ) in text
    assert "so the kernel was killed" in text
    assert mcp.cell("'x' in globals()") == "False"


def test_interrupt_in_c_code_that_does_not_return(mcp):
    text = mcp.failing_cell("import ctypes\nctypes.PyDLL(None).sleep(1000)", timeout=0.5)
    assert "exceeded timeout of 0.50s" in text
    assert mcp.cell("1") == "1"


def test_timeout_of_an_async_cell(mcp):
    mcp.cell("x = 5")
    assert "exceeded timeout" in mcp.failing_cell(
        "import asyncio\nawait asyncio.sleep(1000)", timeout=0.5
    )
    assert mcp.cell("x") == "5"


def test_timeout_of_a_shell_command(mcp):
    assert "exceeded timeout" in mcp.failing_cell("!sleep 1000", timeout=0.5)
    assert mcp.cell("!echo on") == "on"


def test_system_exit_keeps_the_kernel(mcp):
    mcp.cell("x = 1")
    for code in ("import sys; sys.exit(3)", "exit()", "quit()", "raise SystemExit"):
        mcp.tool("execute_ipython_cell", {"code": code})
    assert mcp.cell("x") == "1"


def test_forkserver_killed(mcp):
    """Its kernels die with it.

    The death is reported, and the next cell starts another forkserver.
    """
    parent = mcp.cell("import os; print(os.getppid())")
    text = mcp.failing_cell(
        f"import os, signal, time\nos.kill({parent}, signal.SIGKILL)\ntime.sleep(1000)"
    )
    assert "state is lost" in text
    assert mcp.cell("1") == "1"


def test_forkserver_killed_where_the_own_directory_is_gone(ipybox, place, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    started_there = types.SimpleNamespace(workspace=elsewhere, environ=place.environ)
    with McpServer(ipybox, started_there, "--workspace", str(place.workspace)) as server:
        parent = server.cell("import os; print(os.getppid())")
        elsewhere.rmdir()
        server.failing_cell(
            f"import os, signal, time\nos.kill({parent}, signal.SIGKILL)\ntime.sleep(1000)"
        )
        assert server.cell("1") == "1"


def test_closed_standard_fds(mcp):
    for fd in (0, 1, 2):
        mcp.tool("execute_ipython_cell", {"code": f"import os; os.close({fd})"})
        assert mcp.cell("print('still here')").endswith("still here")
        mcp.tool("reset")


def test_closed_sys_stdout(mcp):
    mcp.tool("execute_ipython_cell", {"code": "import sys; sys.stdout.close()"})
    assert mcp.cell("print('still here')") == "still here"


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nfor i in range(1_000_000): print('x' * 99)",
        "import os\nfor i in range(1600): os.write(1, b'y' * 65536)",
        (
            "import subprocess\n"
            "subprocess.run('head -c 100000000 /dev/zero | tr \"\\\\0\" z', shell=True);"
        ),
    ],
)
def test_hundred_megabytes_of_output(mcp, code):
    """All of it is read. The core keeps what was asked for, and its memory is bounded."""

    def memory_kib() -> int:
        status = Path("/proc", str(mcp.process.pid), "status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    mcp.cell("1")
    before = memory_kib()
    text = mcp.cell(code, max_output_chars=1000)
    assert text.endswith("[Output truncated: exceeded 1000 character limit]")
    assert memory_kib() - before < 32 * 1024
    assert mcp.cell("1") == "1"


def test_flood_of_displays(mcp):
    text = mcp.cell("for i in range(20_000): display(i)", max_output_chars=200_000)
    assert text == "\n".join(map(str, range(20_000)))


def test_late_output_comes_with_the_next_cell(mcp, workspace):
    go, printed = Meeting(workspace / "go"), Meeting(workspace / "printed")
    mcp.cell(run_while_idle(go, f"print('late'); {printed.code}"))
    go.wait()
    printed.wait()
    assert mcp.cell("1") == (
        "[ipybox] written after its cell had ended:\nlate\n[ipybox] written by this cell:\n1"
    )
    assert mcp.cell("1") == "1"


def test_stopped_kernel(ipybox, place):
    """A stopped kernel cannot be interrupted. After the grace period it is replaced."""
    with McpServer(ipybox, place) as server:
        text = server.failing_cell(
            "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", timeout=0.5
        )
        assert "exceeded timeout" in text
        assert server.cell("1") == "1"


@pytest.mark.parametrize("victim", ["core", "forkserver", "kernel"])
def test_sigkill_leaves_nothing(ipybox, place, victim):
    """User code may have started process groups and sessions of its own; they end, too."""
    server = McpServer(ipybox, place)
    kernel, forkserver = map(
        int, server.cell("import os; print(os.getpid(), os.getppid())").split()
    )
    server.cell(
        "import subprocess\n"
        "for c in (['sleep', '1000'], ['setsid', 'sleep', '1000']): subprocess.Popen(c)"
    )
    end = os.pidfd_open(kernel)
    os.kill(
        {"core": server.process.pid, "forkserver": forkserver, "kernel": kernel}[victim],
        signal.SIGKILL,
    )
    assert select.select([end], [], [], 60)[0], "the kernel lives on"
    os.close(end)
    if victim != "core":
        # The first cell may still go to the kernel that is about to die.
        server.tool("execute_ipython_cell", {"code": "1"})
        assert server.cell("1") == "1"
    server.close()
