# SPDX-License-Identifier: Apache-2.0
"""`ipybox record --replay`: recorded cells run again, and what differs is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import scripted_server
from mcp_driver import McpServer
from terminal import Terminal

HEADER = {"type": "record", "format": 1, "ipybox": "1", "session": "s"}


def lines_of(cell: int, code: str, *events: dict, status: str | None = "ok") -> list[dict]:
    """The lines of a cell that ran."""
    lines = [
        {"type": "cell", "cell": cell, "code": code},
        {"type": "started", "cell": cell, "execution_count": cell},
        *({"cell": cell} | event for event in events),
    ]
    end = {"type": "done", "cell": cell, "status": status, "execution_count": cell}
    return [*lines, end] if status else lines


def write(path: Path, *lines: dict) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in [HEADER, *lines]))
    return path.name


def result(text: str) -> dict:
    return {"type": "result", "data": {"text/plain": text}, "execution_count": 1}


@pytest.fixture
def replay(run_ipybox):
    """replay(record, *options): the exit status, the cells by their number, and the sum."""

    def replay(record: str, *options: str) -> tuple[int, dict[int, dict], dict]:
        done = run_ipybox("record", "--replay", "--json", record, *options)
        *cells, total = [json.loads(line) for line in done.stdout.splitlines()]
        return done.returncode, {cell["cell"]: cell for cell in cells}, total

    return replay


def differences(cell: dict) -> dict[str, tuple]:
    return {each["what"]: (each["recorded"], each["now"]) for each in cell["differences"]}


def test_cells_of_a_real_session_are_the_same(ipybox, place, replay):
    """The second session continues with what the first one had, and its record is the same."""
    cells = [
        "import sys\nx = 6; print('out'); print('err', file=sys.stderr)",
        "x * 7",
        "object()",
        "display({'text/html': '<b>1</b>', 'text/plain': '1'}, raw=True)",
        "1 / 0",
        "import os; os._exit(3)",
        "'x' in globals()",
    ]
    with McpServer(ipybox, place, "--record", "r.jsonl") as server:
        for cell in cells:
            server.tool("execute_ipython_cell", {"code": cell})
        server.tool("reset", {})
        server.cell("'display' in globals()")
    for options in (["r.jsonl", "--record", "again.jsonl"], ["again.jsonl"]):
        status, found, total = replay(*options)
        assert total == {"same": 8, "differing": 0, "not_run": 0}, found
        assert status == 0 and list(found) == list(range(1, 9))


def test_what_differs_is_named(workspace, replay):
    out, err = {"type": "stdout", "text": "a\nb\n"}, {"type": "stderr", "text": "e"}
    display = {"type": "display", "data": {"text/plain": "1", "image/png": "AA=="}}
    error = {"type": "error", "ename": "ValueError", "evalue": "v", "traceback": "t"}
    record = write(
        workspace / "r.jsonl",
        *lines_of(1, "print('a\\nc')", out, err),
        *lines_of(2, "display({'text/plain': '2'}, raw=True)", display),
        *lines_of(3, "1 / 0", error, status="error"),
        *lines_of(4, "7", result("8")),
        *lines_of(5, "7 / 0", result("8")),
        *lines_of(6, "import os; os._exit(1)"),
        *lines_of(7, "print('z' * 40000)", {"type": "stdout", "text": "y" * 40000 + "\n"}),
    )
    status, found, total = replay(record)
    assert status == 1 and total == {"same": 0, "differing": 7, "not_run": 0}
    assert differences(found[1]) == {"stdout": ("b\n", "c\n"), "stderr": ("e", None)}
    assert found[1]["differences"][0]["line"] == 2
    assert differences(found[2]) == {"displays": ("image/png, text/plain\n", "text/plain\n")}
    assert differences(found[3]) == {"error": ("ValueError", "ZeroDivisionError")}
    assert differences(found[4]) == {"result": ("8", "7")}
    assert differences(found[5]) == {
        "status": ("ok", "error"),
        "result": ("8", None),
        "error": (None, "ZeroDivisionError"),
    }
    assert differences(found[6]) == {"status": ("ok", "lost")}
    assert differences(found[7]) == {"stdout": ("y" * 16384, "z" * 16384)}


def test_what_counts_as_equal(workspace, replay):
    """Addresses, late output and notices; other hexadecimal numbers differ."""
    late = {"type": "stdout", "text": "late", "late": True}
    notice = {"type": "notice", "text": "[ipybox] something"}
    record = write(
        workspace / "r.jsonl",
        *lines_of(1, "object()", result("<object at 0x12ab>"), notice),
        late | {"cell": 1},
        *lines_of(2, "hex(171)", result("'0xac'")),
        *lines_of(3, "print(' at 0x1')", {"type": "stdout", "text": " at 0x\n"}),
    )
    status, found, _ = replay(record)
    assert status == 1 and [found[i]["outcome"] for i in (1, 2, 3)] == [
        "same",
        "differs",
        "differs",
    ]


def test_the_report_for_people(run_ipybox, workspace):
    """Control characters of a record do not reach the terminal."""
    out = {"type": "stdout", "text": "same\n\x1b[2Jgone " + "x" * 300}
    record = write(
        workspace / "r.jsonl",
        *lines_of(1, "print('same')", out),
        *lines_of(2, "2", result("2")),
        *lines_of(3, "3", status=None),
    )
    done = run_ipybox("record", record, "--replay")
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout == (
        "cell 1 differs\n"
        "  stdout, line 2\n"
        f"    recorded: ␛[2Jgone {'x' * 191}…\n"
        "    now:      \n"
        "cell 3 was not run: the record ends before the cell\n"
        "1 the same, 1 differing, 1 not run\n"
    )


def test_cells_that_are_not_run(workspace, replay):
    never = {"type": "cell", "cell": 1, "code": "print('never')"}
    record = write(
        workspace / "r.jsonl",
        never,
        {"type": "done", "cell": 1, "status": "cancelled"},
        *lines_of(2, "open('ran', 'a').write('2')", result("1")),
        *lines_of(3, "open('ran', 'a').write('3')", status=None),
    )
    status, found, total = replay(record)
    assert status == 0 and total == {"same": 1, "differing": 0, "not_run": 2}
    assert found[1]["reason"] == "it did not run when it was recorded"
    assert found[3]["reason"] == "the record ends before the cell"
    assert (workspace / "ran").read_text() == "2"


def test_silent_cells_and_new_kernels(workspace, replay):
    """A silent cell is a part of the state; a reset is one, too."""
    ready = {"type": "ready"}
    silent, *rest = lines_of(1, "x = 1; print('not compared')")
    record = write(
        workspace / "r.jsonl",
        ready,
        silent | {"silent": True},
        *rest,
        *lines_of(2, "x", result("1")),
        ready,
        *lines_of(3, "'x' in globals()", result("False")),
    )
    status, _, total = replay(record)
    assert status == 0 and total == {"same": 3, "differing": 0, "not_run": 0}


def test_a_cell_that_was_stopped_is_stopped_again(workspace, replay):
    begin, end = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.100Z"
    lines = lines_of(1, "while True: pass", status="timeout")
    for line in lines:
        line["time"] = end if line["type"] == "done" else begin
    more = lines_of(2, "import time; time.sleep(600)", status="cancelled")
    status, found, _ = replay(write(workspace / "r.jsonl", *lines, *more), "--timeout", "2")
    assert status == 0 and {cell["outcome"] for cell in found.values()} == {"same"}


def test_a_timeout_of_a_cell_that_ended(workspace, replay):
    record = write(
        workspace / "r.jsonl", *lines_of(1, "while True: pass"), *lines_of(2, "1", result("1"))
    )
    status, found, _ = replay(record, "--timeout", "0.5")
    assert status == 1 and differences(found[1]) == {"status": ("ok", "timeout")}
    assert found[2]["outcome"] == "same"


def test_sessions(run_ipybox, workspace, replay):
    for code in ("'first'", "'second'"):
        assert run_ipybox("run", "--record", "r.jsonl", "-c", code).returncode == 0
    done = run_ipybox("record", "--replay", "r.jsonl")
    assert (done.returncode, done.stdout) == (2, "") and "2 sessions: choose one" in done.stderr
    assert run_ipybox("record", "--replay", "r.jsonl", "--session", "3").returncode == 2
    for number in "12":
        status, found, _ = replay("r.jsonl", "--session", number, "--record", f"{number}.jsonl")
        assert status == 0 and list(found) == [1]
    assert "'first'" in (workspace / "1.jsonl").read_text()
    assert "'second'" in (workspace / "2.jsonl").read_text()


def test_tool_calls_need_approval_again(ipybox, place, replay):
    call = "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC'));"
    with McpServer(ipybox, place, "--record", "r.jsonl") as server:
        server.register("time", scripted_server.params("clock"))
        server.cell(call)
    status, found, _ = replay("r.jsonl", "--approve", "deny")
    assert status == 1 and differences(found[1])["status"] == ("ok", "error")
    status, found, _ = replay("r.jsonl", "--approve", "allow", "--audit-log", "audit.jsonl")
    assert status == 0, found
    assert "get_current_time" in (place.workspace / "audit.jsonl").read_text()


def test_input_is_asked_again(ipybox, place, workspace, replay):
    request = {"type": "input_request", "prompt": "name? ", "password": False}
    record = write(workspace / "r.jsonl", *lines_of(1, "input('name? ')", request, result("'me'")))
    status, found, _ = replay(record)
    assert status == 1 and found[1]["asks_input"]
    assert differences(found[1])["status"] == ("ok", "error")
    terminal = Terminal([ipybox, "record", "--replay", record], place)
    with terminal:
        terminal.expect("name? ")
        os.write(terminal.fd, b"me\n")
        terminal.expect("1 the same, 0 differing, 0 not run")


def test_an_interrupt_ends_it(ipybox, place, workspace):
    os.mkfifo(workspace / "meet")
    record = write(
        workspace / "r.jsonl",
        *lines_of(1, "1", result("1")),
        *lines_of(2, "open('meet', 'w')\nwhile True: pass"),
        *lines_of(3, "open('third', 'w')"),
    )
    process = subprocess.Popen(
        [ipybox, "record", "--replay", record],
        cwd=workspace,
        env=place.environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    (workspace / "meet").open().close()  # the second cell runs
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "1 the same, 1 differing, 1 not run\n" in output
    assert "cell 3 was not run: the replay ended before it" in output
    assert not (workspace / "third").exists()


def test_no_kernel_can_be_started(run_ipybox, workspace):
    record = write(workspace / "r.jsonl", *lines_of(1, "1"), *lines_of(2, "2"))
    (workspace / "python").write_text("#!/bin/sh\nexit 1\n")
    (workspace / "python").chmod(0o755)
    done = run_ipybox("record", "--replay", record, "--no-sandbox", "--python", "./python")
    assert done.returncode in (2, 3) and done.stderr


@pytest.mark.parametrize(
    "line, why",
    [
        ({"type": "stdout", "cell": 9, "text": "x"}, "line 3: there is no such cell"),
        ({"type": "cell", "cell": 1, "code": "2"}, 'line 3: "cell" must be a new number'),
        ({"type": "done", "cell": 1, "status": "x"}, 'line 3: "status" is not known'),
        ({"type": "cell", "cell": 2}, 'line 3: "code" must be a string'),
    ],
)
def test_a_wrong_line_is_named_and_nothing_runs(run_ipybox, workspace, line, why):
    first = {"type": "cell", "cell": 1, "code": "open('ran', 'w')"}
    record = write(workspace / "r.jsonl", first, line)
    done = run_ipybox("record", "--replay", record)
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr
    assert done.stderr.count("\n") == 1 and not (workspace / "ran").exists()


def test_wrong_options(run_ipybox, workspace):
    record = write(workspace / "r.jsonl", *lines_of(1, "1", result("1")))
    before = (workspace / record).read_bytes()
    for options in (
        ["--replay", "--to", "x.md"],
        ["--replay", "--format", "md"],
        ["--json", "--to", "x.md"],
        ["--seed", "1", "--to", "x.md"],
        ["--replay", "--record", record],
        ["--replay", "--session", "0"],
        ["--replay", "--timeout", "-1"],
        ["--replay", "--seed", "x"],
        ["--replay", "--no-sandbox", "--sandbox-config", "s.json"],
    ):
        done = run_ipybox("record", record, *options)
        assert (done.returncode, done.stdout) == (2, "") and done.stderr, options
    assert (workspace / record).read_bytes() == before


def test_a_link_in_the_workspace_is_not_followed(run_ipybox, workspace, place):
    """A cell of an earlier run may have made it."""
    write(place.root / "secret.jsonl", *lines_of(1, "1", result("1")))
    (workspace / "r.jsonl").symlink_to(place.root / "secret.jsonl")
    done = run_ipybox("record", "--replay", "r.jsonl")
    assert done.returncode == 2 and "symbolic link" in done.stderr
    assert run_ipybox("record", "--replay", "--no-sandbox", "r.jsonl").returncode == 0


def imports(code: str) -> list[dict]:
    return [
        *lines_of(1, code, result("1")),
        # It failed then, too.
        *lines_of(
            2,
            "import nowhere",
            {"type": "error", "ename": "ModuleNotFoundError", "evalue": "x", "traceback": "x"},
            status="error",
        ),
    ]


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("from mcptools.fake import echo\n1", "there is no package mcptools"),
        ("import no_such_module\n1", "no_such_module cannot be imported here"),
        ("from json import nothing\n1", "json.nothing cannot be imported here"),
        ("raise ModuleNotFoundError('odd')", None),
    ],
)
def test_what_is_missing_now(replay, workspace, code, hint):
    status, cells, _ = replay(write(workspace / "r.jsonl", *imports(code)))
    assert status == 1 and cells[1]["outcome"] == "differs"
    assert (hint is None and "hint" not in cells[1]) or hint in cells[1]["hint"]
    assert cells[2]["outcome"] == "same" and "hint" not in cells[2]
