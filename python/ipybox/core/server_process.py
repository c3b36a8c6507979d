# SPDX-License-Identifier: Apache-2.0
"""Runs verbs of the program that are servers.

Such a server writes a line of JSON to its stdout that says where it listens. It ends in order when
its stdin is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NoReturn

from .binary import find_binary


class ServerProcess:
    """A server as a child process, one at a time. May be used in several event loops and
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process; None if none runs."""
        child = self._child
        return child.process.pid if child is not None and child.is_running else None

    async def start(
        self,
        verb: str,
        *options: str,
        stderr: int | None,
        environment: Mapping[str, str] | None = None,
    ) -> dict[str, Any] | int:
        """Starts the server and waits until it listens. If the task is cancelled, it is killed.

        Args:
            verb: A verb of the program.
            options: The arguments after the verb.
            stderr: As for `subprocess.Popen`.
            environment: The server's environment; None for that of this process.

        Returns:
            The line with which it reported where it listens; its exit status if it ended instead.

        Raises:
            AlreadyRunningError: If it runs already.
            FileNotFoundError: If the program does not exist.
        """
        with self._lock:
            if self._child is not None and self._child.is_running:
                raise AlreadyRunningError
            child = self._child = _Child([find_binary(), verb, *options], stderr, environment)
        try:
            line = await asyncio.wrap_future(child.report)
        except BaseException:
            await child.kill()
            raise
        if line:
            report: dict[str, Any] = json.loads(line)
            return report
        return await asyncio.wrap_future(child.ended)

    async def stop(self, timeout: float) -> None:
        """Ends the server in order.

        Args:
            timeout: Seconds after which it is killed. It is also killed if the task is cancelled.
        """
        child = self._child
        if child is None or not child.is_running:
            return
        child.process.terminate()
        try:
            await asyncio.wait_for(asyncio.wrap_future(child.ended), timeout)
        except asyncio.TimeoutError:
            await child.kill()
        except BaseException:
            await child.kill()
            raise

    async def join(self) -> None:
        """Waits until the server has ended. Returns at once if it does not run."""
        child = self._child
        if child is not None and child.is_running:
            await asyncio.wrap_future(child.ended)


class AlreadyRunningError(Exception):
    """The server was started and has not ended."""


class _Child:
    """One run of the server. A thread reads its first line and waits for its end.

    Attributes:
        process: The process. Its stdin is its lifeline, so it ends when this process does.
        report: The future of its first line.
        ended: The future of its exit status.
    """

    def __init__(
        self, command: Sequence[str], stderr: int | None, environment: Mapping[str, str] | None
    ) -> None:
        self.report: Future[bytes] = Future()
        self.ended: Future[int] = Future()
        for future in (self.report, self.ended):
            future.set_running_or_notify_cancel()  # waiting tasks may be cancelled, the future not
        self._pid = os.getpid()
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C reaches only this process, which stops it in order
        )
        threading.Thread(target=self._watch, name=f"ipybox {command[1]}", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether it runs. False in a forked child, to which it does not belong."""
        return not self.ended.done() and self._pid == os.getpid()

    async def kill(self) -> None:
        """Kills it, and waits for its end."""
        self.process.kill()
        await asyncio.wrap_future(self.ended)

    def _watch(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with self.process.stdin, self.process.stdout:
            self.report.set_result(self.process.stdout.readline())
            self.ended.set_result(self.process.wait())


def become(*verb: str, arguments: Sequence[str], takes_python: bool) -> NoReturn:
    """Replaces this process by the program.

    Args:
        verb: A verb of the program; none for the MCP server.
        arguments: The arguments after the verb.
        takes_python: Whether kernels run in this Python, unless `--python` names another.

    Raises:
        FileNotFoundError: If the program does not exist.
    """
    has_python = any(
        argument == "--python" or argument.startswith("--python=") for argument in arguments
    )
    python = ["--python", sys.executable] if takes_python and not has_python else []
    program = find_binary()
    os.execv(program, [program, *verb, *python, *arguments])
