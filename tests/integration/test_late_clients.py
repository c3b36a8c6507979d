# SPDX-License-Identifier: Apache-2.0
"""What each kind of client gets of late output: of code that still runs after its cell's end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_driver import McpServer, images_in
from rpc_driver import RpcCore, RpcError

# A thread of the first cell writes as soon as a later one sets `go`.
FIRST = (
    "import sys, threading\nfrom IPython.display import clear_output\n"
    "go, done = threading.Event(), threading.Event()\n"
    "def work():\n    go.wait()\n    print('from one')\n    print('error', file=sys.stderr)\n"
    "    h = display('shown', display_id='d')\n    h.update('new')\n    clear_output(wait=True)\n"
    "    done.set()\n"
    "threading.Thread(target=work).start()"
)
SECOND = "print('mine')\ngo.set()\ndone.wait()\nprint('end')"
# The thread runs while no cell does.
SOON = "import threading\nthreading.Timer(0.05, print, ['by itself']).start()"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


# JSON-RPC


def late_events(core: RpcCore, session: str) -> list[tuple[Any, dict]]:
    params = [n["params"] for n in core.notifications if n["method"] == "session.late_output"]
    return [
        (each["execution_count"], each["event"]) for each in params if each["session"] == session
    ]


def test_rpc_notifies_of_each_event(ipybox, place):
    with RpcCore(ipybox, place) as core:
        session, other = core.open(), core.open()
        assert core.call("session.watch_late_output", session=session) == {}
        core.notify("session.watch_late_output", session=other)
        core.execute(session, FIRST)
        result = core.execute(session, SECOND)
        # As in ipybox 0.9, the text comes with the cell that runs, without marks.
        assert "from one\nerror\n" in result["text"] and "[ipybox]" not in result["text"]
        events = late_events(core, session)
        assert [count for count, _ in events] == [1] * 5
        stdout, stderr, display, update, clear = (event for _, event in events)
        assert stdout == {"type": "text", "stream": "stdout", "text": "from one\n"}
        assert stderr == {"type": "text", "stream": "stderr", "text": "error\n"}
        assert display == {
            "type": "display",
            "data": {"text/plain": "'shown'"},
            "metadata": {},
            "display_id": "d",
            "image": None,
            "text": "'shown'",
        }
        assert update["type"] == "update" and update["data"] == {"text/plain": "'new'"}
        assert clear == {"type": "clear_output", "wait": True}
        assert late_events(core, other) == []


def test_rpc_without_a_running_cell(ipybox, place):
    with RpcCore(ipybox, place) as core:
        session = core.open()
        core.call("session.watch_late_output", session=session)
        core.execute(session, "1")
        core.execute(session, SOON)
        while not (events := late_events(core, session)):
            core.receive()
        assert events == [(2, {"type": "text", "stream": "stdout", "text": "by itself\n"})]
        assert core.text(session, "2") == "by itself\n2"


def test_rpc_without_a_watch(ipybox, place):
    with RpcCore(ipybox, place) as core:
        session = core.open()
        core.call("session.watch_late_output", session=session)
        core.call("session.watch_late_output", session=session, watch=False)
        core.execute(session, FIRST)
        assert "from one" in core.execute(session, SECOND)["text"]
        assert late_events(core, session) == []
        with pytest.raises(RpcError, match="no session"):
            core.call("session.watch_late_output", session="s99")


def test_rpc_of_an_unknown_cell(ipybox, place):
    """A thread that C code started, and that no Python code knows."""
    with RpcCore(ipybox, place) as core:
        session = core.open()
        core.call("session.watch_late_output", session=session)
        core.execute(
            session,
            "import _thread, time\ndef run():\n    time.sleep(0.05); print('whose')\n"
            "_ = _thread.start_new_thread(run, ())",
        )
        while not late_events(core, session):
            core.receive()
        ((count, event),) = late_events(core, session)
        assert count is None and event["text"] == "whose\n"


def test_rpc_loses_nothing_to_a_slow_client(ipybox, place):
    """The session is paused while much waits for the client; the thread waits."""
    with RpcCore(ipybox, place) as core:
        session = core.open()
        core.call("session.watch_late_output", session=session)
        core.execute(
            session,
            "import threading\ndef work():\n    for i in range(40): print('x' * 999_999)\n"
            "    print('last')\nthreading.Timer(0.05, work).start()",
        )
        size = 0
        while not (events := late_events(core, session)) or "last\n" not in events[-1][1]["text"]:
            core.receive()
        for count, event in events:
            assert count == 1
            size += len(event["text"])
        assert size == 40_000_000 + len("last\n")


# MCP


def logs(mcp: McpServer) -> list[dict]:
    return [n["params"] for n in mcp.notifications if n["method"] == "notifications/message"]


def test_mcp_logs_and_marks(mcp):
    mcp.cell(FIRST)
    text = mcp.cell(SECOND)
    own = text.split("\n")
    assert own[0] == "mine" and own[-2:] == ["[ipybox] written by this cell:", "end"]
    assert own[1] == "[ipybox] written after its cell had ended:"
    assert {"from one", "error", "'shown'", "'new'"} <= set(own[2:-2])
    while len(logs(mcp)) < 4:
        mcp.receive()
    assert {(log["level"], log["logger"]) for log in logs(mcp)} == {("info", "ipybox.late_output")}
    assert [log["data"] for log in logs(mcp)] == [
        {"cell": 1, "stream": "stdout", "text": "from one\n"},
        {"cell": 1, "stream": "stderr", "text": "error\n"},
        {"cell": 1, "stream": "display", "text": "'shown'"},
        {"cell": 1, "stream": "update", "text": "'new'"},
    ]


def test_mcp_between_cells(mcp):
    mcp.cell(SOON)
    while not logs(mcp):
        mcp.receive()
    assert logs(mcp)[0]["data"] == {"cell": 1, "stream": "stdout", "text": "by itself\n"}
    head = "[ipybox] written after its cell had ended:\nby itself"
    assert mcp.cell("print('x')") == f"{head}\n[ipybox] written by this cell:\nx"
    mcp.cell(SOON)
    while len(logs(mcp)) < 2:
        mcp.receive()
    assert mcp.cell("x = 1") == head


def test_mcp_of_much_text_sends_the_end(mcp):
    mcp.cell(
        "import threading\nthreading.Timer(0.05, lambda: print('é' * 100_000 + 'end')).start()"
    )
    while not any(log["data"]["text"].endswith("end\n") for log in logs(mcp)):
        mcp.receive()
    last = logs(mcp)[-1]["data"]
    assert len(last["text"]) == 4000 and last["truncated"] is True
    assert mcp.cell("2", max_output_chars=200_000).count("é") == 100_000


def test_mcp_images(mcp):
    mcp.cell(
        "import threading, base64\ndef work():\n"
        f"    display({{'image/png': '{PNG}', 'text/plain': 'i'}}, raw=True); done.set()\n"
        "done = threading.Event()\n"
        "go = threading.Event()\nthreading.Thread(target=lambda: (go.wait(), work())).start()"
    )
    text = mcp.cell("go.set(); done.wait()\nNone")
    (image,) = images_in(text)
    while not logs(mcp):
        mcp.receive()
    assert logs(mcp)[0]["data"] == {
        "cell": 1,
        "stream": "display",
        "text": "i",
        "image": str(image),
    }


def test_mcp_level(mcp):
    for level in ("notice", "emergency"):
        assert mcp.answer(mcp.request("logging/setLevel", {"level": level}))["result"] == {}
        mcp.cell(SOON)
        mcp.cell("import time; time.sleep(0.3)")
        assert logs(mcp) == []
    assert mcp.answer(mcp.request("logging/setLevel", {"level": "debug"}))["result"] == {}
    mcp.cell(SOON)
    while not logs(mcp):
        mcp.receive()
    for wrong in ({"level": "loud"}, {"level": 1}, {}):
        assert mcp.answer(mcp.request("logging/setLevel", wrong))["error"]["code"] == -32602


# ipybox run, and records


def notebook(*cells: str) -> str:
    return json.dumps(
        {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {},
            "cells": [
                {
                    "cell_type": "code",
                    "id": f"c{index}",
                    "metadata": {},
                    "execution_count": None,
                    "outputs": [],
                    "source": code,
                }
                for index, code in enumerate(cells)
            ],
        }
    )


def shown(cell: dict) -> list[str]:
    """The outputs of a cell, as text."""
    outputs = []
    for output in cell["outputs"]:
        text = output.get("text") or output["data"]["text/plain"]
        outputs.append("".join(text))
    return outputs


WORK = (
    "import threading\ngo, done = threading.Event(), threading.Event()\n"
    "def work():\n    go.wait()\n    print('from one')\n    display('shown')\n    done.set()\n"
    "threading.Thread(target=work).start()\nprint('one')"
)


def test_run_saves_it_under_its_cell(run_ipybox, workspace):
    path = workspace / "t.ipynb"
    path.write_text(notebook(WORK, SECOND))
    done = run_ipybox("run", "--record", "r.jsonl", "--save", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["one", "mine", "from one", "'shown'", "end", ""]
    first, second = json.loads(path.read_text())["cells"]
    assert shown(first) == ["one\nfrom one\n", "'shown'"]
    assert shown(second) == ["mine\nend\n"]
    # And in the document that is derived from the record.
    done = run_ipybox("record", "r.jsonl", "--to", "derived.ipynb")
    assert done.returncode == 0, done.stderr
    cells = json.loads((workspace / "derived.ipynb").read_text())["cells"]
    first, second = (cell for cell in cells if cell["cell_type"] == "code")
    assert shown(first) == ["one\nfrom one\n", "'shown'"]
    assert shown(second) == ["mine\nend\n"]
    lines = [json.loads(line) for line in (workspace / "r.jsonl").read_text().splitlines()]
    late = [(line["type"], line["cell"]) for line in lines if line.get("late")]
    assert late == [("stdout", 1), ("display", 1)]


def test_run_marks_output_of_an_unknown_cell(run_ipybox, workspace):
    path = workspace / "t.ipynb"
    thread = (
        "import _thread, time\ndef work():\n    time.sleep(0.1); print('whose')\n"
        "_ = _thread.start_new_thread(work, ())\nprint('one', end='')"
    )
    # While no cell runs: the notebook waits for the next one's start.
    path.write_text(notebook(thread))
    record = workspace / "r.jsonl"
    done = run_ipybox("run", "--record", str(record), "--save", str(path))
    assert done.returncode == 0 and done.stdout.startswith("one")
    # How far the thread comes before the end of the kernel is not known: a record says it.
    lines = record.read_text().splitlines()
    lines = [line for line in lines if '"late"' not in line]
    late = {"type": "stdout", "time": "2026-01-01T00:00:00.000Z", "late": True, "text": "whose\n"}
    clear = {"type": "clear_output", "time": late["time"], "late": True, "wait": False}
    record.write_text("\n".join([*lines, *map(json.dumps, (late, late, clear))]) + "\n")
    record.chmod(0o600)
    done = run_ipybox("record", "r.jsonl", "--to", "derived.ipynb")
    assert done.returncode == 0, done.stderr
    cells = json.loads((workspace / "derived.ipynb").read_text())["cells"]
    (cell,) = (cell for cell in cells if cell["cell_type"] == "code")
    assert shown(cell) == ["one\n[ipybox] written by code of an unknown cell:\nwhose\nwhose\n"]


def test_run_shows_what_is_written_at_the_end(run_ipybox):
    done = run_ipybox("run", "-c", "import atexit\natexit.register(print, 'bye')\nprint('hello')")
    assert (done.returncode, done.stdout) == (0, "hello\nbye\n")
