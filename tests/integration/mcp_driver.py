# SPDX-License-Identifier: Apache-2.0
"""A bare JSON-RPC client for `ipybox` as an MCP server: the test decides what is sent."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from line_program import LineProgram

ANSWER_SECONDS = 120.0

# The answer that lets a call run.
YES = {"action": "accept", "content": {"decision": "allow"}}


def try_cell(command: list[str], place: Any) -> tuple[str, str, int]:
    """Runs the cell `6 * 7` in a server that may fail at any step.

    Returns the cell's text, "" if there was none, the server's stderr and its status.
    """
    program, *args = command
    server = McpServer(program, place, *args, initialize=False, stderr=subprocess.PIPE)
    try:
        server.initialize()
        result = server.tool("execute_ipython_cell", {"code": "print(6 * 7)"})
        text = result["content"][0]["text"]
        server.process.stdin.close()
    except (EOFError, BrokenPipeError):
        text = ""
        # It may have died before it read what is still buffered.
        with contextlib.suppress(BrokenPipeError):
            server.process.stdin.close()
    errors = server.process.stderr.read().decode()
    return text, errors, server.close()


class McpServer(LineProgram):
    """Runs `ipybox` and speaks MCP with it."""

    def __init__(
        self,
        ipybox: str,
        place: Any,
        *args: str,
        initialize: bool = True,
        stderr: int | None = None,
    ):
        super().__init__([ipybox, *args], place, stderr)
        self.last_id = 0
        self.notifications: list[dict] = []
        self.answers: dict[Any, dict] = {}
        if initialize:
            self.initialize()

    # Messages

    def request(self, method: str, params: dict | None = None, id: Any = None) -> Any:
        """Sends a request and returns its id."""
        if id is None:
            self.last_id += 1
            id = self.last_id
        self.send(
            {
                "jsonrpc": "2.0",
                "id": id,
                "method": method,
                **({} if params is None else {"params": params}),
            }
        )
        return id

    def notify(self, method: str, params: dict | None = None) -> None:
        self.send(
            {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        )

    def receive(self, timeout: float = ANSWER_SECONDS) -> dict:
        """The next message, kept in `answers` or `notifications`."""
        message = json.loads(self.read_line(timeout))
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            self.notifications.append(message)
        else:
            self.answers[message.get("id")] = message
        return message

    def answer(self, id: Any, timeout: float = ANSWER_SECONDS) -> dict:
        """The whole response to a request."""
        deadline = time.monotonic() + timeout
        while id not in self.answers:
            self.receive(max(0, deadline - time.monotonic()))
        return self.answers.pop(id)

    # MCP

    def initialize(
        self, version: str = "2025-11-25", name: str = "test", **capabilities: Any
    ) -> dict:
        params = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": name, "version": "1"},
        }
        result = self.answer(self.request("initialize", params))["result"]
        self.notify("notifications/initialized")
        return result

    def start_tool(self, tool: str, arguments: dict | None = None, token: Any = None) -> Any:
        params: dict = {"name": tool, "arguments": arguments or {}}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.request("tools/call", params)

    def tool(
        self, tool: str, arguments: dict | None = None, timeout: float = ANSWER_SECONDS
    ) -> dict:
        """The result object of a tool call."""
        return self.answer(self.start_tool(tool, arguments), timeout)["result"]

    def cell(self, code: str, **arguments: Any) -> str:
        """The text of a cell that must succeed."""
        return self._text(
            self.tool("execute_ipython_cell", {"code": code, **arguments}), is_error=False
        )

    def failing_cell(self, code: str, **arguments: Any) -> str:
        """The text of a cell that must fail."""
        return self._text(
            self.tool("execute_ipython_cell", {"code": code, **arguments}), is_error=True
        )

    def register(self, name: str, params: dict) -> list[str]:
        """The names of the modules, from the signatures."""
        result = self.tool("register_mcp_server", {"server_name": name, "server_params": params})
        text = self._text(result, is_error=False)
        return re.findall(rf": \.\.\.  # {name}\.(\w+)(?:: .*)?$", text, re.MULTILINE)

    def _text(self, result: dict, is_error: bool) -> str:
        assert result["isError"] is is_error, result
        (block,) = result["content"]  # always one block: some hosts read the first only
        assert block["type"] == "text"
        return block["text"]


class Client(McpServer):
    """Offers elicitation; the test answers."""

    def initialize(self, version: str = "2025-11-25", **capabilities) -> dict:
        return super().initialize(version, **(capabilities or {"elicitation": {}}))

    def question(self) -> dict:
        """The next request that has no answer yet."""
        while not self.waiting():
            self.receive()
        return self.waiting()[0]

    def waiting(self) -> list[dict]:
        return [message for message in self.notifications if "id" in message]

    def reply(self, question: dict, **answer) -> None:
        self.notifications.remove(question)
        self.send({"jsonrpc": "2.0", "id": question["id"], **answer})

    def start_cell(self, code: str, **arguments) -> int:
        return self.start_tool("execute_ipython_cell", {"code": code, **arguments})

    def text(self, id: int) -> str:
        return self.answer(id)["result"]["content"][0]["text"]


def images_in(text: str) -> list[Path]:
    """The paths of images that a cell's text names."""
    section = text.partition("Generated images:\n\n")[2]
    return [
        Path(line.rpartition("](")[2].rstrip(")"))
        for line in section.splitlines()
        if line.startswith("- [")
    ]
