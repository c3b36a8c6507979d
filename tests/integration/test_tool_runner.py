# SPDX-License-Identifier: Apache-2.0
"""The kernel stub's ToolRunner against a server whose responses the test chooses."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import decimal
import enum
import importlib.util
import json
import math
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pydantic
import pytest

STUB = Path(__file__).resolve().parents[2] / "python/ipybox/kernel_host/stub"


def load_stub():
    """The stub under another name: `ipybox` is the SDK in this process."""
    package = STUB / "ipybox"
    spec = importlib.util.spec_from_file_location(
        "ipybox_stub", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["ipybox_stub"] = module
    spec.loader.exec_module(module)
    return module


ipybox = load_stub()
ToolRunner, ToolRunnerError = ipybox.ToolRunner, ipybox.ToolRunnerError
ResultError = ipybox.ResultError
client = sys.modules["ipybox_stub.tool_exec.client"]


def response(value, *, status="200 OK", headers="") -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def echo(request) -> bytes:
    return response({"result": request["tool_args"]})


class Server:
    """Answers each request with what `answer(message)` returns: bytes, or None to hang up."""

    def __init__(self, answer=echo) -> None:
        self.answer = answer
        self.requests: list[dict] = []
        self.heads: list[str] = []
        self.n_connections = 0
        self.max_open = 0
        self.hung_up = threading.Event()  # a client closed a connection
        self.arrived = threading.Semaphore(0)  # one release for each request
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.n_connections += 1
                self.open.add(sock)
                self.max_open = max(self.max_open, len(self.open))
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            while (request := self._receive(sock)) is not None:
                reply = self.answer(request)
                if reply is None:
                    break
                sock.sendall(reply)
                if b"Connection: close" in reply:
                    break
            else:
                self.hung_up.set()
        self.open.discard(sock)

    def _receive(self, sock: socket.socket) -> dict | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = sock.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        while len(body) < length:
            body += sock.recv(65536)
        self.heads.append(head.decode())
        self.requests.append(json.loads(body) if body else {})
        self.arrived.release()
        return self.requests[-1]

    def drop_all(self) -> None:
        for sock in list(self.open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.close()
        self.drop_all()


@pytest.fixture
def make_server():
    servers = []

    def make(answer=echo) -> Server:
        servers.append(Server(answer))
        return servers[-1]

    yield make
    for server in servers:
        server.close()
    for connection in client._state.idle:
        connection.close()
    client._state.idle.clear()


def runner(server: Server, **options) -> ToolRunner:
    return ToolRunner("github", host="127.0.0.1", port=server.port, **options)


def call(how: str, tool_runner: ToolRunner, name: str, args: dict):
    if how == "sync":
        return tool_runner.run_sync(name, args)
    return asyncio.run(tool_runner.run(name, args))


both = pytest.mark.parametrize("how", ["sync", "async"])


@both
def test_sends_what_it_is_given(how, make_server, monkeypatch):
    server = make_server()
    monkeypatch.setenv("IPYBOX_TOOL_TOKEN", "secret")
    tool_runner = runner(server, server_id="abc", server_params={"command": "x"})
    assert call(how, tool_runner, "search", {"q": "é"}) == {"q": "é"}
    assert server.requests == [
        {
            "server_name": "github",
            "server_id": "abc",
            "server_params": {"command": "x"},
            "tool_name": "search",
            "tool_args": {"q": "é"},
        }
    ]
    lines = server.heads[0].split("\r\n")
    assert lines[0] == "POST /run HTTP/1.1"
    assert f"Host: 127.0.0.1:{server.port}" in lines
    assert "Authorization: Bearer secret" in lines
    assert "Content-Type: application/json" in lines


def test_address_comes_from_the_environment(make_server, monkeypatch):
    server = make_server()
    tool_runner = ToolRunner("github", server_id="abc")
    monkeypatch.delenv("IPYBOX_TOOL_TOKEN", raising=False)
    monkeypatch.setenv("TOOL_SERVER_HOST", "localhost")
    monkeypatch.setenv("TOOL_SERVER_PORT", str(server.port))
    assert tool_runner.run_sync("t", {}) == {}
    assert "Authorization" not in server.heads[0]
    assert "server_params" not in server.requests[0]
    monkeypatch.setenv("TOOL_SERVER_PORT", "x")
    with pytest.raises(ToolRunnerError, match="TOOL_SERVER_PORT"):
        tool_runner.run_sync("t", {})


@both
def test_values_arrive_as_they_are(how, make_server):
    values = {"big": 2**70, "f": 0.1, "s": "\0\u2028\ud800😀", "n": None, "l": [True, -1.5]}
    assert call(how, runner(make_server()), "t", values) == values


def test_results_keep_numbers_or_say_why_not(make_server):
    results = [b'{"result": [-0, 18446744073709551617, 1E5]}', b'{"result": [0.5, 1e400]}']
    tool_runner = runner(make_server(lambda _: response(results.pop(0))))
    result = tool_runner.run_sync("t", {})
    assert result == [0, 2**64 + 1, 1e5]
    assert math.copysign(1, result[0]) == -1
    with pytest.raises(ResultError, match="1e400") as caught:
        tool_runner.run_sync("t", {})
    assert caught.value.result == "[0.5, 1e400]"


@both
@pytest.mark.parametrize(
    ("result", "text"),
    [
        (b'{"large": 1e999}', "beyond the range"),
        (b'{"n": ' + b"7" * 5000 + b"}", "an integer of 5000 digits"),
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
    ],
    ids=["large", "digits", "deep"],
)
def test_results_that_python_cannot_hold_are_not_lost(how, make_server, result, text):
    """The tool has run; its result is returned as text."""
    with pytest.raises(ResultError, match=text) as caught:
        call(how, runner(make_server(lambda _: response(b'{"result":' + result + b"}"))), "t", {})
    assert caught.value.result == result.decode() and caught.value.path == ()
    assert len(str(caught.value)) < 1000


@both
@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1: object()}, b"\xff", [datetime.date(1, 1, 1), math.nan]],
)
def test_arguments_that_are_no_json(how, value, make_server):
    server = make_server()
    with pytest.raises(ToolRunnerError, match="github.t cannot be sent as JSON"):
        call(how, runner(server), "t", {"x": value})
    assert server.requests == []


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    at: datetime.datetime


class Order(pydantic.BaseModel):
    number: uuid.UUID
    path: Path
    points: list[Point]


WHEN = datetime.datetime(2026, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
ORDER = Order(number=uuid.UUID(int=7), path=Path("/a/b"), points=[Point(2**70, WHEN)])
ORDER_AS_JSON = {
    "number": "00000000-0000-0000-0000-000000000007",
    "path": "/a/b",
    "points": [{"x": 2**70, "at": "2026-02-03T04:05:06Z"}],
}


@both
@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ({"x": WHEN}, {"x": "2026-02-03T04:05:06Z"}),
        (
            {"x": [uuid.UUID(int=7), Path("/a/b"), Colour.RED]},
            {"x": ["00000000-0000-0000-0000-000000000007", "/a/b", "red"]},
        ),
        ({Colour.RED: Point(1, WHEN)}, {"red": {"x": 1, "at": "2026-02-03T04:05:06Z"}}),
        (
            {"x": decimal.Decimal("1.10"), "y": datetime.timedelta(hours=1), "z": frozenset([1])},
            {"x": "1.10", "y": "PT1H", "z": [1]},
        ),
        (
            {"order": ORDER, "s": "\ud800", "n": 2**70},
            {"order": ORDER_AS_JSON, "s": "\ud800", "n": 2**70},
        ),
        (ORDER, ORDER_AS_JSON),
        (Point(1, WHEN), {"x": 1, "at": "2026-02-03T04:05:06Z"}),
    ],
)
def test_arguments_are_what_pydantic_turns_into_json(how, value, sent, make_server):
    assert call(how, runner(make_server()), "t", value) == sent


@both
@pytest.mark.parametrize("value", [[1], "x", None, Path("/a")])
def test_arguments_must_be_an_object(how, value, make_server):
    server = make_server()
    with pytest.raises(
        ToolRunnerError,
        match=r"github\.t must be a dict or a pydantic model, not " + type(value).__name__,
    ):
        call(how, runner(server), "t", value)
    assert server.requests == []


def nested(depth: int, leaf: object = 0) -> dict:
    """Objects and arrays, nested this deep."""
    value = leaf
    for i in range(depth - 1):
        value = [value] if i % 2 else {"x": value}
    return {"x": value}


@both
@pytest.mark.parametrize("depth", [128, 500, 5000])
@pytest.mark.parametrize("leaf", [0, WHEN], ids=["plain", "converted"])
def test_arguments_that_are_nested_too_deeply(how, depth, leaf, make_server):
    server = make_server()
    with pytest.raises(ToolRunnerError, match=r"the arguments of github\.t .*\b127\b"):
        call(how, runner(server), "t", nested(depth, leaf))
    assert server.requests == []
    assert call(how, runner(server), "t", nested(127)) == nested(127)
    assert call(how, runner(server), "t", {"x": "[" * 1000}) == {"x": "[" * 1000}


@both
@pytest.mark.parametrize(
    ("error_type", "expected"),
    [
        ("rejected", ipybox.ApprovalRejectedError),
        ("timeout", ipybox.ApprovalTimeoutError),
        ("other", ToolRunnerError),
        (None, ToolRunnerError),
    ],
)
def test_errors_have_their_class(how, error_type, expected, make_server):
    answer = {"error": "github.t: no"} | ({"error_type": error_type} if error_type else {})
    with pytest.raises(ToolRunnerError) as caught:
        call(how, runner(make_server(lambda _: response(answer))), "t", {})
    assert type(caught.value) is expected
    assert str(caught.value) == "github.t: no"
    assert issubclass(expected, ToolRunnerError)


@both
def test_http_errors_tell_their_text(how, make_server):
    replies = [
        response({"error": "no such token"}, status="401 Unauthorized"),
        response(b"<html>", status="502 Bad Gateway"),
        response(b"[]"),
        response(b"{]"),
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ]
    texts = ["no such token", "HTTP status 502", "HTTP status 200", "not valid"]
    texts += ["SSH-2.0", "Content-Length", "Content-Length"]
    tool_runner = runner(make_server(lambda _: replies.pop(0)))
    for text in texts:
        with pytest.raises(ToolRunnerError, match=text):
            call(how, tool_runner, "t", {})


def test_connection_stays_open(make_server):
    server = make_server()
    for i in range(10):
        assert runner(server).run_sync("t", {"i": i}) == {"i": i}

    async def more() -> None:
        for i in range(10):
            assert await runner(server).run("t", {"i": i}) == {"i": i}

    asyncio.run(more())
    asyncio.run(more())  # another event loop
    assert runner(server).run_sync("t", {}) == {}
    assert server.n_connections == 1


@both
def test_connection_closed_meanwhile_is_replaced(how, make_server):
    server = make_server()
    tool_runner = runner(server)
    assert call(how, tool_runner, "t", {}) == {}
    server.drop_all()
    idle = client._state.idle[0].sock
    assert idle.recv(1, socket.MSG_PEEK) == b""  # the end has arrived
    assert call(how, tool_runner, "t", {"again": 1}) == {"again": 1}
    assert server.n_connections == 2


@both
def test_connection_that_announces_its_end_is_not_used_again(how, make_server):
    server = make_server(lambda _: response({"result": 1}, headers="Connection: close\r\n"))
    for _ in range(3):
        assert call(how, runner(server), "t", {}) == 1
    assert server.n_connections == 3


@both
def test_a_call_is_never_sent_twice(how, make_server):
    server = make_server(lambda _: None)
    with pytest.raises(ToolRunnerError, match="the tool may have run"):
        call(how, runner(server), "t", {})
    assert len(server.requests) == 1


@both
def test_response_that_is_cut(how, make_server):
    server = make_server(lambda _: response({"result": 1}, headers="X: Connection: close\r\n")[:-1])
    with pytest.raises(ToolRunnerError, match="lost"):
        call(how, runner(server), "t", {})


@both
def test_nobody_listens(how):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(
        ToolRunnerError, match=f"cannot connect to the tool server at 127.0.0.1:{port}"
    ):
        call(how, ToolRunner("x", host="127.0.0.1", port=port), "t", {})


@both
def test_large_arguments_and_results(how, make_server):
    text = "x" * (20 << 20)
    assert call(how, runner(make_server()), "t", {"x": text}) == {"x": text}


def test_response_in_pieces():
    reply = response({"result": [1, 2]})
    received = client._Response()
    for i in range(len(reply)):
        assert not received.is_whole
        received.room()[:1] = reply[i : i + 1]
        received.feed(1)
    assert received.is_whole
    assert client._read_answer(received.status, received.body) == [1, 2]


def test_refusal_before_the_body_was_taken(make_server):
    """The server responds and closes while the arguments are still being sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(100)
                sock.sendall(
                    response(
                        {"error": "too large"}, status="413 x", headers="Connection: close\r\n"
                    )
                )
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 20):
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        tool_runner = ToolRunner("x", host="127.0.0.1", port=listener.getsockname()[1])
        with pytest.raises(ToolRunnerError, match="too large"):
            tool_runner.run_sync("t", {"x": "y" * (8 << 20)})
        thread.join()


