# SPDX-License-Identifier: Apache-2.0
"""Attack suite F, kill and mess: whatever ends, nothing remains.

The fixture looks for processes, mounts, sockets and files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time

import harness
import pytest
from box import Box, make_settings

# A service that hides.
DAEMON = (
    "(setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1000; done' "
    "</dev/null >/dev/null 2>&1 &)"
)


def start(box: Box, script: str, user: str = "root", **options) -> subprocess.Popen[str]:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(
        box.command(["sh", "-c", script], user=user),
        cwd=box.place.workspace,
        env=box.place.environ,
        text=True,
        **options,
    )


def boxed() -> list[int]:
    """The processes in sandboxes below this one; pid 1 first."""
    ours = os.readlink("/proc/self/ns/pid")
    found = []
    for pid in harness.descendants():
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != ours:
                with open(f"/proc/{pid}/status") as status:
                    inner = next(line for line in status if line.startswith("NSpid:")).split()[-1]
                found.append((int(inner), pid))
        except OSError:
            pass
    return [pid for _, pid in sorted(found)]


def test_killing_the_core_at_any_step(box: Box, user: str) -> None:
    """Killed in small steps from its first moments on: what it had started goes with it."""
    line = box.command(["sh", "-c", DAEMON + "; sleep 1000"], user=user)
    before = harness.descendants()
    for step in range(40):
        process = subprocess.Popen(
            line, cwd=box.place.workspace, env=box.place.environ, stdout=-3, stderr=-3
        )
        until = time.monotonic() + step * 0.001
        while time.monotonic() < until:
            pass
        process.kill()
        process.wait()
    assert harness.processes_left(before) == []


def test_killing_the_core_later(box: Box, user: str) -> None:
    with start(box, DAEMON + "; echo ready; sleep 1000", user) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        assert len(boxed()) >= 3
        process.kill()


@pytest.mark.parametrize("which", ["pid 1", "command"])
def test_killing_what_is_inside(box: Box, user: str, which: str) -> None:
    with start(box, DAEMON + "; echo ready; sleep 1000; true", user) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        first, command, *_ = boxed()
        os.kill(first if which == "pid 1" else command, signal.SIGKILL)
        _, said = process.communicate(timeout=120)
        assert process.returncode == (1 if which == "pid 1" else 137)
        assert ("first process was killed" in said) == (which == "pid 1")


def test_what_daemonises_ends_with_the_command(box: Box, user: str) -> None:
    with start(box, DAEMON + "; exit 4", user) as process:
        assert process.wait(60) == 4
    assert boxed() == []


def test_a_flood_that_nobody_reads(box: Box) -> None:
    with start(box, "yes; echo $?", "root") as process:
        assert process.stdout is not None and process.stdout.readline() == "y\n"
        process.stdout.close()
        assert process.wait(60) != 0


def test_interrupts_that_are_ignored(box: Box, user: str) -> None:
    with start(box, "trap '' INT TERM; echo ready; while :; do sleep 1000; done", user) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            process.send_signal(number)
        # The signal that is most often ignored comes from the user.
        process.kill()


def test_closing_everything(box: Box, user: str) -> None:
    script = "import os; [os.close(fd) for fd in range(3)]; os.closerange(3, 100); os._exit(9)"
    assert box(["/usr/bin/python3", "-I", "-c", script], user=user).returncode == 9


def test_crashes(box: Box, user: str) -> None:
    script = "import ctypes; ctypes.string_at(0)"
    done = box(["/usr/bin/python3", "-I", "-c", script], user=user)
    assert done.returncode == 128 + signal.SIGSEGV
    assert not list(box.place.workspace.glob("core*"))


def test_temporary_files_go_with_the_sandbox(box: Box, user: str) -> None:
    first = box(
        ["sh", "-c", "echo x > /tmp/kept; echo x > /dev/shm/kept; echo x > /run/kept; ls /tmp"],
        user=user,
    )
    assert first.stdout == "kept\n"
    second = box(
        ["sh", "-c", "cat /tmp/kept /dev/shm/kept /run/kept; ls -A /tmp /dev/shm"], user=user
    )
    assert second.stdout == "/dev/shm:\n\n/tmp:\n"


def test_many_at_once(box: Box) -> None:
    processes = [start(box, "echo $$; read x", stdin=subprocess.PIPE) for _ in range(20)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "2\n"
    for process in processes:
        process.communicate("x\n", timeout=120)
        assert process.returncode == 0


def test_unreadable_settings(box: Box) -> None:
    """Bytes that are not a configuration: an error, and nothing runs."""
    path = box.place.home / "settings.json"
    for content in (b"", b"{", b"\xff\xfe", b"[]", b"null", b"{" * 100_000, b'{"a":' * 5000, b"\0"):
        path.write_bytes(content)
        done = box(
            [box.program("root"), "sandbox", "-s", str(path), "-c", "touch ran"], sandbox=False
        )
        assert done.returncode in (1, 2) and str(path) in done.stderr, (content[:20], done.stderr)
    assert make_settings() and not (box.place.workspace / "ran").exists()
