# SPDX-License-Identifier: Apache-2.0
"""MCP servers over HTTP: sessions, resumption, redirects, and hostile servers.

The client is `ipybox apigen`.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import queue
import resource
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from harness import Place
from little_internet import openssl
from mcp_driver import McpServer
from over_http import TOOL, HttpServer, Request

MAX_MEMORY = 200 * 1024 * 1024
MIB = b"x" * 1024 * 1024


def apigen(
    ipybox: str, tmp_path: Path, url: str, environ: dict[str, str] | None = None, **params: object
) -> tuple[int, str]:
    """The exit status and the output.

    Beyond its memory limit the client would end in another way.
    """
    command = [
        ipybox,
        "apigen",
        "--server-name=web",
        f"--root-dir={tmp_path / 'api'}",
        "--connect-timeout=50",
    ]
    command.append("--server-params=" + json.dumps({"url": url, **params}))
    env = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    env |= {"XDG_STATE_HOME": str(tmp_path / "state"), **(environ or {})}
    with open(tmp_path / "out", "w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=tmp_path)
        if "asan" not in ipybox:  # whose shadow is larger
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
        process.wait(60)
        out.seek(0)
        text = out.read()
    return process.returncode, text


def works(
    ipybox: str, tmp_path: Path, url: str, environ: dict[str, str] | None = None, **params: object
) -> None:
    status, text = apigen(ipybox, tmp_path, url, environ, **params)
    assert (status, text) == (0, "echo\n")


def test_good(ipybox: str, tmp_path: Path) -> None:
    with HttpServer(lambda request: False) as server:
        works(ipybox, tmp_path, server.url, headers={"X-Key": "secret"})
    probe, initialize, initialized, tools, delete = server.requests
    assert probe.headers["mcp-method"] == "server/discover"
    assert probe.headers["mcp-protocol-version"] == "2026-07-28"
    assert (
        "mcp-protocol-version" not in initialize.headers
        and "mcp-session-id" not in initialize.headers
    )
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
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "",
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


def test_stream_that_cannot_be_resumed(mcp: McpServer) -> None:
    """The session is gone, but the server had accepted the message: it is not sent again."""

    def answer(request: Request) -> bool:
        if request.rpc == "tools/call":
            request.begin_events()
            request.send(b"id: e-1\nretry: 0\ndata:\n\n")
        elif request.method == "GET":
            request.reply("404 Not Found", b"no session")
        else:
            return False
        return True

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url})
        text = mcp.failing_cell(CALL)
    assert (
        "cannot be resumed: HTTP status 404: no session; the request may have been executed" in text
    )
    assert [request.rpc for request in server.requests].count("tools/call") == 1


def test_session_that_cannot_be_renewed(mcp: McpServer) -> None:
    """The next call starts a new session."""
    answers = ["503 Service Unavailable", "404 Not Found"]

    def answer(request: Request) -> bool:
        if request.rpc == "tools/call" and "mcp-session-id" not in request.headers:
            request.reply("400 Bad Request", b"no session")
        elif request.rpc in ("tools/call", "initialize") and len(answers) == (
            2 if request.rpc == "tools/call" else 1
        ):
            request.reply(answers.pop())
        elif request.rpc == "tools/call":
            request.result({"content": [{"type": "text", "text": "done"}]})
        else:
            return False
        return True

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url})
        assert "a new one could not be started: HTTP status 503" in mcp.failing_cell(CALL)
        assert mcp.cell(CALL) == "'done'"


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
        status, text = apigen(
            ipybox, tmp_path, hostile.url, headers={"Authorization": "Bearer secret"}
        )
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
        status, text = apigen(
            ipybox, tmp_path, server.url, headers={"Authorization": "Bearer secret"}
        )
    assert status != 0 and "401" in text and 'Bearer realm="x"' in text
    assert "\x1b" not in text and "secret" not in text
    assert len(server.requests) == 1


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

# Responses to tools/list, and what the error says.
HOSTILE = {
    "endless-line": (EVENTS + b"data: ", MIB, 64, "a line of its event stream has more than"),
    "endless-event": (
        EVENTS,
        b"data: " + b"x" * 1000 + b"\n",
        20000,
        "an event of its event stream has more than",
    ),
    "endless-comments": (EVENTS, b": " + b"x" * 1000 + b"\n\n", 20000, "ended before the answer"),
    "huge-body": (JSON + b"\r\n", MIB, 64, "its answer has more than"),
    "gzip-bomb": (
        JSON + b"Content-Encoding: gzip\r\n\r\n",
        gzip.compress(MIB * 200),
        1,
        "its answer has more than",
    ),
    "long-header": (JSON + b"X: ", b"x" * 10000, 100, "a header of its answer is too long"),
    "many-headers": (JSON, b"X: x\r\n", 100000, "headers"),
    "lone-cr": (JSON + b"X: a\rSet-Cookie: b\r\n\r\n{}", b"", 0, "a header of its answer is none"),
    "no-http": (b"\x16\x03\x01nonsense\r\n\r\n", b"", 0, "its answer is wrong"),
    "wrong-id": (
        JSON + b"\r\n",
        b'{"jsonrpc":"2.0","id":999,"result":{"tools":[]}}',
        1,
        "not an answer to this request",
    ),
    "string-body": (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        b"<html>",
        1,
        "content type text/html",
    ),
    "deep-json": (
        JSON + b'\r\n{"jsonrpc":"2.0","id":3,"result":',
        b"[",
        100000,
        "nested more than 512 deep",
    ),
    "accepted": (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", b"", 0, "HTTP status 202"),
    "dropped": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{",
        b"",
        0,
        "connection ended",
    ),
    "dropped-event": (EVENTS + b"data: {", b"", 0, "ended before the answer"),
    "switching": (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        100000,
        "headers",
    ),
    "error-500": (
        b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\n\x1b[m",
        b"",
        0,
        "HTTP status 500",
    ),
    "protocol": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n{}",
        b"",
        0,
        "switches to another protocol",
    ),
    "gzip-tail": (
        JSON + b"Content-Encoding: gzip\r\n\r\n",
        gzip.compress(b"{}") + b"x",
        1,
        "its answer is wrong",
    ),
    "batch": (
        JSON + b"\r\n",
        b'[{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}]',
        1,
        "not an answer to this request",
    ),
    "no-jsonrpc": (
        JSON + b"\r\n",
        b'{"id":3,"result":{"tools":[]}}',
        1,
        "not an answer to this request",
    ),
    "no-id": (
        JSON + b"\r\n",
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"go away"}}',
        1,
        "go away (code 1)",
    ),
    "empty": (JSON + b"Content-Length: 0\r\n\r\n", b"", 0, "status 200 and an empty body"),
    "busy": (
        b"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
        b"",
        0,
        "asks to wait (Retry-After): 7",
    ),
    "forbidden": (
        b"HTTP/1.1 403 No\r\nContent-Length: 7\r\n\r\nbecause",
        b"",
        0,
        "status 403 (the server says: because)",
    ),
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
        status, text = apigen(
            ipybox, tmp_path, server.url, limits={"message_size": 8 * 1024 * 1024, **slow}
        )
    assert status != 0 and expected in text, text
    assert "\x1b" not in text


def test_byte_order_mark(ipybox: str, tmp_path: Path) -> None:
    def answer(request: Request) -> bool:
        if request.rpc != "tools/list":
            return False
        body = {"jsonrpc": "2.0", "id": request.message["id"], "result": {"tools": [TOOL]}}
        request.reply(
            "200 OK", b"\xef\xbb\xbf" + json.dumps(body).encode(), "Content-Type: application/json"
        )
        return True

    with HttpServer(answer) as server:
        works(ipybox, tmp_path, server.url)


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
    assert status != 0 and "session id is invalid" in text


class SseServer:
    """`answer` for HTTP+SSE. The response to a request is on the stream, before its own 202."""

    def __init__(self, endpoint: str = "/messages") -> None:
        self.endpoint = endpoint
        self.stream: Request | None = None

    def __call__(self, request: Request) -> bool:
        if request.method == "GET":
            self.stream = request
            request.begin_events()
            request.send(f"event: endpoint\ndata: {self.endpoint}\n\n".encode())
            request.connection.recv(1)
            return True
        assert self.stream is not None
        results = {
            "initialize": {
                "protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "h", "version": "1"},
            },
            "tools/list": {"tools": [TOOL]},
        }
        if request.rpc in results:
            answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": results[request.rpc]}
            self.stream.send(f"data: {json.dumps(answer)}\n\n".encode())
        request.reply("202 Accepted")
        return True


@pytest.mark.parametrize("requests", [1, 32])
def test_sse(ipybox: str, tmp_path: Path, requests: int) -> None:
    """In this order; messages that wait are sent as soon as possible."""
    with HttpServer(SseServer()) as server:
        works(ipybox, tmp_path, server.url, type="sse", limits={"requests": requests})
    assert [request.rpc for request in server.requests] == [
        "",
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]


def test_sse_refusal_is_told(ipybox: str, tmp_path: Path) -> None:
    events = SseServer()

    def answer(request: Request) -> bool:
        if request.rpc != "tools/list":
            return events(request)
        request.reply("400 Bad Request", b"because\x1b[31m")
        return True

    with HttpServer(answer) as server:
        status, text = apigen(ipybox, tmp_path, server.url, type="sse")
    assert status == 1 and "tools/list: HTTP status 400: because" in text and "\x1b" not in text
    with HttpServer(SseServer("http://[::1")) as server:
        status, text = apigen(ipybox, tmp_path, server.url, type="sse")
    assert status == 1 and "the endpoint that it announces is not used" in text


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


# Calls. The client is the session of a kernel.


def is_modern(request: Request) -> bool:
    """Answers the requests before a call as a server of 2026-07-28 does."""
    cached = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if request.rpc == "server/discover":
        request.result(
            {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **cached}
        )
    elif request.rpc == "tools/list":
        request.result({"tools": [TOOL], **cached})
    else:
        return False
    return True


CALL = "from mcptools.web import echo\necho.run(echo.Params())"


@pytest.mark.parametrize("n_pings", [40, 11000])
def test_requests_of_the_server(mcp: McpServer, n_pings: int) -> None:
    """Answers to them wait as requests do, within a limit."""
    release = threading.Event()
    held: queue.Queue[Request] = queue.Queue()
    n_held = 0

    def answer(request: Request) -> bool:
        nonlocal n_held
        if request.rpc == "tools/call":
            request.begin_events()
            pings = [{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(n_pings)]
            request.send("".join(f"data: {json.dumps(ping)}\n\n" for ping in pings).encode())
            if n_pings > 10000:
                return True
            held.get(timeout=120), held.get(timeout=120)
            request.events_result({"content": [{"type": "text", "text": "done"}]})
        elif "result" in request.message:
            n_held += 1
            held.put(request)
            release.wait(30)
            request.reply("202 Accepted")
        else:
            return False
        return True

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url, "limits": {"requests": 2}})
        if n_pings < 10000:
            assert mcp.cell(CALL) == "'done'"
        else:
            assert "10000 messages wait to be sent" in mcp.failing_cell(CALL)
        assert n_held <= 2
        release.set()


def test_the_time_of_a_request_is_that_of_its_token_too(ipybox: str, place: Place) -> None:
    """An answer to the server gets 401, and the authorization server does not respond."""
    ended = threading.Event()

    def answer(request: Request) -> bool:
        if request.rpc == "tools/call":
            request.begin_events()
            request.send(b'data: {"jsonrpc":"2.0","id":"p","method":"ping"}\n\n')
            ended.wait(120)
            request.events_result({"content": []})
        elif request.message.get("id") == "p":
            request.reply("401 Unauthorized", b"", "WWW-Authenticate: Bearer")
        elif request.path.startswith("/.well-known/"):
            ended.wait(120)
        else:
            return False
        return True

    log = place.root / "stderr"
    oauth = {"grantType": "client_credentials", "clientId": "a", "clientSecret": "b"}
    with (
        HttpServer(answer) as server,
        open(log, "wb") as stderr,
        McpServer(ipybox, place, stderr=stderr.fileno()) as mcp,
    ):
        mcp.register("web", {"url": server.url, "oauth": oauth, "limits": {"connect_timeout": 8}})
        cell = mcp.start_tool("execute_ipython_cell", {"code": CALL})
        deadline = time.monotonic() + 120
        while "it rejected a notification or a reply" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            ended.wait(0.1)
        ended.set()
        mcp.answer(cell)
        assert (
            f"http://127.0.0.1:{server.port}: the answer was not complete within 8 s"
            in log.read_text()
        )


def cancel_call(mcp: McpServer, called: threading.Event) -> None:
    """Runs CALL, and cancels its cell when the call has reached the server."""
    cell = mcp.start_tool("execute_ipython_cell", {"code": CALL})
    assert called.wait(60)
    mcp.notify("notifications/cancelled", {"requestId": cell})


def test_a_call_is_cancelled(mcp: McpServer) -> None:
    called, cancelled = threading.Event(), threading.Event()

    def answer(request: Request) -> bool:
        if request.rpc == "notifications/cancelled":
            cancelled.set()
        elif request.rpc == "tools/call":
            called.set()
            cancelled.wait(30)
            return True
        return False

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url})
        cancel_call(mcp, called)
        assert cancelled.wait(30)
        (call,) = [request for request in server.requests if request.rpc == "tools/call"]
        (cancel,) = [
            request for request in server.requests if request.rpc == "notifications/cancelled"
        ]
        assert cancel.message["params"]["requestId"] == call.message["id"]


def test_a_modern_call_is_cancelled_by_its_end(mcp: McpServer) -> None:
    called, closed = threading.Event(), threading.Event()

    def answer(request: Request) -> bool:
        if request.rpc != "tools/call":
            return is_modern(request)
        request.begin_events()
        called.set()
        if request.connection.recv(1) == b"":
            closed.set()
        return True

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url})
        cancel_call(mcp, called)
        assert closed.wait(30)
        assert "notifications/cancelled" not in [request.rpc for request in server.requests]
        (call,) = [request for request in server.requests if request.rpc == "tools/call"]
        assert (call.headers["mcp-method"], call.headers["mcp-name"]) == ("tools/call", "echo")


def test_headers_that_a_server_refuses(mcp: McpServer) -> None:
    """Its tools may need others by now.

    They are listed again, and the call is tried once more, not twice.
    """
    refusals = 1

    def answer(request: Request) -> bool:
        nonlocal refusals
        if request.rpc != "tools/call":
            return is_modern(request)
        if refusals > 0:
            refusals -= 1
            error = {
                "jsonrpc": "2.0",
                "id": request.message["id"],
                "error": {"code": -32020, "message": "a header is missing"},
            }
            request.reply(
                "400 Bad Request", json.dumps(error).encode(), "Content-Type: application/json"
            )
        else:
            request.result(
                {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
            )
        return True

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url})
        mcp.cell(CALL)
        calls = [request.rpc for request in server.requests]
        first = calls.index("tools/call")
        assert calls[first:] == ["tools/call", "tools/list", "tools/call"]
        refusals = 2
        assert "a header is missing" in mcp.failing_cell(CALL)
        assert [request.rpc for request in server.requests].count("tools/call") == 4


def test_changed_tools_are_told(ipybox: str, place: Place) -> None:
    """The notification is on the stream of a GET."""
    streams: queue.Queue[Request] = queue.Queue()
    ended, called = threading.Event(), threading.Event()
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    information = {"serverInfo": {"name": "h", "version": "1"}}

    def answer(request: Request) -> bool:
        if request.rpc == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            request.result(
                {"protocolVersion": "2025-11-25", "capabilities": capabilities, **information}
            )
        elif request.method == "GET":
            request.begin_events()
            streams.put(request)
            ended.wait(60)
        elif request.rpc == "tools/call":
            called.set()
            streams.get(timeout=120).send(f"data: {json.dumps(changed)}\n\n".encode())
            request.result({"content": [{"type": "text", "text": "done"}]})
        elif request.rpc == "tools/list" and called.is_set():
            request.result({"tools": [TOOL, {**TOOL, "name": "new"}]})
        else:
            return False
        return True

    log = place.root / "stderr"
    with (
        HttpServer(answer) as server,
        open(log, "wb") as stderr,
        McpServer(ipybox, place, stderr=stderr.fileno()) as mcp,
    ):
        mcp.register("web", {"url": server.url})
        mcp.cell(CALL)
        deadline = time.monotonic() + 30
        while "web: its tools changed" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            mcp.cell("1")
        ended.set()


def test_a_subscription_takes_no_place_from_calls(mcp: McpServer) -> None:
    """Its request stays open as long as the connection lives."""
    ended = threading.Event()

    def answer(request: Request) -> bool:
        if request.rpc == "server/discover":
            capabilities = {"tools": {"listChanged": True}}
            request.result(
                {
                    "resultType": "complete",
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities,
                }
            )
        elif request.rpc == "subscriptions/listen":
            request.begin_events()
            ended.wait(60)
        elif request.rpc == "tools/call":
            request.result(
                {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
            )
        else:
            return is_modern(request)
        return True

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url, "timeout": 20, "limits": {"requests": 1}})
        mcp.cell(CALL)
        assert "subscriptions/listen" in [request.rpc for request in server.requests]
        ended.set()


def test_an_answer_in_a_batch_is_the_end_of_its_request(mcp: McpServer) -> None:
    """Its stream stays open, and does not count against the next call."""
    ended = threading.Event()

    def answer(request: Request) -> bool:
        if request.rpc == "initialize":
            information = {
                "serverInfo": {"name": "h", "version": "1"},
                "capabilities": {"tools": {}},
            }
            request.result({"protocolVersion": "2025-03-26", **information})
        elif request.rpc == "tools/call":
            result = {"content": [{"type": "text", "text": "done"}]}
            batch = [{"jsonrpc": "2.0", "id": request.message["id"], "result": result}]
            request.begin_events()
            request.send(f"id: e-1\ndata: {json.dumps(batch)}\n\n".encode())
            ended.wait(120)
        else:
            return False
        return True

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url, "timeout": 20, "limits": {"requests": 1}})
        mcp.cell(CALL)
        assert "done" in mcp.cell("print(echo.run(echo.Params()))")
        ended.set()


def test_a_new_session_is_listened_to(mcp: McpServer) -> None:
    """Also where the server leaves the stream of the old session open."""
    ended, listening, heard = threading.Event(), threading.Event(), threading.Event()
    sessions = iter(["s0", "s1", "s2"])  # the first is the registration's, which does not listen

    def answer(request: Request) -> bool:
        session = request.headers.get("mcp-session-id")
        if request.rpc == "initialize":
            information = {
                "serverInfo": {"name": "h", "version": "1"},
                "capabilities": {"tools": {"listChanged": True}},
            }
            header = f"Mcp-Session-Id: {next(sessions)}"
            request.result({"protocolVersion": "2025-11-25", **information}, header)
        elif request.method == "GET":
            request.begin_events()
            heard.set() if session == "s2" else listening.set()
            ended.wait(120)
        elif request.rpc == "tools/call" and session == "s1":
            assert listening.wait(60)
            request.reply("404 Not Found")
        elif request.rpc == "tools/call":
            request.result({"content": [{"type": "text", "text": "done"}]})
        else:
            return False
        return True

    with HttpServer(answer) as server:
        mcp.register("web", {"url": server.url})
        mcp.cell(CALL)
        assert heard.wait(60)
        ended.set()


def test_tools_that_change_all_the_time(ipybox: str, place: Place) -> None:
    """They do not fill the log."""
    changed = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
    began = time.monotonic()
    numbers = itertools.count()

    def answer(request: Request) -> bool:
        if request.rpc == "tools/list":
            request.result({"tools": [TOOL, {**TOOL, "name": f"tool_{next(numbers)}"}]})
            return True
        if request.rpc != "tools/call":
            return False
        request.begin_events()
        while time.monotonic() < began + 1 or b"its tools changed" not in log.read_bytes():
            request.send(changed)
        request.events_result({"content": [{"type": "text", "text": "done"}]})
        return True

    log = place.root / "stderr"
    with (
        HttpServer(answer) as server,
        open(log, "wb") as stderr,
        McpServer(ipybox, place, stderr=stderr.fileno()) as mcp,
    ):
        mcp.register("web", {"url": server.url})
        began = time.monotonic()
        mcp.cell(CALL)
        assert log.read_text().count("its tools changed") <= 2 + (time.monotonic() - began) / 10


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem; good.pem and stranger.pem, each a key and a certificate of that authority, for this
    host and for another.
    """
    directory = tmp_path_factory.mktemp("certificates")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(
        "req",
        "-x509",
        *new,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
        "-subj",
        "/CN=ours",
        directory=directory,
    )
    for name, host in (("good", "IP:127.0.0.1"), ("stranger", "DNS:example.org")):
        (directory / "extensions").write_text(f"subjectAltName={host}\nbasicConstraints=CA:FALSE\n")
        openssl(
            "req",
            *new,
            "-keyout",
            "key",
            "-out",
            "request",
            "-subj",
            f"/CN={name}",
            directory=directory,
        )
        openssl(
            "x509",
            "-req",
            "-in",
            "request",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-out",
            "certificate",
            "-days",
            "2",
            "-extfile",
            "extensions",
            directory=directory,
        )
        (directory / f"{name}.pem").write_text(
            (directory / "key").read_text() + (directory / "certificate").read_text()
        )
    return directory


