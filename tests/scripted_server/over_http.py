# SPDX-License-Identifier: Apache-2.0
"""The scripted server over HTTP, in the process of the test.

The test's function sees each request first and may answer it, down to the last byte. What it leaves
is answered by a Server of scripted_server.py.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import scripted_server

TOOL = {"name": "echo", "inputSchema": {"type": "object"}}


@dataclass
class Request:
    """An HTTP request. `message` is the JSON-RPC message in its body, or {}."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: socket.socket
    message: dict = field(default_factory=dict)

    @property
    def rpc(self) -> str:
        return self.message.get("method", "")

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def reply(self, status: str, body: bytes = b"", *headers: str) -> None:
        lines = [
            f"HTTP/1.1 {status}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *headers,
        ]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def result(self, result: dict, *headers: str) -> None:
        answer = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        self.reply(
            "200 OK", json.dumps(answer).encode(), "Content-Type: application/json", *headers
        )

    def begin_events(self) -> None:
        self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        )

    def events_result(self, result: dict) -> None:
        answer = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        self.send(f"data: {json.dumps(answer)}\n\n".encode())

    def initialize(self, *headers: str) -> None:
        """Answers `initialize` as a good server, with more headers."""
        self.result(good_result(self), *headers)


def good_result(request: Request) -> dict:
    """The result of a server with the one tool TOOL."""
    server = scripted_server.Server("h", "2025-11-25")
    server.tools[TOOL["name"]] = TOOL
    return server.result_of(scripted_server.Request(request.body))


Answer = Callable[[Request], bool]


class HttpServer:
    """Serves on loopback, at `url`, until the end of the `with` block.

    `answer` returns False for a request that a good server is to answer. With a certificate the
    server speaks TLS. `requests` has all requests so far.
    """

    def __init__(self, answer: Answer, certificate: Path | None = None) -> None:
        self.answer = answer
        self.tls = None
        if certificate is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(certificate)
        self.requests: list[Request] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/mcp"
        self.connections: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self) -> HttpServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                self.serve_one(connection, stream)
        except OSError:
            pass

    def serve_one(self, connection: socket.socket, stream: BinaryIO) -> None:
        words = stream.readline().decode().split()
        if len(words) != 3:
            return
        headers = {}
        while line := stream.readline().strip().decode():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
        request = Request(
            words[0], words[1], headers, body, connection, json.loads(body) if body else {}
        )
        self.requests.append(request)
        if self.answer(request):
            return
        if request.method != "POST":
            request.reply("405 Method Not Allowed")
        elif request.rpc == "initialize":
            request.initialize("Mcp-Session-Id: s1")
        elif "id" not in request.message:
            request.reply("202 Accepted")
        else:
            try:
                request.result(good_result(request))
            except scripted_server.RpcError:
                request.reply("400 Bad Request")
