# SPDX-License-Identifier: Apache-2.0
"""The approval channel for an application's own tool server, with starlette or FastAPI.

    channel = ApprovalChannel(approval_required=True)
    app.websocket("/approval")(channel.connect)

`ToolServer` has a channel already; this one is for applications that have a server of their own.
Only such an application needs starlette. The application checks who may connect. The channel
refuses web pages of other origins, because a browser on this machine lets every page connect.
"""

from __future__ import annotations

import asyncio
import json
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

# FastAPI looks up the annotation of `connect` in this module.
if TYPE_CHECKING:
    from starlette.websockets import WebSocket
else:
    try:
        from starlette.websockets import WebSocket
    except ImportError:
        pass

JOIN_TIMEOUT_S = 5.0
POLICY_VIOLATION = 1008


def _is_own_page(origin: str, host: str | None) -> bool:
    """Whether a page comes from the server that it connects to.

    Only for names that no DNS server of an attacker can resolve to this machine.
    """
    scheme, _, place = origin.partition("://")
    if scheme not in ("http", "https") or not place or place != host:
        return False
    try:
        name = urlsplit(origin).hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


class ApprovalChannel:
    """Sends approval requests to an `ApprovalClient` over a WebSocket.

    Attributes:
        approval_required: Whether requests are sent; if not, every call is accepted.
        approval_timeout: Seconds to wait for a decision; None for no limit.
        allowed_origins: Origins of web pages that may connect, such as `http://localhost:3000`.
            Pages that the application itself serves on localhost or a loopback address may always
            connect.
    """

    def __init__(
        self, approval_required: bool = False, approval_timeout: float | None = None
    ) -> None:
        """
        Args:
            approval_required: Whether approval is required.
            approval_timeout: Seconds to wait for a decision; None for no limit.
        """
        self.approval_required = approval_required
        self.approval_timeout = approval_timeout
        self.allowed_origins: set[str] = set()
        self._websocket: WebSocket | None = None
        self._closed = asyncio.Event()
        self._closed.set()
        self._accepted = asyncio.Event()
        self._last_id = 0
        self._asked: dict[int, asyncio.Future[bool]] = {}

    @property
    def open(self) -> bool:
        """Whether a client is connected."""
        return self._websocket is not None

    async def connect(self, websocket: WebSocket) -> None:
        """Serves a client until it disconnects.

        If another client is connected, this waits up to 5 seconds until that has disconnected, and
        otherwise closes the new connection with code 1008. A web page whose origin is not allowed
        is refused with status 403.

        Args:
            websocket: The connection, not accepted yet.
        """
        origin, host = websocket.headers.get("origin"), websocket.headers.get("host")
        if (
            origin is not None
            and origin not in self.allowed_origins
            and not _is_own_page(origin, host)
        ):
            await websocket.close(code=POLICY_VIOLATION)
            return
        if self.open:
            await websocket.accept()
            try:
                await self.join(JOIN_TIMEOUT_S)
            except (TimeoutError, asyncio.TimeoutError):
                await websocket.close(
                    code=POLICY_VIOLATION, reason="another approval client is connected"
                )
                return
            self._enter(websocket)
            self._accepted.set()
        else:
            # From now on it is the client, which may know that it is connected before `accept`
            # returns.
            self._enter(websocket)
        try:
            if not self._accepted.is_set():
                await websocket.accept()
                self._accepted.set()
            await self._receive(websocket)
        finally:
            if self._websocket is websocket:
                self._leave()

    async def disconnect(self) -> None:
        """Disconnects the client. Requests that wait fail with RuntimeError. Does nothing without a
        client."""
        websocket = self._websocket
        if websocket is None:
            return
        self._leave()
        try:
            await websocket.close()
        except RuntimeError:
            pass  # it has disconnected already

    async def join(self, timeout: float = JOIN_TIMEOUT_S) -> None:
        """Waits until no client is connected.

        Args:
            timeout: Seconds to wait.

        Raises:
            TimeoutError: If a client is still connected after that time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while self.open:  # another waiting client may have connected first
            await asyncio.wait_for(self._closed.wait(), max(deadline - loop.time(), 0))

    async def request(self, server_name: str, tool_name: str, tool_args: dict[str, Any]) -> bool:
        """Asks for approval of a tool call.

        Args:
            server_name: Name of the MCP server.
            tool_name: Name of the tool.
            tool_args: The arguments of the call.

        Returns:
            Whether it was accepted; True without asking if no approval is required.

        Raises:
            RuntimeError: If no client is connected, or the client disconnects.
            TimeoutError: If there is no decision in time.
        """
        if not self.approval_required:
            return True
        websocket = self._websocket
        if websocket is None:
            raise RuntimeError("Approval channel not connected")
        self._last_id += 1
        number = self._last_id
        params = {"server_name": server_name, "tool_name": tool_name, "tool_args": tool_args}
        message = {"jsonrpc": "2.0", "method": "approve", "params": params, "id": number}
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._accepted.wait()
            if self._websocket is websocket:
                await self._send(websocket, json.dumps(message))
            return await asyncio.wait_for(future, self.approval_timeout)
        except asyncio.TimeoutError as error:
            raise TimeoutError(
                f"{server_name}.{tool_name} was not approved within {self.approval_timeout} s"
            ) from error
        finally:
            del self._asked[number]

    async def _send(self, websocket: WebSocket, text: str) -> None:
        from starlette.websockets import WebSocketDisconnect

        try:
            await websocket.send_text(text)
        except (WebSocketDisconnect, OSError) as error:
            raise RuntimeError("Approval channel disconnected") from error

    async def _receive(self, websocket: WebSocket) -> None:
        from starlette.websockets import WebSocketDisconnect

        try:
            while self._websocket is websocket:
                self._take(await websocket.receive_text())
        except (WebSocketDisconnect, RuntimeError):
            pass  # RuntimeError: it was closed by disconnect

    def _take(self, text: str) -> None:
        """Receives an answer `{"result": bool, "id": number}`. Any result but true rejects the
        call."""
        try:
            message = json.loads(text)
        except ValueError:
            return
        if isinstance(message, dict) and isinstance(message.get("id"), int):
            future = self._asked.get(message["id"])
            if future is not None and not future.done():
                future.set_result(message.get("result") is True)

    def _enter(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._closed.clear()
        self._accepted = asyncio.Event()

    def _leave(self) -> None:
        self._websocket = None
        self._closed.set()
        self._accepted.set()
        for future in self._asked.values():
            if not future.done():
                future.set_exception(RuntimeError("Approval channel disconnected"))
