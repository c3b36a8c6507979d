# SPDX-License-Identifier: Apache-2.0
"""Clients of `ipybox serve`, with the standard library: the test decides what is sent."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from line_program import LineProgram

TIMEOUT = 120
ACCEPT = "application/json, text/event-stream"
REVISION = "2025-11-25"


# Starts a program as a service manager does: the sockets are file descriptors from 3 on.
ACTIVATE = """
import os, sys
count = int(sys.argv[1])
kept = [os.dup(int(fd)) for fd in sys.argv[2 : 2 + count]]
while min(kept) < 3 + count:
    kept = [os.dup(fd) for fd in kept]
for i, fd in enumerate(kept):
    os.dup2(fd, 3 + i)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(count), "LISTEN_FDNAMES": "x"}
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""


def activated(sockets: Sequence[socket.socket], command: list[str]) -> list[str]:
    numbers = [str(one.fileno()) for one in sockets]
    return [sys.executable, "-c", ACTIVATE, str(len(sockets)), *numbers, *command]


class Serve(LineProgram):
    """Runs `ipybox serve`. With an SSLContext its clients use TLS.

    With `sockets` it gets these as from a service manager. With `unix` its clients connect there.
    """

    def __init__(
        self,
        ipybox: str,
        place: Any,
        *args: str,
        stderr: int | None = None,
        tls: ssl.SSLContext | None = None,
        sockets: Sequence[socket.socket] = (),
        unix: Path | None = None,
    ):
        command = [ipybox, "serve", "--port=0", *args]
        if sockets:
            command = activated(sockets, command)
        super().__init__(command, place, stderr, [one.fileno() for one in sockets])
        self.tls = tls
        self.unix = unix
        self.source: tuple[str, int] | None = None  # the address of clients
        line = json.loads(self.read_line(TIMEOUT))
        self.line = line
        self.port = line.get("port", 0)
        self.token = line.get("token")

    def connection(self) -> http.client.HTTPConnection:
        if self.tls:
            return http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=TIMEOUT, context=self.tls
            )
        if self.unix:
            return UnixConnection(self.unix)
        return http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=TIMEOUT, source_address=self.source
        )

    def request(
        self, method: str, path: str = "/mcp", body: Any = None, **headers: str | None
    ) -> Response:
        """Sends a request with the usual headers. A header that is None is left out."""
        connection = self.connection()
        send(connection, self.token, method, path, body, headers)
        return Response(connection)

    def client(self, token: str | None = None, **options: Any) -> Client:
        return Client(self, token or self.token, **options)


def send(
    connection: http.client.HTTPConnection,
    token: str | None,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str | None],
) -> None:
    """The names of headers are written with "_" for "-"."""
    usual = {"Accept": ACCEPT, "Authorization": f"Bearer {token}"}
    if body is not None:
        usual["Content-Type"] = "application/json"
    usual |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(
        method, path, data, {name: value for name, value in usual.items() if value is not None}
    )


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path):
        super().__init__("localhost", timeout=TIMEOUT)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(str(self.path))


class Response:
    """The answer to one request: its body at once, or the events of its stream."""

    def __init__(self, connection: http.client.HTTPConnection):
        self.connection = connection
        self.response = connection.getresponse()
        self.status = self.response.status
        self.headers = self.response.headers
        self.last_id: str | None = None

    @property
    def is_stream(self) -> bool:
        return self.headers["Content-Type"] == "text/event-stream"

    def json(self) -> Any:
        text = self.response.read()
        self.close()
        return json.loads(text) if text else None

    def events(self) -> Iterator[Any]:
        """The messages, with the id of the last event in `last_id`; an empty one is None."""
        fields: dict[str, str] = {}
        while raw := self.response.readline():
            line = raw.decode().rstrip("\r\n")
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields or "data:" in fields:
                self.last_id = fields.get("id", self.last_id)
                yield json.loads(fields["data"]) if fields.get("data") else None
                fields = {}
        self.close()

    def messages(self) -> list[Any]:
        if not self.is_stream:
            return [self.json()]
        return [message for message in self.events() if message is not None]

    def close(self) -> None:
        self.response.close()
        self.connection.close()


