# SPDX-License-Identifier: Apache-2.0
"""`ipybox record`: notebooks, Markdown and HTML of records."""

from __future__ import annotations

import http.client
import json
import re
import signal
import stat
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import scripted_server
from mcp_driver import McpServer
from notebooks import comparable, executed_by_jupyter, saved_by_jupyter, valid_notebook
from server_process import jupyter_server

CELLS = [
    "print('a'); print('b')\nprint('c', end='')",
    "import sys\nprint('c', file=sys.stderr); print('d', file=sys.stderr)",
    (
        "from IPython.display import display, clear_output, HTML\n"
        "handle = display({'text/plain': 'old'}, raw=True, display_id='one')\n"
        "display({'text/plain': 'other'}, raw=True)\n40 + 2"
    ),
    "handle.update({'text/plain': 'new'}, raw=True)\nprint('after')",
    "print('gone'); clear_output(); print('kept')",
    "display({'text/plain': 'again'}, raw=True, display_id='one');",
    "for i in range(3):\n    clear_output(wait=True)\n    print(i)\n    display(i)",
    "print('stays'); clear_output(wait=True)",
    "display({'application/json': {'a': [1, {}, []]}, 'text/plain': 'x'}, raw=True)",
    "display({'text/plain': 'one\\ntwo\\n', 'text/html': '<b>one</b>'}, raw=True)",
    "'é' + '\\u2028' + '\U0001f600'",
    "print('before'); 1 / 0",
    "",
]


@pytest.fixture
def record(ipybox, place, workspace) -> Path:
    """A record of CELLS."""
    with McpServer(ipybox, place, "--record", "r.jsonl") as server:
        for cell in CELLS:
            server.tool("execute_ipython_cell", {"code": cell})
    return workspace / "r.jsonl"


def convert(run_ipybox, record: Path, name: str) -> Path:
    path = record.parent / name
    done = run_ipybox("record", str(record), "--to", str(path))
    assert done.returncode == 0 and done.stdout == done.stderr == "", done.stderr
    return path


def test_outputs_are_merged_as_jupyter_does(run_ipybox, record, place):
    """nbclient with ipykernel is the judge."""
    notebook = valid_notebook(convert(run_ipybox, record, "r.ipynb"), place)
    assert [cell["source"] for cell in notebook["cells"]] == CELLS
    ours = [comparable(cell["outputs"]) for cell in notebook["cells"]]
    theirs = [comparable(outputs) for outputs in executed_by_jupyter(CELLS, place)]
    for code, our, their in zip(CELLS, ours, theirs, strict=True):
        assert our == their, code
    assert ours[2][0] == ("display_data", {"text/plain": "again"}, None)  # of the control


def test_a_notebook_is_written_as_jupyter_writes_it(run_ipybox, record, place):
    path = convert(run_ipybox, record, "r.ipynb")
    assert saved_by_jupyter(path, place) + "\n" == path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_plot_and_a_tool_call(ipybox, run_ipybox, place, workspace):
    with McpServer(ipybox, place, "--record", "r.jsonl") as server:
        server.register("time", scripted_server.params("clock"))
        server.cell("import matplotlib.pyplot as plt\nplt.plot([1, 4, 9]);")
        server.cell(
            "from mcptools.time import get_current_time as g\ng.run(g.Params(timezone='UTC'));"
        )
    record = workspace / "r.jsonl"
    plot, call = valid_notebook(convert(run_ipybox, record, "r.ipynb"), place)["cells"]
    (shown,) = plot["outputs"]
    assert shown["data"]["image/png"].startswith("iVBOR")
    assert call["metadata"]["ipybox"]["tool_calls"] == [
        'time.get_current_time {"timezone":"UTC"}: allow by policy'
    ]
    page = convert(run_ipybox, record, "r.html").read_text()
    assert re.search(r'<img alt="&lt;Figure [^"]*&gt;" src="data:image/png;base64,iVBOR', page)
    text = convert(run_ipybox, record, "r.md").read_text()
    assert "](data:image/png;base64,iVBOR" in text
    for document in (page, text):
        assert "time.get_current_time" in document and "Tool calls" in document


def test_jupyter_opens_it(run_ipybox, record, place, workspace):
    """The server of JupyterLab, which gives a `message` about a notebook that is not valid, and
    trusts none of its outputs.
    """
    convert(run_ipybox, record, "r.ipynb")
    with jupyter_server(workspace, place.environ, "") as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/contents/r.ipynb")
        model = json.load(connection.getresponse())
        connection.close()
    assert model["type"] == "notebook" and not model.get("message")
    assert [cell["source"] for cell in model["content"]["cells"]] == CELLS
    assert not any(
        cell["metadata"]["trusted"] for cell in model["content"]["cells"] if cell["outputs"]
    )


