# SPDX-License-Identifier: Apache-2.0
"""Records of sessions with a staged workspace: changes, commits, discards; documents; replay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import notebooks
import pytest
from rpc_driver import RpcCore, RpcError
from terminal import Terminal


@pytest.fixture(autouse=True)
def layers(place: harness.Place) -> Iterator[Path]:
    path = Path(place.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def read(path: Path, *types: str) -> list[dict]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["type"] in types]


def changes(line: dict) -> list[tuple[str, str]]:
    return [(each["kind"], each["path"]) for each in line["changes"]]


@pytest.fixture
def record(ipybox: str, place: harness.Place, workspace: Path, python: str) -> Path:
    """Of a session that commits one file, fails to commit another one, and discards the rest."""
    (workspace / "old").write_text("old")
    with RpcCore(ipybox, place) as core:
        session = core.open(
            sandbox=True, workspace_mode="staged", python=python, record=str(workspace / "r.jsonl")
        )
        core.text(session, "open('new', 'w').write('x'); open('old', 'a').write('y'); None")
        core.text(session, "1")
        (workspace / "old").write_text("changed outside")
        core.call("session.commit", session=session, paths=["new", "old"])
        with pytest.raises(RpcError, match="nothing has changed"):
            core.call("session.commit", session=session, paths=["missing"])
        core.text(session, "import os\nos.mkdir('d'); open('d/`x`', 'w').close(); os.remove('new')")
        core.call("session.discard", session=session)
        core.text(session, "os.path.exists('d'), os.path.exists('new')")
        core.call("session.close", session=session)
    return workspace / "r.jsonl"


def test_lines(record: Path, workspace: Path) -> None:
    (staged,) = read(record, "staged")
    assert staged["layer"].startswith("layer-")
    one, two, three, four = read(record, "done")
    assert changes(one) == [("added", "new"), ("changed", "old")]
    assert changes(two) == changes(four) == []
    assert ("added", "d") in changes(three) and ("removed", "new") in changes(three)
    committed, failed, discarded = read(record, "commit", "discard")
    assert {line["layer"] for line in (committed, failed, discarded)} == {staged["layer"]}
    done = {each["path"]: each.get("done", False) for each in committed["result"]["changes"]}
    assert done == {"new": True, "old": False} and committed["result"]["problems"] == 1
    assert committed["type"] == failed["type"] == "commit" and discarded["type"] == "discard"
    assert "missing" in failed["error"] and "result" not in failed
    paths = {each["path"] for each in discarded["result"]["changes"]}
    assert paths >= {"new", "old", "d", "d/`x`"}


FIRST = "+ new\n~ old\n"


def test_documents(run_ipybox: Any, record: Path, place: harness.Place) -> None:
    for name in ("r.md", "r.html", "r.ipynb"):
        done = run_ipybox("record", record.name, "--to", name)
        assert done.returncode == 0, done.stderr
    text = (place.workspace / "r.md").read_text()
    assert f"Changed files:\n\n```text\n{FIRST}```" in text
    assert "1 committed, 1 not\n+ new\n~ old: the workspace's file was changed" in text
    assert "nothing was committed: " in text and " discarded\n" in text
    # The name of a file does not end the block.
    assert "\n````" not in text and "\n+ d/`x`\n" in text
    page = (place.workspace / "r.html").read_text()
    assert f'aria-label="Changed files">\n{FIRST}</pre>' in page
    assert "1 committed, 1 not" in page
    notebook = json.loads((place.workspace / "r.ipynb").read_text())
    notebooks.valid_notebook(place.workspace / "r.ipynb", place)
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds == ["code", "markdown", "code", "markdown", "code", "markdown", "code"]
    assert FIRST in "".join(notebook["cells"][1]["source"])


def replay(run_ipybox: Any, *options: str) -> tuple[int, list[dict]]:
    done = run_ipybox("record", "--replay", "--json", "r.jsonl", *options)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_replay(run_ipybox: Any, record: Path, place: harness.Place, layers: Path) -> None:
    """It is staged, too, compares what cells change, and leaves nothing."""
    fresh = place.root / "fresh"
    fresh.mkdir()
    (fresh / "old").write_text("old")
    (place.workspace / "r.jsonl").rename(fresh / "r.jsonl")
    place_of = ("--workspace", str(fresh))
    done = run_ipybox("record", "--replay", "--json", str(fresh / "r.jsonl"), *place_of)
    *cells, total = [json.loads(line) for line in done.stdout.splitlines()]
    assert [cell["outcome"] for cell in cells[:2]] == ["same", "same"], done.stdout
    # It has discarded nothing.
    assert [cell["outcome"] for cell in cells[2:]] == ["same", "differs"]
    assert (total["same"], total["differing"]) == (3, 1)
    text = run_ipybox("record", "--replay", str(fresh / "r.jsonl"), *place_of).stdout
    assert "cell 4 differs: changes of files were discarded before it" in text
    assert sorted(path.name for path in fresh.iterdir()) == ["old", "r.jsonl"]
    assert (fresh / "old").read_text() == "old" and list(layers.iterdir()) == []


def test_a_replay_that_changes_other_files(run_ipybox: Any, workspace: Path) -> None:
    code = "import os\nopen('b' if os.path.exists('marker') else 'a', 'w').write('x'); None"
    assert run_ipybox("run", "--staged", "--record=r.jsonl", "-c", code).returncode == 0
    assert replay(run_ipybox)[0] == 0
    (workspace / "marker").touch()
    status, (cell, _) = replay(run_ipybox)
    assert status == 1 and cell["differences"] == [
        {"what": "files", "line": 1, "recorded": "+ a\n", "now": "+ b\n"}
    ]
    done = run_ipybox("record", "--replay", "r.jsonl", "--no-sandbox")
    assert done.returncode == 2 and "leave out --no-sandbox" in done.stderr
    assert not (workspace / "a").exists() and not (workspace / "b").exists()


def test_staged_replay_of_a_session_that_was_not(
    run_ipybox: Any, workspace: Path, layers: Path
) -> None:
    code = "open('a', 'w').write('x')"
    assert run_ipybox("run", "--record=r.jsonl", "-c", code).returncode == 0
    (workspace / "a").unlink()
    assert replay(run_ipybox, "--staged")[0] == 0
    assert not (workspace / "a").exists() and list(layers.iterdir()) == []
    assert replay(run_ipybox)[0] == 0
    assert (workspace / "a").read_text() == "x"


def test_the_review_at_the_end(
    ipybox: str, place: harness.Place, workspace: Path, run_ipybox: Any
) -> None:
    """What is committed after the end of the session is in its record."""
    command = [ipybox, "run", "--staged", "--record=r.jsonl", "-c", "open('a', 'w').write('x')"]
    with Terminal(command, place) as terminal:
        terminal.expect("[d]iff: ")
        terminal.type("y\n")
        assert terminal.wait() == 0
    (staged, commit) = read(workspace / "r.jsonl", "staged", "commit")
    assert staged["layer"] == commit["layer"]
    assert [each["done"] for each in commit["result"]["changes"]] == [True]
    assert run_ipybox("record", "r.jsonl", "--to", "r.md").returncode == 0
    assert "1 committed\n+ a\n" in (workspace / "r.md").read_text()


def test_a_record_that_is_gone_at_the_end(
    ipybox: str, place: harness.Place, workspace: Path
) -> None:
    """The commit is made, and the user knows that the record lacks it."""
    command = [ipybox, "run", "--staged", "--record=r.jsonl", "-c", "open('a', 'w').write('x')"]
    with Terminal(command, place) as terminal:
        terminal.expect("[d]iff: ")
        (workspace / "r.jsonl").unlink()
        terminal.type("y\n")
        terminal.expect("the commit is not in the record")
        assert terminal.wait() == 0
    assert (workspace / "a").read_text() == "x" and not (workspace / "r.jsonl").exists()
