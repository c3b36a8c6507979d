# SPDX-License-Identifier: Apache-2.0
"""The tool channel against hostile clients, and the kernel stub against the tool channel.

build/tests/unit/tool-channel-tool runs the channels; the MCP server behind them is the unit tests' fake one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import queue
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import harness
import pytest

TOOL = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve().parent
TOOL = TOOL / "tests/unit/tool-channel-tool"
FAKE_SERVER = harness.ROOT / "tests/unit/servers/fake-mcp-server.py"
PARAMS = {"command": os.path.realpath(sys.executable), "args": ["-I", "-S", str(FAKE_SERVER)]}
MIB = 1 << 20


def load_client():
    """The stub's client module, under a name of its own: `ipybox` is the SDK in this process."""
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

    def __init__(self, environ, policy="allow", *, timeout_ms=-1, sessions=1, params=PARAMS) -> None:
        self.process = subprocess.Popen(
            [str(harness.existing(TOOL)), str(sessions), policy, str(timeout_ms), json.dumps(params)],
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

    def head(self, length: int | None, *, line="POST /run HTTP/1.1", drop=(), **headers: str) -> bytes:
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
        self.process.stdout.read()  # it may tell something still
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
        """Waits for the end; data would be a bug."""
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


@pytest.fixture
def start(environ):
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


@pytest.fixture
def core(start) -> Core:
    return start()


# What works


def test_call(core):
    with core.connect() as peer:
        for i in range(3):
            peer.send(core.request(core.body(args=f'{{"x": [{i}, 1e2]}}')))
            status, headers, value = peer.receive()
            assert status == 200
            assert headers["Content-Type"] == "application/json"
            assert value == {"result": {"x": [i, 100.0]}}


def test_arguments_are_sent_as_they_are(core):
    args = r'{"z":1.50,"a":-0,"big":1180591620717411303424,"s":"\ud800\u0000é\/","e":1E+2}'
    with core.connect() as peer:
        status, value = peer.ask(core.request(core.body("line", args)))
    assert status == 200
    assert f'"arguments":{args}' in value["result"].replace('": ', '":')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"content": []}, None),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": [], "structuredContent": {"a": 2**70}}, {"a": 2**70}),
        (
            {"content": [{"type": "text", "text": "t"}, {"type": "image", "data": "aGk=", "mimeType": "i/p"}]},
            "t",
        ),
    ],
)
def test_results_reach_python(core, monkeypatch, text, expected):
    assert core.runner(monkeypatch).run_sync("result", {"text": json.dumps(text)}) == expected


def test_tool_errors_reach_python(core, monkeypatch):
    failure = {"content": [{"type": "text", "text": "no such file"}], "isError": True}
    with pytest.raises(client.ToolRunnerError, match="^fake.result: no such file$"):
        core.runner(monkeypatch).run_sync("result", {"text": json.dumps(failure)})
    with pytest.raises(client.ToolRunnerError, match="out of cheese"):
        core.runner(monkeypatch).run_sync("die", {})
    # The next call has a new server.
    assert core.runner(monkeypatch).run_sync("echo", {"a": 1}) == {"a": 1}


