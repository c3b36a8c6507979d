# SPDX-License-Identifier: Apache-2.0
"""`CommandSession`: what the adapters for frameworks that run commands have in common.

It is a sandboxed executor with a workspace. Unless the application names a workspace, that is a
temporary directory, which is removed with the session. Processes end with the session, and with the
program, however that ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..code_exec import CodeExecutor
from ..commands import MAX_OUTPUT_BYTES, CommandResult
from ..utils import arun
from . import temporary
from .code_session import Approve, CodeSession

# Larger inputs go through a file of the sandbox: a message of the core has a maximum.
MAX_DIRECT_INPUT = 16 * 1024 * 1024
MAX_INPUT = 1024 * 1024 * 1024
# Runs a command with a file as its input, which is removed.
WITH_INPUT = 'exec <"$0" || exit 126; rm -f "$0"; exec "$@"'
SIGNAL_BASE = 128


class CommandSession:
    """A session of a framework. Its files and background processes live until it is closed.

    Attributes:
        executor: The executor, which may also run cells.
        workspace: The directory in which commands start.
        python: The interpreter of cells.
        tools: What adapters keep as long as this session, by keys of theirs.
        is_started: Whether it was started, and not stopped since.
    """

    def __init__(self, workspace: str | os.PathLike[str] | None = None, **options: Any) -> None:
        """
        Args:
            workspace: The workspace, which is kept. None: a temporary directory.
            **options: Of `CodeExecutor`. `sandbox` is true unless it is given.
        """
        options = {"sandbox": True} | options
        self._options = options
        self._code_sessions: list[CodeSession] = []
        self.tools: dict[object, Any] = {}
        self._remove: Callable[[], object] = lambda: None
        if workspace is None:
            self.workspace, self._remove = temporary.make_directory(self, "ipybox-session-")
        else:
            self.workspace = Path(os.path.abspath(workspace))
            self.workspace.mkdir(parents=True, exist_ok=True)
        self.executor = CodeExecutor(workspace=self.workspace, **options)
        self.python: str = str(options.get("python") or sys.executable)
        self.is_started = False

    async def start(self) -> None:
        """Starts the executor, unless it is started."""
        if not self.is_started:
            await self.executor.start()
            self.is_started = True

    async def stop(self) -> None:
        """Ends the processes of the session. Its files stay, and it may be started again."""
        self.is_started = False
        for session in self._code_sessions:
            await session.close()
        await self.executor.stop()

    async def close(self) -> None:
        """Ends everything in the session, and removes a temporary workspace."""
        await self.stop()
        await arun(self._remove)

    def make_code_session(self, *, approve: Approve | None, timeout: float | None) -> CodeSession:
        """A session for cells, in this workspace and with the same walls. It ends with this one.

        Args:
            approve: As for `CodeSession`.
            timeout: Likewise.
        """
        options = {name: value for name, value in self._options.items() if name != "tools"}
        made = CodeSession(
            approve=approve, timeout=timeout, workspace=self.workspace, options=options
        )
        self._code_sessions.append(made)
        return made

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes | str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT_BYTES,
    ) -> CommandResult:
        """As `CodeExecutor.run_command`, for an input of any size up to MAX_INPUT."""
        data = input.encode() if isinstance(input, str) else input
        if data is not None and len(data) > MAX_DIRECT_INPUT:
            if len(data) > MAX_INPUT:
                raise ValueError(f"the input has {len(data)} bytes, {MAX_INPUT} are allowed")
            made = await self.executor.run_command(["mktemp"])
            path = made.stdout.decode(errors="surrogateescape").strip()
            await self.executor.write_file(path, data)
            argv, data = ["/bin/sh", "-c", WITH_INPUT, path, *argv], None
        return await self.executor.run_command(
            argv, input=data, env=env, cwd=cwd, timeout=timeout, max_output=max_output
        )


def exit_code(result: CommandResult) -> int:
    """As a shell reports the end of a command: 128 and the number of the signal."""
    if result.exit_status is not None:
        return result.exit_status
    return SIGNAL_BASE + (result.signal or 0)


def decode(data: bytes) -> str:
    """A text for a model: what is not UTF-8 is replaced."""
    return data.decode(errors="replace")


def describe_limit(result: CommandResult) -> str:
    """A line about the limit of the sandbox that has ended the command; "" if none has."""
    return f"[ipybox] {result.limit}\n" if result.limit else ""
