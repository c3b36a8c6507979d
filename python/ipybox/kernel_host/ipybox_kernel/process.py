# SPDX-License-Identifier: Apache-2.0
"""Turns a forked child into a kernel process: its setsid(2) session, signals and descriptors."""

from __future__ import annotations

# `signal` converts all results to enums.
import _signal  # type: ignore[import-not-found]
import fcntl
import gc
import os
import resource
import signal
from dataclasses import dataclass
from typing import Any

from . import linux

# The private descriptors have high numbers, below the usual limit. Programs use low numbers.
HIGHEST_FD = 1024
PRIVATE_FDS = 8


@dataclass
class Links:
    """The kernel's private descriptors, which are its only connection to the core."""

    wire: int
    stdout_marks: int  # duplicates of fds 1 and 2, for markers
    stderr_marks: int

    def fds(self) -> tuple[int, int, int]:
        return self.wire, self.stdout_marks, self.stderr_marks

    def lowest(self) -> int:
        return min(self.fds())

    def close(self) -> None:
        for fd in self.fds():
            try:
                os.close(fd)
            except OSError:
                pass  # user code may have closed it


@dataclass
class Forked:
    id: int
    links: Links
    shell: Any = None
    stub_dir: str | None = None
    parent: int | None = None  # the forkserver; None in a sandbox
    depth: int = 0  # of branches
    brancher: Any = None  # see branching.py; None: the library was not found


def allow_many_files() -> int:
    """Raises the forkserver's own soft limit to the hard one, and returns the old one.

    Linux refuses to send descriptors if more of this user are in flight, in the sockets of all
    programs, than the sender may open. Code in a sandbox may open fewer, so it cannot keep us from
    sending.
    """
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    return soft_limit


def become_kernel(
    kernel_id: int, parent: int | None, open_files: int, wire: int, stdout: int, stderr: int
) -> Forked:
    """@parent: None in a sandbox, where all processes end with pid 1 and have its limits.

    @open_files: the soft limit of other kernels.
    """
    os.setsid()
    limit(parent, open_files)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        _signal.signal(number, _signal.SIG_DFL)
    links = _move_fds(wire, stdout, stderr)
    gc.enable()
    return Forked(kernel_id, links, parent=parent)


def limit(parent: int | None, open_files: int) -> None:
    """For the arguments, see `become_kernel`."""
    if parent is None:
        return
    linux.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)
    linux.be_first_oom_victim()
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(open_files, hard_limit), hard_limit))


def highest_fd() -> int:
    """No descriptor that this process opens from now on has this number or a higher one."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _move_fds(wire: int, stdout: int, stderr: int) -> Links:
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = max(3, min(soft_limit, HIGHEST_FD) - PRIVATE_FDS)
    links = Links(*(duplicate(fd, lowest) for fd in (wire, stdout, stderr)))
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(3, links.lowest())
    os.closerange(max(links.fds()) + 1, soft_limit)
    return links


def duplicate(fd: int, lowest: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
