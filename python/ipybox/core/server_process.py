# SPDX-License-Identifier: Apache-2.0
"""Verbs of the program that are servers: each tells in a line of JSON on its stdout where it listens, and ends in order when its stdin
does."""

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
    """A server as a child process, one at a time, whose owner ends it. May be used in several event loops, and in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs, if any."""
        child = self._child
        return child.process.pid if child is not None and child.is_running else None

    async def start(
        self,
        verb: str,
        *options: str,
        stderr: int | None,
        environment: Mapping[str, str] | None = None,
    ) -> dict[str, Any] | int:
        """Starts it, and waits until it listens. If the task is cancelled, it is killed.

        Args:
            verb: Of the program.
            options: Its words after the verb.
            stderr: As of `subprocess.Popen`.
            environment: None: this process's.

        Returns:
            What it told about where it listens; if it ended instead, its exit status.

        Raises:
            AlreadyRunningError: If it runs.
            FileNotFoundError: If the program is not there.
        """
        with self._lock:
            if self._child is not None and self._child.is_running:
                raise AlreadyRunningError
            child = self._child = _Child([find_binary(), verb, *options], stderr, environment)
        try:
            line = await asyncio.wrap_future(child.told)
        except BaseException:
            await child.kill()
            raise
        if line:
            told: dict[str, Any] = json.loads(line)
            return told
        return await asyncio.wrap_future(child.ended)

    async def stop(self, timeout: float) -> None:
        """Ends it in order. What has not ended after so many seconds is killed; so it is if the task is cancelled."""
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
        """Waits until it has ended. Returns at once if it does not run."""
        child = self._child
        if child is not None and child.is_running:
            await asyncio.wrap_future(child.ended)


class AlreadyRunningError(Exception):
    """It was started, and has not ended."""


class _Child:
    """One run of it. A thread reads its first line, and waits for its end.

    Attributes:
        process: Whose stdin is its lifeline: it ends when this process does.
        told: Its first line.
        ended: Its exit status.
    """

    def __init__(
        self, command: Sequence[str], stderr: int | None, environment: Mapping[str, str] | None
    ) -> None:
        self.told: Future[bytes] = Future()
        self.ended: Future[int] = Future()
        for future in (self.told, self.ended):
            future.set_running_or_notify_cancel()  # those who wait may be cancelled, it may not
        self._pid = os.getpid()
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,  # Ctrl-C is for us: we stop it in order
        )
        threading.Thread(target=self._watch, name=f"ipybox {command[1]}", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """False also in a child that was forked, where it is none of ours."""
        return not self.ended.done() and self._pid == os.getpid()

    async def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        await asyncio.wrap_future(self.ended)

    def _watch(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with self.process.stdin, self.process.stdout:
            self.told.set_result(self.process.stdout.readline())
            self.ended.set_result(self.process.wait())


def become(*verb: str, arguments: Sequence[str], takes_python: bool) -> NoReturn:
    """Becomes the program, in the same process.

    Args:
        verb: Of the program; none: the MCP server.
        arguments: The words after the verb.
        takes_python: Whether kernels run in this Python unless `--python` names another.
    """
    has_python = any(
        argument == "--python" or argument.startswith("--python=") for argument in arguments
    )
    python = ["--python", sys.executable] if takes_python and not has_python else []
    program = find_binary()
    os.execv(program, [program, *verb, *python, *arguments])
