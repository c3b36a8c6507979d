# SPDX-License-Identifier: Apache-2.0
"""Saved code actions and output parsers: `ipybox actions`, describe_tools, and in cells."""

from __future__ import annotations

import json
import os
from pathlib import Path

import harness
import pytest
import scripted_server

WORK = scripted_server.params("work")
API = '''\
from pydantic import BaseModel


class Sum(BaseModel):
    value: int


def run(
    numbers: list[int],
    *,
    start: int = 0,  # where to begin
) -> Sum:
    """Adds numbers with the tool add.

    One call for each.
    """
    from .impl import total

    return Sum(value=total(numbers, start))
'''
IMPL = """\
from mcptools.work import add


def total(numbers: list[int], start: int) -> int:
    for number in numbers:
        start = add.run(a=start, b=number).sum
    return start
"""
LINE = (
    "def run(numbers: list[int], *, start: int = 0) -> Sum: ...  "
    "# gentools.maths.total: Adds numbers with the tool add."
)
# What a model appends to a generated module that has no result type of its own.
PARSER = '''

class ParseResult(Model):
    total: int


def run_parsed(params: Params) -> ParseResult:
    """The sum alone."""
    return ParseResult(total=run(params).sum)
'''
PARSER_LINE = "def run_parsed(params: Params) -> ParseResult: ...  # {}: The sum alone."


def save(workspace: Path, name: str, **sources: str) -> Path:
    """Writes an action: its api, impl and test."""
    category, _, action = name.partition(".")
    directory = workspace / "gentools" / category / action
    directory.mkdir(parents=True, exist_ok=True)
    for module, source in {"__init__": "from .api import run\n", **sources}.items():
        (directory / f"{module}.py").write_text(source)
    return directory


def describe(mcp, **arguments) -> str:
    result = mcp.tool("describe_tools", arguments)
    assert not result["isError"], result
    (block,) = result["content"]
    return block["text"]


def test_an_action_is_described_and_used(mcp, workspace):
    mcp.register("work", WORK)
    save(workspace, "maths.total", api=API, impl=IMPL)
    assert describe(mcp).splitlines()[0] == LINE
    assert describe(mcp, query="total") == LINE
    for name in ("total", "gentools.maths", "gentools.maths.total"):
        assert describe(mcp, names=[name]) == LINE
    assert "did you mean total?" in describe(mcp, names=["gentools.maths.totl"])
    whole = f"# gentools.maths.total\n{API}".rstrip()
    for detail in ("stubs", "full"):
        assert describe(mcp, names=["total"], detail=detail) == whole
        assert mcp.cell(
            f"import mcptools\nmcptools.describe('gentools.maths.total', {detail!r})"
        ) == describe(mcp, names=["total"], detail=detail)
    assert mcp.cell("mcptools.search('total')") == LINE
    assert mcp.cell("from gentools.maths.total import run\nrun([1, 2, 3], start=4)") == (
        "Sum(value=10)"
    )


def test_actions_without_a_server(mcp, workspace):
    assert describe(mcp) == "No MCP server is registered in this workspace."
    save(workspace, "text.shout", api="def run(text): return text.upper()\n")
    assert describe(mcp) == "def run(text): ...  # gentools.text.shout"
    assert mcp.cell("from gentools.text.shout import run\nrun('a')") == "'A'"


def test_instructions_mention_them(ipybox, place, workspace):
    from mcp_driver import McpServer

    with McpServer(ipybox, place, initialize=False) as server:
        assert "gentools" not in server.initialize()["instructions"]
    save(workspace, "text.shout", api="def run(text): ...\n")
    with McpServer(ipybox, place, "--no-register", initialize=False) as server:
        text = server.initialize()["instructions"]
    assert "saved before are in gentools" in text and "describe_tools" in text
    assert "ready" not in text


