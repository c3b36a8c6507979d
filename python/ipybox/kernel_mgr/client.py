# SPDX-License-Identifier: Apache-2.0
"""A client of kernels behind Jupyter's REST and WebSocket interface: of `KernelGateway`, and of any Jupyter server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..core.errors import ExecutionTimeout
from ..utils import arun
from .output import Output
from .rest import KernelsApi, RestError
from .socket import Channels, Execution

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class ExecutionResult:
    """The result of code that ran to its end.

    Attributes:
        text: What it printed and displayed, and the value of its last expression; None if there was no output.
        images: The files of the images that it made, in order.
        raw_text: `text` with the white space at both ends.
        is_truncated: Whether the text was longer than 16,777,216 characters, and is cut to them.
    """

    text: str | None
    images: list[Path]
    raw_text: str | None = field(default=None, kw_only=True, compare=False, repr=False)
    is_truncated: bool = field(default=False, kw_only=True, compare=False, repr=False)


class ExecutionError(Exception):
    """Code raised an exception in a kernel; the text is the traceback."""


class KernelClient:
    """Runs code in an IPython kernel of its own, whose state lasts from one execution to the next.

    async with KernelClient(host="localhost", port=8888) as client:
        result = await client.execute("print('hello')")
        print(result.text)

        async for item in client.stream("print('hello')"):
            match item:
                case str():
                    print(f"Chunk: {item}")
                case ExecutionResult():
                    print(f"Result: {item}")
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 8888,
        images_dir: Path | None = None,
        ping_interval: float = 10,
        *,
        token: str | None = None,
    ) -> None:
        """
        Args:
            host: Hostname or IP address of the gateway.
            port: Its port.
            images_dir: Where images are saved. Default: `images` in the current directory.
            ping_interval: Seconds between the pings that keep the connection alive.
            token: Of a server that demands one.
        """
        self.host = host
        self.port = port
        self.images_dir = Path(images_dir or "images")
        self.ping_interval = ping_interval
        self._token = token
        self._api = KernelsApi(host, port, token)
        self._kernel_id: str | None = None
        self._channels: Channels | None = None
        self._interrupts: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.disconnect()

    @property
    def kernel_id(self) -> str:
        """The id of the kernel.

        Raises:
            RuntimeError: If there is no connection.
        """
        if self._kernel_id is None:
            raise RuntimeError("Not connected to kernel")
        return self._kernel_id

    async def connect(self, retries: int = 10, retry_interval: float = 1.0) -> None:
        """Starts a kernel and connects to it.

        Args:
            retries: How often it is tried, while the gateway cannot be reached.
            retry_interval: Seconds between two tries.

        Raises:
            RuntimeError: If it is connected already, or cannot connect after all tries.
        """
        if self._kernel_id is not None:
            raise RuntimeError("Already connected to kernel")
        for left in reversed(range(max(retries, 1))):
            try:
                await self._connect()
                return
            except (OSError, RuntimeError) as error:
                if left == 0 or (isinstance(error, RestError) and 400 <= error.status < 500):
                    raise RuntimeError(f"Failed to connect to kernel at {self.host}:{self.port}: {error}") from error
            await asyncio.sleep(retry_interval)

    async def disconnect(self) -> None:
        """Disconnects from the kernel and ends it. Does nothing without a connection."""
        kernel_id, self._kernel_id = self._kernel_id, None
        channels, self._channels = self._channels, None
        if channels is not None:
            channels.close()
        if kernel_id is not None:
            try:
                await self._api.delete(kernel_id)
            except (OSError, RuntimeError):
                pass  # the gateway is gone, and the kernel with it

    async def reset(self) -> None:
        """Ends the kernel, and starts another one."""
        self.kernel_id  # noqa: B018  (raises without a connection)
        await self.disconnect()
        await self.connect()

    async def execute(self, code: str, timeout: float = 120) -> ExecutionResult:
        """Executes code and waits for its end.

        Args:
            code: Python code.
            timeout: Seconds that it may take; then it is interrupted, and the kernel keeps its state.

        Returns:
            The text of its output and its images.

        Raises:
            ExecutionError: If it raises an error.
            TimeoutError: If it takes longer.
            RuntimeError: If there is no connection.
        """
        result: ExecutionResult | None = None
        async for item in self.stream(code, timeout):
            if isinstance(item, ExecutionResult):
                result = item
        assert result is not None
        return result

    async def stream(self, code: str, timeout: float = 120) -> AsyncIterator[str | ExecutionResult]:
        """Executes code and tells its output as it comes. Who stops listening before the end interrupts the code.

        Args:
            code: Python code.
            timeout: Seconds that it may take; then it is interrupted, and the kernel keeps its state.

        Yields:
            Pieces of its output, and at the end the `ExecutionResult`.

        Raises:
            ExecutionError: If it raises an error.
            TimeoutError: If it takes longer.
            RuntimeError: If there is no connection.
        """
        if self._channels is None:
            raise RuntimeError("Not connected to kernel")
        channels, kernel_id = self._channels, self.kernel_id
        output = Output(self.images_dir)
        deadline = time.monotonic() + timeout if timeout is not None else None
        execution = channels.execute(code)
        try:
            while not output.is_done:
                message = await self._next(execution, deadline, timeout)
                piece = await arun(output.take, message) if _has_image(message) else output.take(message)
                if piece:
                    yield piece
        finally:
            if not output.is_done:
                execution.abandon(lambda: self._interrupt_soon(kernel_id))
        if output.error is not None:
            raise ExecutionError(output.error)
        raw_text = output.text
        yield ExecutionResult(
            text=raw_text.strip() or None,
            images=output.images,
            raw_text=raw_text or None,
            is_truncated=output.is_truncated,
        )

    async def _connect(self) -> None:
        kernel_id = await self._api.create()
        try:
            self._channels = await Channels.open(self.host, self.port, kernel_id, self._token, self.ping_interval)
        except BaseException:
            await self._api.delete(kernel_id)
            raise
        self._kernel_id = kernel_id

    async def _next(self, execution: Execution, deadline: float | None, timeout: float | None) -> dict[str, object]:
        if deadline is None:
            return await execution.next()
        try:
            return await asyncio.wait_for(execution.next(), max(deadline - time.monotonic(), 0))
        except asyncio.TimeoutError:
            raise ExecutionTimeout(f"Code execution exceeded timeout of {timeout:.2f}s") from None

    def _interrupt_soon(self, kernel_id: str) -> None:
        task = asyncio.ensure_future(self._interrupt(kernel_id))
        self._interrupts.add(task)  # the loop keeps no reference
        task.add_done_callback(self._interrupts.discard)

    async def _interrupt(self, kernel_id: str) -> None:
        if self._kernel_id != kernel_id:
            return
        try:
            await self._api.interrupt(kernel_id)
        except (OSError, RuntimeError):
            pass


def _has_image(message: dict[str, object]) -> bool:
    content = message.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    return isinstance(data, dict) and "image/png" in data