class Client:
    """A session."""

    def __init__(self, server: Serve, token: str, revision: str = REVISION, **capabilities: Any):
        self.server = server
        self.token = token
        self.revision = revision
        self.last_id = 0
        response = self.post(
            "initialize",
            {
                "protocolVersion": revision,
                "capabilities": capabilities,
                "clientInfo": {"name": "test", "version": "1"},
            },
            MCP_Protocol_Version=None,
            Mcp_Session_Id=None,
        )
        self.id = response.headers["Mcp-Session-Id"]
        self.status = response.status
        self.initialized = response.json()
        if self.id:
            assert self.notify("notifications/initialized").status == 202

    def send(self, method: str, body: Any = None, **headers: str | None) -> Response:
        usual = {"Mcp_Session_Id": getattr(self, "id", None), "MCP_Protocol_Version": self.revision}
        connection = self.server.connection()
        send(connection, self.token, method, "/mcp", body, usual | headers)
        return Response(connection)

    def post(
        self, method: str, params: Any = None, id: Any = None, **headers: str | None
    ) -> Response:
        self.last_id += 1
        return self.send(
            "POST",
            {
                "jsonrpc": "2.0",
                "id": self.last_id if id is None else id,
                "method": method,
                "params": params or {},
            },
            **headers,
        )

    def notify(self, method: str, params: Any = None) -> Response:
        response = self.send("POST", {"jsonrpc": "2.0", "method": method, "params": params or {}})
        assert response.json() is None
        return response

    def call(self, tool: str, arguments: dict, token: Any = None, id: Any = None) -> Response:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        return self.post("tools/call", params, id)

    def start_cell(
        self, code: str, token: Any = None, id: Any = None, **arguments: Any
    ) -> Response:
        """Returns when the answer begins: at once with output and a progress token."""
        return self.call("execute_ipython_cell", {"code": code, **arguments}, token, id)

    def cell(self, code: str, **arguments: Any) -> str:
        """The text of a cell."""
        return text_of(self.start_cell(code, **arguments).messages()[-1])

    def delete(self) -> int:
        response = self.send("DELETE")
        response.close()
        return response.status

    def resume(self, last_id: str) -> Response:
        return self.send("GET", Last_Event_ID=last_id, Accept="text/event-stream")


class Stateless:
    """A client of revision 2026-07-28: each request stands for itself."""

    revision = "2026-07-28"

    def __init__(self, server: Serve, token: str | None = None, **capabilities: Any):
        self.server = server
        self.token = token or server.token
        self.capabilities = capabilities
        self.last_id = 0

    def meta(self, **others: Any) -> dict:
        return {
            "io.modelcontextprotocol/protocolVersion": self.revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            **others,
        }

    def post(self, method: str, params: dict | None = None, **headers: str | None) -> Response:
        """Sends a request with the headers that belong to it. `_meta` is added if it is missing."""
        params = {"_meta": self.meta(), **(params or {})}
        self.last_id += 1
        usual = {"MCP_Protocol_Version": self.revision, "Mcp_Method": method}
        name = params.get("name") or params.get("uri") or params.get("taskId")
        if name:
            usual["Mcp_Name"] = name
        connection = self.server.connection()
        body = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        send(connection, self.token, "POST", "/mcp", body, usual | headers)
        return Response(connection)

    def call(self, tool: str, arguments: dict | None = None, **params: Any) -> Response:
        return self.post("tools/call", {"name": tool, "arguments": arguments or {}, **params})

    def result(self, tool: str, arguments: dict | None = None, **params: Any) -> dict:
        return self.call(tool, arguments, **params).messages()[-1]["result"]

    def cell(self, code: str, session: str | None = None, **params: Any) -> dict:
        """The result of a cell."""
        arguments = {"code": code} | ({"session_id": session} if session else {})
        return self.result("execute_ipython_cell", arguments, **params)


def session_of(result: dict) -> str:
    return result["_meta"]["ipybox/session_id"]


def text_of(answer: dict) -> str:
    return answer["result"]["content"][0]["text"]


class Background:
    """Runs a function in a thread; `result` waits for it."""

    def __init__(self, function: Any, *args: Any):
        self.value: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, args=(function, args))
        self.thread.start()

    def _run(self, function: Any, args: Any) -> None:
        try:
            self.value = function(*args)
        except BaseException as error:
            self.error = error

    def result(self) -> Any:
        self.thread.join(TIMEOUT)
        assert not self.thread.is_alive()
        if self.error:
            raise self.error
        return self.value


def send_raw(port: int, data: bytes) -> bytes:
    """What the server answers to some bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT) as peer:
        peer.sendall(data)
        answer = b""
        while chunk := peer.recv(65536):
            answer += chunk
        return answer


def write_tokens(path: Path, **tokens: str) -> str:
    path.write_text("# names\n" + "".join(f"{name} {token}\n" for name, token in tokens.items()))
    path.chmod(0o600)
    return f"--token-file={path}"


class Certificate:
    """A certificate of this machine that signs itself, in `directory`."""

    def __init__(self, directory: Path, name: str = "server", *options: str):
        self.path = directory / f"{name}.pem"
        self.key = directory / f"{name}.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
            + ["-nodes", "-days", "2", "-subj", f"/CN={name}"]
            + ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"]
            + ["-keyout", str(self.key), "-out", str(self.path), *options],
            check=True,
            capture_output=True,
            timeout=TIMEOUT,
        )
        self.key.chmod(0o600)

    @property
    def options(self) -> list[str]:
        return [f"--tls-certificate={self.path}", f"--tls-key={self.key}"]

    def context(self) -> ssl.SSLContext:
        """Of a client that trusts this certificate only."""
        return ssl.create_default_context(cafile=str(self.path))
