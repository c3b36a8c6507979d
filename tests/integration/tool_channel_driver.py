# SPDX-License-Identifier: Apache-2.0
"""Tool channels without kernels.

The program that runs them (build/tests/unit/tool-channel-tool, with the script `hostile` behind
it), raw connections to them, and the kernel stub's client.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import scripted_server

TOOL = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve().parent
TOOL = TOOL / "tests/unit/tool-channel-tool"
# The interpreter itself: a wrapper would be the process that ipybox starts.
PARAMS = scripted_server.params("hostile", command=os.path.realpath(sys.executable))


def load_client():
    """The stub's client module under another name: `ipybox` is the SDK in this process."""
    package = harness.ROOT / "python/ipybox/kernel_host/stub/ipybox"
    spec = importlib.util.spec_from_file_location(
        "ipybox_stub", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["ipybox_stub"] = module
    spec.loader.exec_module(module)
    return importlib.import_module("ipybox_stub.tool_exec.client")


client = load_client()


class Core:
    """A process with tool channels."""

    def __init__(
        self, environ, policy="allow", *, timeout_ms=-1, sessions=1, params=PARAMS
    ) -> None:
        self.process = subprocess.Popen(
            [
                str(harness.existing(TOOL)),
                str(sessions),
                policy,
                str(timeout_ms),
                json.dumps(params),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environ,
        )
        hello = json.loads(self.process.stdout.readline())
        self.sessions = hello["sessions"]
        self.server_id = hello["server_id"]
        self.port, self.token = self.sessions[0]["port"], self.sessions[0]["token"]

    def event(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def asked(self) -> dict:
        while (event := self.event())["event"] != "ask":
            pass
        return event

    def tell(self, *words: object) -> None:
        print(*words, file=self.process.stdin, flush=True)

    def reset(self) -> None:
        self.tell("reset", 0)
        while self.event()["event"] != "reset":
            pass

    def body(self, tool: str = "echo", args: str = "{}", **members: object) -> bytes:
        request = {"server_name": "fake", "server_id": self.server_id, "tool_name": tool} | members
        text = json.dumps({name: value for name, value in request.items() if value is not None})
        return f'{text[:-1]}, "tool_args": {args}}}'.encode()

    def head(
        self, length: int | None, *, line="POST /run HTTP/1.1", drop=(), **headers: str
    ) -> bytes:
        fields = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
        }
        if length is not None:
            fields["Content-Length"] = str(length)
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{name}: {value}" for name, value in fields.items() if name not in drop]
        return "\r\n".join([line, *lines, "", ""]).encode()

    def request(self, body: bytes | None = None, **options) -> bytes:
        body = self.body() if body is None else body
        return self.head(len(body), **options) + body

    def connect(self) -> Peer:
        return Peer(self.port)

    def runner(self, monkeypatch, session: int = 0) -> client.ToolRunner:
        monkeypatch.setenv("IPYBOX_TOOL_TOKEN", self.sessions[session]["token"])
        return client.ToolRunner(
            "fake", host="127.0.0.1", port=self.sessions[session]["port"], server_id=self.server_id
        )

    def memory(self, field: str = "VmHWM") -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
        raise AssertionError(field)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.read()  # it may still print something
        self.process.stdout.close()
        assert self.process.wait() == 0


class Peer:
    """A raw connection."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.input = self.sock.makefile("rb")

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def receive(self) -> tuple[int, dict, dict]:
        """Status, headers and JSON of a response."""
        status = int(self.input.readline().split()[1])
        headers = {}
        while line := self.input.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name] = value
        return status, headers, json.loads(self.input.read(int(headers["Content-Length"])))

    def ask(self, data: bytes) -> tuple[int, dict]:
        self.send(data)
        status, _, value = self.receive()
        return status, value

    def is_closed(self) -> bool:
        """Waits for the end. Data would be a bug."""
        with contextlib.suppress(ConnectionResetError):
            assert self.input.read() == b""
        return True

    def close(self) -> None:
        self.input.close()
        self.sock.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def running_cores(environ: dict[str, str]) -> Iterator[Callable[..., Core]]:
    """Yields the function that starts them. Closes those that the test did not close."""
    cores = []

    def start(*args, **options) -> Core:
        cores.append(Core(environ, *args, **options))
        return cores[-1]

    yield start
    for connection in client._state.idle:
        connection.close()
    client._state.idle.clear()
    for core in cores:
        if not core.process.stdin.closed:
            core.close()
