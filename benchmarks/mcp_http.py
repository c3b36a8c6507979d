# SPDX-License-Identifier: Apache-2.0
"""Clients of `ipybox serve`, with the standard library: one that waits, and one for asyncio."""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import REPLY_TIMEOUT_S, BenchmarkError, wait_for_end

READ_BYTES = 1 << 18
# A connection that was not used for so long is replaced, as HTTP clients do: the server closes
# silent connections after five minutes, perhaps just as a request is sent. Such a request cannot be
# sent again, since the client does not know whether it was handled.
KEPT_S = 60.0
REVISION = "2025-11-25"
ACCEPT = "application/json, text/event-stream"
INITIALIZE = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "load", "version": "1"},
}


class ServeProcess:
    """`ipybox serve` as a child process."""

    def __init__(self, command: list[str], directory: Path, log: Path | None = None) -> None:
        self._errors = open(log, "ab") if log else subprocess.DEVNULL
        self.process = subprocess.Popen(
            [*command, "--port=0"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        assert self.process.stdout
        if not select.select([self.process.stdout], [], [], REPLY_TIMEOUT_S)[0]:
            self.close()
            raise BenchmarkError(f"ipybox serve was not ready within {REPLY_TIMEOUT_S:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            self.close()
            raise BenchmarkError(f"ipybox serve ended with status {self.process.returncode}")
        ready = json.loads(line)
        self.port: int = ready["port"]
        self.token: str = ready.get("token", "")

    @property
    def pid(self) -> int:
        return self.process.pid

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        wait_for_end(self.process)
        self.process.stdout.close()
        if not isinstance(self._errors, int):
            self._errors.close()


class Answer:
    """The answer to one request, from its bytes as they come."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self._raw = bytearray()
        self._left: int | None = None  # of the body or of a chunk; None: the head is missing
        self._is_chunked = False
        self.is_whole = False

    def feed(self, data: bytes) -> None:
        self._raw += data
        while not self.is_whole and self._step():
            pass

    def _step(self) -> bool:
        if self._left is None:
            end = self._raw.find(b"\r\n\r\n")
            if end < 0:
                return False
            self._take_head(self._raw[:end].decode("latin-1"))
            del self._raw[: end + 4]
            return True
        if self._is_chunked:
            return self._take_chunk()
        self.body += self._raw
        self._left -= len(self._raw)
        self._raw.clear()
        self.is_whole = self._left <= 0
        return False

    def _take_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        self.status = int(first.split()[1])
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        self._is_chunked = self.headers.get("transfer-encoding") == "chunked"
        self._left = int(self.headers.get("content-length", 0))
        self.is_whole = not self._is_chunked and self._left == 0

    def _take_chunk(self) -> bool:
        end = self._raw.find(b"\r\n")
        if end < 0:
            return False
        size = int(self._raw[:end], 16)
        if len(self._raw) < end + 2 + size + 2:
            return False
        self.body += self._raw[end + 2 : end + 2 + size]
        del self._raw[: end + 2 + size + 2]
        self.is_whole = size == 0
        return True

    def messages(self) -> list[dict[str, Any]]:
        """What the server has sent, in the order in which it came."""
        if not self.body:
            return []
        if self.headers.get("content-type") != "text/event-stream":
            return [json.loads(bytes(self.body))]
        lines = bytes(self.body).split(b"\n")
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]


@dataclass(frozen=True)
class Access:
    """Where a server is, and the token of a client."""

    port: int
    token: str


def make_request(access: Access, session: str | None, message: Any, method: str = "POST") -> bytes:
    body = b"" if message is None else json.dumps(message).encode()
    head = f"{method} /mcp HTTP/1.1\r\nHost: localhost:{access.port}\r\n"
    head += f"Authorization: Bearer {access.token}\r\n"
    if session:
        head += f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {REVISION}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Accept: {ACCEPT}\r\n\r\n".encode() + body


def make_cell(number: int, code: str, **more: Any) -> dict[str, Any]:
    params = {"name": "execute_ipython_cell", "arguments": {"code": code}, **more}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def get_text(answer: Answer, number: int) -> str:
    """The text of the cell that was sent with the id @number.

    Raises:
        BenchmarkError: The answer is another one, or an error.
    """
    for message in answer.messages() if answer.status == 200 else []:
        if message.get("id") == number and "result" in message:
            content = message["result"]["content"]  # the cell's text, and notes for the model
            return str(content[0].get("text", ""))
    raise BenchmarkError(
        f"request {number} was answered with status {answer.status}: {bytes(answer.body[:300])!r}"
    )


class HttpSession:
    """A session on one connection. Each call waits for its answer."""

    def __init__(self, access: Access) -> None:
        self._socket = socket.create_connection(("127.0.0.1", access.port), REPLY_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._access = access
        self._number = 0
        self.id: str | None = None

    def send(self, message: Any, method: str = "POST") -> Answer:
        self._socket.sendall(make_request(self._access, self.id, message, method))
        answer = Answer()
        while not answer.is_whole:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise BenchmarkError("ipybox serve closed the connection")
            answer.feed(data)
        return answer

    def initialize(self) -> None:
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
        answer = self.send(message)
        if answer.status != 200:
            raise BenchmarkError(f"initialize: status {answer.status}, {bytes(answer.body)!r}")
        self.id = answer.headers["mcp-session-id"]

    def confirm(self) -> None:
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def cell(self, code: str) -> str:
        self._number += 1
        return get_text(self.send(make_cell(self._number, code)), self._number)

    def reset(self) -> None:
        """A fresh kernel."""
        self._number += 1
        params = {"name": "reset", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": params}
        get_text(self.send(message), self._number)

    def close(self) -> None:
        if self.id:
            self.send(None, "DELETE")
        self._socket.close()


class AsyncConnection:
    """A connection for one request at a time. It is made again if it cannot be used any more."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._used_at = 0.0

    async def send(self, request: bytes) -> Answer:
        if self._reader is not None and self._is_stale(self._reader):
            self.close()
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(request)
        answer = Answer()
        while not answer.is_whole:
            data = await self._reader.read(READ_BYTES)
            if not data:
                self.close()
                raise BenchmarkError("ipybox serve closed the connection")
            answer.feed(data)
        self._used_at = time.monotonic()
        return answer

    def _is_stale(self, reader: asyncio.StreamReader) -> bool:
        """The server has closed it, or may do so soon."""
        return reader.at_eof() or time.monotonic() - self._used_at > KEPT_S

    def close(self) -> None:
        if self._writer:
            self._writer.close()
        self._reader = self._writer = None


def anonymous_kb(pid: int) -> int:
    """The memory of one process that it shares with no file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise BenchmarkError(f"process {pid} has no RssAnon")


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(deadline: float) -> None:
    time.sleep(max(0.0, deadline - time.monotonic()))