def test_certificates(ipybox: str, tmp_path: Path, certificates: Path) -> None:
    ca = str(certificates / "ca.pem")
    with HttpServer(lambda request: False, certificates / "good.pem") as server:
        works(ipybox, tmp_path, server.url, ca_file=ca)
        works(ipybox, tmp_path, server.url, environ={"SSL_CERT_FILE": ca})
        works(ipybox, tmp_path, server.url, environ={"OUR_CA": ca}, ca_file="${OUR_CA}")
        n_requests = len(server.requests)
        status, text = apigen(ipybox, tmp_path, server.url)
        assert status != 0 and "certificate" in text and "ca_file" in text
        assert len(server.requests) == n_requests
    with HttpServer(lambda request: False, certificates / "stranger.pem") as server:
        status, text = apigen(ipybox, tmp_path, server.url, ca_file=ca)
        assert status != 0 and "127.0.0.1" in text and server.requests == []


def test_no_tls(ipybox: str, tmp_path: Path) -> None:
    """There is one attempt only, since the failure says nothing about the server's revisions."""
    n_connections = 0

    def serve(listener: socket.socket) -> None:
        nonlocal n_connections
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as connection:
                    n_connections += 1
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        status, text = apigen(
            ipybox, tmp_path, f"https://127.0.0.1:{listener.getsockname()[1]}/mcp"
        )
        listener.shutdown(socket.SHUT_RDWR)
    assert status == 3 and "no connection with TLS" in text and n_connections == 1


