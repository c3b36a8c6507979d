# SPDX-License-Identifier: Apache-2.0
"""Records of sessions (`--record`), with real kernels and a real MCP server."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
from pathlib import Path

import harness
import pytest
import scripted_server
from mcp_driver import McpServer


def read_record(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def types(lines: list[dict]) -> list[str]:
    return [line["type"] for line in lines]


def text_of(lines: list[dict], type: str) -> str:
    return "".join(line["text"] for line in lines if line["type"] == type)


CELL = """
import sys
from IPython.display import display, clear_output
print("out")
print("err", file=sys.stderr)
handle = display({"text/plain": "first"}, raw=True, display_id="d")
handle.update({"text/plain": "second"}, raw=True)
clear_output(wait=True)
1 / 0
"""


@pytest.mark.parametrize("flags", [(), ("--no-sandbox",)], ids=["sandbox", "no-sandbox"])
def test_a_cell(run_ipybox, workspace, flags):
    done = run_ipybox("run", "--record", "record.jsonl", *flags, "-c", CELL)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    path = workspace / "record.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = read_record(path)
    header, rest = lines[0], lines[1:]
    assert header["type"] == "record" and header["format"] == 1
    assert all(
        re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines
    )
    of_cell = [line for line in rest if line.get("cell") == 1]
    assert of_cell[0]["type"] == "cell" and of_cell[0]["code"] == CELL
    assert of_cell[-1]["type"] == "done" and of_cell[-1]["status"] == "error"
    assert text_of(of_cell, "stdout") == "out\n" and text_of(of_cell, "stderr") == "err\n"
    shown = [line for line in of_cell if line["type"] in ("display", "update")]
    assert [(line["data"]["text/plain"], line["display_id"]) for line in shown] == [
        ("first", "d"),
        ("second", "d"),
    ]
    (cleared,) = [line for line in of_cell if line["type"] == "clear_output"]
    assert cleared["wait"] is True
    (error,) = [line for line in of_cell if line["type"] == "error"]
    assert error["ename"] == "ZeroDivisionError" and "1 / 0" in error["traceback"]


def test_two_sessions_are_appended(run_ipybox, workspace):
    for code in ("1", "2"):
        assert run_ipybox("run", "--record", "r.jsonl", "-c", code).returncode == 0
    lines = read_record(workspace / "r.jsonl")
    headers = [line for line in lines if line["type"] == "record"]
    assert len({header["session"] for header in headers}) == 2
    assert [line["code"] for line in lines if line["type"] == "cell"] == ["1", "2"]


def test_tool_calls(run_ipybox, workspace):
    params = json.dumps(scripted_server.params("clock"))
    assert run_ipybox("apigen", "--server-name", "time", "--server-params", params).returncode == 0
    (workspace / "rules.json").write_text(
        '{"default": "allow", "rules": [{"tool": "convert_time", "decision": "deny"}]}'
    )
    cell = """
from mcptools.time import convert_time as c, get_current_time as g
g.run(g.Params(timezone="UTC"))
for call in (lambda: g.run(g.Params(timezone="Nowhere/Else")),
             lambda: c.run(c.Params(source_timezone="UTC", time="1:00", target_timezone="UTC"))):
    try:
        call()
    except Exception as error:
        print(type(error).__name__)