def test_threads_have_their_own_connections(make_server):
    barrier = threading.Barrier(12)

    def answer(request) -> bytes:
        barrier.wait(30)  # all run at the same time
        return echo(request)

    server = make_server(answer)
    results = {}

    def work(i: int) -> None:
        results[i] = runner(server).run_sync("t", {"i": i})

    threads = [threading.Thread(target=work, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: {"i": i} for i in range(12)}
    assert server.n_connections == 12
    assert len(client._state.idle) == client.MAX_IDLE_CONNECTIONS


def test_more_tasks_than_connections(make_server):
    server = make_server()

    async def main() -> list:
        return await asyncio.gather(*(runner(server).run("t", {"i": i}) for i in range(100)))

    assert asyncio.run(main()) == [{"i": i} for i in range(100)]
    assert server.max_open <= client.MAX_CONCURRENT_CALLS + client.MAX_IDLE_CONNECTIONS


def test_cancelling_a_task_hangs_up(make_server):
    release = threading.Event()
    server = make_server(lambda request: release.wait(30) and echo(request))

    async def main() -> None:
        task = asyncio.create_task(runner(server).run("t", {}))
        await asyncio.to_thread(server.arrived.acquire)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    release.set()
    assert client._state.idle == []


def test_keyboard_interrupt_hangs_up(make_server):
    main_thread = threading.get_ident()
    # A process that a shell started in the background ignores it.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        # A signal just before recv() blocks does not end recv(), so it is sent again.
        signal.pthread_kill(main_thread, signal.SIGINT)
        while not server.hung_up.wait(5):
            signal.pthread_kill(main_thread, signal.SIGINT)

    def answer(request) -> bytes | None:
        threading.Thread(target=interrupt, daemon=True).start()
        return b""  # nothing is sent; the next read gets the end

    server = make_server(answer)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner(server).run_sync("t", {})
        assert server.hung_up.wait(30)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert client._state.idle == []
    server.answer = echo
    assert runner(server).run_sync("t", {}) == {}


def _child(port: int, i: int) -> tuple[int, object]:
    return i, ToolRunner("github", host="127.0.0.1", port=port).run_sync("t", {"i": i})


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_forked_children_have_their_own_connections(make_server):
    server = make_server()
    assert runner(server).run_sync("t", {}) == {}  # a connection that the children inherit
    with client._state.lock:  # as if another thread held it at the fork
        pool = multiprocessing.get_context("fork").Pool(2)
    with pool:
        results = pool.starmap(_child, [(server.port, i) for i in range(6)])
    pool.join()
    assert results == [(i, {"i": i}) for i in range(6)]
    before = server.n_connections
    assert runner(server).run_sync("t", {"after": 1}) == {"after": 1}
    assert server.n_connections == before  # the parent's own still works


def test_child_that_exits_does_not_close_the_parents_connection(make_server):
    server = make_server()
    assert runner(server).run_sync("t", {}) == {}
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert runner(server).run_sync("t", {}) == {}
    assert server.n_connections == 1


def test_import_is_light():
    """Generated code imports `ipybox` in kernels. It must not import anything heavy."""
    code = (
        "import sys; import __future__, typing; before = set(sys.modules); import ipybox\n"
        "assert ipybox.__version__\n"
        "print(*sorted(set(sys.modules) - before))\n"
        "from ipybox.tool_exec.client import ToolRunner, ToolRunnerError\n"
        "assert ipybox.ToolRunner is ToolRunner and ipybox.ToolRunnerError is ToolRunnerError\n"
        "try: ipybox.CodeExecutor\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(STUB)!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules, message = done.stdout.splitlines()
    assert modules == "ipybox"
    assert "CodeExecutor is not for cells: import it in a program outside the kernel" in message


def test_reset_is_not_for_kernels(make_server):
    answer = response({"error": "a kernel has POST /run only"}, status="404 Not Found")
    with pytest.raises(ToolRunnerError, match="POST /run only"):
        asyncio.run(runner(make_server(lambda _: answer)).reset())