@pytest.mark.parametrize("path", ["/dev/zero", "/nonexistent/ca.pem", "ca.pem", "/proc"])
def test_no_file_of_certificates(ipybox: str, tmp_path: Path, path: str) -> None:
    status, text = apigen(ipybox, tmp_path, "https://127.0.0.1:9/mcp", ca_file=path)
    assert status != 0 and "ca_file" in text


# Proxies


def test_proxy_of_http(ipybox: str, tmp_path: Path) -> None:
    with HttpServer(lambda request: False) as proxy:
        works(
            ipybox,
            tmp_path,
            "http://nowhere.example/mcp",
            environ={"http_proxy": f"http://127.0.0.1:{proxy.port}"},
        )
        assert {request.path for request in proxy.requests} == {"http://nowhere.example/mcp"}
        n_requests = len(proxy.requests)
        with HttpServer(lambda request: False) as server:
            works(
                ipybox,
                tmp_path,
                server.url,
                environ={"http_proxy": f"http://127.0.0.1:{proxy.port}", "no_proxy": "127.0.0.1"},
            )
        assert len(proxy.requests) == n_requests


def test_proxy_of_https(ipybox: str, tmp_path: Path, certificates: Path) -> None:
    """TLS with the server goes through it. The proxy sees the name of the host, nothing else."""
    targets = []

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    with HttpServer(lambda request: False, certificates / "good.pem") as server:

        def connect(request: Request) -> bool:
            targets.append((request.method, request.path, "authorization" in request.headers))
            request.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with socket.create_connection(("127.0.0.1", server.port)) as upstream:
                back = threading.Thread(target=pump, args=(upstream, request.connection))
                back.start()
                pump(request.connection, upstream)
                back.join()
            return True

        with HttpServer(connect) as proxy:
            environ = {"https_proxy": f"http://127.0.0.1:{proxy.port}"}
            headers = {"Authorization": "Bearer secret"}
            works(
                ipybox,
                tmp_path,
                server.url,
                environ,
                ca_file=str(certificates / "ca.pem"),
                headers=headers,
            )
        assert targets and set(targets) == {("CONNECT", f"127.0.0.1:{server.port}", False)}
        assert {request.headers["authorization"] for request in server.requests} == {
            "Bearer secret"
        }


