# SPDX-License-Identifier: Apache-2.0
"""Programs whose core is killed: at some moment, or before one of its system calls."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

import harness

PTRACE_CONT, PTRACE_SYSCALL, PTRACE_SEIZE, PTRACE_INTERRUPT = 7, 24, 0x4206, 0x4207
PTRACE_O_TRACESYSGOOD = 1
SYSCALL_STOP = signal.SIGTRAP | 0x80
WALL = 0x40000000
POLL_S = 0.001


def start(code: str) -> tuple[subprocess.Popen[str], int]:
    """Runs a program, which prints the pid of its core first."""
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(harness.ROOT / "python")},
        text=True,
    )
    assert program.stdout is not None
    return program, int(program.stdout.readline())


def end(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None and program.stdout is not None
    program.stdin.close()
    program.wait(60)
    program.stdout.close()


def check_processes(before: set[int]) -> None:
    left = harness.processes_left(before)
    assert not left, "\n".join(left)


def kill_core_at(delays: tuple[float, ...], code: str) -> None:
    """Runs a program for each delay, and kills its core so many seconds after it has begun.

    Afterwards no process may be left.
    """
    before = harness.descendants()
    for delay in delays:
        program, core = start(code)
        time.sleep(delay)  # not to synchronise: the moment is to differ
        os.kill(core, signal.SIGKILL)
        end(program)
    check_processes(before)


def kill_core_in_steps(code: str, n_points: int, point: int) -> bool:
    """Kills the core within an operation, which the program does once for each line that it reads.

    The program answers each line with a line. The first operation is counted in system calls of the
    core's main thread. In the second one, the core is killed before a system call: @point of
    @n_points, which are spread over the operation. Returns whether it ended before.
    """
    before = harness.descendants()
    program, core = start(code)
    tracer = Tracer(core)
    n_calls = tracer.run(program, None)
    limit = 1 + n_calls * point // n_points
    has_ended = tracer.run(program, limit) < limit
    os.kill(core, signal.SIGKILL)
    os.waitpid(core, WALL)
    end(program)
    check_processes(before)
    return has_ended


class Tracer:
    """Stops the main thread of a process at each of its system calls."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._ptrace.restype = ctypes.c_long
        self._call(PTRACE_SEIZE, PTRACE_O_TRACESYSGOOD)

    def _call(self, request: int, data: int = 0) -> None:
        if self._ptrace(request, self.pid, 0, data) < 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of the core")

    def run(self, program: subprocess.Popen[str], limit: int | None) -> int:
        """Has the program do its operation. Returns the number of system calls until its end.

        It ends before system call number @limit, at which the process stays stopped.
        """
        assert program.stdin is not None and program.stdout is not None
        self._call(PTRACE_INTERRUPT)
        os.waitpid(self.pid, WALL)
        self._call(PTRACE_SYSCALL)
        program.stdin.write("go\n")
        program.stdin.flush()
        n_stops = 0
        deadline = time.monotonic() + harness.GRACE_SECONDS
        while True:
            assert time.monotonic() < deadline, f"{n_stops} stops, and no end"
            pid, status = os.waitpid(self.pid, WALL | os.WNOHANG)
            if pid == 0:
                if select.select([program.stdout], [], [], POLL_S)[0]:
                    assert program.stdout.readline() == "done\n"
                    break
                continue
            assert os.WIFSTOPPED(status), status
            stopped_by = os.WSTOPSIG(status)
            n_stops += stopped_by == SYSCALL_STOP
            if limit is not None and n_stops >= 2 * limit:
                return limit
            is_own = stopped_by == SYSCALL_STOP or status >> 16 != 0
            self._call(PTRACE_SYSCALL, 0 if is_own else stopped_by)
        self._call(PTRACE_INTERRUPT)
        os.waitpid(self.pid, WALL)  # another stop than the one that was wanted will do, too
        self._call(PTRACE_CONT)
        return n_stops // 2
