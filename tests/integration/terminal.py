# SPDX-License-Identifier: Apache-2.0
"""A program on a pseudo-terminal of its own, which is its controlling terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from typing import Any


class Terminal:
    """Starts the program. As a context manager, it ends the program if it still runs."""

    def __init__(
        self, command: list[str], place: Any, columns: int = 80, rows: int = 24, **environ: str
    ):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            set_size(0, columns, rows)
            os.chdir(place.workspace)
            os.execve(command[0], command, place.environ | {"TERM": "xterm"} | environ)
        self.seen = ""
        self.status: int | None = None

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.status is None:
            os.close(self.fd)  # the program gets SIGHUP
            os.waitpid(self.pid, 0)

    def _read(self, timeout: float) -> bool:
        """Returns False at the end of the output."""
        assert select.select([self.fd], [], [], timeout)[0], self.seen
        try:
            chunk = os.read(self.fd, 65536)
        except OSError:
            chunk = b""
        self.seen += chunk.decode(errors="replace")
        return bool(chunk)

    def expect(self, text: str, timeout: float = 60) -> str:
        """Reads until `text` appears. Returns what came before it, and continues after it."""
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            assert self._read(max(0, deadline - time.monotonic())), self.seen
        before, _, self.seen = self.seen.partition(text)
        return before

    def find(self, pattern: re.Pattern[str], timeout: float = 60) -> re.Match[str]:
        """Like expect(), for a regular expression."""
        deadline = time.monotonic() + timeout
        while (found := pattern.search(self.seen)) is None:
            assert self._read(max(0, deadline - time.monotonic())), self.seen
        self.seen = self.seen[found.end() :]
        return found

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        set_size(self.fd, columns, rows)

    def wait(self) -> int:
        """Reads to the end, into `seen`; returns the exit status."""
        while self._read(60):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status


def set_size(fd: int, columns: int, rows: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
