# SPDX-License-Identifier: Apache-2.0
"""list_variables: what the user's variables are, without running code of the user."""

from __future__ import annotations

import os

from mcp_driver import McpServer

# Each of these would run, if anything asked the value instead of its type.
HOSTILE = """\
import os
def trap(*args, **kwargs):
    open('trapped', 'a').write('x')
    os._exit(1)
class Meta(type):
    __name__ = property(trap)
    __module__ = property(trap)
    __getattribute__ = trap
class Bad(metaclass=Meta):
    __repr__ = __str__ = __len__ = __iter__ = __eq__ = __hash__ = __getattribute__ = trap
    shape = property(trap)
class Text(str):
    __repr__ = __len__ = __getitem__ = trap
class List(list):
    __repr__ = __len__ = __iter__ = trap
class ndarray:
    __module__ = 'numpy'
    shape = property(trap)
bad, text, items, array = Bad(), Text('x'), List(), ndarray()
nested = [bad, {1: text}, items, (array,)]
"""


def variables(mcp: McpServer) -> dict[str, tuple]:
    """(type, size, value) of each."""
    result = mcp.tool("list_variables")
    assert not result["isError"], result
    found = result["structuredContent"]["variables"]
    lines = result["content"][0]["text"].splitlines()
    assert all(
        line.startswith(f"{each['name']}: ") for line, each in zip(lines, found, strict=False)
    )
    return {each["name"]: (each["type"], each["size"], each["value"]) for each in found}


def test_types_sizes_and_values(mcp):
    assert mcp.tool("list_variables")["content"][0]["text"] == "There are no variables."
    mcp.cell(
        "import numpy as np, pandas as pd\n"
        "number, none, text, data = -5, None, 'a\\nb', b'\\0'\n"
        "items, pair, names = [1, 'x', [2]], (), {'k': {1: 2}, 'l': print}\n"
        "array, frame = np.zeros((3, 4)), pd.DataFrame({'a': [1, 2]})\n"
        "column = frame['a']\n"
        "huge, long, many = 10**10_000, 'x' * 10**6, range(10)\n"
        "_hidden = 1\n"
    )
    assert variables(mcp) == {
        "np": ("module", None, None),
        "pd": ("module", None, None),
        "number": ("int", None, "-5"),
        "none": ("NoneType", None, "None"),
        "text": ("str", "3", "'a\\nb'"),
        "data": ("bytes", "1", "b'\\x00'"),
        "items": ("list", "3", "[1, 'x', […]]"),
        "pair": ("tuple", "0", "()"),
        "names": ("dict", "2", "{'k': {…}, 'l': <builtin_function_or_method>}"),
        "array": ("numpy.ndarray", "(3, 4)", None),
        "frame": variables(mcp)["frame"],
        "column": variables(mcp)["column"],
        "huge": ("int", None, "<int of 33220 bits>"),
        "long": ("str", "1000000", "'" + "x" * 99 + "…"),
        "many": ("range", "10", "range(0, 10, 1)"),
    }
    frame, column = variables(mcp)["frame"], variables(mcp)["column"]
    assert frame[0].endswith(".DataFrame") and frame[1:] == ("(2, 1)", None)
    assert column[0].endswith(".Series") and column[1:] == ("(2,)", None)
    assert mcp.cell("(number, 'x' in globals(), In[-1][:7])").startswith("(-5, False")


def test_no_code_of_the_user_runs(mcp, workspace):
    mcp.cell(HOSTILE)
    found = variables(mcp)
    assert found["bad"] == ("Bad", None, None)
    assert found["text"] == ("Text", None, None)
    assert found["items"] == ("List", None, None)
    assert found["array"] == ("numpy.ndarray", None, None)
    assert found["nested"] == ("list", "4", "[<Bad>, {…}, <List>, (…)]")
    assert not (workspace / "trapped").exists()


def test_many_variables_and_long_names(mcp):
    mcp.cell("globals().update({f'v{i}': i for i in range(700)})\nglobals()['n' * 10_000] = 1")
    result = mcp.tool("list_variables")
    content = result["structuredContent"]
    assert len(content["variables"]) == 500 and content["left_out"] == 201
    text = result["content"][0]["text"]
    assert text.endswith("[201 more variables are left out]") and len(text) < 20_000
    mcp.cell("globals().clear()\nglobals()[5] = 1\nglobals()['\\x1b[31m' + 'n' * 10_000] = 1")
    (name,) = variables(mcp)
    assert len(name) <= 110 and "\x1b" not in name


def test_a_busy_kernel(mcp, workspace):
    """The answer comes while the cell runs; later ones work again."""
    os.mkfifo(workspace / "gate")
    cell = mcp.start_tool(
        "execute_ipython_cell", {"code": "print('begun')\nx = open('gate').read()"}, token="t"
    )
    while not mcp.notifications:  # the cell runs
        mcp.receive()
    result = mcp.tool("list_variables")
    assert result["isError"] and "busy with a cell" in result["content"][0]["text"]
    (workspace / "gate").write_text("open")
    mcp.answer(cell)
    assert variables(mcp)["x"] == ("str", "4", "'open'")


def test_a_kernel_that_dies(mcp, workspace):
    os.mkfifo(workspace / "gate")
    cell = mcp.start_tool(
        "execute_ipython_cell", {"code": "open('gate').read()\nimport os\nos._exit(1)"}
    )
    listed = mcp.start_tool("list_variables")
    (workspace / "gate").write_text("open")
    assert mcp.answer(cell)["result"]["isError"]
    assert mcp.answer(listed)["result"]["content"][0]["text"]
    assert mcp.cell("1 + 1") == "2"
