# SPDX-License-Identifier: Apache-2.0
"""MCP servers over HTTP: sessions, resumption, redirects; and servers that mean harm. The client is `ipybox apigen`."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
from pathlib import Path

import pytest
from http_server import TOOL, HttpServer, Request

MAX_MEMORY = 200 * 1024 * 1024
MIB = b"x" * 1024 * 1024


def apigen(ipybox: str, tmp_path: Path, url: str, **params: object) -> tuple[int, str]:
    """The exit status and what was printed. Beyond its memory the client would end with something else."""
    command = [ipybox, "apigen", "--server-name=web", f"--root-dir={tmp_path / 'api'}", "--connect-timeout=5"]
    command.append("--server-params=" + json.dumps({"url": url, **params}))
    env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    with open(tmp_path / "out", "w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=tmp_path)
        if "asan" not in ipybox:  # whose shadow is larger
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
        process.wait(60)
        out.seek(0)
        text = out.read()
    return process.returncode, text


def works(ipybox: str, tmp_path: Path, url: str, **params: object) -> None:
    status, text = apigen(ipybox, tmp_path, url, **params)
    assert (status, text) == (0, "echo\n")


def test_good(ipybox: str, tmp_path: Path) -> None:
    with HttpServer(lambda request: False) as server:
        works(ipybox, tmp_path, server.url, headers={"X-Key": "secret"})
    probe, initialize, initialized, tools, delete = server.requests
    assert probe.headers["mcp-method"] == "server/discover"
    assert probe.headers["mcp-protocol-version"] == "2026-07-28"
    assert "mcp-protocol-version" not in initialize.headers and "mcp-session-id" not in initialize.headers
    for request in (initialized, tools, delete):
        assert request.headers["mcp-session-id"] == "s1"
        assert request.headers["mcp-protocol-version"] == "2025-11-25"
        assert request.headers["x-key"] == "secret"
    assert delete.method == "DELETE"
    assert tools.headers["accept"] == "application/json, text/event-stream"


def test_session_is_renewed(ipybox: str, tmp_path: Path) -> None:
    sessions = ["s1", "s2"]

    def answer(request: Request) -> bool:
        if request.rpc == "initialize":
            request.initialize(f"Mcp-Session-Id: {sessions.pop(0)}")
        elif request.rpc == "tools/list" and request.headers["mcp-session-id"] == "s1":
            request.reply("404 Not Found")
        else:
            return False
        return True

    with HttpServer(answer) as server:
        works(ipybox, tmp_path, server.url)
    names = [request.rpc for request in server.requests]
    assert names == [
        "server/discover", "initialize", "notifications/initialized", "tools/list",
        "initialize", "notifications/initialized", "tools/list", "",
    ]
    assert server.requests[-1].headers["mcp-session-id"] == "s2"


def test_stream_is_resumed(ipybox: str, tmp_path: Path) -> None:
    lists: list[Request] = []

    def answer(request: Request) -> bool:
        if request.rpc == "tools/list":
            request.begin_events()
            request.send(b"id: e-1\nretry: 10\ndata:\n\n")
            lists.append(request)
        elif request.method == "GET" and request.headers.get("last-event-id") == "e-1":
            request.begin_events()
            request.message = lists[0].message
            request.events_result({"tools": [TOOL]})
        else:
            return False
        return True

    with HttpServer(answer) as server:
        works(ipybox, tmp_path, server.url)


def test_redirects(ipybox: str, tmp_path: Path) -> None:
    def answer(request: Request) -> bool:
        if request.path == "/moved":
            request.reply("308 Permanent Redirect", b"", "Location: /mcp")
            return True
        return False

    with HttpServer(answer) as server:
        works(ipybox, tmp_path, server.url.replace("/mcp", "/moved"))
        assert all(request.path in ("/moved", "/mcp") for request in server.requests)

    def elsewhere(request: Request) -> bool:
        request.reply("307 Temporary Redirect", b"", f"Location: {server.url}")
        return True

    n_requests = len(server.requests)
    with HttpServer(lambda request: False) as server, HttpServer(elsewhere) as hostile:
        status, text = apigen(ipybox, tmp_path, hostile.url, headers={"Authorization": "Bearer secret"})
        assert status != 0 and "to another origin" in text and "secret" not in text
        assert server.requests == [] and n_requests > 0

    def forever(request: Request) -> bool:
        request.reply("307 Temporary Redirect", b"", "Location: /mcp")
        return True

    with HttpServer(forever) as server:
        status, text = apigen(ipybox, tmp_path, server.url)
        assert status != 0 and "more than 5 redirects" in text and "limits.redirects" in text


def test_refusal_is_told(ipybox: str, tmp_path: Path) -> None:
    def answer(request: Request) -> bool:
        request.reply("401 Unauthorized", b"no\x1b[31m", 'WWW-Authenticate: Bearer realm="x"')
        return True

    with HttpServer(answer) as server:
        status, text = apigen(ipybox, tmp_path, server.url, headers={"Authorization": "Bearer secret"})
    assert status != 0 and "401" in text and 'Bearer realm="x"' in text
    assert "\x1b" not in text and "secret" not in text
    assert len(server.requests) == 1


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

# What tools/list is answered with, and what the error says.
HOSTILE = {
    "endless-line": (EVENTS + b"data: ", MIB, 64, "a line of its event stream has more than"),
    "endless-event": (EVENTS, b"data: " + b"x" * 1000 + b"\n", 20000, "an event of its event stream has more than"),
    "endless-comments": (EVENTS, b": " + b"x" * 1000 + b"\n\n", 20000, "ended before the answer"),
    "huge-body": (JSON + b"\r\n", MIB, 64, "its answer has more than"),
    "gzip-bomb": (JSON + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(MIB * 200), 1, "its answer has more than"),
    "long-header": (JSON + b"X: ", b"x" * 10000, 100, "a header of its answer is too long"),
    "many-headers": (JSON, b"X: x\r\n", 100000, "headers"),
    "lone-cr": (JSON + b"X: a\rSet-Cookie: b\r\n\r\n{}", b"", 0, "a header of its answer is none"),
    "no-http": (b"\x16\x03\x01nonsense\r\n\r\n", b"", 0, "its answer is wrong"),
    "wrong-id": (JSON + b"\r\n", b'{"jsonrpc":"2.0","id":999,"result":{"tools":[]}}', 1, "no answer to this request"),
    "string-body": (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", b"<html>", 1, "content type text/html"),
    "deep-json": (JSON + b'\r\n{"jsonrpc":"2.0","id":3,"result":', b"[", 100000, "nested more than 512 deep"),
    "accepted": (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", b"", 0, "HTTP status 202"),
    "dropped": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{", b"", 0, "connection ended"),
    "dropped-event": (EVENTS + b"data: {", b"", 0, "ended before the answer"),
    "switching": (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", 100000, "headers"),
    "error-500": (b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\n\x1b[m", b"", 0, "HTTP status 500"),
    "slow-head": (None, b"", 0, "limits.connect_timeout"),
    "slow-body": (JSON + b"Content-Length: 100\r\n\r\n{", None, 0, "limits.connect_timeout"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str, ipybox: str, tmp_path: Path) -> None:
    head, piece, n, expected = HOSTILE[name]

    def answer(request: Request) -> bool:
        if request.rpc != "tools/list":
            return False
        if head is not None:
            request.send(head)
        for _ in range(n):
            request.send(piece)
        if head is None or piece is None:
            request.connection.recv(1)  # until the client gives up
        return True

    with HttpServer(answer) as server:
        slow = {"connect_timeout": 1} if name.startswith("slow") else {}
        status, text = apigen(ipybox, tmp_path, server.url, limits={"message_size": 8 * 1024 * 1024, **slow})
    assert status != 0 and expected in text, text
    assert "\x1b" not in text


def test_404_storm(ipybox: str, tmp_path: Path) -> None:
    def answer(request: Request) -> bool:
        if request.rpc != "tools/list":
            return False
        request.reply("404 Not Found")
        return True

    with HttpServer(answer) as server:
        status, text = apigen(ipybox, tmp_path, server.url)
    assert status != 0 and "HTTP status 404" in text
    assert len(server.requests) < 10


def test_session_id_is_checked(ipybox: str, tmp_path: Path) -> None:
    def answer(request: Request) -> bool:
        if request.rpc != "initialize":
            return False
        request.initialize("Mcp-Session-Id: a b")
        return True

    with HttpServer(answer) as server:
        status, text = apigen(ipybox, tmp_path, server.url)
    assert status != 0 and "session id is wrong" in text


def test_sse_endpoint_of_another_origin(ipybox: str, tmp_path: Path) -> None:
    def answer(request: Request) -> bool:
        request.begin_events()
        request.send(b"event: endpoint\ndata: http://127.0.0.1:1/steal\n\n")
        request.connection.recv(1)
        return True

    with HttpServer(answer) as server:
        status, text = apigen(ipybox, tmp_path, server.url, type="sse")
    assert status != 0 and "to another origin, http://127.0.0.1:1" in text
    assert len(server.requests) == 1
