# SPDX-License-Identifier: Apache-2.0
"""Servers of ipybox trust the processes of their own user.

Sandboxes may be allowed to connect to this machine. Then the connection comes from a process of
that user, but on behalf of untrusted code.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from box import Box, listening, make_settings

TOOLS = {
    "server_name": "x",
    "server_params": {"command": "touch", "args": ["escaped"]},
    "tool_name": "t",
    "tool_args": {},
}


@contextmanager
def plain_server() -> Iterator[int]:
    """One that answers everything with 204."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def ask(
    box: Box, port: int, host: str, path: str, *, sandbox: bool = True, how: tuple[str, ...] = ()
) -> str:
    """The status of a POST by code that may connect to @host."""
    body = ["-H", "Content-Type: application/json", "-d", json.dumps(TOOLS)]
    proxy = ["--noproxy", "", "-x", "$http_proxy"] if sandbox and not how else []
    words = [
        "curl",
        "-s",
        "-m",
        "20",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        *proxy,
        *how,
        *body,
        f"http://{host}:{port}{path}",
    ]
    script = " ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in words)
    settings = make_settings(allowedDomains=[f"{host}:{port}"])
    return box(["sh", "-c", script], settings, sandbox=sandbox).stdout


@pytest.mark.parametrize("command", ["tool-server", "gateway"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_sandbox_does_not_reach_them(box: Box, command: str, host: str) -> None:
    path = "/run" if command == "tool-server" else "/api/kernels"
    with listening(box, command) as port, plain_server() as plain:
        assert ask(box, plain, host, path) == "204"
        assert ask(box, port, host, path, sandbox=False) in ("200", "201")
        (box.place.workspace / "escaped").unlink(missing_ok=True)
        assert ask(box, port, host, path) in ("403", "502", "504")
        assert ask(box, port, host, path, how=("-p", "-x", "$http_proxy", "--noproxy", "")) == "000"
        assert (
            ask(box, port, host, path, how=("--socks5-hostname", "127.0.0.1:1080", "--noproxy", ""))
            == "000"
        )
        assert not (box.place.workspace / "escaped").exists()
    assert not os.path.exists(box.place.workspace / "escaped")
