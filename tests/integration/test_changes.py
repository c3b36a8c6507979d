# SPDX-License-Identifier: Apache-2.0
"""`ipybox run --staged` and `ipybox changes`: review, recovery after a kill."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from terminal import Terminal

CODE = "open('new', 'w').write('new\\n'); open('old', 'a').write('more\\n'); None"
KEPT = re.compile(r"the changes are kept: 'ipybox changes commit (layer-\w+)'")


@pytest.fixture
def old(workspace: Path) -> Path:
    path = workspace / "old"
    path.write_text("old\n")
    return path


@pytest.fixture
def layers(place):
    path = Path(place.environ["XDG_STATE_HOME"]) / "ipybox/staged"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def run(ipybox: str, place, *arguments: str) -> Terminal:
    return Terminal([ipybox, "run", "--staged", *arguments], place)


def left(run_ipybox) -> list[dict]:
    return json.loads(run_ipybox("changes", "--json").stdout)


def test_yes(ipybox, place, workspace, old, layers, run_ipybox):
    with run(ipybox, place, "-c", CODE) as terminal:
        shown = terminal.expect("[d]iff: ")
        assert "+ new  (4 bytes)" in shown and "~ old  (9 bytes)" in shown
        assert re.search(r"SHA-256 [0-9a-f]{64}", shown)
        terminal.type("d\n")
        assert "+more" in terminal.expect("[d]iff: ")
        assert not (workspace / "new").exists()
        terminal.type("y\n")
        assert terminal.wait() == 0
        assert "2 changes were committed, 0 were not" in terminal.seen
    assert (workspace / "new").read_text() == "new\n"
    assert old.read_text() == "old\nmore\n"
    assert left(run_ipybox) == []


def test_no(ipybox, place, workspace, old, layers, run_ipybox):
    with run(ipybox, place, "-c", CODE) as terminal:
        terminal.expect("[d]iff: ")
        terminal.type("n\n")
        assert terminal.wait() == 0
        assert KEPT.search(terminal.seen)
    assert old.read_text() == "old\n"
    (layer,) = left(run_ipybox)
    assert (layer["workspace"], layer["changes"]) == (str(workspace.resolve()), 2)
    assert "  2 changes  " in run_ipybox("changes").stdout
    again = Terminal([ipybox, "changes", "commit", layer["name"]], place)
    again.expect("[d]iff: ")
    again.type("n\n")
    assert again.wait() == 0
    assert KEPT.search(again.seen)
    assert run_ipybox("changes", "discard", layer["name"], "new").returncode == 0
    assert "  1 change  " in run_ipybox("changes").stdout


def test_without_a_terminal(workspace, old, layers, run_ipybox):
    result = run_ipybox("run", "--staged", "-c", CODE)
    name = KEPT.search(result.stderr)[1]
    assert result.returncode == 0
    assert "~ old" in result.stderr
    again = run_ipybox("changes", "commit", name)
    assert again.returncode == 1 and "~ old" in again.stderr
    assert "there is no terminal to ask at" in again.stderr and "--yes" in again.stderr
    assert old.read_text() == "old\n"
    shown = run_ipybox("changes", "show", "--diff", name).stdout
    assert "  + new  (4 bytes)" in shown and "+more" in shown
    found = json.loads(run_ipybox("changes", "show", "--json", name).stdout)
    assert [change["path"] for change in found["changes"]] == ["new", "old"]
    assert run_ipybox("changes", "commit", "--yes", name, "old").returncode == 0
    assert old.read_text() == "old\nmore\n"
    assert not (workspace / "new").exists()
    assert run_ipybox("changes", "discard", name).returncode == 0
    assert left(run_ipybox) == []
    assert list(layers.iterdir()) == []


def test_nothing_changed(old, layers, run_ipybox):
    result = run_ipybox("run", "--staged", "-c", "1 + 1")
    assert (result.stdout, result.stderr) == ("2\n", "")
    assert "No session has left changes" in run_ipybox("changes").stderr


def test_failed_code(workspace, old, layers, run_ipybox):
    """The status is that of the code; its changes are kept."""
    result = run_ipybox("run", "--staged", "-c", CODE + "; 1 / 0")
    assert result.returncode == 1
    assert KEPT.search(result.stderr)


def test_conflict_is_reported(workspace, old, layers, run_ipybox):
    name = KEPT.search(run_ipybox("run", "--staged", "-c", CODE).stderr)[1]
    old.write_text("by the host\n")
    result = run_ipybox("changes", "commit", "-y", name)
    assert result.returncode == 1
    assert "conflict: " in result.stderr and "1 change was committed, 1 was not" in result.stderr
    assert old.read_text() == "by the host\n"
    assert (workspace / "new").read_text() == "new\n"


def test_killed(ipybox, place, workspace, old, layers, run_ipybox):
    """While the session runs, no one else can have its changes; after a kill they are there."""
    with run(ipybox, place, "-c", CODE + "; print('written'); input()") as terminal:
        terminal.expect("written")
        (running,) = left(run_ipybox)
        assert "belong to a session that runs" in running["error"]
        refused = run_ipybox("changes", "commit", "-y", running["name"])
        assert refused.returncode == 1 and "session that runs" in refused.stderr
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.wait()
    assert run_ipybox("changes", "commit", "-y", running["name"]).returncode == 0
    assert old.read_text() == "old\nmore\n"


@pytest.mark.parametrize(
    "arguments",
    [["show"], ["commit", "../x"], ["commit", "."], ["nothing", "layer-x"], ["list", "x"]],
)
def test_wrong_usage(arguments, layers, run_ipybox):
    result = run_ipybox("changes", *arguments)
    assert result.returncode in (1, 2)
    assert result.stderr.startswith("ipybox changes: ")


def test_options(workspace, run_ipybox):
    for arguments, message in [
        (["--no-sandbox", "--staged"], "--staged needs a sandbox"),
        (["--staging-dir", "x"], "--staging-dir needs --staged"),
    ]:
        result = run_ipybox("run", *arguments, "-c", "1")
        assert result.returncode == 2 and message in result.stderr


def test_names_are_made_harmless(workspace, layers, run_ipybox):
    code = "open('a\\n\\x1b[2Jb', 'w').close(); open(b'\\xff', 'w').close()"
    result = run_ipybox("run", "--staged", "-c", code)
    assert "\x1b" not in result.stderr
    assert len(re.findall(r"^  \+ ", result.stderr, re.MULTILINE)) == 2
