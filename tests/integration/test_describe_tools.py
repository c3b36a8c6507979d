# SPDX-License-Identifier: Apache-2.0
"""What a model reads about registered tools: answers of register_mcp_server, describe_tools, the
instructions, and mcptools in cells."""

from __future__ import annotations

import ast
import os

import pytest
import scripted_server
from mcp_driver import McpServer

WORK = scripted_server.params("work")


def text_of(result: dict) -> str:
    (block,) = result["content"]
    return block["text"]


def register(mcp: McpServer, name: str, params: dict) -> str:
    result = mcp.tool("register_mcp_server", {"server_name": name, "server_params": params})
    assert not result["isError"], result
    return text_of(result)


def describe(mcp: McpServer, **arguments) -> str:
    result = mcp.tool("describe_tools", arguments)
    assert not result["isError"], result
    return text_of(result)


def test_the_answer_to_a_registration_has_a_line_for_each_tool(mcp):
    text = register(mcp, "work", WORK)
    ast.parse(text)
    lines = text.splitlines()
    assert any(line.startswith("def run(*, ") and "  # work.add: " in line for line in lines)
    assert all(": ...  # work." in line for line in lines)
    assert describe(mcp) == text


def test_a_long_list_says_what_was_left_out(mcp):
    text = register(mcp, "many", scripted_server.params("results", "many-tools=1200"))
    *lines, last = text.splitlines()
    assert 10 < len(lines) < 1200 and len(text) < 20_000
    ast.parse("\n".join(lines))
    assert last.startswith("[The signatures of ") and "describe_tools(query=" in last
    listed = describe(mcp)
    assert len(listed) < 40_000
    assert "tools are shown: ask for fewer" in listed.splitlines()[-1]


def test_names_queries_and_details(mcp):
    register(mcp, "work", WORK)
    register(mcp, "other", WORK)
    assert "# work.add: " in describe(mcp, names=["work.add"])
    assert describe(mcp, names=["add"]).count("\n") == 1
    assert describe(mcp, names="other").count("# other.") == describe(mcp).count("# other.")
    stub = describe(mcp, names=["work.add"], detail="stubs")
    assert stub.startswith("# work.add\nclass Params:\n") and stub.endswith("  # Does add.")
    full = describe(mcp, query="add", names=["work"], detail="full")
    assert full.startswith("# work.add\n") and '"""Does add."""' in full
    assert describe(mcp, names=["work.ad"]) == (
        "No tool was found among " + str(describe(mcp).count("def run(")) + ".\n"
        '[no tool has the name "work.ad", did you mean add?]'
    )
    for wrong in ({"names": [1]}, {"names": ["x"] * 101}, {"detail": "all"}, {"query": "x" * 3000}):
        assert mcp.tool("describe_tools", wrong)["isError"]


def test_it_answers_while_a_cell_runs(mcp, workspace):
    register(mcp, "work", WORK)
    os.mkfifo(workspace / "gate")
    cell = mcp.start_tool("execute_ipython_cell", {"code": "open('gate').read()"})
    assert "# work.add: " in describe(mcp, query="add")
    (workspace / "gate").write_text("open")
    assert mcp.answer(cell)["result"]["isError"] is False


def test_only_registered_packages_are_described(mcp, workspace):
    register(mcp, "work", WORK)
    catalog = (workspace / "mcptools/work/.tools.jsonl").read_text()
    other = workspace / "mcptools/other"
    other.mkdir()
    (other / ".tools.jsonl").write_text(catalog)
    assert describe(mcp, names=["other"]).startswith("No tool was found")


@pytest.mark.parametrize("kind", ["link", "fifo", "missing", "garbage"])
def test_a_bad_catalog_is_reported(mcp, workspace, kind):
    register(mcp, "work", WORK)
    catalog = workspace / "mcptools/work/.tools.jsonl"
    (workspace / "secret").write_text(catalog.read_text())
    catalog.unlink()
    if kind == "link":
        catalog.symlink_to(workspace / "secret")
    elif kind == "fifo":
        os.mkfifo(catalog)
    elif kind == "garbage":
        catalog.write_text("\x1b[31m{")
    text = describe(mcp)
    assert text.startswith("No tool was found among 0.\n[not described: work: ")
    assert "\x1b" not in text


def test_instructions_name_what_is_offered(ipybox, place):
    with McpServer(ipybox, place, initialize=False) as server:
        text = server.initialize()["instructions"]
        assert "register_mcp_server" in text and "ready" not in text
        register(server, "work", WORK)
    with McpServer(ipybox, place, "--no-register", initialize=False) as server:
        text = server.initialize()["instructions"]
        assert "register_mcp_server" not in text
        assert "These packages are ready: mcptools.work." in text


def test_many_packages_in_the_instructions(ipybox, place):
    """--servers: they are ready before the first cell. The list is bounded."""
    servers = {f"s{i:02}": {"command": "false"} for i in range(30)}
    (place.workspace / "servers.json").write_text(str({"mcpServers": servers}).replace("'", '"'))
    with McpServer(
        ipybox, place, "--servers", "servers.json", "--no-register", initialize=False
    ) as server:
        text = server.initialize()["instructions"]
    assert "mcptools.s00, mcptools.s01," in text
    assert "mcptools.s19 and 10 more." in text and "s20" not in text


# Inside cells


def test_search_and_describe_in_cells(mcp):
    register(mcp, "work", WORK)
    assert mcp.cell("import mcptools\nmcptools.search('add')") == describe(mcp, query="add")
    assert mcp.cell("mcptools.search(limit=1)").endswith(
        "tools are shown: use more words, or limit=…]"
    )
    for detail in ("full", "stubs", "signatures"):
        assert mcp.cell(f"mcptools.describe('work.add', {detail!r})") == describe(
            mcp, names=["work.add"], detail=detail
        )
    assert "did you mean work.add" in mcp.failing_cell("mcptools.describe('work.ad')")
    assert "no tool has the name" in mcp.failing_cell("mcptools.describe('')")


def test_help_is_short(mcp):
    register(mcp, "work", WORK)
    text = mcp.cell("from mcptools.work import add\nhelp(add)")
    assert text == describe(mcp, names=["work.add"], detail="full")
    assert mcp.cell("import mcptools\nhelp(mcptools.work)") == describe(mcp)
    assert mcp.cell("help(mcptools)").endswith("Packages: work")
    assert "Return the number of items" in mcp.cell("help(len)")


def test_a_server_named_search(mcp):
    """The package of a server wins over the function."""
    register(mcp, "search", WORK)
    assert mcp.cell("from mcptools.search import add\nadd.run(a=1, b=2).sum") == "3"
    assert mcp.cell(
        "import mcptools\nprint(mcptools.search.__name__, callable(mcptools.describe))"
    ) == ("mcptools.search True")


def test_users_own_package_is_left_alone(mcp, workspace):
    (workspace / "mcptools").mkdir()
    (workspace / "mcptools/__init__.py").write_text("search = 5\n")
    assert mcp.cell("import mcptools\n(mcptools.search, hasattr(mcptools, 'describe'))") == (
        "(5, False)"
    )


def test_packages_of_later_registrations_are_found(mcp):
    register(mcp, "work", WORK)
    mcp.cell("import mcptools")
    register(mcp, "later", WORK)
    assert "# later.add: " in mcp.cell("mcptools.search('add')")