def test_one_server_for_all_callers(core, monkeypatch):
    """First calls at the same time share one connect; threads, tasks and children share the server."""
    runner = core.runner(monkeypatch)
    pids: queue.Queue = queue.Queue()
    threads = [threading.Thread(target=lambda: pids.put(runner.run_sync("pid", {}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def tasks() -> list:
        return await asyncio.gather(*(runner.run("pid", {}) for _ in range(100)))

    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, runner.run_sync("pid", {}).encode())
        os._exit(0)
    os.waitpid(child, 0)
    all_pids = {pids.get() for _ in threads} | set(asyncio.run(tasks())) | {os.read(reader, 100).decode()}
    assert len(all_pids) == 1
    os.close(reader)
    os.close(writer)


def test_pipelined_requests_are_answered_in_order(core):
    bodies = [core.body(args=f'{{"i": {i}}}') for i in range(20)]
    with core.connect() as peer:
        peer.send(b"".join(core.request(body) for body in bodies))
        for i in range(20):
            assert peer.receive()[2] == {"result": {"i": i}}


def test_request_in_pieces(core):
    data = core.request(core.body(args='{"x": "é"}'))
    with core.connect() as peer:
        for i in range(len(data)):
            peer.send(data[i : i + 1])
        assert peer.receive()[2] == {"result": {"x": "é"}}


def test_http_1_0_and_close(core):
    for options in ({"line": "POST /run HTTP/1.0"}, {"Connection": "keep-alive, Close"}):
        with core.connect() as peer:
            peer.send(core.request(**options))
            status, headers, _ = peer.receive()
            assert status == 200
            assert headers["Connection"] == "close"
            assert peer.is_closed()


def test_expect_continue(core):
    body = core.body(args='{"x": 1}')
    with core.connect() as peer:
        peer.send(core.head(len(body), Expect="100-continue"))
        assert peer.input.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert peer.input.readline() == b"\r\n"
        assert peer.ask(body) == (200, {"result": {"x": 1}})


def test_large_result_with_bounded_memory(core, monkeypatch):
    """It lies in memory once or so, however slowly it is read."""
    assert core.runner(monkeypatch).run_sync("echo", {}) == {}
    before = core.memory()
    result = core.runner(monkeypatch).run_sync("big", {"megabytes": 100})
    assert len(result) == 100_000_000
    assert core.memory() - before < 600 * MIB


def test_large_arguments(core, monkeypatch):
    text = "x" * (16 * MIB)
    assert core.runner(monkeypatch).run_sync("echo", {"text": text}) == {"text": text}


# Who may ask, and for what


@pytest.mark.parametrize(
    ("status", "options"),
    [
        (401, {"drop": ["Authorization"]}),
        (401, {"Authorization": "Bearer " + "0" * 64}),
        (401, {"Authorization": "Bearer "}),
        (401, {"Authorization": "Basic " + "0" * 64}),
        (403, {"Origin": "http://127.0.0.1"}),
        (403, {"Origin": "null"}),
        (403, {"Host": "evil.example"}),
        (403, {"Host": "127.0.0.1:1"}),
        (400, {"drop": ["Host"]}),
        (404, {"line": "POST /approve HTTP/1.1"}),
        (404, {"line": "PUT /reset HTTP/1.1"}),
        (404, {"line": "GET /approval HTTP/1.1"}),
        (404, {"line": "GET /status HTTP/1.1"}),
        (404, {"line": "POST /run/../approve HTTP/1.1"}),
        (405, {"line": "GET /run HTTP/1.1"}),
        (405, {"line": "post /run HTTP/1.1"}),
        (415, {"drop": ["Content-Type"]}),
        (415, {"Content_Type": "text/plain"}),
        (415, {"Content_Type": "application/jsonp"}),
        (411, {"drop": ["Content-Length"]}),
        (411, {"drop": ["Content-Length"], "Transfer_Encoding": "chunked"}),
        (400, {"Transfer_Encoding": "chunked"}),
        (400, {"content_length": "5"}),
        (413, {"Content-Length": str(64 * MIB + 1)}),
        (400, {"Content-Length": "-1"}),
        (417, {"Expect": "a miracle"}),
        (505, {"line": "POST /run HTTP/2.0"}),
    ],
)
def test_refused(core, status, options):
    with core.connect() as peer:
        peer.send(core.request(**options))
        got, headers, value = peer.receive()
        assert got == status
        assert headers["Connection"] == "close"
        assert isinstance(value["error"], str)
        assert peer.is_closed()
    with core.connect() as peer:
        assert peer.ask(core.request())[0] == 200


def test_localhost_is_a_name_of_ours(core):
    with core.connect() as peer:
        assert peer.ask(core.request(Host=f"LocalHost:{core.port}"))[0] == 200


def test_token_of_another_session(start):
    core = start(sessions=2)
    assert core.sessions[0]["token"] != core.sessions[1]["token"]
    with core.connect() as peer:
        status, _ = peer.ask(core.request(Authorization=f"Bearer {core.sessions[1]['token']}"))
        assert status == 401


def test_unknown_server(core):
    unknown = [
        core.body(server_id="0" * 32),
        core.body(server_id="$(reboot)\n"),
        core.body(server_id=None),
        core.body(server_id=None, server_name="x; reboot"),
    ]
    with core.connect() as peer:
        for body in unknown:
            status, value = peer.ask(core.request(body))
            assert status == 200
            assert value["error_type"] == "not_found"
            assert "is not registered for this session; register it with: ipybox apigen" in value["error"]
            assert "reboot" not in value["error"]
        assert 'MCP server "fake" (id 000' in peer.ask(core.request(unknown[0]))[1]["error"]


def test_own_server_params(core, place):
    """They never start anything; they count only if they are equal to what is registered."""
    trace = place.workspace / "started"
    own = {"command": "/bin/sh", "args": ["-c", f"touch {trace}"]}
    with core.connect() as peer:
        status, value = peer.ask(core.request(core.body(server_id=None, server_params=own)))
        assert value["error_type"] == "not_found"
        # Beside the id of a registered server they are nothing.
        status, value = peer.ask(core.request(core.body(server_params=own)))
        assert value == {"result": {}}
        equal = dict(reversed(PARAMS.items()))
        status, value = peer.ask(core.request(core.body(server_id=None, server_params=equal)))
        assert value == {"result": {}}
        status, value = peer.ask(
            core.request(core.body(server_id=None, server_params=PARAMS, server_name="other"))
        )
        assert value["error_type"] == "not_found"
    assert not trace.exists()


@pytest.mark.parametrize(
    "args",
    [
        '{"path": "a", "path": "b"}',
        r'{"path": "a", "p\u0061th": "b"}',
        '{"x": [{"path": "a", "path": "b"}]}',
        '{}, "tool_args": {"other": 1}',
        '{}, "tool_name": "die"',
    ],
)
def test_duplicate_members(core, args):
    with core.connect() as peer:
        status, value = peer.ask(core.request(core.body(args=args)))
        assert status == 400
        assert "twice" in value["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"server_name": "fake"}',
        b"\xff\xfe{}",
        b'{"server_name":"fake","tool_name":7,"tool_args":{}}',
        b'{"server_name":"fake","tool_name":"echo","tool_args":[]}',
        b'{"server_name":"fake","tool_name":"echo","tool_args":' + b'{"x":' * 200000,
        b"[" * MIB,
    ],
)
def test_bodies_that_are_no_request(core, body):
    with core.connect() as peer:
        status, value = peer.ask(core.request(body))
        assert status == 400
        assert "refused" in value["error"]
        assert peer.is_closed()


@pytest.mark.parametrize("name", ["", "a\x1b[31m", "a\u202eb", "x" * 2000, "a\nb"])
def test_tool_names_that_deceive(core, name):
    with core.connect() as peer:
        status, value = peer.ask(core.request(core.body(name)))
        assert "a tool's name is" in value["error"]


# Approval


def test_accepted_and_rejected(start, monkeypatch):
    core = start("ask")
    runner = core.runner(monkeypatch)
    with ThreadPoolExecutor() as pool:
        call = pool.submit(runner.run_sync, "echo", {"a": 1})
        core.tell("accept", 0, core.asked()["id"])
        assert call.result() == {"a": 1}
        call = pool.submit(runner.run_sync, "echo", {"a": 1})
        core.tell("reject", 0, core.asked()["id"])
        with pytest.raises(client.ApprovalRejectedError, match="Approval request for fake.echo rejected"):
            call.result()


def test_approval_that_does_not_come(start, monkeypatch):
    core = start("ask", timeout_ms=20)
    with pytest.raises(client.ApprovalTimeoutError, match="Approval request for fake.echo expired"):
        core.runner(monkeypatch).run_sync("echo", {})
    core.tell("accept", 0, core.asked()["id"])
    assert core.event()["event"] == "go on"
    assert core.event()["event"] == "too late"


def test_denied(start, monkeypatch):
    with pytest.raises(client.ApprovalRejectedError, match="allows no tool calls"):
        start("deny").runner(monkeypatch).run_sync("echo", {})


def test_what_is_approved_is_what_runs(start):
    core = start("ask")
    args = r'{ "path" : "a", "n":1.0,"s":"\ud83d\ude00" }'
    with core.connect() as peer:
        peer.send(core.request(core.body("line", args)))
        asked = core.asked()
        assert asked["arguments"] == args
        core.tell("accept", 0, asked["id"])
        _, _, value = peer.receive()
        assert r'{"path":"a","n":1.0,"s":"\ud83d\ude00"}' in value["result"]


def test_a_replayed_request_is_asked_for_again(start):
    core = start("ask")
    data = core.request()
    with core.connect() as peer:
        for answer, expected in (("accept", "result"), ("reject", "error")):
            peer.send(data)
            asked = core.asked()
            core.tell(answer, 0, asked["id"])
            assert expected in peer.receive()[2]
        core.tell("accept", 0, asked["id"])  # the same decision again opens nothing
        while core.event()["event"] != "too late":
            pass


def test_approving_ones_own_call(start):
    core = start("ask")
    with core.connect() as peer, core.connect() as other:
        peer.send(core.request())
        asked = core.asked()
        for line in ("POST /approve HTTP/1.1", "GET /approval HTTP/1.1"):
            with core.connect() as other:
                status, _ = other.ask(core.request(json.dumps({"id": asked["id"]}).encode(), line=line))
                assert status == 404
        assert select.select([peer.sock], [], [], 0)[0] == []
        core.tell("reject", 0, asked["id"])
        assert peer.receive()[2]["error_type"] == "rejected"


def test_hanging_up_withdraws_the_request(start):
    core = start("ask")
    with core.connect() as peer:
        peer.send(core.request())
        asked = core.asked()
    while core.event()["event"] != "go on":
        pass
    core.tell("accept", 0, asked["id"])
    assert core.event()["event"] == "too late"


def test_calls_after_reset(start):
    core = start("ask")
    with core.connect() as peer:
        peer.send(core.request(core.body("pid")))
        core.tell("accept", 0, core.asked()["id"])
        first = peer.receive()[2]["result"]
        peer.send(core.request())
        asked = core.asked()
        core.reset()
        assert peer.receive()[2]["error_type"] == "cancelled"
        core.tell("accept", 0, asked["id"])
        assert core.event()["event"] == "too late"
        assert not Path(f"/proc/{first}").exists()
        peer.send(core.request(core.body("pid")))
        core.tell("accept", 0, core.asked()["id"])
        assert peer.receive()[2]["result"] != first


# Breaking it


def test_hanging_up_cancels_the_call(start):
    core = start("ask")

    def ask(peer: Peer, tool: str) -> None:
        peer.send(core.request(core.body(tool)))
        core.tell("accept", 0, core.asked()["id"])

    with core.connect() as other:
        with core.connect() as peer:
            ask(peer, "never")
            ask(other, "pid")
            assert other.receive()[0] == 200  # so the server has the first call, too
        cancelled = "[]"
        while cancelled == "[]":
            ask(other, "cancelled")
            cancelled = other.receive()[2]["result"]


@pytest.mark.parametrize("end", ["close", "reset", "half"])
def test_half_requests(core, end):
    """Cut at every place; nothing is run, nothing is kept."""
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
    """It is refused by its head; what follows is not kept."""
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
    """Each may be sent; all together hold a bounded amount of memory."""
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
        peers.append(core.connect())  # not earlier: who says nothing for ten seconds is cut off
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
    """They make room for those who have the token, also in the middle of a call."""
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
    """The 65th call at the same time is told so; others go on, and when one ends there is room."""
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
    with core.connect() as peer:  # takes the place of the one that idles now
        peer.send(core.request())
        core.tell("accept", 0, core.asked()["id"])
        assert peer.receive()[0] == 200
    for peer in peers:
        peer.close()


@pytest.mark.parametrize(
    "sent", ["", "POST /run", "head", "head and half a body", "a call, and nothing more", "bad request"]
)
def test_peers_that_take_their_time(start, environ, sent):
    """Whoever stops in the middle is cut off. Where an answer comes first, the request must be there in time."""
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
    """Each byte is no new chance."""
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
        assert peer.sock.recv(1) == b"H"  # the time runs from now on
        with core.connect() as later:
            assert later.is_closed()  # and this one's ran out after it
        size = 0
        with contextlib.suppress(ConnectionResetError):
            while data := peer.sock.recv(MIB):
                size += len(data)
        assert size < 30_000_000


def test_no_file_descriptors_left(core):
    """Accepting stands still, and goes on when there are some."""
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
    """Others are served meanwhile."""
    with core.connect() as slow, core.connect() as peer:
        slow.send(core.request(core.body("big", '{"megabytes": 30}')))
        assert slow.sock.recv(10, socket.MSG_WAITALL) == b"HTTP/1.1 2"
        assert peer.ask(core.request(core.body(args='{"a":1}'))) == (200, {"result": {"a": 1}})


def test_results_that_nobody_reads(core):
    """They hold a bounded amount of memory; whoever is refused is told."""
    peers = [core.connect() for _ in range(7)]
    for peer in peers:
        peer.send(core.request(core.body("big", '{"megabytes": 100}')))
    for peer in peers:
        assert peer.sock.recv(10, socket.MSG_WAITALL) == b"HTTP/1.1 2"
    lost = 0
    for peer in peers:
        assert peer.input.readline() == b"00 OK\r\n"
        headers = [peer.input.readline() for _ in range(3)]
        length = int(next(line for line in headers if line.startswith(b"Content-Length")).split()[1])
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
