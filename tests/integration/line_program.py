# SPDX-License-Identifier: Apache-2.0
"""A program that speaks in lines and ends with its input, for mcp_driver and rpc_driver.

The standard library only.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Collection
from typing import Any, TypeVar

Self = TypeVar("Self", bound="LineProgram")


class LineProgram:
    """A context manager: its end closes stdin and waits for the exit."""

    def __init__(
        self,
        command: list[str],
        place: Any,
        stderr: int | None = None,
        pass_fds: Collection[int] = (),
    ):
        self.process = subprocess.Popen(
            command,
            pass_fds=pass_fds,
            cwd=place.workspace,
            env=place.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        self._buffer = bytearray()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            assert self.close() == 0 or exception[0]
        finally:
            self.process.kill()
            self.process.wait()

    def close(self, timeout: float = 60) -> int:
        """Closes stdin and returns the exit status."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        status = self.process.wait(timeout)
        self.process.stdout.close()
        if self.process.stderr:
            self.process.stderr.close()
        return status

    def send(self, message: dict | str | bytes) -> None:
        line = message if isinstance(message, (str, bytes)) else json.dumps(message)
        line = line.encode() if isinstance(line, str) else line
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read_line(self, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        out = self.process.stdout
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise TimeoutError(f"no message in {timeout} s")
            chunk = os.read(out.fileno(), 1 << 20)
            if not chunk:
                raise EOFError("the program closed its output")
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line
