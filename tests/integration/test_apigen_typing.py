# SPDX-License-Identifier: Apache-2.0
"""What a type checker says about programs that call generated packages, with `ipybox` installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from apigen_package import tool, write
from installed_package import check_types, install
from test_apigen import SEARCH

TOOLS = [
    SEARCH,
    tool(
        {"params": {"type": "integer"}, "from": {"type": "string"}}, name="odd", required=["params"]
    ),
    tool(
        {
            "a": {"type": "integer", "minimum": 1},
            "b": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "number", "maximum": 9}]},
        },
        name="open",
        additionalProperties={"type": "string"},
    ),
    tool(
        name="empty",
        outputSchema={
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
    ),
    tool(
        name="wrapped",
        outputSchema={
            "type": "object",
            "properties": {"result": {"type": "array", "items": {"type": "integer"}}},
            "required": ["result"],
            "x-fastmcp-wrap-result": True,
        },
    ),
]

RIGHT = """
from ipybox.tool_exec.client import ToolRunner
from ipybox.tool_exec.content import Content
from srv import empty, odd, open, search_repositories, wrapped

text: str = search_repositories.run(query="x")
text = search_repositories.run(query="x", sort="stars", order=search_repositories.Order.asc, page=1)
text = search_repositories.run(params=search_repositories.Params(query="x"))
contents: list[Content] = search_repositories.run(search_repositories.Params(query="x")).contents
data: bytes = contents[0].data
odd.run(params=5, from_="x")
odd.run(odd.Params(params=5))
open.run(a=1, b=2.5, other="x")
n: int = empty.run().n
n = len(empty.run(empty.Params()).contents)
text = empty.run().text
numbers: list[int] = wrapped.run()
n = wrapped.run()[0]
numbers = wrapped.run().result
text = wrapped.run().text


async def call(runner: ToolRunner) -> str:
    return (await runner.call("tool", {})).text
"""

WRONG = {
    'search_repositories.run(qeury="x")': "call-overload",
    "search_repositories.run()": "call-overload",
    "search_repositories.run(query=5)": "call-overload",
    'search_repositories.run(query="x", sort="size")': "call-overload",
    'search_repositories.run({"query": "x"})': "call-overload",
    'search_repositories.run(search_repositories.Params(query="x"), page=1)': "call-overload",
    'odd.run(params="x")': "call-overload",
    'odd.run(from_="x")': "call-overload",
    "open.run(other=1)": "call-overload",
    "empty.run(a=1)": "call-overload",
    "empty.run().m": "attr-defined",
    'wrapped.run()[0] + "x"': "operator",
}


@pytest.mark.parametrize("options", [(), ("--async",)], ids=["sync", "async"])
def test_programs(workspace: Path, tmp_path: Path, options: tuple[str, ...]):
    write(workspace, TOOLS, *options)
    wrong = list(WRONG)
    right = RIGHT
    if options:
        wrong = [
            f"await {call}"
            if ")." not in call and ")[" not in call
            else re.sub(r"^(\w+\.run\(\))", r"(await \1)", call)
            for call in wrong
        ]
        right = "\n".join(
            re.sub(r"((?:\w+)\.run\((?:[^()]|\([^()]*\))*\))", r"(await \1)", line)
            for line in RIGHT.splitlines()
        )
        body = right.split("\n\n\nasync def call")[0].split("\n\n", 1)
        right = (
            body[0]
            + "\n\nasync def main() -> None:\n"
            + "".join(f"    {line}\n" for line in body[1].splitlines())
        )
    (workspace / "right.py").write_text(right)
    imports = "from srv import empty, odd, open, search_repositories, wrapped\n"
    (workspace / "wrong.py").write_text(
        imports + "async def main() -> None:\n" + "".join(f"    {call}\n" for call in wrong)
    )
    done = check_types(install(tmp_path), workspace)
    errors = re.findall(r"^(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    found = {(name, int(line), code) for name, line, code in errors}
    assert found == {("wrong", 3 + number, code) for number, code in enumerate(WRONG.values())}, (
        done.stdout
    )
