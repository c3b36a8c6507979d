# SPDX-License-Identifier: Apache-2.0
"""ipybox as a workspace of Pydantic AI (`pydantic_ai`).

    async with IpyboxWorkspace() as backend:
        await agent.run("...", workspace=Workspace(backend))

Commands run in a sandbox. Pydantic AI's operations on files use its commands, so they see the same
files. The environment is made by the first operation. It lives in this process until it is closed,
over any number of runs: a run never ends it. A backend that is made with the `ref` of another one
attaches to the same environment.

How failures are reported:

- a command that fails, is missing (127), may not be executed (126) or exceeds a limit of the
  sandbox: its exit code, and a limit is named in stderr;
- a command that takes too long: `WorkspaceTimeoutError` with the output until then;
- too much output: `WorkspaceOutputLimitError` with its beginning;
- an environment that was closed, or whose kernel or core was lost: `WorkspaceUnavailableError`.

It needs asyncio, not trio.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pydantic_ai.workspaces import (
    CommandResult,
    SupportsCommands,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from ..commands import MAX_OUTPUT_BYTES, SHELL, CommandTimeout
from ..core import CoreError
from ..utils import check_seconds
from .command_session import CommandSession, decode, describe_limit, exit_code

if TYPE_CHECKING:
    from typing_extensions import Self

PROVIDER = "ipybox"
NOT_FOUND = 127
NOT_EXECUTABLE = 126


class _Environment:
    """A session that is started once, by whichever operation comes first."""

    def __init__(self, session: CommandSession) -> None:
        self.session = session
        self._starting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self.session.start())
        # An operation that is cancelled does not cancel the start for the others.
        await asyncio.shield(self._starting)


_environments: dict[str, _Environment] = {}


class IpyboxWorkspace(WorkspaceBackend, SupportsCommands):
    """An environment for runs of agents."""

    def __init__(
        self,
        ref: WorkspaceRef | None = None,
        *,
        workspace: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        """Does nothing yet.

        Args:
            ref: An environment of this process. None: a new one.
            workspace: The directory in which commands start, which is kept. None: a temporary
                directory.
            **options: Of `CodeExecutor`, such as `sandbox_config`.

        Raises:
            ValueError: If `ref` is of another provider.
        """
        if ref is not None and ref.provider != PROVIDER:
            raise ValueError(f"a workspace of {ref.provider!r} is not one of {PROVIDER!r}")
        self._ref = ref
        self._workspace = workspace
        self._options = options

    @property
    def ref(self) -> WorkspaceRef | None:
        return self._ref

    async def close(self) -> None:
        """Ends everything in the environment, and removes a temporary directory."""
        environment = _environments.pop(self._ref.id, None) if self._ref is not None else None
        if environment is not None:
            await environment.session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def working_dir(self) -> str:
        return os.path.realpath((await self._open()).workspace)

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, and a list of arguments shell=False")
        argv = [SHELL, "-c", command] if isinstance(command, str) else list(command)
        seconds = check_seconds(timeout, "timeout")
        session = await self._open()
        try:
            result = await session.run(argv, env=env, timeout=seconds)
        except CommandTimeout as error:
            raise WorkspaceTimeoutError(
                str(error), stdout=decode(error.result.stdout), stderr=decode(error.result.stderr)
            ) from error
        except FileNotFoundError as error:
            return CommandResult(exit_code=NOT_FOUND, stdout="", stderr=f"{error}\n")
        except CoreError as error:
            if error.kind in ("refused", "limit"):
                return CommandResult(exit_code=NOT_EXECUTABLE, stdout="", stderr=f"{error}\n")
            if error.kind == "invalid" and self._is_open():
                raise
            raise WorkspaceUnavailableError(str(error)) from error
        except RuntimeError as error:
            raise WorkspaceUnavailableError(str(error)) from error
        stdout, stderr = decode(result.stdout), decode(result.stderr) + describe_limit(result)
        if result.stdout_cut or result.stderr_cut:
            raise WorkspaceOutputLimitError(
                f"the output of the command has more than {MAX_OUTPUT_BYTES} bytes",
                limit=MAX_OUTPUT_BYTES,
                stdout=stdout,
                stderr=stderr,
            )
        return CommandResult(exit_code=exit_code(result), stdout=stdout, stderr=stderr)

    def _is_open(self) -> bool:
        return self._ref is not None and self._ref.id in _environments

    async def _open(self) -> CommandSession:
        if self._ref is None:
            session = CommandSession(self._workspace, **self._options)
            self._ref = WorkspaceRef(provider=PROVIDER, id=secrets.token_hex(16))
            _environments[self._ref.id] = _Environment(session)
        environment = _environments.get(self._ref.id)
        if environment is None:
            raise WorkspaceUnavailableError(
                f"there is no environment {self._ref.id} in this process: it was closed"
            )
        await environment.start()
        return environment.session
