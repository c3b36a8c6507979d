# SPDX-License-Identifier: Apache-2.0
"""Clients on stdio that read slowly or send messages that are too long.

Over MCP and over rpc the session continues, nothing is lost, and the core's memory is bounded.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import scripted_server
from line_program import LineProgram
from mcp_driver import McpServer
from rpc_driver import RpcCore

MIB = 1 << 20
LONG = 100 * MIB


def peak_mib(program: LineProgram) -> float:
    status = Path("/proc", str(program.process.pid), "status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def wait_until_quiet(program: LineProgram) -> None:
    """Waits until core and kernels have done nothing for a second.

    There is no event for that. If one is only slow, the test sees less than it could, and does not
    fail.
    """

    def used() -> list:
        todo, found = [program.process.pid], []
        while todo:
            pid = todo.pop()
            try:
                found.append(
                    Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
                )
                for task in Path(f"/proc/{pid}/task").iterdir():
                    todo += map(int, (task / "children").read_text().split())
            except OSError:
                continue
        return found

    before: list = []
    while (now := used()) != before:
        before = now
        time.sleep(1)


def send_long_line(program: LineProgram, start: bytes, end: bytes) -> None:
    stdin = program.process.stdin
    stdin.write(start)
    for _ in range(LONG // MIB):
        stdin.write(b"x" * MIB)
    stdin.write(end + b"\n")
    stdin.flush()


def test_mcp_host_that_does_not_read(ipybox, place, workspace):
    """Its cells print more than 256 MB in total. Those for which there is no room wait."""
    n = 400
    with McpServer(ipybox, place) as server:
        server.cell("ran = 0")
        before = peak_mib(server)
        code = "ran += 1; open('ran', 'w').write(str(ran)); print('x' * 1_000_000)"
        ids = [
            server.start_tool("execute_ipython_cell", {"code": code, "max_output_chars": 1_000_100})
            for _ in range(n)
        ]
        cancelled = ids[n // 2]
        wait_until_quiet(server)
        assert int((workspace / "ran").read_text()) < 20
        server.notify("notifications/cancelled", {"requestId": cancelled})
        wait_until_quiet(server)
        for id in ids:
            if id != cancelled:
                text = server.answer(id)["result"]["content"][0]["text"]
                assert len(text.strip()) == 1_000_000
        assert peak_mib(server) - before < 64
        assert server.cell("ran") == str(n - 1)
        assert cancelled not in server.answers


def test_mcp_host_that_leaves_without_having_read(ipybox, place):
    server = McpServer(ipybox, place)
    for _ in range(20):
        server.start_tool(
            "execute_ipython_cell",
            {"code": "print('x' * 1_000_000)", "max_output_chars": 1_000_100},
        )
    wait_until_quiet(server)
    server.process.stdin.close()
    assert server.process.wait(60) == 0
    server.process.stdout.close()


def test_rpc_client_that_does_not_read(ipybox, place, workspace):
    """Also for responses that are not output of cells."""
    n = 40
    with RpcCore(ipybox, place) as core:
        sessions = [core.open() for _ in range(2)]
        for session in sessions:
            core.text(session, "1")
        code = "print('x' * 9_000_000)"
        ids = [
            core.request("session.execute", session=sessions[i % 2], code=code) for i in range(n)
        ]
        wait_until_quiet(core)
        cancelled = ids[-1]
        core.notify("session.cancel", request=cancelled)
        for id in ids[:-1]:
            assert len(core.wait(id)["text"].strip()) == 9_000_000
        wait_until_quiet(core)
        assert core.wait(cancelled)["status"] == "cancelled"
        assert peak_mib(core) < 200
        assert core.text(sessions[0], "6 * 7") == "42"


@pytest.mark.parametrize("with_id", [True, False], ids=["request", "no-message"])
def test_mcp_line_that_is_too_long(ipybox, place, with_id):
    with McpServer(ipybox, place) as server:
        server.cell("x = 5")
        before = peak_mib(server)
        if with_id:
            # The id comes last, as the official Python SDK writes it.
            start = (
                b'{"method": "tools/call", "params": {"name": "execute_ipython_cell", '
                b'"arguments": {"code": "'
            )
            send_long_line(server, start, b'"}}, "jsonrpc": "2.0", "id": 77}')
        else:
            send_long_line(server, b"", b"")
        error = server.answer(77 if with_id else None)["error"]
        assert error["code"] == -32600
        assert error["message"] == "the message is longer than the maximum of 67108864 bytes"
        assert server.cell("x") == "5"
        assert peak_mib(server) - before < 150


def test_rpc_line_that_is_too_long(ipybox, place):
    with RpcCore(ipybox, place) as core:
        session = core.open()
        core.text(session, "x = 5")
        send_long_line(
            core,
            b'{"jsonrpc": "2.0", "id": 77, "method": "session.execute", "params": {"code": "',
            b'"}}',
        )
        while 77 not in core.answers:
            core.receive()
        error = core.answers.pop(77)["error"]
        assert (error["code"], error["data"]) == (-32600, {"kind": "limit"})
        assert core.text(session, "x") == "5"


def test_answer_to_elicitation_that_is_too_long(ipybox, place):
    """It counts as no answer: the call is refused, and the session continues."""
    with McpServer(ipybox, place, "--approve", "ask", initialize=False) as server:
        server.initialize(elicitation={})
        server.register("clock", scripted_server.params("clock"))
        code = "from mcptools.clock import get_current_time as t; t.run(t.Params(timezone='UTC'))"
        id = server.start_tool("execute_ipython_cell", {"code": code})
        while not (questions := [message for message in server.notifications if "id" in message]):
            server.receive()
        head = json.dumps({"jsonrpc": "2.0", "id": questions[0]["id"]})[:-1]
        send_long_line(server, head.encode() + b', "result": {"action": "', b'"}}')
        result = server.answer(id)["result"]
        assert (
            result["isError"]
            and "the message is longer than the maximum" in result["content"][0]["text"]
        )
        assert server.cell("6 * 7") == "42"
