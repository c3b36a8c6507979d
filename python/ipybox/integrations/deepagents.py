# SPDX-License-Identifier: Apache-2.0
"""ipybox as the sandbox of LangChain's deep agents (`deepagents`).

    with IpyboxSandbox() as sandbox:
        agent = create_deep_agent(model=..., backend=sandbox)
        agent.invoke(...)

The agent's tools for commands and files work in the sandbox. Its files and its background processes
live until `close`, over any number of runs. Paths of files are absolute: `/tmp` is the sandbox's
own, and `sandbox.workspace` is the directory in which commands start.

How failures are reported:

- a command that fails or exceeds a limit of the sandbox: its exit code and output, in which the
  limit is named;
- a command that takes too long: exit code 124, the output until then, and a line that says so;
- a file that cannot be read or written: the `error` of its response, and the other files of the
  batch are transferred;
- a kernel or a core that was lost: `CoreError`, so that a program can tell it from a mistake of the
  model.
"""

from __future__ import annotations

import os
import secrets
from types import TracebackType
from typing import TYPE_CHECKING, Any

from deepagents.backends.protocol import (
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

from ..commands import CommandTimeout
from ..core import CoreError
from . import background
from .command_session import CommandSession, decode, describe_limit, exit_code

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

DEFAULT_TIMEOUT_S = 1800
TIMED_OUT = 124
NOT_EXECUTABLE = 126


class IpyboxSandbox(BaseSandbox):
    """A sandbox for one agent, or for several that share its files.

    Attributes:
        workspace: The directory in which commands start.
    """

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        timeout: float | None = DEFAULT_TIMEOUT_S,
        **options: Any,
    ) -> None:
        """
        Args:
            workspace: The directory in which commands start, which is kept. None: a temporary
                directory.
            timeout: Seconds after which a command is killed that names no timeout. None: no limit.
            **options: Of `CodeExecutor`, such as `sandbox_config`.
        """
        self._session = CommandSession(workspace, **options)
        self._timeout = timeout
        self._id = f"ipybox-{secrets.token_hex(8)}"
        background.run(self._session.start())

    @property
    def id(self) -> str:
        return self._id

    @property
    def workspace(self) -> Path:
        return self._session.workspace

    def close(self) -> None:
        """Ends everything in the sandbox, and removes a temporary workspace."""
        background.run(self._session.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """Runs a command line. Its stdout and stderr are one output, in order.

        Args:
            command: For /bin/sh.
            timeout: Seconds; 0 for no limit. None: the timeout of the sandbox.
        """
        seconds = self._timeout if timeout is None else timeout
        argv = ["/bin/sh", "-c", f"exec 2>&1; {command}"]
        try:
            result = background.run(self._session.run(argv, timeout=seconds or None))
        except CommandTimeout as error:
            output = decode(error.result.stdout)
            return ExecuteResponse(
                output=f"{output}[ipybox] {error}\n",
                exit_code=TIMED_OUT,
                truncated=error.result.stdout_cut,
            )
        except CoreError as error:
            if error.kind != "limit":
                raise
            return ExecuteResponse(output=f"[ipybox] {error}\n", exit_code=NOT_EXECUTABLE)
        return ExecuteResponse(
            output=decode(result.stdout) + describe_limit(result),
            exit_code=exit_code(result),
            truncated=result.stdout_cut,
        )

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._put(path, data)) for path, data in files]

    def _put(self, path: str, data: bytes) -> Any:
        try:
            _check(path)
            background.run(self._session.executor.write_file(path, data))
        except (OSError, ValueError) as error:
            return _name(error)
        return None

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._get(path) for path in paths]

    def _get(self, path: str) -> FileDownloadResponse:
        try:
            _check(path)
            data = background.run(self._session.executor.read_file(path))
        except (OSError, ValueError) as error:
            return FileDownloadResponse(path=path, error=_name(error))
        return FileDownloadResponse(path=path, content=data)


def _check(path: str) -> None:
    if not path.startswith("/") or "\0" in path:
        raise NotADirectoryError(f"{path!r} is not an absolute path")


def _name(error: OSError | ValueError) -> Any:
    """The framework's name for the error, or its text."""
    names = {
        FileNotFoundError: "file_not_found",
        PermissionError: "permission_denied",
        IsADirectoryError: "is_directory",
        NotADirectoryError: "invalid_path",
    }
    return next((name for kind, name in names.items() if isinstance(error, kind)), str(error))
