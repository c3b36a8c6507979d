# SPDX-License-Identifier: Apache-2.0
"""A bare client of `ipybox rpc`: the test decides what is sent. The standard library only."""

from __future__ import annotations

import json
import os
import re
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from line_program import LineProgram

ANSWER_SECONDS = 120.0


class RpcError(Exception):
    """An error response of the core."""

    def __init__(self, error: dict):
        super().__init__(error["message"])
        self.code = error["code"]
        self.kind = error.get("data", {}).get("kind")


class RpcCore(LineProgram):
    """Runs `ipybox rpc`."""

    def __init__(
        self,
        ipybox: str,
        place: Any,
        *args: str,
        initialize: bool = True,
        stderr: int | None = None,
    ):
        self.workspace = str(place.workspace)
        super().__init__([ipybox, "rpc", *args], place, stderr)
        self.last_id = 0
        self.answers: dict[Any, dict] = {}
        self.notifications: list[dict] = []
        self.requests: list[dict] = []  # requests of the core without an answer so far
        self.on_approval: Callable[[dict], bool] | None = None  # answers at once
        if initialize:
            self.hello = self.call(
                "initialize", protocol=1, client={"name": "test", "version": "1"}
            )

    # Messages

    def request(self, method: str, **params: Any) -> int:
        """Sends a request and returns its id."""
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return self.last_id

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def receive(self, timeout: float = ANSWER_SECONDS) -> dict:
        """The next message, kept in `answers`, `requests` or `notifications`."""
        message = json.loads(self.read_line(timeout))
        assert message["jsonrpc"] == "2.0"
        if "method" not in message:
            self.answers[message.get("id")] = message
        elif "id" not in message:
            self.notifications.append(message)
        elif self.on_approval and message["method"] == "approval.request":
            self.reply(message, {"accept": self.on_approval(message["params"])})
        else:
            self.requests.append(message)
        return message

    def reply(self, request: dict, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def wait(self, id: int, timeout: float = ANSWER_SECONDS) -> Any:
        """The result of a request. Raises its error."""
        deadline = time.monotonic() + timeout
        while id not in self.answers:
            self.receive(max(0, deadline - time.monotonic()))
        answer = self.answers.pop(id)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def wait_for_request(self) -> dict:
        """The next request of the core that has no answer yet."""
        while not self.requests:
            self.receive()
        return self.requests.pop(0)

    def wait_for_event(self, id: int, type: str) -> dict:
        """The first event of this type, from now on, of an execution."""
        while True:
            message = self.receive()
            params = message.get("params", {})
            if (
                message.get("method") == "session.event"
                and params["request"] == id
                and params["event"]["type"] == type
            ):
                return params["event"]

    def events(self, id: int) -> list[dict]:
        """The events of an execution so far."""
        of_it = (n["params"] for n in self.notifications if n["method"] == "session.event")
        return [params["event"] for params in of_it if params["request"] == id]

    # Methods

    def call(self, method: str, **params: Any) -> Any:
        return self.wait(self.request(method, **params))

    def open(self, **options: Any) -> str:
        """The id of a new session."""
        return self.call("session.open", **({"workspace": self.workspace} | options))["session"]

    def execute(self, session: str, code: str, **options: Any) -> dict:
        return self.call("session.execute", session=session, code=code, **options)

    def text(self, session: str, code: str, **options: Any) -> str | None:
        """The text of a cell that must succeed."""
        result = self.execute(session, code, **options)
        assert result["status"] == "ok", result
        return result["text"]


def peak_memory(pid: int) -> int:
    return int(re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def wait_until_full(fd: int) -> None:
    """Waits until the core cannot write any more.

    The number of bytes does not show it: a page that a write did not fill counts as full. So the
    writing end is opened once more and polled.
    """
    writer = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        deadline = time.monotonic() + 60
        while select.select([], [writer], [], 0)[1]:
            assert time.monotonic() < deadline, "the core writes no more, and its pipe is not full"
            time.sleep(0.001)
    finally:
        os.close(writer)
