# SPDX-License-Identifier: Apache-2.0
"""Approval requests, as an application gets them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any


class ApprovalRequest:
    """A tool call that waits for the application's decision.

    The call runs only after `accept`. The first decision counts; later ones do nothing, and neither does one that comes when
    nobody waits any more: the time for it is over, or the cell has ended.

        async def on_approval_request(request: ApprovalRequest):
            if request.tool_name == "dangerous_tool":
                await request.reject()
            else:
                await request.accept()

    Attributes:
        server_name: Name of the MCP server.
        tool_name: Name of the tool.
        tool_args: The arguments, as they will be sent.
    """

    def __init__(
        self,
        server_name: str,
        tool_name: str,
        tool_args: dict[str, Any],
        respond: Callable[[bool], Awaitable[None]],
    ) -> None:
        """
        Args:
            server_name: Name of the MCP server.
            tool_name: Name of the tool.
            tool_args: The arguments of the call.
            respond: Takes the decision to whoever waits for it.
        """
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
        """Refuses the call: it fails with ApprovalRejectedError in the cell."""
        await self._decide(False)

    async def response(self) -> bool:
        """Waits for the decision, whoever makes it.

        Returns:
            Whether the call was accepted. False also if the request expired.
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
        """Calls `callback` with the decision, once, or at once if it is made already.

        Args:
            callback: A function, called in the event loop that this is called in; a coroutine that it returns is started as a
                task. False also if the request expired.
        """
        loop = _running_loop()
        with self._lock:
            if self._decision is None:
                self._callbacks.append((callback, loop))
                return
        _call(callback, self._decision)

    def expire(self) -> None:
        """Tells that nobody waits for a decision any more. For whoever made the request, from any thread."""
        self._settle(False)

    async def _decide(self, accept: bool) -> None:
        if self._settle(accept):
            await self._respond(accept)

    def _settle(self, accept: bool) -> bool:
        """Notes the decision and tells it; False if there was one. From any thread."""
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
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.tool_args.items())
        return f"{self.server_name}.{self.tool_name}({arguments})"

    def __repr__(self) -> str:
        return f"<ApprovalRequest {self}>"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _resolve(future: asyncio.Future[bool], accept: bool) -> None:
    if not future.done():
        future.set_result(accept)


def _call(callback: Callable[[bool], Any], accept: bool) -> None:
    result = callback(accept)
    if asyncio.iscoroutine(result):
        task = asyncio.ensure_future(result)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)


# Tasks that nobody else holds.
_tasks: set[asyncio.Future[Any]] = set()
