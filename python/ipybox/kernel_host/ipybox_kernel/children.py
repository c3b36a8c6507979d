# SPDX-License-Identifier: Apache-2.0
"""The forkserver's children: its kernels, and what they left behind.

The forkserver is a subreaper, so whatever a kernel started becomes the forkserver's own child when its
parent dies. A child of ours keeps its pid until we reap it: killing by pid cannot hit a stranger.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

KERNEL_ID = "IPYBOX_KERNEL_ID"


@dataclass
class Kernel:
    id: int
    pid: int
    oom_kills: int  # the system's counter when it was forked
    pipes: frozenset[str]  # as /proc/PID/fd shows them
    status: int | None = None  # once it was reaped
    was_killed: bool = False  # by our own hand


def pipe_name(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def our_children() -> list[int]:
    pid = os.getpid()
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        pass
    # A Linux kernel without CONFIG_PROC_CHILDREN.
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and _stat_field(int(name), 4) == pid:
            found.append(int(name))
    return found


def _stat_field(pid: int, number: int) -> int:
    """Field @number of /proc/PID/stat as proc(5) counts them, from 4 on; -1 when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[number - 3])
    except (OSError, ValueError, IndexError):
        return -1


def belongs_to(pid: int, kernel: Kernel) -> bool:
    """Whether the kernel, or something it started, started process @pid."""
    if _stat_field(pid, 6) == kernel.pid:  # its session
        return True
    entry = f"{KERNEL_ID}={kernel.id}".encode()
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        variables = []
    if any(variable.startswith(KERNEL_ID.encode() + b"=") for variable in variables):
        return entry in variables
    # It cleared its environment, but may still write where the kernel wrote.
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for fd in fds:
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}") in kernel.pipes:
                return True
        except OSError:
            continue
    return False


def kill_group(kernel: Kernel) -> None:
    """SIGKILL to the kernel and its process group. Only while it is not reaped."""
    for kill in (os.kill, os.killpg):
        try:
            kill(kernel.pid, signal.SIGKILL)
        except OSError:
            pass  # has gone, or has not yet a group of its own


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def kill_everything() -> None:
    """SIGKILL to all children, those that become ours meanwhile included, until none is left."""
    while True:
        for pid in our_children():
            kill(pid)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