@pytest.mark.parametrize("place_of_parser", ["module", "mcpparse"])
def test_a_parser_is_described(mcp, workspace, place_of_parser):
    mcp.register("work", WORK)
    before = {
        detail: describe(mcp, names=["work.add"], detail=detail)
        for detail in ("signatures", "stubs", "full")
    }
    if place_of_parser == "module":
        module, where = workspace / "mcptools/work/add.py", "work.add"
        module.write_text(module.read_text() + PARSER)
        source = PARSER
    else:
        where = "mcpparse.work.add"
        source = "from mcptools.work.add import Model, Params, run\n" + PARSER
        module = workspace / "mcpparse/work/add.py"
        module.parent.mkdir(parents=True)
        module.write_text(source)
    mcp.tool("reset")
    line = PARSER_LINE.format(where)
    assert describe(mcp, names=["work.add"]) == f"{before['signatures']}\n{line}"
    for detail in ("stubs", "full"):
        assert describe(mcp, names=["work.add"], detail=detail) == (
            f"{before[detail]}\n\n# Its output parser, in {where}:\n{source.strip()}"
        )
    for detail in before:
        assert mcp.cell(f"import mcptools\nmcptools.describe('work.add', {detail!r})") == describe(
            mcp, names=["work.add"], detail=detail
        )
    package = "mcptools" if place_of_parser == "module" else "mcpparse"
    assert (
        mcp.cell(
            "from mcptools.work.add import Params\n"
            f"from {package}.work.add import run_parsed\nrun_parsed(Params(a=1, b=2)).total"
        )
        == "3"
    )
    # Its implementation alone, as in ipybox 0.9, is no interface.
    if place_of_parser == "mcpparse":
        module.write_text("def parse(result): ...\n")
        assert describe(mcp, names=["work.add"]) == before["signatures"]


def test_cells_read_sources_as_the_core_does(mcp, workspace):
    """The corpus of the fuzz target: the core and the kernel find the same signatures."""
    mcp.register("work", WORK)
    corpus = harness.ROOT / "tests/fuzz/corpus/python-function"
    names = sorted(path.name for path in corpus.iterdir())
    for name in names:
        save(workspace, f"fuzz.{name}", api=(corpus / name).read_text())
    shown = describe(mcp, names=["gentools.fuzz"])
    assert shown.count("gentools.fuzz.") >= len(names) - 1
    lines = [line for line in shown.splitlines() if not line.startswith("[")]
    assert mcp.cell("import mcptools\nmcptools.describe('gentools.fuzz', 'signatures')") == (
        "\n\n".join(lines)
    )


def test_hostile_actions_are_reported(mcp, workspace, place):
    mcp.register("work", WORK)
    (place.home / "secret.py").write_text("def run(secret): ...\n")
    save(workspace, "a.link").joinpath("api.py").symlink_to(place.home / "secret.py")
    os.mkfifo(save(workspace, "a.fifo") / "api.py")
    save(workspace, "a.none")
    save(workspace, "a.norun", api="def walk(): ...\n")
    save(workspace, "a.huge", api="#" * (300 << 10))
    (save(workspace, "a.bytes") / "api.py").write_bytes(b"def run(): '\xff'\n")
    save(workspace, "a.fine", api="def run(x='\x1b[31m'): ...\n")
    save(workspace, "a.not-a-name", api="def run(hidden): ...\n")
    (workspace / "gentools/elsewhere").symlink_to(place.home)
    text = describe(mcp, query="gentools")
    lines = text.splitlines()
    assert lines[0].startswith("def run(x='") and "\x1b" not in text
    assert "secret" not in text and "hidden" not in text
    reported = [line.split(": ")[1] for line in lines if line.startswith("[not described: g")]
    names = ("a.bytes", "a.fifo", "a.huge", "a.link", "a.none")
    assert reported == [f"gentools.{name}" for name in names]
    assert lines[-1] == "[not described: 2 more]"


# `ipybox actions`


def test_list(run_ipybox, workspace):
    empty = run_ipybox("actions")
    assert (empty.returncode, empty.stdout) == (0, "") and "no code action" in empty.stderr
    save(workspace, "maths.total", api=API, impl=IMPL)
    listed = run_ipybox("actions", "list")
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, LINE + "\n", "")
    save(workspace, "maths.wrong", api="x = 1\n")
    faulty = run_ipybox("actions", "--json", "--workspace", str(workspace))
    assert json.loads(faulty.stdout) == [{"name": "gentools.maths.total", "signature": LINE}]
    assert faulty.returncode == 1
    assert faulty.stderr == (
        "ipybox actions: gentools.maths.wrong: its api.py has no function run()\n"
    )


