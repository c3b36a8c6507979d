# SPDX-License-Identifier: Apache-2.0
"""The tool channel: requests and responses of calls, which callers may ask for what, and the kernel
stub.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import select
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tool_channel_driver import PARAMS, Core, client, running_cores

MIB = 1 << 20


@pytest.fixture
def start(environ):
    with running_cores(environ) as start:
        yield start


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
            {
                "content": [
                    {"type": "text", "text": "t"},
                    {"type": "image", "data": "aGk=", "mimeType": "i/p"},
                ]
            },
            "t",
        ),
    ],
)
def test_results_reach_python(core, monkeypatch, text, expected):
    assert core.runner(monkeypatch).run_sync("result", {"text": json.dumps(text)}) == expected


def test_nested_arguments(core, monkeypatch):
    """Both sides have the same limit, and name it."""
    value = {"x": 0}
    for _ in range(client.MAX_ARGUMENT_DEPTH - 1):
        value = {"x": value}
    assert core.runner(monkeypatch).run_sync("echo", value) == value
    with pytest.raises(client.ToolRunnerError, match=r"nested too deeply: 127 "):
        core.runner(monkeypatch).run_sync("echo", {"x": value})
    with core.connect() as peer:
        status, answer = peer.ask(core.request(core.body("echo", json.dumps({"x": value}))))
    assert status == 400 and "arguments may be nested 127 deep" in answer["error"]


@pytest.mark.parametrize(
    "result",
    [
        {
            "content": [
                {"type": "text", "text": "t"},
                {"type": "image", "data": "aGk=", "mimeType": "i/p"},
            ],
            "structuredContent": {"a": 1},
        },
        {"content": [{"type": "text", "text": "t"}], "structuredContent": None},
        {"content": [], "structuredContent": None},
        {"content": []},
    ],
)
def test_all_of_a_result_reaches_python(core, monkeypatch, result):
    runner = core.runner(monkeypatch)
    answer = runner.call_sync("result", {"text": json.dumps(result)})
    assert (answer.contents, answer.structured) == (
        result["content"],
        result.get("structuredContent"),
    )
    assert answer.text == "t" * any(part["type"] == "text" for part in result["content"])
    assert answer.value == runner.run_sync("result", {"text": json.dumps(result)})
    assert (
        asyncio.run(runner.call("result", {"text": json.dumps(result)})).contents
        == result["content"]
    )


@pytest.mark.parametrize(
    "result",
    [
        '{"content": [{"type": "text", "text": "1e9"}], "structuredContent": {"a": 1e400}}',
        '{"structuredContent" : {"a": 1e400},"content":[]}',
    ],
)
def test_a_result_beyond_python_is_not_lost(core, monkeypatch, result):
    for run in (core.runner(monkeypatch).run_sync, core.runner(monkeypatch).call_sync):
        with pytest.raises(client.ResultError, match="beyond the range of a float") as caught:
            run("result", {"text": result})
        assert caught.value.result == '{"a": 1e400}'


@pytest.mark.parametrize("value", ['"yes"', "1", "[]"])
def test_whole_result_is_true_or_false(core, value):
    body = core.body().replace(b"{", b'{"whole_result": ' + value.encode() + b", ", 1)
    with core.connect() as peer:
        status, answer = peer.ask(core.request(body))
        assert status == 400 and "whole_result" in answer["error"]


def test_tool_errors_reach_python(core, monkeypatch):
    failure = {"content": [{"type": "text", "text": "no such file"}], "isError": True}
    with pytest.raises(client.ToolRunnerError, match="^fake.result: no such file$"):
        core.runner(monkeypatch).run_sync("result", {"text": json.dumps(failure)})
    with pytest.raises(client.ToolRunnerError, match="out of cheese"):
        core.runner(monkeypatch).run_sync("die", {})
    # The next call starts a new server.
    assert core.runner(monkeypatch).run_sync("echo", {"a": 1}) == {"a": 1}


def test_one_server_for_all_callers(core, monkeypatch):
    """Simultaneous first calls share one connect. Threads, tasks and children share the server."""
    runner = core.runner(monkeypatch)
    pids: queue.Queue = queue.Queue()
    threads = [
        threading.Thread(target=lambda: pids.put(runner.run_sync("pid", {}))) for _ in range(8)
    ]
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
    all_pids = (
        {pids.get() for _ in threads} | set(asyncio.run(tasks())) | {os.read(reader, 100).decode()}
    )
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
    """It is in memory about once, however slowly it is read."""
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
            assert (
                "is not registered for this session; register it with: ipybox apigen"
                in value["error"]
            )
            assert "reboot" not in value["error"]
        assert 'MCP server "fake" (id 000' in peer.ask(core.request(unknown[0]))[1]["error"]


def test_own_server_params(core, place):
    """They never start anything. They count only if they equal a registration."""
    trace = place.workspace / "started"
    own = {"command": "/bin/sh", "args": ["-c", f"touch {trace}"]}
    with core.connect() as peer:
        status, value = peer.ask(core.request(core.body(server_id=None, server_params=own)))
        assert value["error_type"] == "not_found"
        # Beside the id of a registered server they are ignored.
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
        with pytest.raises(
            client.ApprovalRejectedError, match="Approval request for fake.echo rejected"
        ):
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
                status, _ = other.ask(
                    core.request(json.dumps({"id": asked["id"]}).encode(), line=line)
                )
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
