# SPDX-License-Identifier: Apache-2.0
"""The forkserver's children: its kernels, and the processes they leave behind.

The forkserver is a subreaper: if a process of a kernel loses its parent, it becomes the
forkserver's child. A child keeps its pid until the forkserver reaps it, so killing by pid cannot
hit another process.
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
    oom_kills: int  # the system's counter at the time of the fork
    pipes: set[str]  # as /proc/PID/fd shows them
    status: int | None = None  # set when it was reaped
    was_killed: bool = False  # by the forkserver
    is_command: bool = False  # not a kernel, but a command that runs beside one


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
    """Field @number of /proc/PID/stat, numbered as in proc(5), from 4 on; -1 if there is none."""
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
    # It has cleared its environment, but it may still have one of the kernel's pipes.
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
    """Sends SIGKILL to the kernel and its process group. Only before the kernel is reaped."""
    for kill in (os.kill, os.killpg):
        try:
            kill(kernel.pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended, or has no group of its own yet


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


def kill_everything() -> None:
    """Sends SIGKILL to all children, also to those that become ours, until none is left."""
    while True:
        for pid in our_children():
            kill(pid)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