"""
    done = run_ipybox("run", "--approve", "rules.json", "--record", "r.jsonl", "-c", cell)
    assert done.returncode == 0, done.stderr
    lines = read_record(workspace / "r.jsonl")
    calls = [line for line in lines if line["type"] == "tool_call"]
    assert [(call["tool"], call["decision"], call["by"]) for call in calls] == [
        ("get_current_time", "allow", "policy"),
        ("get_current_time", "allow", "policy"),
        ("convert_time", "deny", "rule"),
    ]
    assert all(call["cell"] == 1 and call["server"] == "time" for call in calls)
    assert calls[0]["arguments"] == {"timezone": "UTC"}
    results = {line["request"]: line for line in lines if line["type"] == "tool_result"}
    assert set(results) == {calls[0]["request"], calls[1]["request"]}
    assert results[calls[0]["request"]]["status"] == "ok"
    assert results[calls[1]["request"]]["status"] == "error"
    assert "Nowhere" in results[calls[1]["request"]]["error"]


def test_the_mcp_server_records_cells_that_end_in_other_ways(ipybox, place, workspace):
    with McpServer(ipybox, place, "--record", "r.jsonl") as server:
        assert server.cell("print('one')") == "one"
        assert "timeout" in server.failing_cell("import time; time.sleep(600)", timeout=0.5)
        server.failing_cell("import os; os._exit(3)")
        assert server.cell("print('after')") == "after"
    lines = read_record(workspace / "r.jsonl")
    ends = [(line["cell"], line["status"]) for line in lines if line["type"] == "done"]
    assert ends == [(1, "ok"), (2, "timeout"), (3, "lost"), (4, "ok")]
    lost = [line for line in lines if line["type"] == "done"][2]
    assert "status 3" in lost["message"] or "exit" in lost["message"]
    assert types(lines).count("ready") == 2


def test_a_killed_core(ipybox, place, workspace):
    """SIGKILL in the middle of a cell: everything that happened before is in the record."""
    path = workspace / "r.jsonl"
    command = [ipybox, "run", "--record", str(path), "-c"]
    cell = "for i in range(100_000): print(i)\nprint('now')\nimport time; time.sleep(600)"
    process = subprocess.Popen(
        [*command, cell], cwd=workspace, env=place.environ, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line == "now\n":
            break
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    lines = read_record(path)
    assert text_of(lines, "stdout") == "".join(f"{i}\n" for i in range(100_000)) + "now\n"
    assert types(lines)[0] == "record" and "done" not in types(lines)
    again = harness.run([*command, "'again'"], place)  # the lock is gone, too
    assert again.returncode == 0, again.stderr
    assert types(read_record(path)).count("record") == 2


def test_what_is_not_a_record(run_ipybox, workspace):
    """None of these is opened, and no cell runs."""
    (workspace / "target").write_text("")
    (workspace / "link").symlink_to("target")
    os.mkfifo(workspace / "fifo", 0o600)
    (workspace / "readable").touch(0o644)
    (workspace / "notes").write_text("dear diary\n")
    (workspace / "notes").chmod(0o600)
    for name, why in {
        "link": "is a symbolic link",
        "fifo": "is not a regular file",
        "readable": "its mode must be 0600",
        "notes": "something else",
        ".": "directory",
        "no/such/folder": "no such directory",
    }.items():
        done = run_ipybox("run", "--record", name, "-c", "print(1)")
        assert done.returncode != 0 and done.stdout == "", name
        assert f"record {name}" in done.stderr and why in done.stderr, done.stderr
    assert (workspace / "target").read_text() == ""
    assert (workspace / "notes").read_text() == "dear diary\n"


@pytest.mark.needs_root
def test_a_file_of_another_user(run_ipybox, workspace):
    (workspace / "r.jsonl").touch(0o600)
    os.chown(workspace / "r.jsonl", 65534, 65534)
    done = run_ipybox("run", "--record", "r.jsonl", "-c", "print(1)")
    assert done.returncode == 2 and "belongs to another user" in done.stderr
    assert (workspace / "r.jsonl").read_bytes() == b""


def test_cells_do_not_write_it(run_ipybox, workspace):
    """A sandboxed cell can neither write its record nor replace it, nor has it its descriptor."""
    code = """
import os
for act in (lambda: open("r.jsonl", "a"), lambda: os.rename("r.jsonl", "x"),
            lambda: os.unlink("r.jsonl")):
    try:
        act()
        print("done")
    except OSError as error:
        print("refused")
print(any("r.jsonl" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
          if os.path.lexists(f"/proc/self/fd/{fd}")))
"""
    done = run_ipybox("run", "--record", "r.jsonl", "-c", code)
    assert done.stdout.splitlines() == ["refused"] * 3 + ["False"], done.stderr
    assert types(read_record(workspace / "r.jsonl"))[-1] == "done"
    code = code.replace("r.js", "s.js")
    done = run_ipybox("run", "--no-sandbox", "--record", "s.jsonl", "-c", code)
    assert done.stdout.splitlines()[:2] == ["done", "done"]  # the control


def test_a_full_disk(ipybox, place, workspace):
    """One notice; the session continues without its record."""
    code = "for i in range(3): print('x' * 4000, flush=True)"
    command = ["bash", "-c", 'ulimit -f 8; exec "$0" "$@"', ipybox]  # 8 KiB
    done = harness.run([*command, "run", "--record", "r.jsonl", "-c", code], place)
    assert done.returncode == 0 and done.stdout == ("x" * 4000 + "\n") * 3
    notices = [line for line in done.stderr.splitlines() if line.startswith("[ipybox]")]
    assert len(notices) == 1 and "the record r.jsonl has ended" in notices[0]
    assert "ulimit -f" in notices[0]
    assert (workspace / "r.jsonl").stat().st_size <= 8192


def test_large_displays_are_whole(run_ipybox, workspace):
    code = "from IPython.display import display\n"
    code += "display({'text/plain': 'y' * 20_000_000}, raw=True)"
    assert run_ipybox("run", "--record", "r.jsonl", "-c", code).returncode == 0
    (shown,) = [line for line in read_record(workspace / "r.jsonl") if line["type"] == "display"]
    assert shown["data"]["text/plain"] == "y" * 20_000_000
