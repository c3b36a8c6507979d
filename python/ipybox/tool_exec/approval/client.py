# SPDX-License-Identifier: Apache-2.0
"""`ApprovalRequest`, and `ApprovalClient`, which receives requests from a tool server."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...core import Core

logger = logging.getLogger("ipybox")


class ApprovalRequest:
    """A tool call that waits for the application's decision.

    The call runs only after `accept`. Only the first decision counts. A decision has no effect
    after the request has expired: its time limit was exceeded, or the cell has ended. Methods may
    be called in any event loop.

        async def on_approval_request(request: ApprovalRequest):
            if request.tool_name == "dangerous_tool":
                await request.reject()
            else:
                await request.accept()

    Attributes:
        server_name: Name of the MCP server.
        tool_name: Name of the tool.
        tool_args: The arguments, exactly as they will be sent.
        server_params: The parameters of a server that is not registered, with `${NAME}` as written.
            Packages made by mcpygen send them in a session without a sandbox. None: the server is
            registered. Check this before `server_name`, because the cell chose the name of a server
            that is not registered.
    """

    def __init__(
        self,
        server_name: str,
        tool_name: str,
        tool_args: dict[str, Any],
        respond: Callable[[bool], Awaitable[None]],
        *,
        server_params: dict[str, Any] | None = None,
    ) -> None:
        """
        Args:
            server_name: Name of the MCP server.
            tool_name: Name of the tool.
            tool_args: The arguments of the call.
            respond: Sends the decision to the side that waits for it.
            server_params: The parameters of the server, if it is not registered.
        """
        self.server_params = server_params
        self.server_name = server_name
        self.tool_name = tool_name
        self.tool_args = tool_args
        self._respond = respond
        self._lock = threading.Lock()
        self._decision: bool | None = None
        self._waiting: list[asyncio.Future[bool]] = []
        self._callbacks: list[tuple[Callable[[bool], Any], asyncio.AbstractEventLoop | None]] = []

    async def accept(self) -> None:
        """Lets the call run."""
        await self._decide(True)

    async def reject(self) -> None:
        """Refuses the call. It fails with ApprovalRejectedError in the cell."""
        await self._decide(False)

    async def response(self) -> bool:
        """Waits for the decision.

        Returns:
            Whether the call was accepted. False if the request expired.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._decision is not None:
                return self._decision
            self._waiting.append(future)
        try:
            return await future
        finally:
            with self._lock:
                if future in self._waiting:
                    self._waiting.remove(future)

    def on_decision(self, callback: Callable[[bool], Any]) -> None:
        """Calls `callback` once with the decision, at once if there is one already.

        Args:
            callback: A function that is called in the current event loop with True if the call was
                accepted, and with False if it was rejected or the request expired. If it returns a
                coroutine, that is started as a task. Its exceptions are logged.
        """
        loop = _running_loop()
        with self._lock:
            if self._decision is None:
                self._callbacks.append((callback, loop))
                return
        _call(callback, self._decision)

    def set_on_decision(self, callback: Callable[[], Any]) -> None:
        """Like `on_decision`, for a callback without parameters, as in ipybox 0.9.

        Args:
            callback: A function; see `on_decision`.
        """
        self.on_decision(lambda accept: callback())

    def expire(self) -> None:
        """Ends the request: a decision is not needed any more. For the creator of the request, from
        any thread."""
        self._settle(False)

    async def _decide(self, accept: bool) -> None:
        if self._settle(accept):
            await self._respond(accept)

    def _settle(self, accept: bool) -> bool:
        """Stores the decision and reports it, from any thread. False: there was one already."""
        with self._lock:
            if self._decision is not None:
                return False
            self._decision = accept
            waiting, self._waiting = self._waiting, []
            callbacks, self._callbacks = self._callbacks, []
        for future in waiting:
            try:
                future.get_loop().call_soon_threadsafe(_resolve, future, accept)
            except RuntimeError:
                pass  # its loop is closed
        for callback, loop in callbacks:
            if loop is None or loop is _running_loop():
                _call(callback, accept)
                continue
            try:
                loop.call_soon_threadsafe(_call, callback, accept)
            except RuntimeError:
                pass
        return True

    def __str__(self) -> str:
        arguments = ", ".join(f"{_show(name)}={value!r}" for name, value in self.tool_args.items())
        call = f"{_show(self.server_name)}.{_show(self.tool_name)}({arguments})"
        if self.server_params is None:
            return call
        return f"{call} of the unregistered server {self.server_params!r}"

    def __repr__(self) -> str:
        return f"<ApprovalRequest {self}>"


def _show(name: str) -> str:
    """Escapes a name that the code in the kernel chose: control characters, and characters that
    change the order of text."""
    return name if name.isprintable() else repr(name)[1:-1]


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _resolve(future: asyncio.Future[bool], accept: bool) -> None:
    if not future.done():
        future.set_result(accept)


