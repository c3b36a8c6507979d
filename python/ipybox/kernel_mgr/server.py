# SPDX-License-Identifier: Apache-2.0
"""The kernel gateway: `ipybox gateway` as a child process.

`python -m ipybox.kernel_mgr.server` runs the same program, with the same options.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..core.server_process import AlreadyRunningError, ServerProcess, become
from ..utils import arun

if TYPE_CHECKING:
    from typing_extensions import Self

# Prefix of variables that the gateway passes to kernels.
ENV_PREFIX = "KERNEL_ENV_"
# What is kept of its log, for the error if it does not start.
MAX_LAST_LINES = 50
MAX_LINE_BYTES = 4096
# A process that it started may still hold its stderr.
LAST_LINES_TIMEOUT_S = 5.0
LEVELS = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL"}


class KernelGateway:
    """Serves IPython kernels over Jupyter's REST and WebSocket interface, in a process of its own.

    Connect with `KernelClient`, or with any Jupyter client. Processes of other users are refused.

        async with KernelGateway(host="localhost", port=8888) as gateway:
            await gateway.join()  # until it ends
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 8888,
        sandbox: bool = False,
        sandbox_config: Path | None = None,
        log_level: str = "INFO",
        log_to_stderr: bool = False,
        env: dict[str, str] | None = None,
        working_dir: Path | None = None,
    ) -> None:
        """
        Args:
            host: Hostname or IP address to listen on.
            port: Port to listen on; 0 for a free port. After `start`, `port` is the real one.
            sandbox: Whether kernels run in sandboxes, in which they may write only the current
                directory and have no network.
            sandbox_config: A JSON file that says what sandboxes allow. None: the default.
            log_level: `DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`.
            log_to_stderr: Whether the log is written to the stderr of this process.
            env: Environment variables for kernels, which inherit none. `TOOL_SERVER_HOST` and
                `TOOL_SERVER_PORT` name the tool server for their tool calls.
            working_dir: The directory in which kernels start, and which a sandbox lets them write.
                None: the current directory.
        """
        self.host = host
        self.port = port
        self.sandbox = sandbox
        self.sandbox_config = sandbox_config
        self.log_level = log_level
        self.log_to_stderr = log_to_stderr
        self.env = env or {}
        self.working_dir = working_dir
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
        """Starts the gateway and waits until it listens.

        Raises:
            RuntimeError: If it is running already, or does not start; the text has the end of its
                log.
        """
        log = None if self.log_to_stderr else _Log()
        try:
            report = await self._server.start(
                "gateway",
                *self._options(),
                environment=self._environment(),
                stderr=None if log is None else log.write_end,
            )
        except AlreadyRunningError:
            raise RuntimeError("Kernel gateway already running") from None
        finally:
            if log is not None:
                log.close()
        if isinstance(report, int):
            last_lines = await arun(log.last_lines) if log is not None else ""
            raise RuntimeError(
                f"Kernel gateway failed to start: {last_lines or f'exit status {report}'}"
            )
        self.port = report["port"]

    async def stop(self, timeout: float = 10) -> None:
        """Stops the gateway and all kernels. Does nothing if it does not run.

        Args:
            timeout: Seconds after which it is killed. It is also killed if the task is cancelled.
        """
        await self._server.stop(timeout)

    async def join(self) -> None:
        """Waits until the gateway has ended. Returns at once if it does not run."""
        await self._server.join()

    def _options(self) -> list[str]:
        level = self.log_level.upper()
        options = [
            f"--python={sys.executable}",
            f"--host={self.host}",
            f"--port={self.port}",
            f"--log-level={LEVELS.get(level, level)}",
        ]
        if self.working_dir is not None:
            options.append(f"--workspace={self.working_dir}")
        if self.sandbox:
            options.append("--sandbox")
            if self.sandbox_config is not None:
                options.append(f"--sandbox-config={self.sandbox_config}")
        return options

    def _environment(self) -> dict[str, str]:
        """Variables for kernels are passed in the environment, because every user of the machine
        can read arguments."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)
        }
        environment.update({ENV_PREFIX + name: value for name, value in self.env.items()})
        return environment


class _Log:
    """The last lines of the gateway's log. A thread reads it."""

    def __init__(self) -> None:
        read_end, self.write_end = os.pipe()
        self._lines: deque[str] = deque(maxlen=MAX_LAST_LINES)
        self._thread = threading.Thread(
            target=self._read, args=(read_end,), name="ipybox gateway log", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Closes the write end in this process. The gateway has its own."""
        os.close(self.write_end)

    def last_lines(self) -> str:
        """The last lines of a gateway that has ended."""
        self._thread.join(LAST_LINES_TIMEOUT_S)
        return "\n".join(self._lines)

    def _read(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb") as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                self._lines.append(line.decode("utf-8", "replace").rstrip())


def main() -> None:
    """Replaces this process by `ipybox gateway`. Kernels run in this Python, unless `--python`
    names another."""
    become("gateway", arguments=sys.argv[1:], takes_python=True)


if __name__ == "__main__":
    main()
