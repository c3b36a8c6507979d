# SPDX-License-Identifier: Apache-2.0
"""`KernelClient`, a client of Jupyter's REST and WebSocket interface to kernels.

It works with `KernelGateway` and with any Jupyter server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from ..core.errors import ExecutionTimeout
from ..utils import arun, check_seconds
from .output import MAX_NOTICES, Output
from .rest import REQUEST_TIMEOUT_S, KernelsApi, RestError
from .socket import Channels, Execution

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


@dataclass
class ExecutionResult:
    """The result of code that ran to its end.

    Attributes:
        text: What the code printed and displayed, and the value of its last expression; None if
            there was no output.
        images: The image files that it displayed, in order.
        raw_text: `text` with the white space at both ends.
        is_truncated: Whether the text was longer than 16,777,216 characters and was cut to this
            length.
        notices: Messages of ipybox, for people; see CodeExecutionResult.
    """

    text: str | None
    images: list[Path]
    raw_text: str | None = field(default=None, kw_only=True, compare=False, repr=False)
    is_truncated: bool = field(default=False, kw_only=True, compare=False, repr=False)
    notices: list[str] = field(default_factory=list, kw_only=True, compare=False, repr=False)


class KernelFailedError(RuntimeError):
    """A kernel could not be started. The text says why."""


class ExecutionError(Exception):
    """Code raised an exception in a kernel. The text is the traceback.

    Attributes:
        notices: Messages of ipybox, for people; see CodeExecutionResult.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.notices: list[str] = []


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

    A client belongs to one event loop.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int = 8888,
        images_dir: Path | None = None,
        ping_interval: float = 10,
        working_dir: Path | None = None,
        kernel_init_timeout: float = 10,
        *,
        token: str | None = None,
    ) -> None:
        """
        Args:
            host: Hostname or IP address of the gateway.
            port: Its port.
            images_dir: Where images are saved. Default: `images` in the current directory.
            ping_interval: Seconds between the pings that keep the connection alive.
            working_dir: The directory in which the kernel starts and to which it returns after each
                cell, with a line of output that says so. It requires a gateway of ipybox. None: the
                kernel starts in the gateway's directory, and does not return to it.
            kernel_init_timeout: Seconds from the request for a kernel until it is ready.
            token: The token of the server, if it requires one.
        """
        self.host = host
        self.port = port
        self.images_dir = Path(images_dir or "images")
        self.ping_interval = ping_interval
        self.working_dir = working_dir
        self.kernel_init_timeout = kernel_init_timeout
        self._token = token
        self._api = KernelsApi(host, port, token)
        self._kernel_id: str | None = None
        self._channels: Channels | None = None
        self._kept_notices: list[str] = []  # of executions whose results no caller received
        self._interrupts: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
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

    async def connect(
        self,
        retries: int = 10,
        retry_interval: float = 1.0,
        kernel_init_timeout: float | None = None,
    ) -> None:
        """Starts a kernel, connects to it, and waits until it is ready.

        Args:
            retries: The number of attempts while the gateway cannot be reached.
            retry_interval: Seconds between two attempts.
            kernel_init_timeout: Seconds from the request for a kernel until it is ready. None: the
                value of the constructor.

        Raises:
            TimeoutError: If the kernel was not ready in time. Nothing is left of it.
            RuntimeError: If the client is connected already, if all attempts failed, or if no
                kernel could be started.
            ValueError: If kernel_init_timeout is not a number above 0.
        """
        if self._kernel_id is not None:
            raise RuntimeError("Already connected to kernel")
        given = self.kernel_init_timeout if kernel_init_timeout is None else kernel_init_timeout
        limit = check_seconds(given, "kernel_init_timeout")
        for left in reversed(range(max(retries, 1))):
            try:
                await self._connect(limit)
                return
            except (TimeoutError, asyncio.TimeoutError):
                if limit is None:
                    raise ExecutionTimeout(
                        f"the gateway at {self.host}:{self.port} did not answer in time"
                    ) from None
                text = f"the kernel was not ready within {limit:g} s, the limit kernel_init_timeout"
                raise ExecutionTimeout(text) from None
            except (OSError, RuntimeError) as error:
                is_refused = isinstance(error, RestError) and 400 <= error.status < 500
                if left == 0 or is_refused or isinstance(error, KernelFailedError):
                    raise RuntimeError(
                        f"Failed to connect to kernel at {self.host}:{self.port}: {error}"
                    ) from error
            await asyncio.sleep(retry_interval)

    async def disconnect(self) -> None:
        """Ends the kernel and disconnects. Does nothing without a connection."""
        kernel_id, self._kernel_id = self._kernel_id, None
        channels, self._channels = self._channels, None
        if channels is not None:
            channels.close()
        if kernel_id is not None:
            try:
                await self._api.delete(kernel_id)
            except (OSError, RuntimeError):
                pass  # the gateway has ended, and the kernel with it

    async def reset(self) -> None:
        """Ends the kernel and starts another one.

        Raises:
            RuntimeError: If there is no connection, or no kernel can be started.
        """
        self.kernel_id  # noqa: B018  (raises without a connection)
        await self.disconnect()
        await self.connect()

    async def interrupt(self) -> None:
        """Interrupts the running code as Ctrl-C does. The kernel keeps its state.

        Does nothing if no code runs.

        Raises:
            RuntimeError: If there is no connection.
        """
        await self._api.interrupt(self.kernel_id)

    async def execute(self, code: str, timeout: float | None = None) -> ExecutionResult:
        """Runs code and waits for its end.

        Args:
            code: Python code.
            timeout: Seconds after which the code is interrupted; the kernel keeps its state. None:
                no limit.

        Returns:
            The text of its output, and its images.

        Raises:
            ExecutionError: If the code raises an exception.
            TimeoutError: If it takes longer than `timeout`.
            RuntimeError: If there is no connection.
        """
        result: ExecutionResult | None = None
        async for item in self.stream(code, timeout):
            if isinstance(item, ExecutionResult):
                result = item
        assert result is not None
        return result

    async def stream(
        self, code: str, timeout: float | None = None
    ) -> AsyncIterator[str | ExecutionResult]:
        """Runs code and yields its output as it comes. Closing the stream before its end interrupts
        the code.

        Args:
            code: Python code.
            timeout: Seconds after which the code is interrupted; the kernel keeps its state. None:
                no limit.

        Yields:
            Pieces of output, and at the end the `ExecutionResult`.

        Raises:
            ExecutionError: If the code raises an exception.
            TimeoutError: If it takes longer than `timeout`.
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
                piece = (
                    await arun(output.take, message)
                    if _has_image(message)
                    else output.take(message)
                )
                if piece:
                    yield piece
        finally:
            notices = self._take_notices(output)
            if not output.is_done:
                self._kept_notices = notices
                execution.abandon(lambda: self._interrupt_soon(kernel_id))
        if output.error is not None:
            error = ExecutionError(output.error)
            error.notices = notices
            raise error
        raw_text = output.text
        yield ExecutionResult(
            text=raw_text.strip() or None,
            images=output.images,
            raw_text=raw_text or None,
            is_truncated=output.is_truncated,
            notices=notices,
        )

    def _take_notices(self, output: Output) -> list[str]:
        notices = self._kept_notices + output.notices
        self._kept_notices = []
        return notices[:MAX_NOTICES]

    async def _connect(self, limit: float | None) -> None:
        deadline = None if limit is None else time.monotonic() + limit
        place = None if self.working_dir is None else Path(self.working_dir).absolute()
        kernel_id = await self._api.create(place, REQUEST_TIMEOUT_S if limit is None else limit)
        channels = None
        try:
            opening = Channels.open(
                self.host, self.port, kernel_id, self._token, self.ping_interval
            )
            channels = await _wait(opening, deadline)
            await _wait(_become_ready(channels), deadline)
        except BaseException:
            if channels is not None:
                channels.close()
            self._api.forget(kernel_id)
            raise
        self._channels = channels
        self._kernel_id = kernel_id

    async def _next(
        self, execution: Execution, deadline: float | None, timeout: float | None
    ) -> dict[str, object]:
        try:
            return await _wait(execution.next(), deadline)
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


async def _become_ready(channels: Channels) -> None:
    """Waits until the kernel has run an empty cell.

    Raises:
        KernelFailedError: If it cannot run one.
    """
    output = Output(Path())
    execution = channels.execute("", is_silent=True)
    while not output.is_done:
        output.take(await execution.next())
    if output.error is not None:
        raise KernelFailedError(output.error)


async def _wait(what: Awaitable[T], deadline: float | None) -> T:
    """Waits for `what` until `deadline`.

    Raises:
        asyncio.TimeoutError: If it takes longer. Then `what` is cancelled.
    """
    return await asyncio.wait_for(
        what, None if deadline is None else max(deadline - time.monotonic(), 0)
    )


def _has_image(message: dict[str, object]) -> bool:
    content = message.get("content")
    data = content.get("data") if isinstance(content, dict) else None
    return isinstance(data, dict) and "image/png" in data
