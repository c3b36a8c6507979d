# SPDX-License-Identifier: Apache-2.0
"""`ipybox rpc`: WebSockets of the client, against the package websockets."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator

import pytest
from rpc_driver import RpcCore, RpcError
from websockets.sync.server import ServerConnection, serve


@pytest.fixture
def core(ipybox, place) -> Iterator[RpcCore]:
    with RpcCore(ipybox, place) as core:
        yield core


def handle(peer: ServerConnection) -> None:
    """/echo echoes, /headers sends the request's headers, /flood never ends, /close closes, /silent
    is silent.
    """
    path = peer.request.path
    if path == "/close":
        peer.close(4001, "go away")
    elif path == "/headers":
        peer.send("\n".join(f"{name}: {value}" for name, value in peer.request.headers.raw_items()))
    elif path == "/flood":
        for _ in range(100):
            peer.send("x" * 1_000_000)
    elif path == "/silent":
        for _ in peer:
            pass
    for message in peer:
        peer.send(message)


@pytest.fixture
def port() -> Iterator[int]:
    def choose(_: ServerConnection, offered: list[str]) -> str | None:
        return next((name for name in offered if name in ("one", "two")), None)

    with serve(handle, "127.0.0.1", 0, select_subprotocol=choose, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


def open_socket(core: RpcCore, port: int, path: str = "/echo", **options) -> str:
    return core.call("websocket.open", host="127.0.0.1", port=port, path=path, **options)["socket"]


def next_notification(core: RpcCore, method: str) -> dict:
    while True:
        for message in core.notifications:
            if message["method"] == method:
                core.notifications.remove(message)
                return message["params"]
        core.receive()


def test_messages_of_both_kinds(core, port):
    socket = open_socket(core, port)
    for text in ("", "hello", "ä\u2028\0", "x" * 3_000_000):
        assert core.call("websocket.send", socket=socket, text=text) == {}
        assert next_notification(core, "websocket.message") == {"socket": socket, "text": text}
    for message in (b"", b"\0\xff", bytes(range(256)) * 3001):
        encoded = base64.b64encode(message).decode()
        assert core.call("websocket.send", socket=socket, base64=encoded) == {}
        assert next_notification(core, "websocket.message") == {"socket": socket, "base64": encoded}
    assert core.call("websocket.close", socket=socket, code=4000, reason="done") == {}
    assert next_notification(core, "websocket.closed")["code"] == 4000
    with pytest.raises(RpcError, match=f'no WebSocket "{socket}" is open') as caught:
        core.call("websocket.send", socket=socket, text="x")
    assert caught.value.kind == "not_found"


def test_protocols_and_headers(core, port):
    answer = core.call(
        "websocket.open",
        host="127.0.0.1",
        port=port,
        path="/headers",
        subprotocols=["zero", "two"],
        headers={"X-Y": "z"},
    )
    assert answer["subprotocol"] == "two"
    headers = next_notification(core, "websocket.message")["text"].splitlines()
    assert "X-Y: z" in headers and f"Host: 127.0.0.1:{port}" in headers
    assert core.call("websocket.open", host="127.0.0.1", port=port)["subprotocol"] is None


def test_pause(core, port):
    """Messages wait at the peer during the pause. None is lost."""
    socket = open_socket(core, port)
    assert core.call("websocket.pause", socket=socket) == {}
    for number in range(50):
        core.call("websocket.send", socket=socket, text=str(number))
    assert not core.notifications
    core.send({"jsonrpc": "2.0", "method": "websocket.resume", "params": {"socket": socket}})
    for number in range(50):
        assert next_notification(core, "websocket.message")["text"] == str(number)
    with pytest.raises(RpcError):
        core.call("websocket.pause", socket="w99")
    core.call("websocket.pause", socket=socket)
    assert core.call("websocket.close", socket=socket) == {}


def test_the_peer_closes(core, port):
    socket = open_socket(core, port, "/close")
    assert next_notification(core, "websocket.closed") == {
        "socket": socket,
        "code": 4001,
        "reason": "go away",
    }


def test_what_cannot_be_opened(core, port, ipybox):
    for options, kind in (
        ({"host": "127.0.0.1", "port": 1}, "server"),
        ({"host": "no.such.host.invalid", "port": 1}, "server"),
        ({"host": "127.0.0.1", "port": port, "path": "/a b"}, "invalid"),
        ({"host": "127.0.0.1", "port": port, "headers": {"A": "b\r\nc: d"}}, "invalid"),
        ({"host": "127.0.0.1", "port": 0}, "invalid"),
        ({"host": "127.0.0.1"}, "invalid"),
    ):
        with pytest.raises(RpcError) as caught:
            core.call("websocket.open", **options)
        assert caught.value.kind == kind, caught.value


def test_what_cannot_be_sent(core, port):
    socket = open_socket(core, port)
    for message in (
        {},
        {"text": "a", "base64": ""},
        {"text": 1},
        {"base64": "a"},
        {"base64": "ab=c"},
        {"base64": "ä==="},
        {"text": "\ud800"},
    ):
        with pytest.raises(RpcError) as caught:
            core.call("websocket.send", socket=socket, **message)
        assert caught.value.kind == "invalid", message
    small = open_socket(core, port, max_message=10)
    core.call("websocket.send", socket=small, text="x" * 11)
    assert next_notification(core, "websocket.closed")["code"] == 1009


def test_a_flood_is_taken_as_fast_as_it_is_read(core, port):
    socket = open_socket(core, port, "/flood")
    size = 0
    while size < 100_000_000:
        size += len(next_notification(core, "websocket.message")["text"])
    core.call("websocket.close", socket=socket)


def test_the_end_with_sockets_open(ipybox, place, port):
    with RpcCore(ipybox, place) as core:
        open_socket(core, port)
        open_socket(core, port, "/flood")
        core.request("websocket.close", socket=open_socket(core, port, "/silent"))
        core.request("websocket.open", host="127.0.0.1", port=port)


def test_cancelling_an_open(core):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        id = core.request("websocket.open", host="127.0.0.1", port=listener.getsockname()[1])
        core.notify("session.cancel", request=id)
        with pytest.raises(RpcError) as caught:
            core.wait(id)
        assert caught.value.kind == "cancelled"
