# SPDX-License-Identifier: Apache-2.0
"""Clients of a tool server: `ToolRunner` and `ApprovalRequestor`.

They use the client of kernels, `kernel_host/stub/ipybox/tool_exec/client.py`, with the defaults of
ipybox 0.9.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..kernel_host.stub.ipybox.tool_exec import client as _client
from .content import ToolAnswer

__all__ = [
    "ApprovalRejectedError",
    "ApprovalRequestor",
    "ApprovalTimeoutError",
    "ResultError",
    "ToolRunner",
    "ToolRunnerError",
]

if TYPE_CHECKING:

    class ToolRunnerError(Exception):
        """A tool could not be run, failed, or was not approved."""

    class ApprovalRejectedError(ToolRunnerError):
        """The call was not approved: a user or a rule rejected it."""

    class ApprovalTimeoutError(ToolRunnerError):
        """The call was not approved: there was no decision in time."""

    class ResultError(ToolRunnerError):
        """The tool has run, but its result violates its schema or cannot be converted."""

        result: Any

else:
    ToolRunnerError = _client.ToolRunnerError
    ApprovalRejectedError = _client.ApprovalRejectedError
    ApprovalTimeoutError = _client.ApprovalTimeoutError
    ResultError = _client.ResultError
    # Applications know these classes from this module.
    for _class in (ToolRunnerError, ApprovalRejectedError, ApprovalTimeoutError, ResultError):
        _class.__module__ = __name__


class ToolRunner:
    """Runs tools of one MCP server on a tool server.

    runner = ToolRunner("fetch", {"command": "uvx", "args": ["mcp-server-fetch"]})
    result = await runner.run("fetch", {"url": "https://example.com"})
    """

    def __init__(
        self,
        server_name: str,
        server_params: dict[str, Any] | None = None,
        host: str = "localhost",
        port: int = 8900,
        *,
        token: str | None = None,
        server_id: str | None = None,
    ) -> None:
        """
        Args:
            server_name: Name of the MCP server.
            server_params: Its parameters: `command`, `args` and `env`, or `url` and `headers`. The
                tool server replaces `${NAME}` from its own environment. None: see server_id.
            host: Hostname of the tool server.
            port: Its port.
            token: Its token. It may be None for a tool server of the same user on the same machine.
            server_id: The id of a registration, which generated packages contain instead of
                parameters. With an id, the environment variables TOOL_SERVER_HOST and
                TOOL_SERVER_PORT override `host` and `port`, as in kernels.
        """
        self.server_name = server_name
        self.server_params = server_params
        self.host = host if server_id is None else os.environ.get("TOOL_SERVER_HOST", host)
        self.port = port if server_id is None else int(os.environ.get("TOOL_SERVER_PORT", port))
        self.token = token
        self.server_id = server_id

    async def run(self, tool_name: str, tool_args: Any) -> dict[str, Any] | str | None:
        """Runs a tool. Cancelling the task cancels the call.

        Args:
            tool_name: Name of the tool.
            tool_args: Its arguments: a dict, or an object that pydantic converts to a JSON object,
                such as a model or a dataclass. Values may be datetimes, UUIDs, paths, enums,
                dataclasses, models and similar objects.

        Returns:
            The structured result if there is one, else the text, else None.

        Raises:
            ToolRunnerError: If the call fails. If it was not approved, this is an
                ApprovalRejectedError or ApprovalTimeoutError.
        """
        result: dict[str, Any] | str | None = await self._runner().run(tool_name, tool_args)
        return result

    def run_sync(self, tool_name: str, tool_args: Any) -> dict[str, Any] | str | None:
        """Like `run`, but blocks. May be called from any thread."""
        result: dict[str, Any] | str | None = self._runner().run_sync(tool_name, tool_args)
        return result

    async def call(self, tool_name: str, tool_args: Any) -> ToolAnswer:
        """Runs a tool and returns its whole answer. Generated packages call this.

        Cancelling the task cancels the call.

        Args:
            tool_name: Name of the tool.
            tool_args: Its arguments, as for `run`.

        Returns:
            The structured content and the list of contents: texts, images and others.

        Raises:
            ToolRunnerError: As for `run`.
        """
        answer: ToolAnswer = await self._runner().call(tool_name, tool_args)
        return answer

    def call_sync(self, tool_name: str, tool_args: Any) -> ToolAnswer:
        """Like `call`, but blocks. May be called from any thread."""
        answer: ToolAnswer = self._runner().call_sync(tool_name, tool_args)
        return answer

    async def reset(self) -> None:
        """Stops all MCP servers of the tool server. They start again with the next call.

        Raises:
            ToolRunnerError: If the tool server fails or cannot be reached.
        """
        await self._runner().reset()

    def _runner(self) -> Any:
        return _client.ToolRunner(
            self.server_name,
            self.server_params,
            self.host,
            self.port,
            server_id=self.server_id,
            token=self.token or "",
        )


class ApprovalRequestor:
    """Asks the approval client of a tool server about a call, without running a tool.

    requestor = ApprovalRequestor("ipybox")
    await requestor.request("shell", {"cmd": "ls"})  # raises an exception unless it is accepted
    """

    def __init__(
        self,
        server_name: str,
        host: str = "localhost",
        port: int = 8900,
        *,
        token: str | None = None,
    ) -> None:
        """
        Args:
            server_name: The server's name in the request.
            host: Hostname of the tool server.
            port: Its port.
            token: Its token. It may be None for a tool server of the same user on the same machine.
        """
        self.server_name = server_name
        self.host = host
        self.port = port
        self.token = token

    async def request(self, tool_name: str, tool_args: Any) -> bool:
        """Sends a request, and waits for the decision.

        Args:
            tool_name: The tool's name in the request.
            tool_args: Its arguments, as for `ToolRunner.run`.

        Returns:
            True: it was accepted.

        Raises:
            ApprovalRejectedError: If it was rejected, or no approval client is connected.
            ApprovalTimeoutError: If there was no decision in time.
            ToolRunnerError: If the tool server cannot be reached.
        """
        return (await _client.ask(*self._encode(tool_name, tool_args))) is True

    def request_sync(self, tool_name: str, tool_args: Any) -> bool:
        """Like `request`, but blocks. May be called from any thread."""
        return _client.ask_sync(*self._encode(tool_name, tool_args)) is True

    def _encode(self, tool_name: str, tool_args: Any) -> tuple[tuple[str, int], bytes]:
        body = _client.encode({"server_name": self.server_name}, tool_name, tool_args)
        address, head = _client.make_head(
            "POST", "/approve", len(body), self.host, self.port, self.token or ""
        )
        return address, head + body
