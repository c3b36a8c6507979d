# SPDX-License-Identifier: Apache-2.0
"""`MCPClient`, a client of one MCP server."""

from __future__ import annotations

import os
import sys
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .core import Core, CoreError, Handler, acquire_core

if TYPE_CHECKING:
    from typing_extensions import Self


# Members of a tool that a server may omit, by their names in the classes of the official SDK.
OPTIONAL_MEMBERS = {
    "title": "title",
    "description": "description",
    "outputSchema": "outputSchema",
    "annotations": "annotations",
    "icons": "icons",
    "execution": "execution",
    "meta": "_meta",
}


class Tool(dict[str, Any]):
    """A tool as its server describes it, `{"name": …, "description": …, "inputSchema": …}`.

    The members are attributes, too, as in ipybox 0.9: `tool.name`, `tool.inputSchema`. An omitted
    member is None.
    """

    def __getattr__(self, name: str) -> Any:
        key = OPTIONAL_MEMBERS.get(name, name)
        if key in self:
            return self[key]
        if name in OPTIONAL_MEMBERS:
            return None
        raise AttributeError(f"the tool has no member {name!r}")


class MCPClient:
    """Connects to an MCP server and calls its tools, without a kernel.

        async with MCPClient({"command": "uvx", "args": ["mcp-server-fetch"]}) as client:
            print(await client.run("fetch", {"url": "https://example.com"}))

    No approval is needed. May be used in several event loops.
    """

    def __init__(self, server_params: dict[str, Any], connect_timeout: float = 30) -> None:
        """
        Args:
            server_params: `command`, `args` and `env` of a program, or `url` and `headers` of a
                server over HTTP. `${NAME}` is replaced from the environment and from `.env` in the
                current directory.
            connect_timeout: Seconds that the server may take to start.

        Raises:
            ValueError: If the parameters have neither `command` nor `url`.
        """
        if "command" not in server_params and "url" not in server_params:
            raise ValueError(
                f'Neither a "command" nor a "url" key in server_params: {server_params}'
            )
        self.server_params = server_params
        self.connect_timeout = connect_timeout
        self._core: Core | None = None
        self._client: str | None = None

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
        """Connects to the server, and starts it if it is a program.

        Raises:
            RuntimeError: If the client is started already, or the server fails.
            FileNotFoundError: If the command or a variable does not exist. It is also a
                LookupError.
            TimeoutError: If the server takes longer than `connect_timeout`.
        """
        if self._core is not None:
            raise RuntimeError("MCP client already started")
        core = self._core = acquire_core()
        try:
            result = await core.call(
                "mcp.connect",
                {
                    "server_params": self.server_params,
                    "env": dict(os.environ),
                    "workspace": os.getcwd(),
                    "python": sys.executable or None,
                    "connect_timeout": self.connect_timeout,
                },
                on_late=lambda late: _send_close(core, late["client"]),
            )
        except BaseException:
            self._core = None
            core.release()
            raise
        self._client = result["client"]

    async def stop(self) -> None:
        """Disconnects, and ends the server if it was started. Does nothing without a connection."""
        core, client = self._core, self._client
        if core is None or client is None:
            return
        self._core = self._client = None
        try:
            if core.error is None:
                await core.call("mcp.close", {"client": client}, is_cancellable=False)
        finally:
            core.release()

    def __del__(self) -> None:
        core, client = getattr(self, "_core", None), getattr(self, "_client", None)
        if core is not None and client is not None and core.error is None:
            core.run_soon(lambda: _forget(core, client))
            warnings.warn(f"{self!r} was not stopped", ResourceWarning, source=self, stacklevel=1)

    async def list_tools(self) -> list[Tool]:
        """Lists the server's tools.

        Returns:
            The tools as MCP describes them: `name`, `description`, `inputSchema`, and possibly
            `outputSchema` and others.

        Raises:
            RuntimeError: If the client is not started, or the server fails.
        """
        result = await self._call("mcp.list_tools", {})
        return [Tool(tool) for tool in result["tools"]]

    async def run(
        self, tool_name: str, tool_args: dict[str, Any]
    ) -> dict[str, Any] | list[Any] | str | None:
        """Calls a tool. Cancelling the task cancels the call.

        Args:
            tool_name: Name of the tool.
            tool_args: Its arguments.

        Returns:
            The structured result if there is one, else the text, else a list of contents such as
            images; None if the result is empty.

        Raises:
            RuntimeError: If the client is not started, or the tool fails; the text is the tool's.
        """
        result = await self._call("mcp.call", {"tool_name": tool_name, "tool_args": tool_args})
        value: dict[str, Any] | list[Any] | str | None = result["result"]
        return value

    async def _call(self, method: str, params: dict[str, Any]) -> Any:
        if self._core is None or self._client is None:
            raise RuntimeError("MCP client not started")
        return await self._core.call(method, {"client": self._client, **params})


def _send_close(core: Core, client: str) -> None:
    try:
        core.request("mcp.close", {"client": client}, Handler())
    except CoreError:
        pass  # the core has ended, and the connection with it


def _forget(core: Core, client: str) -> None:
    _send_close(core, client)
    core.release()
