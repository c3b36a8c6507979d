# SPDX-License-Identifier: Apache-2.0
"""Structured results, annotations, --tools, and the progress of cells that wait."""

from __future__ import annotations

import os

import pytest
import scripted_server
from jsonschema import Draft202012Validator
from mcp_driver import McpServer

ORIGINAL = ["register_mcp_server", "install_package", "execute_ipython_cell", "reset"]
WORK = scripted_server.params("work")


def tools_of(server: McpServer) -> dict[str, dict]:
    return {
        each["name"]: each
        for each in server.answer(server.request("tools/list"))["result"]["tools"]
    }


@pytest.fixture
def structured(ipybox, place):
    with McpServer(ipybox, place, "--structured") as server:
        yield server


def content_of(server: McpServer, tool: str, arguments: dict | None = None) -> dict:
    """The structured result, which its schema accepts."""
    content = server.tool(tool, arguments)["structuredContent"]
    Draft202012Validator(tools_of(server)[tool]["outputSchema"]).validate(content)
    return content


def cell(server: McpServer, code: str, **arguments) -> dict:
    return content_of(server, "execute_ipython_cell", {"code": code, **arguments})


def test_new_tools_only_by_default(mcp):
    for name, tool in tools_of(mcp).items():
        assert ("outputSchema" in tool) is (name not in ORIGINAL), name
    assert "structuredContent" not in mcp.tool("execute_ipython_cell", {"code": "1"})
    assert "structuredContent" in mcp.tool("describe_tools")


def test_a_host_that_needs_structured_results(ipybox, place):
    with McpServer(ipybox, place, initialize=False) as server:
        server.initialize(name="gemini-cli-mcp-client-ipybox")
        assert cell(server, "6 * 7")["result"] == "42"


def test_cells(structured, workspace):
    assert cell(structured, "print('a')\ndisplay('b')\n6 * 7") == {
        "status": "ok", "stdout": "a\n'b'\n", "result": "42", "error": None, "images": [],
        "notices": [], "execution_count": 1, "truncated": False,
    }  # fmt: skip
    failed = cell(structured, "print('a')\n1/0")
    assert (failed["status"], failed["stdout"], failed["result"]) == ("error", "a\n", None)
    assert failed["error"]["name"] == "ZeroDivisionError"
    assert "1/0" in failed["error"]["traceback"]
    late = cell(structured, "import time\ntime.sleep(1000)", timeout=0.5)
    assert late["status"] == late["error"]["name"] == "timeout"
    assert "exceeded timeout" in late["error"]["message"]
    cut = cell(structured, "print('x' * 100)\n'y' * 100", max_output_chars=10)
    assert cut["truncated"] and "characters left out" in cut["stdout"]
    assert "characters left out" in cut["result"]
    plot = cell(structured, "import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    assert plot["images"] == [str(path) for path in (workspace / "images").iterdir()]
    lost = cell(structured, "import os\nos._exit(3)")
    assert lost["status"] == "lost" and lost["error"]["message"]


def test_other_tools(structured):
    registered = content_of(
        structured, "register_mcp_server", {"server_name": "work", "server_params": WORK}
    )
    assert {"add", "echo"} <= {module["name"] for module in registered["modules"]}
    described = content_of(structured, "describe_tools", {"names": ["work.add", "work.x"]})
    assert [(tool["server"], tool["module"]) for tool in described["tools"]] == [("work", "add")]
    assert described["found"] == 1 and "work.x" in described["notes"][0]
    assert content_of(structured, "reset")["message"].startswith("The kernel was reset")
    assert "pip" in content_of(structured, "install_package", {"package_name": "pip"})["output"]
    failed = structured.tool("install_package", {"package_name": 5})
    assert failed["isError"] and "structuredContent" not in failed


def test_annotations(mcp):
    for tool in tools_of(mcp).values():
        hints = tool["annotations"]
        assert tool["title"] == hints["title"]
        assert all(
            isinstance(hints[hint], bool)
            for hint in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
        )
    assert tools_of(mcp)["execute_ipython_cell"]["annotations"]["destructiveHint"] is True
    assert tools_of(mcp)["describe_tools"]["annotations"]["readOnlyHint"] is True


def test_server_has_an_icon(ipybox, place):
    with McpServer(ipybox, place, initialize=False) as server:
        (icon,) = server.initialize()["serverInfo"]["icons"]
        assert icon["src"].startswith("data:image/svg+xml;base64,")


def test_tools_are_chosen(ipybox, place, run_ipybox):
    with McpServer(
        ipybox, place, "--tools", "execute_ipython_cell,reset", initialize=False
    ) as server:
        instructions = server.initialize()["instructions"]
        assert "describe_tools" not in instructions and "register_mcp" not in instructions
        assert list(tools_of(server)) == ["execute_ipython_cell", "reset"]
        refused = server.tool("describe_tools")
        assert refused["isError"] and "Unknown tool" in refused["content"][0]["text"]
        assert server.cell("1 + 1") == "2"
    done = run_ipybox("mcp", "--tools", "reset,nothing")
    assert done.returncode == 2
    assert "--tools: there is no tool nothing; the tools are register_mcp_server," in done.stderr


def test_a_registration_names_no_tool_that_is_not_offered(ipybox, place):
    many = scripted_server.params("results", "many-tools=1200")
    with McpServer(ipybox, place, "--tools", "register_mcp_server") as server:
        result = server.tool("register_mcp_server", {"server_name": "many", "server_params": many})
        last = result["content"][0]["text"].splitlines()[-1]
        assert "mcptools.search" in last and "describe_tools" not in last


def test_a_cell_that_waits_reports_it(mcp, workspace):
    os.mkfifo(workspace / "gate")
    first = mcp.start_tool("execute_ipython_cell", {"code": "open('gate').read()"}, token="a")
    second = mcp.start_tool("execute_ipython_cell", {"code": "2"}, token="b")
    while not [note for note in mcp.notifications if note["params"].get("progressToken") == "b"]:
        mcp.receive()
    (note,) = mcp.notifications
    assert note["params"]["message"] == "[ipybox] waiting for a previous cell to end\n"
    (workspace / "gate").write_text("open")
    assert mcp.answer(first)["result"]["content"][0]["text"] == "'open'"
    assert mcp.answer(second)["result"]["content"][0]["text"] == "2"


def test_a_waiting_cell_can_be_cancelled(mcp, workspace):
    os.mkfifo(workspace / "gate")
    first = mcp.start_tool("execute_ipython_cell", {"code": "open('gate').read()"})
    second = mcp.start_tool("execute_ipython_cell", {"code": "x = 2"}, token="b")
    mcp.notify("notifications/cancelled", {"requestId": second})
    (workspace / "gate").write_text("open")
    mcp.answer(first)
    assert mcp.cell("'x' in globals()") == "False"
