# SPDX-License-Identifier: Apache-2.0
"""The tool server: `ipybox tool-server` as a child process.

`python -m ipybox.tool_exec.server` becomes that program; its options are those of `ipybox
tool-server`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType
from typing import TYPE_CHECKING

from ..core.server_process import AlreadyRunningError, ServerProcess, become

if TYPE_CHECKING:
    from typing_extensions import Self

STOP_TIMEOUT_S = 20.0


class ToolServer:
    """Runs tools of MCP servers for whoever asks over HTTP, and asks for approval.

    MCP servers start when one of their tools is first run, and serve further calls. Endpoints:
    `POST /run`, `POST /approve`, `PUT /reset`, `GET /status`, and the WebSocket `/approval` for an
    `ApprovalClient`. Processes of the same user on the same machine may use it; everybody else
    needs its token.

        async with ToolServer(approval_required=True) as server:
            async with ApprovalClient(callback=on_approval_request):
                ...

    Attributes:
        port: The port; after `start` the one that it listens on.
        token: What others send as `Authorization: Bearer`; None before `start`.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 8900,
        approval_required: bool = False,
        approval_timeout: float | None = None,
        connect_timeout: float = 30,
        log_to_stderr: bool = False,
        log_level: str = "INFO",
    ) -> None:
        """
        Args:
            host: Name or address to listen on.
            port: Port to listen on; 0: a free one.
            approval_required: Whether calls need approval.
            approval_timeout: Seconds after which no decision is a no; None: never.
            connect_timeout: Seconds that an MCP server may take to start.
            log_to_stderr: Whether logs go to stderr; else they go to stdout.
            log_level: DEBUG, INFO, WARNING, ERROR or CRITICAL.
        """
        self.host = host
        self.port = port
        self.approval_required = approval_required
        self.approval_timeout = approval_timeout
        self.connect_timeout = connect_timeout
        self.log_to_stderr = log_to_stderr
        self.log_level = log_level
        self.token: str | None = None
        self._server = ServerProcess()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Starts it; returns when it listens.

        Raises:
            RuntimeError: If it is running already, or does not start, say because the port is in
                use.
            FileNotFoundError: If the program is not there.
        """
        stderr = None if self.log_to_stderr else _stdout()
        try:
            told = await self._server.start("tool-server", *self._options(), stderr=stderr)
        except AlreadyRunningError:
            raise RuntimeError("Server already running") from None
        if isinstance(told, int):
            raise RuntimeError(
                f"the tool server on {self.host}, port {self.port}, ended with status {told}; its log says why"
            )
        self.port = told["port"]
        self.token = told["token"]

    async def stop(self) -> None:
        """Stops it, and the MCP servers that it has started. Does nothing if it does not run.

        What does not end within 20 s is killed; so it is if the task is cancelled.
        """
        await self._server.stop(STOP_TIMEOUT_S)

    async def join(self) -> None:
        """Waits until it has stopped. Returns at once if it does not run."""
        await self._server.join()

    def _options(self) -> list[str]:
        options = [
            f"--host={self.host}",
            f"--port={self.port}",
            f"--connect-timeout={self.connect_timeout}",
            f"--log-level={self.log_level.upper()}",
        ]
        if self.approval_required:
            options.append("--approval-required")
        if self.approval_timeout is not None:
            options.append(f"--approval-timeout={self.approval_timeout}")
        return options


def _stdout() -> int:
    """This process's stdout for the child's log, if it has one."""
    try:
        os.fstat(1)
    except OSError:
        return subprocess.DEVNULL
    return 1


def main() -> None:
    """Becomes `ipybox tool-server`."""
    become("tool-server", arguments=sys.argv[1:], takes_python=False)


if __name__ == "__main__":
    main()
