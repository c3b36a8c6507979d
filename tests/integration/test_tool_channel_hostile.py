# SPDX-License-Identifier: Apache-2.0
"""The tool channel with hostile callers: half, giant and slow requests, floods, results that are
not read.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import struct

import pytest
from tool_channel_driver import Core, Peer, running_cores

MIB = 1 << 20


@pytest.fixture
def start(environ):
    with running_cores(environ) as start:
        yield start


@pytest.fixture
def core(start) -> Core:
    return start()


def test_hanging_up_cancels_the_call(start):
    core = start("ask")

    def ask(peer: Peer, tool: str) -> None:
        peer.send(core.request(core.body(tool)))
        core.tell("accept", 0, core.asked()["id"])

    with core.connect() as other:
        with core.connect() as peer:
            ask(peer, "never")
            ask(other, "pid")
            assert other.receive()[0] == 200  # so the server has received the first call, too
        cancelled = "[]"
        while cancelled == "[]":
            ask(other, "cancelled")
            cancelled = other.receive()[2]["result"]


@pytest.mark.parametrize("end", ["close", "reset", "half"])
def test_half_requests(core, end):
    """Cut at every place; no call runs, nothing is kept."""
    data = core.request(core.body("die"))
    for size in range(0, len(data), 7):
        peer = core.connect()
        peer.send(data[:size])
        if end == "half":
            peer.sock.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert peer.input.read() == b""
        elif end == "reset":
            peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
    with core.connect() as peer:
        assert peer.ask(core.request())[0] == 200


def test_giant_request(core):
    """Its head is enough to refuse it; the rest is not kept."""
    before = core.memory()
    with core.connect() as peer:
        peer.send(core.head(1 << 30))
        with contextlib.suppress(ConnectionError):
            for _ in range(1024):
                peer.send(bytes(MIB))
        with contextlib.suppress(ConnectionError):
            assert peer.receive()[0] == 413
    assert core.memory() - before < 16 * MIB


def test_giant_head(core):
    with core.connect() as peer:
        with contextlib.suppress(ConnectionError):
            peer.send(b"POST /run HTTP/1.1\r\nX: " + bytes(range(65, 91)) * 4096)
        assert peer.receive()[0] == 431
    with core.connect() as peer:
        headers = "".join(f"X-{i}: 1\r\n" for i in range(65)).encode()
        status, _ = peer.ask(core.request().replace(b"\r\n\r\n", b"\r\n" + headers + b"\r\n", 1))
        assert status == 431


def test_many_large_requests(core):
    """Each is allowed. Together they hold a bounded amount of memory."""
    answers = []
    peers = [core.connect() for _ in range(5)]
    for peer in peers:
        peer.send(core.head(64 * MIB, Expect="100-continue"))
        answers.append(peer.input.readline())
    assert answers == [b"HTTP/1.1 100 Continue\r\n"] * 4 + [b"HTTP/1.1 503 Service Unavailable\r\n"]
    for peer in peers:
        peer.close()
    with core.connect() as peer:
        assert peer.ask(core.request())[0] == 200


def test_large_arguments_that_wait_for_approval(start):
    """They count until their calls end."""
    core = start("ask")
    data = core.request(core.body(args='{"text": "' + "x" * (60 * MIB) + '"}'))
    peers = []
    for _ in range(4):
        # not earlier: a client that sends nothing for ten seconds is disconnected
        peers.append(core.connect())
        peers[-1].send(data)
        core.asked()
    with core.connect() as peer:
        assert peer.ask(core.head(60 * MIB))[0] == 503
    core.tell("reject", 0, 1)
    assert peers[0].receive()[2]["error_type"] == "rejected"
    with core.connect() as peer:
        peer.send(core.head(60 * MIB, Expect="100-continue"))
        assert peer.input.readline() == b"HTTP/1.1 100 Continue\r\n"
    for peer in peers:
        peer.close()


def test_flood_of_strangers(core):
    """They make room for clients that have the token, even in the middle of a call."""
    with core.connect() as caller:
        caller.send(core.request(core.body("never")))
        strangers = [core.connect() for _ in range(100)]
        with core.connect() as peer:
            peer.send(core.request(core.body("never")))
            for stranger in strangers[:30]:
                assert stranger.is_closed()
        assert select.select([caller.sock], [], [], 0)[0] == []
        for stranger in strangers:
            stranger.close()


def test_flood_of_idle_connections(core):
    """Idle ones make room for new ones."""
    peers = []
    for _ in range(100):
        peers.append(core.connect())
        assert peers[-1].ask(core.request())[0] == 200
    assert peers[0].is_closed()
    for peer in peers:
        peer.close()


def test_flood_of_calls(start):
    """The 65th simultaneous call is refused with the reason.

    The others continue, and when one ends there is room.
    """
    core = start("ask")
    peers = []
    for _ in range(64):
        peers.append(core.connect())
        peers[-1].send(core.request())
        core.asked()
    with core.connect() as peer:
        status, _, value = peer.receive()
        assert status == 503
        assert "too many" in value["error"]
        assert peer.is_closed()
    core.tell("accept", 0, 1)
    assert peers[0].receive()[0] == 200
    with core.connect() as peer:  # takes the place of the connection that is idle now
        peer.send(core.request())
        core.tell("accept", 0, core.asked()["id"])
        assert peer.receive()[0] == 200
    for peer in peers:
        peer.close()


@pytest.mark.parametrize(
    "sent",
    ["", "POST /run", "head", "head and half a body", "a call, and nothing more", "bad request"],
)
def test_peers_that_take_their_time(start, environ, sent):
    """A peer that stops in the middle is disconnected.

    If the response comes first, the request must be complete in time.
    """
    environ["TOOL_CHANNEL_TIMEOUT_MS"] = "3000" if "call" in sent or "bad" in sent else "300"
    core = start()
    data = {
        "head": core.head(10),
        "head and half a body": core.request()[:-1],
        "a call, and nothing more": core.request(),
        "bad request": b"nonsense\r\n\r\n",
    }.get(sent, sent.encode())
    with core.connect() as peer:
        peer.send(data)
        if "call" in sent or "bad" in sent:
            peer.receive()
        assert peer.is_closed()


def test_peer_that_trickles(start, environ):
    """A byte does not extend the time."""
    environ["TOOL_CHANNEL_TIMEOUT_MS"] = "300"
    core = start()
    with core.connect() as peer, contextlib.suppress(ConnectionError):
        peer.send(b"POST /run HTTP/1.1\r\nX: ")
        while not select.select([peer.sock], [], [], 0.005)[0]:
            peer.send(b"x")
        assert peer.is_closed()


def test_reader_that_takes_too_long(start, environ):
    environ["TOOL_CHANNEL_TIMEOUT_MS"] = "3000"
    core = start()
    with core.connect() as peer:
        peer.send(core.request(core.body("big", '{"megabytes": 30}')))
        assert peer.sock.recv(1) == b"H"  # the time starts now
        with core.connect() as later:
            assert later.is_closed()  # and this one's expired after it
        size = 0
        with contextlib.suppress(ConnectionResetError):
            while data := peer.sock.recv(MIB):
                size += len(data)
        assert size < 30_000_000


def test_no_file_descriptors_left(core):
    """Accepting pauses, and resumes when there are some."""
    n_open = len(os.listdir(f"/proc/{core.process.pid}/fd"))
    limits = resource.prlimit(core.process.pid, resource.RLIMIT_NOFILE)
    with core.connect() as first:
        assert first.ask(core.request())[0] == 200
        n_open = len(os.listdir(f"/proc/{core.process.pid}/fd"))
        resource.prlimit(core.process.pid, resource.RLIMIT_NOFILE, (n_open, limits[1]))
        with core.connect() as second:
            second.send(core.request())
            assert first.ask(core.request())[0] == 200
            resource.prlimit(core.process.pid, resource.RLIMIT_NOFILE, limits)
            assert second.receive()[0] == 200


def test_reader_that_does_not_read(core):
    """Other clients are served at the same time."""
    with core.connect() as slow, core.connect() as peer:
        slow.send(core.request(core.body("big", '{"megabytes": 30}')))
        assert slow.sock.recv(10, socket.MSG_WAITALL) == b"HTTP/1.1 2"
        assert peer.ask(core.request(core.body(args='{"a":1}'))) == (200, {"result": {"a": 1}})


def test_results_that_nobody_reads(core):
    """They hold a bounded amount of memory. A refused client gets the reason."""
    peers = [core.connect() for _ in range(7)]
    for peer in peers:
        peer.send(core.request(core.body("big", '{"megabytes": 100}')))
    for peer in peers:
        assert peer.sock.recv(10, socket.MSG_WAITALL) == b"HTTP/1.1 2"
    lost = 0
    for peer in peers:
        assert peer.input.readline() == b"00 OK\r\n"
        headers = [peer.input.readline() for _ in range(3)]
        length = int(
            next(line for line in headers if line.startswith(b"Content-Length")).split()[1]
        )
        lost += length < 1000
        if length < 1000:
            assert b"its result is lost" in peer.input.read(length)
        peer.close()
    assert lost == 2


def test_ends_with_calls_under_way(start):
    core = start("ask")
    with core.connect() as peer:
        peer.send(core.request())
        core.asked()
        core.close()
        assert peer.is_closed()
