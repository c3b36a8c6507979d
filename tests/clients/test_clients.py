# SPDX-License-Identifier: Apache-2.0
"""Clients of other projects use all tools over stdio and over HTTP.

Each client makes the same calls, in one session.
"""

from __future__ import annotations

import json
from typing import Any

import harness
import pytest
from client_list import CLIENTS, Client, notes, table

TESTED = [name for name, client in CLIENTS.items() if client.command and client.is_tested]
TOOLS = [
    "register_mcp_server",
    "install_package",
    "execute_ipython_cell",
    "reset",
    "describe_tools",
    "list_variables",
    "list_sessions",
    "close_session",
]
RULES = {"default": "allow", "rules": [{"tool": "get_current_time", "decision": "ask"}]}
NOW = "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC')).timezone"
NOON = (
    "from mcptools.time import convert_time as c\n"
    "c.run(c.Params(source_timezone='UTC', time='12:00', target_timezone='Asia/Tokyo'))"
    ".target.datetime[11:16]"
)
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.show()"
PROGRESS = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.5)"
ENDLESS = """\
stopped = False
print("begun", flush=True)
try:
    time.sleep(1000)
except KeyboardInterrupt:
    stopped = True
    raise"""


def calls_of(client: Client, transport: str, time_server: dict[str, Any]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def call(name: str, tool: str, /, *, options: dict[str, Any] | None = None, **arguments: Any):
        calls.append({"id": name, "tool": tool, "arguments": arguments, **(options or {})})

    def cell(name: str, code: str, **options: Any) -> None:
        call(name, "execute_ipython_cell", options=options, code=code)

    cell("first", "x = 6\nprint('printed')\nx * 7")
    cell("kept", "x + 1")
    cell("error", "print('before')\n1/0")
    cell("plot", PLOT)
    call("registered", "register_mcp_server", server_name="time", server_params=time_server)
    call("described", "describe_tools", query="convert")
    cell("called", NOON)
    cell("asked", NOW)
    call("variables", "list_variables")
    cell("steps", PROGRESS, progress="progress" in client.has)
    if "cancel" in client.has:
        cell("endless", ENDLESS, cancel=True)
        cell("stopped", "stopped")
    call("installed", "install_package", package_name="pip")
    if transport == "http":
        call("again", "get_cell_result")
    call("reset", "reset")
    cell("gone", "'x' in globals()")
    return calls


@pytest.mark.parametrize("name", TESTED)
def test_client(name, transport, reach, place, servers):
    client = CLIENTS[name]
    assert client.command
    rules = place.home / "rules.json"
    rules.write_text(json.dumps(RULES))
    options = ["--approve", str(rules)] if "elicitation" in client.has else []
    if transport == "stdio" and "images" in client.has:
        options.append("--images=both")
    with reach(*options) as server:
        job = {"server": server, "calls": calls_of(client, transport, servers.time())}
        done = harness.run([*client.command(), json.dumps(job)], place, timeout=240)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    check_report(client, transport, seen)


def check_report(client: Client, transport: str, seen: dict[str, Any]) -> None:
    outcomes = seen["outcomes"]
    texts = {name: each["text"] for name, each in outcomes.items() if "text" in each}
    assert seen["version"] == client.version()
    assert set(seen["tools"]) == {*TOOLS, *(["get_cell_result"] if transport == "http" else [])}
    # Over HTTP the first answer gives the id of the session, too.
    assert texts["first"].partition("\n\n[session_id: ")[0] == "printed\n42"
    assert texts["kept"] == "7"
    assert "ZeroDivisionError: division by zero" in texts["error"]
    assert texts["error"].endswith("Output before the error:\n\nbefore")
    assert "images/" in texts["plot"]
    assert "time.convert_time" in texts["registered"]
    assert "time.convert_time" in texts["described"]
    assert "time.get_current_time" not in texts["described"]
    assert (texts["called"], texts["asked"]) == ("'21:00'", "'UTC'")
    if "structured" in client.has:
        variables = json.loads(texts["variables"])["variables"]
        assert {"name": "x", "type": "int", "size": None, "value": "6"} in variables
    else:
        assert "x: int = 6" in texts["variables"]
    assert texts["steps"] == "0\n1\n2"
    assert "pip" in texts["installed"]
    assert texts["reset"].startswith("The kernel was reset: ")
    assert texts["gone"] == "False"
    failed = {name for name, each in outcomes.items() if each.get("error")}
    assert failed == ({"error"} if "errors" in client.has else set())
    if transport == "http":
        # That of the newest cell.
        newest = texts.get("stopped", texts["steps"])
        if "structured" in client.has:
            assert json.loads(texts["again"]) == {"output": newest}
        else:
            assert texts["again"] == newest
    if "images" in client.has:
        assert outcomes["plot"]["images"] == (1 if transport == "stdio" else 0)
    if "progress" in client.has:
        assert "".join(outcomes["steps"]["progress"]) == "0\n1\n2\n"
    if "cancel" in client.has:
        assert outcomes["endless"] == {"cancelled": True}
        assert texts["stopped"] == "True"
    if "elicitation" in client.has:
        (question,) = seen["asked"]
        assert "time.get_current_time" in question


def test_document():
    """docs/clients.md has the table and the notes of client_list.py."""
    text = (harness.ROOT / "docs/clients.md").read_text()
    assert table() in text, table()
    words = " ".join(text.split())
    assert [note for note in notes() if note not in words] == []