def test_sessions(run_ipybox, workspace, place):
    """Cells of several sessions have ids of their own, and updates do not cross over."""
    code = "from IPython.display import display\n"
    shows = code + "display({'text/plain': 'first'}, raw=True, display_id='d');"
    updates = code + "display({'text/plain': 'x'}, raw=True, display_id='d', update=True);"
    for cell in (shows, updates):
        assert run_ipybox("run", "--record", "r.jsonl", "-c", cell).returncode == 0
    path = convert(run_ipybox, workspace / "r.jsonl", "r.ipynb")
    cells = valid_notebook(path, place)["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code"] * 2
    assert len({cell["id"] for cell in cells}) == 4
    assert comparable(cells[1]["outputs"]) == [("display_data", {"text/plain": "first"}, None)]


def test_a_record_of_a_killed_core(ipybox, run_ipybox, place, workspace):
    process = subprocess.Popen(
        [ipybox, "run", "--record", "r.jsonl", "-c", "print(1); import time; time.sleep(600)"],
        cwd=workspace,
        env=place.environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    path = convert(run_ipybox, workspace / "r.jsonl", "r.ipynb")
    (cell,) = valid_notebook(path, place)["cells"]
    assert comparable(cell["outputs"]) == [("stdout", "1\n")]
    assert cell["metadata"]["ipybox"]["status"] is None
    text = convert(run_ipybox, workspace / "r.jsonl", "r.md").read_text()
    assert "The record ends before the cell." in text


# Hostile output

EVIL = (
    "</pre></textarea><script>alert(1)</script><img src=x onerror=alert(1)>\"'`````"
    "\n```\n# x\x1b[31m"
)


class Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def line(type: str, **members) -> dict:
    return {"type": type, "time": "2026-11-23T03:00:00.000Z", **members}


def header(**members) -> dict:
    return line("record", **{"format": 1, "ipybox": "1.0", "session": "s", **members})


def write(path: Path, *lines: dict | str) -> Path:
    path.write_text(
        "".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines)
    )
    return path


@pytest.fixture
def evil(workspace) -> Path:
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'>{EVIL}</svg>"
    return write(
        workspace / "evil.jsonl",
        header(ipybox=EVIL, session=EVIL),
        line("cell", cell=1, code=EVIL),
        line("stdout", cell=1, text=EVIL),
        line("stderr", cell=1, text="\ud800" + EVIL),
        line("notice", text=EVIL),
        line("display", cell=1, data={"text/html": EVIL, "text/plain": EVIL}),
        line("display", cell=1, data={"image/png": 'AAAA" onerror="alert(1)', "text/plain": EVIL}),
        line("display", cell=1, data={"image/png": "AAAA", "text/plain": f"]({EVIL}"}),
        line("display", cell=1, data={"image/svg+xml": svg, EVIL: "x"}, metadata={EVIL: "\udfff"}),
        line("result", cell=1, data={"application/javascript": EVIL}, execution_count=-5),
        line("error", cell=1, ename=EVIL, evalue=EVIL, traceback=EVIL),
        line("tool_call", cell=1, server=EVIL, tool=EVIL, arguments={EVIL: EVIL}, decision=EVIL),
        line("staged", layer="layer-x"),
        line(
            "done",
            cell=1,
            status="error",
            message=EVIL,
            execution_count=2**63 - 1,
            changes=[{"path": EVIL, "kind": EVIL, "type": EVIL}, 7, {"path": "``` ````", "a": []}],
            changes_cut=EVIL,
        ),
        line("commit", layer="layer-x", result={"changes": [{"path": EVIL, "problem": EVIL}]}),
        line("discard", layer="layer-x", error=EVIL),
        line("commit", layer=EVIL, error="of another layer"),
        line("discard", layer="layer-x", result=[1]),
        line("what", cell=1, text="is not known"),
    )


def test_html_is_inert_and_accessible(run_ipybox, evil):
    page = Page(convert(run_ipybox, evil, "e.html").read_text())
    tags = {tag for tag, _ in page.tags}
    known = "html head meta title style body main h1 h2 h3 h4 p section pre img ul li code"
    assert tags <= set(known.split())
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        if tag == "img":
            source = attributes["src"] or ""
            assert re.fullmatch(r"data:image/(png|svg\+xml);base64,[A-Za-z0-9+/=]+", source)
            assert attributes["alt"]
        if tag == "pre":
            assert attributes["aria-label"] and attributes["tabindex"] == "0"
    assert dict(page.tags)["html"] == {"lang": "en"}
    policy = [a["content"] or "" for t, a in page.tags if a.get("http-equiv")]
    assert len(policy) == 1 and policy[0].startswith("default-src 'none'")
    assert [tag for tag, _ in page.tags if tag in ("h1", "h2", "h3")] == ["h1", "h2", "h3"]
    assert "<script>alert(1)</script>" in page.text  # as text
    assert "\x1b" not in page.text


