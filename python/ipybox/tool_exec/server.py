# SPDX-License-Identifier: Apache-2.0
"""The tool server: `ipybox tool-server` as a child process.

`python -m ipybox.tool_exec.server` runs the same program, with the same options.
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
    """Runs tools of MCP servers for clients over HTTP, and sends requests for approval.

    An MCP server starts when one of its tools is called for the first time, and serves later calls.
    Endpoints: `POST /run`, `POST /approve`, `PUT /reset`, `GET /status`, and the WebSocket
        `/approval`
    for an `ApprovalClient`. Processes of the same user on the same machine may use it; other
    clients need its token.

        async with ToolServer(approval_required=True) as server:
            async with ApprovalClient(callback=on_approval_request):
                ...

    Attributes:
        port: The port; after `start`, the port that it listens on.
        token: The token that other clients send as `Authorization: Bearer`; None before `start`.
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
            port: Port to listen on; 0 for a free port.
            approval_required: Whether calls need approval.
            approval_timeout: Seconds after which a call without a decision is rejected; None for no
                limit.
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
        """Starts the tool server and waits until it listens.

        Raises:
            RuntimeError: If it is running already, or does not start, for example because the port
                is in use.
            FileNotFoundError: If the program ipybox is not installed.
        """
        stderr = None if self.log_to_stderr else _stdout()
        try:
            report = await self._server.start("tool-server", *self._options(), stderr=stderr)
        except AlreadyRunningError:
            raise RuntimeError("Server already running") from None
        if isinstance(report, int):
            raise RuntimeError(
                f"the tool server on {self.host}, port {self.port}, ended with status {report}; "
                "its log says why"
            )
        self.port = report["port"]
        self.token = report["token"]

    async def stop(self) -> None:
        """Stops the tool server and the MCP servers that it has started. Does nothing if it does
        not run.

        It is killed if it does not end within 20 seconds, or if the task is cancelled.
        """
        await self._server.stop(STOP_TIMEOUT_S)

    async def join(self) -> None:
        """Waits until the tool server has ended. Returns at once if it does not run."""
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
    """The stdout of this process, if it has one, for the log of the tool server."""
    try:
        os.fstat(1)
    except OSError:
        return subprocess.DEVNULL
    return 1


def main() -> None:
    """Replaces this process by `ipybox tool-server`."""
    become("tool-server", arguments=sys.argv[1:], takes_python=False)


if __name__ == "__main__":
    main()
