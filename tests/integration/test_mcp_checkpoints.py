# SPDX-License-Identifier: Apache-2.0
"""The MCP tools checkpoint, restore, undo and branch, which are offered if the user names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mcp_driver import McpServer

TOOLS = ["execute_ipython_cell", "reset", "checkpoint", "restore", "undo", "branch"]
MORE = ["list_sessions", "close_session"]


@pytest.fixture(params=[(), ("--sandbox",)], ids=["plain", "sandbox"])
def mcp(request, ipybox, place) -> Iterator[McpServer]:
    names = ",".join(TOOLS + MORE)
    with McpServer(ipybox, place, "--tools", names, *request.param) as server:
        yield server


def text(result: dict) -> str:
    return result["content"][0]["text"]


def cell(mcp: McpServer, code: str, **arguments) -> str:
    return text(mcp.tool("execute_ipython_cell", {"code": code, **arguments}))


def fails(mcp: McpServer, tool: str, **arguments) -> str:
    result = mcp.tool(tool, arguments)
    assert result["isError"]
    return text(result)


def test_offered_if_named(ipybox, place):
    with McpServer(ipybox, place) as mcp:
        mcp.initialize()
        names = {tool["name"] for tool in mcp.answer(mcp.request("tools/list"))["result"]["tools"]}
        assert names.isdisjoint({"checkpoint", "restore", "undo", "branch"})
        assert "execute_ipython_cell" in names
        assert "Unknown tool: undo" in text(mcp.tool("undo", {}))


def test_checkpoint_and_restore(mcp):
    cell(mcp, "x = 1")
    made = mcp.tool("checkpoint", {"name": "one"})
    assert made["structuredContent"] == {"checkpoint": "one", "warnings": []}
    assert text(made) == 'The checkpoint "one" keeps the state of the kernel.'
    for _ in range(2):
        cell(mcp, "x += 1")
        assert cell(mcp, "x") == "2"
        assert text(mcp.tool("restore", {"name": "one"})).startswith("The kernel has its earlier")
    assert cell(mcp, "x") == "1"
    made = mcp.tool("checkpoint", {"drop": "one"})
    name = made["structuredContent"]["checkpoint"]
    assert name == "checkpoint-2"
    assert 'no checkpoint "one"; the checkpoints are: checkpoint-2' in fails(
        mcp, "restore", name="one"
    )
    assert "there is a checkpoint" in fails(mcp, "checkpoint", name=name)
    assert "name must be the name" in fails(mcp, "restore")
    assert "name must be the name" in fails(mcp, "checkpoint", name=1)
    mcp.tool("reset", {})
    assert "there are none" in fails(mcp, "restore", name=name)


def test_restore_after_death(mcp):
    cell(mcp, "x = 1")
    mcp.tool("checkpoint", {"name": "one"})
    assert mcp.tool("execute_ipython_cell", {"code": "import os; os._exit(3)"})["isError"]
    mcp.tool("restore", {"name": "one"})
    assert cell(mcp, "x") == "1"


def test_undo(mcp):
    assert cell(mcp, "1") == "1"  # without a notice: the kernel is started for the checkpoint
    for number in range(4):
        cell(mcp, f"x = {number}")
    mcp.tool("undo", {})
    assert cell(mcp, "x") == "2"
    mcp.tool("undo", {"cells": 2})
    assert cell(mcp, "x") == "1"
    assert "cells can be undone now, not 20" in fails(mcp, "undo", cells=20)
    for wrong in (0, 101, "x"):
        assert "cells must be an integer from 1 to 100" in fails(mcp, "undo", cells=wrong)


def test_branch(mcp):
    cell(mcp, "x = 1")
    mcp.tool("checkpoint", {"name": "one"})
    cell(mcp, "x = 2")
    now = mcp.tool("branch", {})["structuredContent"]
    then = mcp.tool("branch", {"checkpoint": "one"})["structuredContent"]
    assert (now["warnings"], then["warnings"]) == ([], [])
    ids = [now["session_id"], then["session_id"]]
    assert [cell(mcp, "x += 10; x", session_id=id) for id in ids] == ["12", "11"]
    assert cell(mcp, "x") == "2"
    listed = mcp.tool("list_sessions", {})["structuredContent"]["sessions"]
    assert [each["session_id"] for each in listed if not each["is_default"]] == ids
    assert mcp.tool("branch", {"session_id": ids[1], "checkpoint": "one"})["isError"]
    mcp.tool("close_session", {"session_id": ids[0]})
    assert cell(mcp, "x", session_id=ids[1]) == "11"


def test_refusals(mcp):
    assert "no kernel process" in fails(mcp, "branch", session_id="new")
    cell(mcp, "import threading; end = threading.Event()")
    cell(mcp, "t = threading.Thread(target=end.wait, name='worker', daemon=True); t.start()")
    for tool in ("checkpoint", "branch"):
        assert "the thread worker runs" in fails(mcp, tool)
    sessions = mcp.tool("list_sessions", {})["structuredContent"]["sessions"]
    assert len(sessions) == 2  # the branch that failed is gone
    mcp.tool("undo", {})
    assert cell(mcp, "'t' in globals()") == "False"
