# SPDX-License-Identifier: Apache-2.0
"""ipybox as a sandbox of Inspect (`inspect_ai`): local, without Docker, a few milliseconds each.

    Task(dataset=..., solver=..., sandbox="ipybox")

Inspect finds it by an entry point. Each sample has a sandbox with an empty workspace, which lives
until Inspect cleans the sample up. The configuration is a file as in ipybox-sandbox-config(5):

    Task(..., sandbox=("ipybox", "sandbox.json"))

How failures are reported:

- a command that fails, is missing, or exceeds a limit of the sandbox: an `ExecResult`, whose stderr
  names the limit;
- a command that takes too long: `CommandTimeout`, a `TimeoutError` with the output until then;
- too much output: `OutputLimitExceededError`, with the beginning of the output;
- a kernel or a core that was lost: `SandboxUnavailableError`, so that an evaluation can tell it
  from a mistake of the model.

Commands run as one user. So `user` must name that user, and there is no root.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from inspect_ai.util._sandbox.environment import SandboxUnavailableError

from ..core import CoreError
from ..files import TransferLimitError
from .command_session import CommandSession, decode, describe_limit, exit_code

NOT_FOUND = 127
NOT_EXECUTABLE = 126


@sandboxenv(name="ipybox")
class IpyboxSandboxEnvironment(SandboxEnvironment):
    """A sandbox of one sample."""

    def __init__(self, session: CommandSession) -> None:
        super().__init__()
        self._session = session
        self._users: set[str] | None = None

    # Samples

    @classmethod
    async def sample_init(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        metadata: dict[str, str],
    ) -> dict[str, SandboxEnvironment]:
        if config is not None and not isinstance(config, str):
            raise TypeError("the configuration of the sandbox ipybox is the path of a file")
        session = CommandSession(sandbox_config=config)
        try:
            await session.start()
        except BaseException:
            await session.close()
            raise
        return {"default": cls(session)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            await environment.as_type(cls)._session.close()

    # Commands

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Runs a command. It is never repeated after a timeout: it might act twice."""
        if user is not None:
            await self._check_user(user)
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            result = await self._session.run(
                cmd, input=input, env=env, cwd=cwd, timeout=timeout, max_output=limit
            )
        except FileNotFoundError as error:
            return ExecResult(False, NOT_FOUND, "", f"{error}\n")
        except CoreError as error:
            if error.kind == "limit":
                return ExecResult(False, NOT_EXECUTABLE, "", f"{error}\n")
            if error.kind == "refused":
                raise PermissionError(str(error)) from error
            if error.kind == "invalid":
                raise
            raise SandboxUnavailableError(str(error)) from error
        stdout, stderr = decode(result.stdout), decode(result.stderr) + describe_limit(result)
        if result.stdout_cut or result.stderr_cut:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR,
                stdout if result.stdout_cut else stderr,
            )
        return ExecResult(result.ok, exit_code(result), stdout, stderr)

    async def _check_user(self, user: str) -> None:
        if self._users is None:
            result = await self._session.run(["/bin/sh", "-c", "id -u; id -un"])
            self._users = set(decode(result.stdout).split())
        if user not in self._users:
            raise SandboxUserUnsupportedError(
                f"commands cannot run as {user!r}: a sandbox of ipybox has one user, and no root"
            )

    # Files

    async def write_file(self, file: str, contents: str | bytes) -> None:
        try:
            await self._session.executor.write_file(file, contents)
        except CoreError as error:
            raise SandboxUnavailableError(str(error)) from error

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        try:
            data = await self._session.executor.read_file(
                file, max_bytes=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
            )
        except TransferLimitError as error:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None
            ) from error
        except CoreError as error:
            raise SandboxUnavailableError(str(error)) from error
        return data.decode("utf-8") if text else data

    # What Inspect asks about the provider

    @classmethod
    def config_files(cls) -> list[str]:
        return ["ipybox-sandbox.json"]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> Any:
        raise NotImplementedError("the configuration of the sandbox ipybox is the path of a file")

    def default_polling_interval(self) -> float:
        return 0.2
