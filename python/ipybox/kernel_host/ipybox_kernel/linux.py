# SPDX-License-Identifier: Apache-2.0
"""Functions of Linux and libc that Python does not offer."""

from __future__ import annotations

import ctypes
import fcntl
import os

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLOCK_MONOTONIC = 1
TFD_CLOEXEC = os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)
# For calls that never block and so can keep the GIL.
_quick = ctypes.PyDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> None:
    _prctl(PR_SET_PDEATHSIG, signal_number)


def oom_kill_count() -> int:
    """How often the system has killed a process for lack of memory since the system started."""
    try:
        with open("/proc/vmstat", "rb") as file:
            for line in file:
                if line.startswith(b"oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def be_first_oom_victim() -> None:
    """Makes the system kill this process first when memory runs out, rather than its parent."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        try:
            os.write(fd, b"1000")
        finally:
            os.close(fd)
    except OSError:
        pass


def has_children() -> bool:
    """Also those that have ended and were not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def flush_c_stdout() -> None:
    """Flushes C's stdout. fflush(NULL) could wait for a stream that another thread reads."""
    _libc.fflush(_c_stdout)


def environment_block() -> tuple[int, int]:
    """Where the strings of /proc/self/environ begin and end in memory; (0, 0): unknown."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # Fields 50 and 51 of proc(5). The first field after the ")" is number 3.
        return int(fields[47]), int(fields[48])
    except (OSError, ValueError, IndexError):
        return 0, 0


def rewrite_environment_block(entry: bytes) -> None:
    """Makes /proc/self/environ begin with @entry ("NAME=value").

    A process that was forked without exec has the block of its parent. By this entry the forkserver
    recognises processes that a kernel has forked and that have left its session. Only for a process
    whose environment has been replaced, because the old strings are overwritten in place.
    """
    start, end = environment_block()
    if end - start > len(entry):
        ctypes.memmove(start, entry + b"\0", len(entry) + 1)
        ctypes.memset(start + len(entry) + 1, 0, end - start - len(entry) - 1)


class _TimerSpec(ctypes.Structure):
    _fields_ = [
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    ]


class Timer:
    """A timerfd. Setting it costs a microsecond and wakes no thread until it expires."""

    def __init__(self, lowest_fd: int) -> None:
        fd = _quick.timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        try:
            self.fd = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest_fd)
        finally:
            os.close(fd)
        self._spec = _TimerSpec()
        self._pointer = ctypes.byref(self._spec)

    def set(self, nanoseconds: int) -> None:
        self._spec.value_s, self._spec.value_ns = divmod(nanoseconds, 1_000_000_000)
        if _quick.timerfd_settime(self.fd, 0, self._pointer, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")  # user code closed it

    def wait(self) -> None:
        os.read(self.fd, 8)

    def close(self) -> None:
        os.close(self.fd)


_c_stdout = ctypes.c_void_p.in_dll(_libc, "stdout")
