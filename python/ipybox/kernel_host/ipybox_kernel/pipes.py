# SPDX-License-Identifier: Apache-2.0
"""The pipes to which the kernel writes its output, and their replacement.

A process that a cell starts holds the cell's pipes, and may write to them when the cell has ended.
So that its text is not taken for that of the next cell, the kernel asks the core for new pipes and
changes to them before the next cell.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import linux

if TYPE_CHECKING:
    from .process import Links


# The core is asked when a cell ends, and before the next one. Then that begins without new pipes.
MAX_REFUSALS = 2


class Pipes:
    def __init__(self, links: Links) -> None:
        self.are_shared = False  # other processes may hold them
        self.are_awaited = False  # the core was asked for new ones
        self.n_refusals = 0  # since the last cell ended
        self._marks = (links.stdout_marks, links.stderr_marks)
        self._had_children = False

    def must_be_replaced(self) -> bool:
        """Called when a cell has ended, and before the next one."""
        # C code starts processes without our hooks.
        has_children = linux.has_children()
        if has_children and not self._had_children:
            self.are_shared = True
        self._had_children = has_children
        return self.are_shared and not self.are_awaited and self.n_refusals < MAX_REFUSALS

    def take_refusal(self) -> None:
        self.are_shared = True
        self.n_refusals += 1

    def replace(self, new: list[int]) -> None:
        """Makes each of our descriptors of the old pipes one of the new pipes, which are taken."""
        for mark, fd in zip(self._marks, new, strict=True):
            try:
                for old in descriptors_of(mark):
                    os.dup2(fd, old, inheritable=os.get_inheritable(old))
            finally:
                os.close(fd)


def descriptors_of(mark: int) -> list[int]:
    """All our descriptors of the pipe. User code may have duplicated them, or closed some."""
    try:
        pipe = _identity(mark)
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []
    found = []
    for number in numbers:
        try:
            if _identity(number) == pipe:
                found.append(number)
        except OSError:
            continue  # the one that listed them
    return found


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino
