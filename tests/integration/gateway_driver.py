# SPDX-License-Identifier: Apache-2.0
"""Clients of `ipybox gateway`.

REST uses the standard library, WebSockets the package `websockets`, with both framings of messages.
"""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from line_program import LineProgram
from websockets.sync.client import ClientConnection, connect

V1 = "v1.kernel.websocket.jupyter.org"
TIMEOUT = 60


class Gateway(LineProgram):
    """Runs `ipybox gateway`."""

    def __init__(self, ipybox: str, place: Any, *args: str):
        super().__init__([ipybox, "gateway", "--port=0", *args], place)
        self.port = json.loads(self.read_line(TIMEOUT))["port"]

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and JSON of the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            if body is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.read()
            return response.status, json.loads(answer) if answer else None
        finally:
            connection.close()

    def start_kernel(self, **body: Any) -> str:
        status, model = self.request("POST", "/api/kernels", body)
        assert status == 201, model
        return model["id"]

    @contextmanager
    def channels(
        self, kernel: str, *, v1: bool = False, base: str = "", query: str = "", **options: Any
    ) -> Iterator[Channels]:
        url = f"ws://127.0.0.1:{self.port}{base}/api/kernels/{kernel}/channels{query}"
        protocols = [V1] if v1 else None
        with connect(url, subprotocols=protocols, max_size=None, proxy=None, **options) as socket:
            assert socket.subprotocol == (V1 if v1 else None)
            yield Channels(socket, v1)


class Channels:
    """A client of a kernel."""

    def __init__(self, socket: ClientConnection, v1: bool):
        self.socket = socket
        self.v1 = v1

    def send(
        self,
        msg_type: str,
        content: dict,
        channel: str = "shell",
        metadata: dict | None = None,
        buffers: list[bytes] | None = None,
    ) -> str:
        msg_id = uuid.uuid4().hex
        header = {
            "msg_id": msg_id,
            "msg_type": msg_type,
            "session": "s",
            "username": "u",
            "version": "5.3",
        }
        message = {
            "header": header,
            "parent_header": {},
            "metadata": metadata or {},
            "content": content,
        }
        if self.v1:
            self.socket.send(frame_v1(channel, message, buffers or []))
        elif buffers:
            self.socket.send(frame_json_with_buffers({**message, "channel": channel}, buffers))
        else:
            self.socket.send(json.dumps({**message, "channel": channel, "buffers": []}))
        return msg_id

    def execute(self, code: str, **content: Any) -> str:
        return self.send("execute_request", {"code": code, **content})

    def receive(self) -> dict:
        frame = self.socket.recv(timeout=TIMEOUT)
        if self.v1:
            assert isinstance(frame, bytes)
            return parse_v1(frame)
        return parse_json_with_buffers(frame) if isinstance(frame, bytes) else json.loads(frame)

    def receive_until(self, msg_id: str, msg_type: str, **content: Any) -> list[dict]:
        """The messages of a request, up to one of this type with this in its content."""
        messages = []
        while True:
            message = self.receive()
            if message["parent_header"].get("msg_id") != msg_id:
                continue
            messages.append(message)
            if (
                message["header"]["msg_type"] == msg_type
                and content.items() <= message["content"].items()
            ):
                return messages

    def run(self, code: str, **content: Any) -> list[dict]:
        """The messages of an execution."""
        return self.receive_until(self.execute(code, **content), "status", execution_state="idle")

    def ask(self, msg_type: str, content: dict, channel: str = "shell") -> dict:
        """The content of the reply."""
        reply = msg_type.replace("_request", "_reply")
        messages = self.receive_until(self.send(msg_type, content, channel), reply)
        assert messages[-1]["channel"] == channel
        return messages[-1]["content"]


def frame_json_with_buffers(message: dict, buffers: list[bytes]) -> bytes:
    parts = [json.dumps(message).encode(), *buffers]
    offsets = [4 * (len(parts) + 1)]
    for part in parts[:-1]:
        offsets.append(offsets[-1] + len(part))
    numbers = [len(parts), *offsets]
    return b"".join(number.to_bytes(4, "big") for number in numbers) + b"".join(parts)


def parse_json_with_buffers(frame: bytes) -> dict:
    n = int.from_bytes(frame[:4], "big")
    offsets = [int.from_bytes(frame[4 * i : 4 * i + 4], "big") for i in range(1, n + 1)]
    parts = [frame[a:b] for a, b in zip(offsets, [*offsets[1:], len(frame)], strict=True)]
    return {**json.loads(parts[0]), "buffers": parts[1:]}


def frame_v1(channel: str, message: dict, buffers: list[bytes]) -> bytes:
    names = ("header", "parent_header", "metadata", "content")
    parts = [channel.encode(), *(json.dumps(message[name]).encode() for name in names), *buffers]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    numbers = [len(offsets), *offsets]
    return b"".join(number.to_bytes(8, "little") for number in numbers) + b"".join(parts)


def parse_v1(frame: bytes) -> dict:
    n = int.from_bytes(frame[:8], "little")
    offsets = [int.from_bytes(frame[8 * i : 8 * i + 8], "little") for i in range(1, n + 1)]
    parts = [frame[start:end] for start, end in zip(offsets, offsets[1:], strict=False)]
    names = ("header", "parent_header", "metadata", "content")
    return {
        "channel": parts[0].decode(),
        **{name: json.loads(part) for name, part in zip(names, parts[1:5], strict=True)},
        "buffers": parts[5:],
    }


def types(messages: list[dict]) -> list[str]:
    """Their types. A status message is represented by its state."""
    return [
        message["content"].get("execution_state") or message["header"]["msg_type"]
        for message in messages
    ]


def contents(messages: list[dict], msg_type: str) -> list[dict]:
    return [message["content"] for message in messages if message["header"]["msg_type"] == msg_type]
