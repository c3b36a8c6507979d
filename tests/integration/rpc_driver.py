# SPDX-License-Identifier: Apache-2.0
"""A bare client of `ipybox rpc`: what goes over the wire is what the test says. The standard library only."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from typing import Any

ANSWER_SECONDS = 120.0


class RpcError(Exception):
    """The core's error answer."""

    def __init__(self, error: dict):
        super().__init__(error["message"])
        self.code = error["code"]
        self.kind = error.get("data", {}).get("kind")


class RpcCore:
    """Runs `ipybox rpc`. A context manager: the end closes stdin and waits for the exit."""

    def __init__(self, ipybox: str, place: Any, *args: str, initialize: bool = True, stderr: int | None = None):
        self.workspace = str(place.workspace)
        self.process = subprocess.Popen(
            [ipybox, "rpc", *args],
            cwd=place.workspace,
            env=place.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        self.buffer = bytearray()
        self.last_id = 0
        self.answers: dict[Any, dict] = {}
        self.notifications: list[dict] = []
        self.requests: list[dict] = []  # of the core, not answered yet
        self.on_approval: Callable[[dict], bool] | None = None  # answers at once
        if initialize:
            self.hello = self.call("initialize", protocol=1, client={"name": "test", "version": "1"})

    def __enter__(self) -> RpcCore:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            assert self.close() == 0 or exception[0]
        finally:
            self.process.kill()
            self.process.wait()

    def close(self, timeout: float = 60) -> int:
        """End of input; returns the exit status."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        status = self.process.wait(timeout)
        self.process.stdout.close()
        if self.process.stderr:
            self.process.stderr.close()
        return status

    # Messages

    def send(self, message: dict | str | bytes) -> None:
        line = message if isinstance(message, (str, bytes)) else json.dumps(message)
        line = line.encode() if isinstance(line, str) else line
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> int:
        """Sends a request and returns its id."""
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        return self.last_id

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def read_line(self, timeout: float) -> bytes:
        deadline = time.monotonic() + timeout
        out = self.process.stdout
        start = 0
        while (end := self.buffer.find(b"\n", start)) < 0:
            start = len(self.buffer)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                raise TimeoutError(f"no message in {timeout} s")
            chunk = os.read(out.fileno(), 1 << 20)
            if not chunk:
                raise EOFError("the core closed its output")
            self.buffer += chunk
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        return line

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
        """The result of a request; an error is raised."""
        deadline = time.monotonic() + timeout
        while id not in self.answers:
            self.receive(max(0, deadline - time.monotonic()))
        answer = self.answers.pop(id)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def wait_for_request(self) -> dict:
        """The next request of the core that is not answered yet."""
        while not self.requests:
            self.receive()
        return self.requests.pop(0)

    def wait_for_event(self, id: int, type: str) -> dict:
        """The first event of this type of an execute that comes from now on."""
        while True:
            message = self.receive()
            params = message.get("params", {})
            if message.get("method") == "session.event" and params["request"] == id and params["event"]["type"] == type:
                return params["event"]

    def events(self, id: int) -> list[dict]:
        """The events of an execute so far."""
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
