# SPDX-License-Identifier: Apache-2.0
"""Verbs of the program that are servers: each tells in a line of JSON on its stdout where it listens, and ends in order when its stdin
does."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .binary import find_binary

if TYPE_CHECKING:
    from typing_extensions import Self


class ServerProcess:
    """A server as a child process, whose owner ends it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def launch(
        cls, verb: str, *options: str, stderr: int | None, environment: Mapping[str, str] | None = None
    ) -> Self:
        """Starts it, without waiting for anything.

        Args:
            verb: Of the program.
            options: Its words after the verb.
            stderr: As of `subprocess.Popen`.
            environment: None: this process's.

        Raises:
            FileNotFoundError: If the program is not there.
        """
        return cls(
            await asyncio.create_subprocess_exec(
                find_binary(),
                verb,
                *options,
                env=environment,
                stdin=asyncio.subprocess.PIPE,  # it ends when this does
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C is for us: we stop it in order
            )
        )

    async def ready(self) -> dict[str, Any] | None:
        """Where it listens; None: it has ended, or is about to."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        told: dict[str, Any] | None = json.loads(line) if line else None
        return told

    async def end(self, timeout: float) -> None:
        """Ends it in order; what has not ended after so many seconds is killed."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            await asyncio.wait_for(self.process.wait(), timeout)
        except asyncio.TimeoutError:
            self.process.kill()
            await self.process.wait()


def become(*verb: str, arguments: Sequence[str], takes_python: bool) -> NoReturn:
    """Becomes the program, in the same process.

    Args:
        verb: Of the program; none: the MCP server.
        arguments: The words after the verb.
        takes_python: Whether kernels run in this Python unless `--python` names another.
    """
    has_python = any(argument == "--python" or argument.startswith("--python=") for argument in arguments)
    python = ["--python", sys.executable] if takes_python and not has_python else []
    program = find_binary()
    os.execv(program, [program, *verb, *python, *arguments])