REFUSED_BY_PROXY = [
    ("http", "the proxy refused the request with HTTP status 407 and asks for: Basic"),
    ("https", "the proxy refuses the connection"),
]


@pytest.mark.parametrize(("scheme", "message"), REFUSED_BY_PROXY)
def test_proxy_that_refuses(ipybox: str, tmp_path: Path, scheme: str, message: str) -> None:
    def answer(request: Request) -> bool:
        request.reply("407 Proxy Authentication Required", b"", "Proxy-Authenticate: Basic")
        return True

    with HttpServer(answer) as proxy:
        environ = {f"{scheme}_proxy": f"http://user:s3cret@127.0.0.1:{proxy.port}"}
        status, text = apigen(ipybox, tmp_path, f"{scheme}://nowhere.example/mcp", environ)
        assert status != 0 and message in text and f"see {scheme}_proxy" in text
        assert "s3cret" not in text and "executed" not in text
        assert len(proxy.requests) == 1 and "proxy-authorization" in proxy.requests[0].headers


@pytest.mark.parametrize("proxy", ["ht!tp://user:s3cret@:::", "foo://user:s3cret@127.0.0.1:1"])
def test_proxy_that_is_none(ipybox: str, tmp_path: Path, proxy: str) -> None:
    status, text = apigen(ipybox, tmp_path, "http://nowhere.example/mcp", {"http_proxy": proxy})
    assert status != 0 and "see http_proxy" in text and "s3cret" not in text