def _call(callback: Callable[[bool], Any], accept: bool) -> None:
    """Calls the callback. Its failure does not change the decision."""
    try:
        result = callback(accept)
    except Exception:
        logger.exception("a callback of on_decision failed")
        return
    if asyncio.iscoroutine(result):
        task = asyncio.ensure_future(result)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)


# Tasks that have no other reference.
_tasks: set[asyncio.Future[Any]] = set()


ApprovalCallback = Callable[[ApprovalRequest], Awaitable[None]]


class ApprovalClient:
    """Receives the approval requests of a tool server.

    async def on_approval_request(request: ApprovalRequest):
        print(f"Approval request: {request}")
        await request.accept()

    async with ApprovalClient(callback=on_approval_request):
        ...  # code that runs tools
    """

    def __init__(
        self,
        callback: ApprovalCallback,
        host: str = "localhost",
        port: int = 8900,
        *,
        token: str | None = None,
    ) -> None:
        """
        Args:
            callback: A coroutine function that accepts or rejects a request. It is called for each
                request in a task of its own. If it raises an exception, the request is rejected.
            host: Hostname of the tool server.
            port: Its port.
            token: Its token. It may be None for a tool server of the same user on the same machine.
        """
        self.callback = callback
        self.host = host
        self.port = port
        self.token = token
        self._core: Core | None = None
        self._socket: str | None = None
        self._open: dict[int | str, ApprovalRequest] = {}

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

    async def connect(self) -> None:
        """Connects to the tool server.

        Raises:
            RuntimeError: If the client is connected already.
            ConnectionRefusedError: If nothing listens there, or the tool server refuses. It is also
                a RuntimeError.
        """
        if self._core is not None:
            raise RuntimeError("Already connected")
        from ...core import CoreError, acquire_core
        from ...core.errors import ConnectionFailedError
        from .socket import open_socket

        core = self._core = acquire_core()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            self._socket = await open_socket(
                core,
                {"host": self.host, "port": self.port, "path": "/approval", "headers": headers},
                self._take,
                self._end,
            )
        except BaseException as error:
            if self._core is core:
                self._core = None
                core.release()
            if isinstance(error, CoreError) and error.kind == "server":
                raise ConnectionFailedError(str(error), error.kind) from None
            raise

    async def disconnect(self) -> None:
        """Disconnects. Requests without a decision are rejected. Does nothing without a
        connection."""
        core, socket = self._core, self._socket
        if core is None:
            return
        self._core = self._socket = None
        try:
            if socket is not None and core.error is None:
                await core.call(
                    "websocket.close",
                    {"socket": socket, "code": 1000, "reason": ""},
                    is_cancellable=False,
                )
        finally:
            core.release()

    def _take(self, text: str) -> None:
        """Receives a request `{"method": "approve", "params": {…}, "id": number}`, in the event
        loop.

        Other messages are logged and ignored.
        """
        from ...core.lines import parse

        try:
            message = parse(text)
            number, params = message["id"], message["params"]
            server_name, tool_name, tool_args = (
                params["server_name"],
                params["tool_name"],
                params["tool_args"],
            )
            is_right = (
                isinstance(server_name, str)
                and isinstance(tool_name, str)
                and isinstance(tool_args, dict)
            )
            if not isinstance(number, (int, str)) or not is_right:
                raise ValueError
        except (ValueError, LookupError, TypeError, RecursionError):
            logger.warning(
                "the tool server sent a message that is not an approval request: %.200r", text
            )
            return
        request = ApprovalRequest(
            server_name, tool_name, tool_args, lambda accept: self._respond(number, accept)
        )
        self._open[number] = request
        task = asyncio.ensure_future(self._call_back(request))
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async def _call_back(self, request: ApprovalRequest) -> None:
        try:
            await self.callback(request)
        except Exception:
            logger.exception("the approval callback failed; %s is rejected", request)
            await request.reject()

    async def _respond(self, number: int | str, accept: bool) -> None:
        self._open.pop(number, None)
        core, socket = self._core, self._socket
        if core is None or socket is None:
            raise RuntimeError("Not connected")
        message = {"jsonrpc": "2.0", "result": accept, "id": number}
        await core.call(
            "websocket.send", {"socket": socket, "text": json.dumps(message)}, is_cancellable=False
        )

    def _end(self, code: int, reason: str) -> None:
        """The connection was closed or lost; in the event loop. `connect` may be called again."""
        core, self._core = self._core, None
        self._socket = None
        requests, self._open = list(self._open.values()), {}
        for request in requests:
            request.expire()
        if core is not None:
            core.release()
            logger.warning("the tool server closed the approval channel: %s %s", code, reason)


def __getattr__(name: str) -> Any:
    if name == "ApprovalRequestor":
        from ..client import ApprovalRequestor

        return ApprovalRequestor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
