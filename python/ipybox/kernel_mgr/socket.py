# SPDX-License-Identifier: Apache-2.0
"""The channels of a kernel: one WebSocket of the core, for any number of executions at a time."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ..core import Core, CoreError, Handler, acquire_core
from .messages import is_idle, make_request, message_type, parent_id, parse_message

# The largest message that the core accepts. A larger one closes the connection.
MAX_MESSAGE = 32 * 1024 * 1024
# Characters of messages that wait for readers. If there are more, nothing is received until half of
# them are read. The kernel waits then, and a gateway may disconnect a client that lets it wait for
# a minute.
MAX_WAITING = 64 * 1024 * 1024


class ChannelsClosedError(RuntimeError):
    """The connection to the kernel was closed or lost."""


class Execution:
    """One request and its messages. The last item is an exception if the connection is lost."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_taken: Callable[[int], None]) -> None:
        """
        Args:
            loop: The event loop of the reader.
            on_taken: Called with the size of each message that does not wait any more.
        """
        self.is_begun = False
        self._queue: asyncio.Queue[tuple[dict[str, Any] | ChannelsClosedError, int]] = (
            asyncio.Queue()
        )
        self._loop = loop
        self._on_taken = on_taken
        self._on_begun: Callable[[], None] | None = None

    async def next(self) -> dict[str, Any]:
        """Waits for the next message.

        Raises:
            ChannelsClosedError: If the connection was closed or lost.
        """
        item, size = await self._queue.get()
        self._on_taken(size)
        if isinstance(item, ChannelsClosedError):
            raise item
        return item

    def abandon(self, on_begun: Callable[[], None]) -> None:
        """The reader stops reading.

        Args:
            on_begun: Called when the kernel runs the code. An interrupt before that has no effect.
        """
        self._on_begun = on_begun
        while not self._queue.empty():
            self._on_taken(self._queue.get_nowait()[1])
        if self.is_begun:
            on_begun()

    def put(self, item: dict[str, Any] | ChannelsClosedError, size: int = 0) -> None:
        """Adds an item, from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._take, item, size)
        except RuntimeError:  # the loop is closed, so no task waits
            self._on_taken(size)

    def _take(self, item: dict[str, Any] | ChannelsClosedError, size: int) -> None:
        is_beginning = (
            not isinstance(item, ChannelsClosedError) and message_type(item) == "execute_input"
        )
        if is_beginning:
            self.is_begun = True
            if self._on_begun is not None:
                self._on_begun()
        if is_beginning or self._on_begun is not None:
            self._on_taken(size)
        else:
            self._queue.put_nowait((item, size))


class Channels(Handler):
    """An open connection to a kernel. It is an owner of the core until it is closed."""

    def __init__(self, core: Core, on_opened: Callable[[Any, CoreError | None], None]) -> None:
        self._core = core
        self._on_opened = on_opened
        self._session = uuid.uuid4().hex
        self._socket: str | None = None
        self._lock = threading.Lock()
        self._executions: dict[str, Execution] = {}
        self._n_waiting = 0  # characters
        self._is_paused = False
        self._closed: ChannelsClosedError | None = None

    @classmethod
    async def open(
        cls, host: str, port: int, kernel_id: str, token: str | None, ping_interval: float
    ) -> Channels:
        """Connects to a kernel.

        Raises:
            CoreError: If the connection cannot be opened.
        """
        core = acquire_core()
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()

        def settle(error: CoreError | None) -> None:
            if opened.done():
                return
            if error is not None:
                opened.set_exception(error)
            else:
                opened.set_result(None)

        def on_opened(result: Any, error: CoreError | None) -> None:
            loop.call_soon_threadsafe(settle, error)

        channels = cls(core, on_opened)
        try:
            core.request(
                "websocket.open",
                {
                    "host": host,
                    "port": port,
                    "path": f"/api/kernels/{quote(kernel_id, safe='')}/channels"
                    f"?session_id={channels._session}",
                    "subprotocols": [],
                    "headers": {"Authorization": f"token {token}"} if token else {},
                    "ping_interval": ping_interval,
                    "max_message": MAX_MESSAGE,
                },
                channels,
            )
            await opened
        except BaseException:
            channels.close()
            raise
        return channels

    def close(self) -> None:
        """Closes the connection. Executions that wait get ChannelsClosedError."""
        with self._lock:
            socket, self._socket = self._socket, None
            is_first = self._closed is None
        self._fail("the client has disconnected")
        if socket is not None:
            self._core.notify("websocket.close", {"socket": socket, "code": 1000, "reason": ""})
            self._core.route_socket(socket, None)
        if is_first:
            self._core.release()

    def execute(self, code: str, *, is_silent: bool = False) -> Execution:
        """Sends code to the kernel.

        Args:
            code: Python code.
            is_silent: Whether the kernel does not count the execution and keeps no history of it.

        Raises:
            ChannelsClosedError: If the connection was closed or lost.
        """
        content = {
            "code": code,
            "silent": is_silent,
            "store_history": not is_silent,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        text, msg_id = make_request(self._session, "execute_request", content)
        execution = Execution(asyncio.get_running_loop(), self._on_taken)
        with self._lock:
            if self._closed is not None:
                raise self._closed
            self._executions[msg_id] = execution
            socket = self._socket
        # If it cannot be sent, the socket is closed, which reports it.
        self._core.request("websocket.send", {"socket": socket, "text": text}, Handler())
        return execution

    def _on_taken(self, size: int) -> None:
        self._note_waiting(-size)

    def _note_waiting(self, size: int) -> None:
        with self._lock:
            self._n_waiting += size
            limit = MAX_WAITING // 2 if self._is_paused else MAX_WAITING
            is_much = self._n_waiting > limit
            if is_much != self._is_paused and self._socket is not None:
                self._is_paused = is_much
                method = "websocket.pause" if is_much else "websocket.resume"
                self._core.notify(method, {"socket": self._socket})

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._closed = self._closed or ChannelsClosedError(
                f"Connection to kernel closed: {reason}"
            )
            closed = self._closed
            executions = list(self._executions.values())
        for execution in executions:
            execution.put(closed)

    # By the reading thread

    def on_done(self, result: Any, error: CoreError | None) -> None:
        """The answer to websocket.open."""
        if error is None:
            with self._lock:
                is_wanted = self._closed is None
                if is_wanted:
                    self._socket = result["socket"]
            if is_wanted:
                self._core.route_socket(result["socket"], self)
            else:
                self._core.notify(
                    "websocket.close", {"socket": result["socket"], "code": 1000, "reason": ""}
                )
        try:
            self._on_opened(result, error)
        except RuntimeError:  # the loop is closed
            pass

    def on_message(self, message: dict[str, Any]) -> None:
        parsed = parse_message(message)
        if parsed is None:
            return
        with self._lock:
            execution = self._executions.get(parent_id(parsed))
            if execution is not None and is_idle(parsed):
                del self._executions[parent_id(parsed)]
        if execution is not None:
            size = len(message.get("text") or message.get("base64") or "")
            self._note_waiting(size)
            execution.put(parsed, size)

    def on_closed(self, code: int, reason: str) -> None:
        self._fail(reason or f"code {code}")
