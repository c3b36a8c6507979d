# SPDX-License-Identifier: Apache-2.0
"""Short descriptions of tools: signatures and stubs."""

from __future__ import annotations

import ast
import json
import random

import pytest
from apigen_package import LISTS, tell, tool
from random_schemas import Schemas, make_nonsense

SEARCH = {
    "name": "search-repos",
    "description": "Find repositories.\n\nMore text.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to find."},
            "sort": {"enum": ["stars", "forks"], "default": "stars"},
            "from": {"type": ["integer", "null"], "minimum": 1},
            "page": {"type": "number"},
            "since": {"type": "string", "format": "date", "description": "The first day."},
            "ids": {
                "type": "array",
                "uniqueItems": True,
                "items": {"type": "string", "format": "uuid"},
            },
            "filters": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"key": {"type": "string"}, "value": {}},
                    "required": ["key"],
                },
            },
            "many": {"enum": [f"v{n}" for n in range(100)]},
        },
        "required": ["query"],
        "dependentRequired": {"page": ["sort"]},
    },
    "outputSchema": {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"id": {"type": "integer"}}},
            }
        },
        "required": ["items"],
    },
}

SIGNATURE = (
    'def run(*, query: str, sort: Literal["stars", "forks"] = "stars", from_: int | None = '
    "None, page: float | None = None, since: str | None = None, ids: list[str] | None = "
    "None, "
    'filters: list[{"key": str, "value?": Any}] | None = None, many: str | None = None) -> '
    "Result(items=list[Item(id=int | None)]): ...  # srv.search_repos: Find repositories.\n"
)

STUB = """\
# srv.search_repos
class Filter:
    key: str
    value: Any = None
class Params:  # dependentRequired: {"page": ["sort"]}
    query: str  # What to find.
    sort: Literal["stars", "forks"] = "stars"
    from_: int | None = None
    page: float | None = None
    since: str | None = None  # The first day. (format: date)
    ids: list[str] | None = None  # Items: format: uuid; uniqueItems: true
    filters: list[Filter] | None = None
    many: str | None = None
class Item:
    id: int | None = None
class Result:
    items: list[Item]
def run(params: Params | None = None, **fields) -> Result: ...  # Find repositories.
"""


def check_signatures(text: str) -> None:
    """Valid Python, one function a line. Required parameters come first and have no default."""
    functions = ast.parse(text).body
    assert [function.lineno for function in functions] == list(range(1, len(text.splitlines()) + 1))
    for function in functions:
        assert (
            isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
            and function.args.args == []
        )
        defaults = [default is not None for default in function.args.kw_defaults]
        assert defaults == sorted(defaults)
        for argument, default in zip(
            function.args.kwonlyargs, function.args.kw_defaults, strict=True
        ):
            if isinstance(default, ast.Constant) and default.value is None:
                annotation = ast.unparse(argument.annotation)
                assert annotation == "Any" or annotation.endswith("None"), annotation


def test_required_parameters_come_first(workspace):
    spec = tool(
        {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"type": "integer", "default": 5},
            "d": {},
        },
        required=["b", "d"],
    )
    assert (
        tell(workspace, [spec], "--signatures")
        == "def run(*, b: int, d: Any, a: str | None = None, c: int = 5) -> str: ...  # srv.do\n"
    )


def test_signature(workspace):
    assert tell(workspace, [SEARCH], "--signatures") == SIGNATURE


def test_stub(workspace):
    assert tell(workspace, [SEARCH], "--stubs").rstrip("\n") == STUB.rstrip("\n")
    assert (workspace / "srv/search_repos.py").exists()


def test_async(workspace):
    assert tell(workspace, [SEARCH], "--signatures", "--async").startswith(
        "async def run(*, query: "
    )
    assert "\nasync def run(" in tell(workspace, [SEARCH], "--stubs", "--async")


def test_tools_without_anything(workspace):
    tools = [
        {"name": "a"},
        {
            "name": "b",
            "outputSchema": {"type": "array", "items": {"type": "string"}},
            "description": "",
        },
    ]
    assert (
        tell(workspace, tools, "--signatures")
        == "def run() -> str: ...  # srv.a\ndef run() -> list[str]: ...  # srv.b\n"
    )
    assert "class Params:\n    ...\nResult = list[str]\ndef run" in tell(
        workspace, tools, "--stubs"
    )


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_real_servers(workspace, path):
    tools = json.loads(path.read_text())
    signatures = tell(workspace, tools, "--signatures")
    stubs = tell(workspace, tools, "--stubs")
    assert len(signatures.splitlines()) == len(tools)
    check_signatures(signatures)
    ast.parse(stubs)
    source = sum(file.stat().st_size for file in (workspace / "srv").glob("[!_]*.py"))
    assert len(signatures.encode()) < len(stubs.encode()) < source


def test_a_summary_is_a_sentence(workspace):
    texts = [
        "Guardrails: 1. Ask the user. " + "2. Do it. " * 20,
        "Runs code, e.g. Python. " + "More of it. " * 20,
        "Of version 2. " + "x" * 200,
    ]
    tools = [{"name": f"t{number}", "description": text} for number, text in enumerate(texts)]
    lines = [
        line.split("  # ")[1].split(": ", 1)[1]
        for line in tell(workspace, tools, "--signatures").splitlines()
    ]
    assert lines[:2] == ["Guardrails: 1. Ask the user.", "Runs code, e.g. Python."]
    assert lines[2].startswith("Of version 2. xxx") and lines[2].endswith("…")


def test_hostile_texts_and_schemas(workspace):
    rng = random.Random(3)
    text = 'x"""\\\n\r\u2028\x85import os # \u202e\0 ' * 50
    wide = {
        "properties": {
            f"p{n}": {
                "type": "object",
                "properties": {f"q{m}": {"description": text} for m in range(50)},
            }
            for n in range(300)
        }
    }
    tools = [
        {
            "name": f"t{n}",
            "description": text,
            "inputSchema": Schemas(n).parameters()[0],
            "outputSchema": make_nonsense(rng),
        }
        for n in range(100)
    ]
    tools += [
        {"name": text, "inputSchema": wide, "outputSchema": wide},
        {"name": "n", "inputSchema": make_nonsense(rng)},
    ]
    recursive = {
        "properties": {
            "r": {"$ref": "#"},
            "d": {"default": text, "type": "string"},
            "e": {"enum": [text, "\ud800"]},
        }
    }
    tools.append({"name": "r", "inputSchema": recursive, "outputSchema": recursive})
    text = json.dumps(tools).replace("Infinity", "1e400").encode()
    stubs = tell(workspace, text, "--stubs")
    ast.parse(stubs)
    assert all(
        isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.Assign))
        for node in ast.parse(stubs).body
    )
    signatures = tell(workspace, text, "--signatures")
    check_signatures(signatures)
    assert (
        len(signatures.splitlines()) == len(tools) and max(map(len, signatures.splitlines())) < 6000
    )
    assert not set(stubs + signatures) & set("\r\0\u2028\x85\u202e")
