# SPDX-License-Identifier: Apache-2.0
"""A WebSocket of the core, whose messages arrive in the event loop that opened it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ...core import Core, CoreError, Handler


class _Socket(Handler):
    def __init__(
        self,
        core: Core,
        on_text: Callable[[str], None],
        on_closed: Callable[[int, str], None],
    ) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._on_text = on_text
        self._on_closed = on_closed
        self.opened: asyncio.Future[str] = self._loop.create_future()

    # By the reading thread

    def on_done(self, result: Any, error: CoreError | None) -> None:
        """The answer to websocket.open."""
        if result is not None:
            self._core.route_socket(result["socket"], self)
        self._call(self._settle, result, error)

    def on_message(self, message: dict[str, Any]) -> None:
        if "text" in message:
            self._call(self._on_text, message["text"])

    def on_closed(self, code: int, reason: str) -> None:
        self._call(self._on_closed, code, reason)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # the loop is closed, so no task waits

    # In the event loop

    def _settle(self, result: Any, error: CoreError | None) -> None:
        if self.opened.cancelled():
            if result is not None:
                close_socket(self._core, result["socket"])
        elif error is not None:
            self.opened.set_exception(error)
        else:
            self.opened.set_result(result["socket"])


async def open_socket(
    core: Core,
    params: dict[str, Any],
    on_text: Callable[[str], None],
    on_closed: Callable[[int, str], None],
) -> str:
    """Opens a WebSocket.

    Args:
        core: The core that has the socket.
        params: Parameters of `websocket.open`, see `docs/internals/rpc.md`.
        on_text: Called with each text message, in the current event loop.
        on_closed: Called once, in the current event loop, with the code and the reason.

    Returns:
        The id of the socket.

    Raises:
        CoreError: If it cannot be opened.
    """
    socket = _Socket(core, on_text, on_closed)
    core.request("websocket.open", params, socket)
    return await socket.opened


def close_socket(core: Core, socket: str) -> None:
    """Closes a socket without waiting for it."""
    core.notify("websocket.close", {"socket": socket, "code": 1000, "reason": ""})
    core.route_socket(socket, None)
