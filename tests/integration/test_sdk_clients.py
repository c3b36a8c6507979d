# SPDX-License-Identifier: Apache-2.0
"""Official clients drive the binary: the Python SDK in both major versions, and MCP Inspector."""

from __future__ import annotations

import json
from pathlib import Path

import harness
from serve_driver import Serve

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
SIGNATURES = """\
def run(*, timezone: str) -> Result(timezone=str, datetime=str, day_of_week=str, is_dst=bool): ...\
  # time.get_current_time: Get current time in a specific timezone
def run(*, source_timezone: str, time: str, target_timezone: str) -> Result(source=TimeResult(\
timezone=str, datetime=str, day_of_week=str, is_dst=bool), target=TimeResult(timezone=str, \
datetime=str, day_of_week=str, is_dst=bool), time_difference=str): ...\
  # time.convert_time: Convert time between timezones"""


def test_python_sdk(client_python, ipybox, place, servers):
    script = Path(__file__).with_name("sdk_client.py")
    rules = place.workspace / "rules.json"
    rules.write_text(
        '{"default": "allow", "rules": [{"tool": "get_current_time", "decision": "ask"}]}'
    )
    arguments = [ipybox, str(place.workspace), str(rules), json.dumps(servers.time())]
    done = harness.run([client_python, str(script), *arguments], place, timeout=240)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["tools"] == TOOLS
    assert seen["modules"] == SIGNATURES
    assert seen["described"] == SIGNATURES.splitlines()[1]
    assert seen["called"] == "True"
    assert seen["asked"] == "'UTC'"
    assert seen["failed"].startswith(
        "Error executing tool execute_ipython_cell: ZeroDivisionError: division by zero\n"
    )
    assert seen["failed"].endswith("\n\nOutput before the error:\n\nbefore")
    assert "there is no argument timeout_s, did you mean timeout?" in seen["wrong"]
    assert seen["late"] == (
        "Error executing tool execute_ipython_cell: Code execution exceeded timeout of 0.50s "
        "(approval wait excluded). "
        "The cell was interrupted; variables are kept.\n\nOutput before the error:\n\nbegun"
    )
    assert seen["cut"] == (
        "aaaaaa\n\n[Output cut here: 4 of 14 characters left out]\n\nzzzz\n\n"
        "[Output truncated: exceeded 10 character limit]"
    )
    assert seen["shown"] == "some text"
    assert seen["reset"].startswith("The kernel was reset: ")
    assert seen["gone"] == "False"
    assert seen["variables"] == "x: int = 1"
    assert seen["resource"] == ["workspace:///rules.json", rules.read_text()]
    assert "pip" in seen["installed"]


class Inspector:
    """One call for each process, as the command line of MCP Inspector works."""

    def __init__(self, command: list[str], place: harness.Place, *server: str):
        self.command = [*command, *server]
        self.place = place

    def __call__(self, method: str, *args: str) -> dict:
        done = harness.run([*self.command, "--method", method, *args], self.place, timeout=240)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def tool(self, name: str, **arguments: str) -> dict:
        pairs = [
            word for key, value in arguments.items() for word in ("--tool-arg", f"{key}={value}")
        ]
        return self("tools/call", "--tool-name", name, *pairs)


def test_inspector(inspector, ipybox, place, servers):
    inspect = Inspector(inspector, place, ipybox, "--workspace", str(place.workspace))
    assert [tool["name"] for tool in inspect("tools/list")["tools"]] == TOOLS
    registered = inspect.tool(
        "register_mcp_server", server_name="time", server_params=json.dumps(servers.time())
    )
    assert registered["content"] == [{"type": "text", "text": SIGNATURES}]
    # Another process in the same workspace: the registration is still valid.
    called = inspect.tool(
        "execute_ipython_cell",
        code=(
            "from mcptools.time import get_current_time as g; 'UTC' in "
            "str(g.run(g.Params(timezone='UTC')))"
        ),
    )
    assert called["content"] == [{"type": "text", "text": "True"}]
    assert inspect.tool("reset")["content"][0]["text"].startswith("The kernel was reset: ")
    assert "pip" in inspect.tool("install_package", package_name="pip")["content"][0]["text"]


def test_inspector_over_http(inspector, ipybox, place):
    """Each call has a connection of its own; the session is named."""
    with Serve(ipybox, place) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        header = f"Authorization: Bearer {server.token}"
        inspect = Inspector(inspector, place, url, "--transport", "http", "--header", header)
        names = [tool["name"] for tool in inspect("tools/list")["tools"]]
        assert set(names) == {*TOOLS, "get_cell_result"}
        first = inspect.tool("execute_ipython_cell", code="x = 6")
        id = first["_meta"]["ipybox/session_id"]
        again = inspect.tool("execute_ipython_cell", code="x * 7", session_id=id)
        assert again["content"] == [{"type": "text", "text": "42"}]