def test_test(run_ipybox, workspace, place):
    params = json.dumps(WORK)
    made = run_ipybox("apigen", "--server-name", "work", "--server-params", params,
                      "--root-dir", "mcptools")  # fmt: skip
    assert made.returncode == 0, made.stderr
    outside = place.home / "outside"
    save(
        workspace,
        "maths.total",
        api=API,
        impl=IMPL,
        test="from .api import run\n\n\nasync def test_sum():\n    assert run([1, 2]).value == 3\n",
    )
    assert run_ipybox("actions", "test", "maths.total", "--approve", "allow").stdout == (
        "ok     gentools.maths.total\n"
    )
    refused = run_ipybox("actions", "test", "--approve", "deny", "maths.total")
    assert refused.returncode == 1 and "FAILED gentools.maths.total: " in refused.stdout
    save(workspace, "a.writes", api="def run(): ...\n",
         test=f"def test_write():\n    open({str(outside)!r}, 'w')\n")  # fmt: skip
    save(workspace, "b.other", api="def run(): ...\n", __init__="from json import dump as run\n")
    save(workspace, "c.impl", api="def run(): ...\n", impl="import no_such_module\n")
    save(workspace, "d.fine", api="def run(): ...\n",
         test="def test_write():\n    open('inside', 'w')\n")  # fmt: skip
    done = run_ipybox("actions", "test", "--json", "--approve", "allow")
    results = {each["name"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 1
    assert [name for name, each in results.items() if each["ok"]] == [
        "gentools.d.fine",
        "gentools.maths.total",
    ]
    assert "Error: [Errno " in results["gentools.a.writes"]["error"]
    assert "test_write" in results["gentools.a.writes"]["traceback"]
    assert not outside.exists() and (workspace / "inside").exists()
    assert "is not the function run of its api.py" in results["gentools.b.other"]["error"]
    assert "no_such_module" in results["gentools.c.impl"]["error"]
    assert results["gentools.d.fine"]["error"] is None
    unknown = run_ipybox("actions", "test", "maths.none")
    assert unknown.returncode == 1 and "no action gentools.maths.none" in unknown.stderr


def test_test_ends_in_time(run_ipybox, workspace):
    save(workspace, "a.slow", api="while True: pass\ndef run(): ...\n")
    save(workspace, "b.fine", api="def run(): ...\n")
    done = run_ipybox("actions", "test", "--timeout", "2")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "ok     gentools.b.fine"
    assert done.stdout.startswith("FAILED gentools.a.slow: ")


def test_remove(run_ipybox, workspace, place):
    kept = place.home / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    action = save(workspace, "a.one", api="def run(): ...\n")
    (action / "link").symlink_to(kept)
    (workspace / "gentools/away").symlink_to(place.home)
    assert run_ipybox("actions", "remove", "gentools.a.one").returncode == 0
    assert not action.exists() and (kept / "file").exists()
    for name, status in (("a.one", 1), ("away.kept", 1), ("../x", 2), ("a", 2), ("a.b.c", 2)):
        done = run_ipybox("actions", "remove", name)
        assert done.returncode == status, done
        assert done.stderr.startswith("ipybox actions: ")
    assert (kept / "file").exists()
    assert run_ipybox("actions", "remove").returncode == 2
    assert run_ipybox("actions", "sing").returncode == 2


# In a sandbox


def test_a_cell_in_a_sandbox_saves_an_action(run_ipybox, workspace):
    """It can write gentools and mcpparse, but no generated package. denyWrite protects both."""
    files = {"gentools/a/b/api.py": "def run(): return 42\n", "mcpparse/s/t.py": "x = 1\n"}
    code = (
        "import os\n"
        f"for path, text in {files!r}.items():\n"
        "    os.makedirs(os.path.dirname(path), exist_ok=True)\n"
        "    open(path, 'w').write(text)\n"
    )
    assert run_ipybox("run", "-c", code).returncode == 0
    used = run_ipybox("run", "-c", "from gentools.a.b.api import run\nprint(run())")
    assert used.stdout == "42\n"
    config = workspace.parent / "frozen.json"
    config.write_text(
        json.dumps(
            {
                "network": {"allowedDomains": [], "deniedDomains": []},
                "filesystem": {
                    "denyRead": [],
                    "allowWrite": ["."],
                    "denyWrite": ["gentools", "mcpparse"],
                },
            }
        )
    )
    for path in files:
        frozen = run_ipybox("run", "--sandbox-config", str(config), "-c", f"open({path!r}, 'w')")
        assert frozen.returncode == 1 and "Error: " in frozen.stderr, frozen
    assert (workspace / "gentools/a/b/api.py").read_text() == files["gentools/a/b/api.py"]
    packages = run_ipybox("run", "-c", "open('mcptools/x', 'w')")
    assert packages.returncode == 1
