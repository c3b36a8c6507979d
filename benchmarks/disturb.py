#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A client of `ipybox serve` that disturbs others, in a process of its own.

usage: disturb.py KIND PORT TOKEN [N]

Prints a line when it has begun, and ends when its input does. Then it prints how much it has done.

slow       N sessions whose cells print, and which never read the answers
abort      sends cells, and closes the connection before the answer
malformed  sends requests that are refused: heads, bodies, tokens
idle       N connections on which a request comes every few minutes
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator

from mcp_http import Access, HttpSession, make_cell, make_request
from processes import BenchmarkError

# What it computes itself takes no processor from the server and from the client that measures: in
# use, it would be on another machine.
NICENESS = 10
LARGE = 1 << 20
# IPython keeps the text of each cell. The kernel that aborts leave should not grow for that reason.
CELLS_OF_A_KERNEL = 1000
# The server closes connections that are silent for five minutes.
IDLE_S = 200
# Each prints as fast as it can, a bit more than a client gets to see.
ENDLESS = "while True: print('x' * 1000)"
MANY = "print('x' * 1_000_000)"


def is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def begun() -> None:
    print("begun", flush=True)


def connect(access: Access) -> socket.socket:
    return socket.create_connection(("127.0.0.1", access.port), 60)


def slow(access: Access, count: int) -> int:
    """One half prints without end, with progress. The other half wants large answers."""
    sockets = []
    for index in range(count):
        session = HttpSession(access)
        session.initialize()
        session.confirm()
        session.cell("1")
        peer = connect(access)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if index % 2 == 0:
            more = {"_meta": {"progressToken": index}}
            peer.sendall(make_request(access, session.id, make_cell(index, ENDLESS, **more)))
        sockets.append(peer)
        for number in range(100) if index % 2 == 1 else ():
            cell = make_cell(1000 + number, MANY)
            cell["params"]["arguments"]["max_output_chars"] = 2_000_000
            other = connect(access)
            other.sendall(make_request(access, session.id, cell))
            sockets.append(other)
    begun()
    sys.stdin.read()
    for peer in sockets:
        peer.close()
    return len(sockets)


def reset(session: HttpSession) -> None:
    """Waits until the server takes requests of this session again: too many wait for an answer."""
    for _ in range(1000):
        try:
            return session.reset()
        except BenchmarkError:
            time.sleep(0.01)
    session.reset()


def abort(access: Access, count: int) -> int:
    session = HttpSession(access)
    session.initialize()
    session.confirm()
    session.cell("1")
    begun()
    done = 0
    while not is_over():
        done += 1
        if done % CELLS_OF_A_KERNEL == 0:
            reset(session)
        peer = connect(access)
        peer.sendall(make_request(access, session.id, make_cell(done, "1")))
        peer.close()
    return done


def bad_requests(access: Access) -> Iterator[bytes]:
    good = make_request(access, None, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
    head = make_request(access, None, None)[:-2] + b"Content-Type: application/json\r\n"

    def with_body(body: bytes) -> bytes:
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    yield b"\x00\xff\xfe" * 100 + b"\r\n\r\n"
    yield b"GET / HTTP/9.9\r\n\r\n"
    yield good.replace(access.token.encode(), b"0" * len(access.token))
    yield good.replace(b"Host: localhost:", b"Host: example.com:")
    yield with_body(b"{")
    yield with_body(b"[" * 10_000)
    yield with_body(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode())
    yield with_body(b'{"x": [' + b"1," * (LARGE // 2) + b"}")
    yield b"POST /mcp HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n"


def malformed(access: Access, count: int) -> int:
    requests = list(bad_requests(access))
    begun()
    done = 0
    while not is_over():
        done += 1
        peer = connect(access)
        try:
            peer.sendall(requests[done % len(requests)])
            peer.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            pass
        peer.close()
    return done


def ask(access: Access, sockets: list[socket.socket]) -> int:
    """Sends a request on each. Returns how many were answered."""
    request = make_request(access, None, None, "GET").replace(b"GET /mcp", b"GET /healthz")
    answered = 0
    for peer in sockets:
        try:
            peer.sendall(request)
            answered += peer.recv(4096).startswith(b"HTTP/1.1 200 ")
        except ConnectionError:
            pass
    return answered


def idle(access: Access, count: int) -> int:
    """Returns how many of the connections can still be used at the end."""
    resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[1:] * 2)
    sockets: list[socket.socket] = []
    for _ in range(count):
        sockets.append(connect(access))
        ask(access, sockets[-1:])  # one that sends nothing is closed after some seconds
    begun()
    while not select.select([sys.stdin], [], [], IDLE_S)[0]:
        ask(access, sockets)
    answered = ask(access, sockets)
    for peer in sockets:
        peer.close()
    return answered


KINDS: dict[str, Callable[[Access, int], int]] = {
    "slow": slow,
    "abort": abort,
    "malformed": malformed,
    "idle": idle,
}


def main() -> int:
    kind, port, token, *rest = sys.argv[1:]
    os.nice(NICENESS)
    print(KINDS[kind](Access(int(port), token), int(rest[0]) if rest else 1), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
