# SPDX-License-Identifier: Apache-2.0
"""`ipybox run NOTEBOOK.ipynb`: the cells of a notebook are executed, and their outputs saved."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest
from notebooks import (
    comparable,
    executed_by_jupyter,
    make_notebook,
    saved_by_jupyter,
    valid_notebook,
)

CELLS = [
    "import sys\nx = 6\nprint('one')",
    "print('warned', file=sys.stderr)",
    "x * 7",
    (
        "from IPython.display import display, clear_output\n"
        "handle = display({'text/plain': 'old'}, raw=True, display_id='d')"
    ),
    (
        "print('gone'); clear_output(wait=True)\n"
        "handle.update({'text/plain': 'new'}, raw=True)\nprint(2)"
    ),
    "   \n",
    "display({'application/json': {'b': [], 'a': 1}, 'text/html': '<b>x</b>\\n'}, raw=True)",
]


def write(path: Path, notebook: dict, **options) -> str:
    """Writes the notebook as Jupyter does. Returns the text."""
    options = {"indent": 1, "sort_keys": True, "ensure_ascii": False, **options}
    text = json.dumps(notebook, **options) + "\n"
    path.write_text(text)
    return text


def test_outputs_are_those_of_jupyter(run_ipybox, workspace, place):
    """nbclient with ipykernel is the judge, and nbformat would write the same bytes."""
    path = workspace / "n.ipynb"
    write(path, make_notebook(CELLS))
    done = run_ipybox("run", "--save", "n.ipynb")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("one\n42\nold\n") and done.stderr == "warned\n"
    notebook = valid_notebook(path, place)
    theirs = executed_by_jupyter(CELLS, place)
    for cell, their in zip(notebook["cells"], theirs, strict=True):
        assert comparable(cell["outputs"]) == comparable(their), cell["source"]
    counts = [cell["execution_count"] for cell in notebook["cells"]]
    assert counts == [1, 2, 3, 4, 5, None, 6]
    text = path.read_text()
    for ours, saved in zip(
        json.loads(text)["cells"], json.loads(saved_by_jupyter(path, place))["cells"], strict=True
    ):
        assert ours["outputs"] == saved["outputs"]
    assert run_ipybox("run", "--save", "n.ipynb").returncode == 0
    assert path.read_text() == text  # a second time nothing changes


@pytest.mark.parametrize("minor", range(6))
def test_the_rest_is_kept_byte_for_byte(run_ipybox, workspace, place, minor):
    """Unusual numbers, escapes, unknown members, the order of members, the indentation."""
    cells = []
    for i, source in enumerate([["x = 1\n", "x + 1"], "print('é')"]):
        cell = {
            "source": source,
            "metadata": {"z": 1, "a": {"tags": []}, "é": "\ud83d\ude00"},
            "outputs": [],
            "execution_count": 99,
            "cell_type": "code",
        }
        cells.append({**cell, "id": f"cell-{i}"} if minor == 5 else cell)
    markdown = {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]}
    cells.insert(1, {**markdown, "id": "m"} if minor == 5 else markdown)
    notebook = {
        "nbformat_minor": minor,
        "metadata": {"kernelspec": {"name": "x", "display_name": "x"}, "n": 12345},
        "cells": cells,
        "nbformat": 4,
    }
    path = workspace / "n.ipynb"
    before = write(path, notebook, indent=2, sort_keys=False, ensure_ascii=True)
    before = before.replace("12345", "1.50e+03")
    path.write_text(before)
    path.chmod(0o640)
    done = run_ipybox("run", "--save", "n.ipynb")
    assert done.returncode == 0 and done.stdout == "2\né\n", done.stderr
    result = """[
        {
          "data": {
            "text/plain": [
              "2"
            ]
          },
          "execution_count": 1,
          "metadata": {},
          "output_type": "execute_result"
        }
      ]"""
    text = """[
        {
          "name": "stdout",
          "output_type": "stream",
          "text": [
            "é\\n"
          ]
        }
      ]"""
    expected = before
    for i, outputs in enumerate([result, text]):
        expected = expected.replace('"outputs": []', f'"outputs": {outputs}', 1)
        expected = expected.replace('"execution_count": 99', f'"execution_count": {i + 1}', 1)
    assert path.read_text() == expected
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    valid_notebook(path, place)


def test_a_notebook_on_one_line(run_ipybox, workspace, place):
    path = workspace / "n.ipynb"
    before = write(path, make_notebook(["1 + 1"]), indent=None)
    assert run_ipybox("run", "--save", "n.ipynb").returncode == 0
    assert len(path.read_text().splitlines()) == len(before.splitlines()) == 1
    (cell,) = valid_notebook(path, place)["cells"]
    assert comparable(cell["outputs"]) == [("execute_result", {"text/plain": "2"}, 1)]


def test_without_save_nothing_is_written(run_ipybox, workspace):
    before = write(workspace / "n.ipynb", make_notebook(["print(1)"]))
    (workspace / "n.ipynb").chmod(0o400)
    assert run_ipybox("run", "n.ipynb").stdout == "1\n"
    assert (workspace / "n.ipynb").read_text() == before


def tagged(notebook: dict, index: int, tag: str) -> dict:
    notebook["cells"][index]["metadata"]["tags"] = [tag]
    return notebook


def test_the_first_error_ends_it(run_ipybox, workspace, place):
    notebook = make_notebook(["print(1)", "1 / 0", "print(3)"])
    notebook["cells"][2]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "kept"}]
    notebook["cells"][2]["execution_count"] = 7
    path = workspace / "n.ipynb"
    write(path, notebook)
    done = run_ipybox("run", "--save", "n.ipynb")
    assert done.returncode == 1 and done.stdout == "1\n"
    assert "ZeroDivisionError" in done.stderr and "ended at its cell 2" in done.stderr
    cells = valid_notebook(path, place)["cells"]
    assert comparable(cells[0]["outputs"]) == [("stdout", "1\n")]
    assert comparable(cells[1]["outputs"]) == [("error", "ZeroDivisionError", "division by zero")]
    assert comparable(cells[2]["outputs"]) == [("stdout", "kept")]
    assert [cell["execution_count"] for cell in cells] == [1, 2, 7]


def test_tags(run_ipybox, workspace, place):
    notebook = make_notebook(["1 / 0", "raise SystemExit(9)", "print('after')", "1 / 0"])
    tagged(notebook, 0, "raises-exception")
    tagged(notebook, 1, "skip-execution")
    tagged(notebook, 3, "raises-exception")
    write(workspace / "n.ipynb", notebook)
    done = run_ipybox("run", "--save", "n.ipynb")
    assert done.returncode == 0 and done.stdout == "after\n"
    cells = valid_notebook(workspace / "n.ipynb", place)["cells"]
    assert [len(cell["outputs"]) for cell in cells] == [1, 0, 1, 1]
    assert [cell["execution_count"] for cell in cells] == [1, None, 2, 3]


@pytest.mark.parametrize(
    ("code", "flags", "status", "text"),
    [
        ("import sys; sys.exit(7)", (), 7, "SystemExit"),
        ("import time; time.sleep(600)", ("--timeout", "0.5"), 124, "exceeded timeout"),
        ("import os; os._exit(1)", (), 1, "kernel"),
    ],
)
def test_other_ends(run_ipybox, workspace, place, code, flags, status, text):
    """The status is that of the cell, and the notebook says why it ended."""
    write(workspace / "n.ipynb", make_notebook(["print(1)", code, "print(3)"]))
    done = run_ipybox("run", "--save", *flags, "n.ipynb")
    assert done.returncode == status and done.stdout == "1\n", done.stderr
    cells = valid_notebook(workspace / "n.ipynb", place)["cells"]
    assert text in json.dumps(cells[1]["outputs"]) and cells[2]["outputs"] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal(ipybox, workspace, place, number):
    write(
        workspace / "n.ipynb", make_notebook(["print(1)", "print(2); import time; time.sleep(600)"])
    )
    process = subprocess.Popen(
        [ipybox, "run", "--save", "n.ipynb"],
        cwd=workspace,
        env=place.environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n" and process.stdout.readline() == "2\n"
    process.send_signal(number)
    assert process.wait() == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    process.stdout.close()
    cells = valid_notebook(workspace / "n.ipynb", place)["cells"]
    assert comparable(cells[0]["outputs"]) == [("stdout", "1\n")]
    assert comparable(cells[1]["outputs"])[0] == ("stdout", "2\n")


def test_a_plot_and_a_record(run_ipybox, workspace, place):
    write(
        workspace / "n.ipynb", make_notebook(["import matplotlib.pyplot as p", "p.plot([1, 2]);"])
    )
    done = run_ipybox("run", "--save", "--record", "r.jsonl", "n.ipynb")
    assert done.returncode == 0 and "[image saved: " in done.stdout
    (shown,) = valid_notebook(workspace / "n.ipynb", place)["cells"][1]["outputs"]
    assert shown["output_type"] == "display_data"
    assert shown["data"]["image/png"].startswith("iVBOR")
    assert run_ipybox("record", "r.jsonl", "--to", "r.ipynb").returncode == 0
    recorded = valid_notebook(workspace / "r.ipynb", place)["cells"]
    assert recorded[1]["outputs"] == [shown]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "n.ipynb: "),
        ("[]", "it is not a notebook"),
        ('{"nbformat": 4}', "it is not a notebook"),
        ('{"nbformat": 3, "nbformat_minor": 0}', "the format 3.0"),
        ('{"nbformat": 4, "nbformat_minor": 6, "cells": []}', "the format 4.6"),
        ('{"nbformat": 4, "nbformat_minor": 5, "cells": {}}', '"cells" must be an array'),
        ('{"nbformat": 4, "nbformat_minor": 5, "cells": [1]}', 'cell 1 has no "cell_type"'),
        (
            '{"nbformat": 4, "nbformat_minor": 5, "cells": [{"cell_type": "code", "source": 1}]}',
            'cell 1 has no "source"',
        ),
        (
            '{"nbformat": 4, "nbformat_minor": 5, "cells": [{"cell_type": "code", "source": "1"}]}',
            'cell 1 has no "outputs"',
        ),
    ],
)
def test_what_is_no_notebook(run_ipybox, workspace, text, message):
    (workspace / "n.ipynb").write_text(text)
    done = run_ipybox("run", "--save", "n.ipynb")
    assert done.returncode in (1, 2) and message in done.stderr and done.stdout == "", done.stderr
    assert (workspace / "n.ipynb").read_text() == text


def test_notebooks_without_code(run_ipybox, workspace):
    for cells in ([], ["", " \n"]):
        before = write(workspace / "n.ipynb", make_notebook(cells))
        done = run_ipybox("run", "--save", "n.ipynb")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (workspace / "n.ipynb").read_text() == before


def test_options(run_ipybox, workspace):
    for arguments in (["--save", "-c", "1"], ["--save", "x.py"]):
        done = run_ipybox("run", *arguments)
        assert done.returncode == 2 and "--save needs a notebook" in done.stderr
    assert run_ipybox("run", "none.ipynb").returncode == 1


def test_a_link(run_ipybox, workspace, place):
    """In a sandbox a link in the workspace is refused. Otherwise the target is replaced."""
    outside = place.root / "outside"
    outside.mkdir()
    write(outside / "real.ipynb", make_notebook(["print(1)"]))
    (workspace / "n.ipynb").symlink_to(outside / "real.ipynb")
    done = run_ipybox("run", "--save", "n.ipynb")
    assert done.returncode != 0 and "is a symbolic link" in done.stderr
    assert run_ipybox("run", "--save", "--no-sandbox", "n.ipynb").returncode == 0
    assert (workspace / "n.ipynb").is_symlink()
    (cell,) = valid_notebook(outside / "real.ipynb", place)["cells"]
    assert comparable(cell["outputs"]) == [("stdout", "1\n")]


@pytest.mark.parametrize("act", ["open('n.ipynb', 'a').write(' ')", "os.symlink('x', 'n.ipynb')"])
def test_a_notebook_that_changes_itself(run_ipybox, workspace, act):
    """The outputs are not saved over what another program has written."""
    code = f"import os\nif {'symlink' in act}: os.unlink('n.ipynb')\n{act};"
    write(workspace / "n.ipynb", make_notebook([code]))
    done = run_ipybox("run", "--save", "n.ipynb")
    assert done.returncode == 1 and "n.ipynb is not saved: " in done.stderr, done.stderr
    assert [path.name for path in workspace.iterdir()] == ["n.ipynb"]
    assert not (workspace / "x").exists()


@pytest.mark.needs_root
def test_the_owner_is_kept(run_ipybox, workspace):
    write(workspace / "n.ipynb", make_notebook(["1"]))
    os.chown(workspace / "n.ipynb", 65534, 65534)
    assert run_ipybox("run", "--save", "n.ipynb").returncode == 0
    status = (workspace / "n.ipynb").stat()
    assert (status.st_uid, status.st_gid) == (65534, 65534)