def test_markdown_blocks_cannot_be_left(run_ipybox, evil):
    """Every line of a cell is within a fence, and the alternative text of an image is escaped."""
    fence, outside = "", []
    for text in convert(run_ipybox, evil, "e.md").read_text().splitlines():
        opened = re.match(r"`{3,}", text)
        if fence:
            fence = "" if text == fence else fence
        elif opened:
            fence = opened[0]
        else:
            outside.append(text)
    assert fence == ""
    assert not any("<" in re.sub(r"\\.", "", text) for text in outside), outside
    images = [text for text in outside if text.startswith("![")]
    assert len(images) == 2
    for image in images:
        plain = re.sub(r"\\.", "", image)
        assert re.fullmatch(r"!\[[^\[\]()<>`]*\]\(data:image/[a-z+]+;base64,[\w+/=]+\)", plain)


def test_a_notebook_of_hostile_output(run_ipybox, evil, place):
    cell, files = valid_notebook(convert(run_ipybox, evil, "e.ipynb"), place)["cells"]
    assert "of another layer" not in files["source"]
    assert cell["source"] == EVIL
    assert cell["outputs"][1]["text"].startswith("\ufffd")  # not a lone surrogate


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "it is empty"),
        ([line("cell", cell=1, code="x")], 'line 1: a record begins with a line of type "record"'),
        ([header(format=2)], "line 1: its format is not known"),
        ([header(), "[]"], 'line 2: it is no object with a "type"'),
        ([header(), "{}"], 'line 2: it is no object with a "type"'),
        ([header(), "{", line("cell", cell=1, code="x")], "line 2: "),
        ([header(), "{"], "line 2: "),
        ([header(), line("cell", cell=1)], 'line 2: "code" must be a string'),
        ([header(), line("cell", cell=0, code="x")], 'line 2: "cell" must be a new number'),
        ([header(), *[line("cell", cell=1, code="x")] * 2], 'line 3: "cell" must be a new number'),
        ([header(), line("stdout", cell=7, text="x")], "line 2: there is no such cell"),
        ([header(), line("cell", cell=1, code="x"), line("stdout", cell=1, text=4)], "line 3: "),
        (
            [header(), line("cell", cell=1, code="x"), line("display", cell=1, data=[])],
            'line 3: "data" must be an object',
        ),
        (
            [header(), line("cell", cell=1, code="x"), line("display", cell=1, data={"a/b": 1})],
            'line 3: "data" has a value that is not a string',
        ),
        (
            [header(), line("cell", cell=1, code="x"), line("done", cell=1, status="<b>")],
            'line 3: "status" is not known',
        ),
        ([header(), line("tools", packages=["a", 1])], 'line 2: "packages" must be an array'),
        ([header(), line("tools", packages=["a"] * 65)], 'line 2: "packages" must be an array'),
        ([header(), line("staged", layer="a/b")], 'line 2: "layer" must be a name'),
        ([header(), *[line("staged", layer="x")] * 2], 'line 3: "layer" must be a name'),
        (["[" * 100_000], "line 1: "),
    ],
)
def test_what_is_wrong_in_a_record(run_ipybox, workspace, lines, message):
    write(workspace / "r.jsonl", *lines)
    done = run_ipybox("record", "r.jsonl", "--to", "out.ipynb")
    assert done.returncode in (1, 2) and f"r.jsonl: {message}" in done.stderr, done.stderr
    assert not (workspace / "out.ipynb").exists()


def test_incomplete_lines(run_ipybox, workspace, place):
    """Of a crash of the machine: the last line, or the line before a header."""
    cell = line("cell", cell=1, code="x")
    path = write(workspace / "r.jsonl", header(), '{"type":"ce', header(), cell)
    path.write_text(path.read_text() + '{"type":"stdout","ce')
    done = run_ipybox("record", "r.jsonl", "--to", "r.ipynb")
    assert done.returncode == 0 and "2 incomplete lines were ignored" in done.stderr
    assert [c["source"] for c in valid_notebook(workspace / "r.ipynb", place)["cells"]] == [
        "## Session 2, 2026-11-23T03:00:00.000Z",
        "x",
    ]


def test_the_command_line(run_ipybox, workspace):
    write(workspace / "r.jsonl", header(), line("cell", cell=1, code="x = 1"))
    for arguments, message in (
        (["r.jsonl"], "give a record, and --to FILE"),
        (["--to", "x.md"], "give a record, and --to FILE"),
        (["r.jsonl", "--to", "x.txt"], "use --format"),
        (["r.jsonl", "--to", "x.md", "--format", "pdf"], "--format must be"),
        (["r.jsonl", "--to", "r.jsonl", "--format", "md"], "is the record itself"),
        (["none.jsonl", "--to", "x.md"], "none.jsonl: there is no such file"),
        ([".", "--to", "x.md"], "not a regular file"),
        (["r.jsonl", "--to", "no/x.md"], "no/x.md"),
    ):
        done = run_ipybox("record", *arguments)
        assert done.returncode in (1, 2) and message in done.stderr, (arguments, done.stderr)
    done = run_ipybox("record", "r.jsonl", "--to", "-", "--format", "md")
    assert done.returncode == 0 and "```python\nx = 1\n```\n" in done.stdout
    assert [path.name for path in workspace.iterdir()] == ["r.jsonl"]
