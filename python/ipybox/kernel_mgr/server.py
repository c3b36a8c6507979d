# SPDX-License-Identifier: Apache-2.0
"""The kernel gateway: `ipybox gateway` as a child process.

`python -m ipybox.kernel_mgr.server` becomes that program; its options are those of `ipybox
gateway`.
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

# Prefix of what the gateway hands to kernels.
ENV_PREFIX = "KERNEL_ENV_"
# Of what it wrote to stderr, for the error when it does not start.
MAX_LAST_LINES = 50
MAX_LINE_BYTES = 4096
# What it left may hold its stderr.
LAST_WORDS_TIMEOUT_S = 5.0
LEVELS = {"TRACE": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL"}


class KernelGateway:
    """Serves IPython kernels over Jupyter's REST and WebSocket interface, in a process of its own.

    Connect with `KernelClient`, or any of Jupyter's clients. Whoever is not the user who started it
    is refused.

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
            port: Port to listen on. 0 takes any free one; `port` has it after `start`.
            sandbox: Whether kernels run in sandboxes, where they can write the current directory
                only and have no network.
            sandbox_config: JSON file that says what sandboxes allow. Default: ipybox's own.
            log_level: `DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`.
            log_to_stderr: Whether the log is shown on this process's stderr.
            env: Environment variables for kernels, which inherit none. `TOOL_SERVER_HOST` and
                `TOOL_SERVER_PORT` say which tool server runs their tool calls.
            working_dir: Where kernels begin; also what a sandbox lets them write. Default: the
                current directory.
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
            RuntimeError: If it is already running, or does not start; with what it said.
        """
        log = None if self.log_to_stderr else _Log()
        try:
            told = await self._server.start(
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
        if isinstance(told, int):
            last_words = await arun(log.last_words) if log is not None else ""
            raise RuntimeError(
                f"Kernel gateway failed to start: {last_words or f'exit status {told}'}"
            )
        self.port = told["port"]

    async def stop(self, timeout: float = 10) -> None:
        """Stops the gateway and all kernels. Does nothing if it does not run.

        Args:
            timeout: Seconds that it may take; then it is killed. So it is if the task is cancelled.
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
        """In the environment, not in the arguments, which everybody on the machine can read."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)
        }
        environment.update({ENV_PREFIX + name: value for name, value in self.env.items()})
        return environment


class _Log:
    """The last lines of the gateway's log, which a thread reads."""

    def __init__(self) -> None:
        read_end, self.write_end = os.pipe()
        self._lines: deque[str] = deque(maxlen=MAX_LAST_LINES)
        self._thread = threading.Thread(
            target=self._read, args=(read_end,), name="ipybox gateway log", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """The gateway has the write end, or will not have it."""
        os.close(self.write_end)

    def last_words(self) -> str:
        """What a gateway that has ended said."""
        self._thread.join(LAST_WORDS_TIMEOUT_S)
        return "\n".join(self._lines)

    def _read(self, read_end: int) -> None:
        with os.fdopen(read_end, "rb") as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                self._lines.append(line.decode("utf-8", "replace").rstrip())


def main() -> None:
    """Becomes `ipybox gateway`, in the same process. Kernels run in this Python unless `--python`
    names another."""
    become("gateway", arguments=sys.argv[1:], takes_python=True)


if __name__ == "__main__":
    main()
