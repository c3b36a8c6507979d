# SPDX-License-Identifier: Apache-2.0
"""The plots of docs/benchmarks.md show the figures of the runs that are kept."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/draw-benchmarks"
DOCUMENT = ROOT / "docs/benchmarks.md"


@pytest.fixture
def draw(load_script, tmp_path, monkeypatch):
    """The program, with copies of the runs and of the plots."""
    script = load_script("draw-benchmarks")
    for name in ("RESULTS", "IMAGES"):
        shutil.copytree(getattr(script, name), tmp_path / name)
        monkeypatch.setattr(script, name, tmp_path / name)
    monkeypatch.setattr(sys, "argv", ["draw-benchmarks", "--check"])
    return script


def test_plots_show_the_runs_that_are_kept():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_another_figure_is_noticed(draw, capsys):
    (path,) = draw.RESULTS.glob("*-branches.json")
    run = json.loads(path.read_text())
    run["figures"]["100 MB"]["first_ms"] += 1
    path.write_text(json.dumps(run))
    assert draw.main() == 1
    assert capsys.readouterr().out == (
        "draw-benchmarks: branches.svg differs: run scripts/draw-benchmarks\n"
    )


def test_the_newest_run_counts(draw, capsys):
    (path,) = draw.RESULTS.glob("*-serve.json")
    run = json.loads(path.read_text())
    run["figures"]["rows"]["cell http"]["p50"] = 0.77
    (draw.RESULTS / "2099-01-01-120000-serve.json").write_text(json.dumps(run))
    assert draw.main() == 1
    assert capsys.readouterr().out.count("differs") == 2  # the other one names the file
    assert draw.draw_cells().drawn["MCP over HTTP"] == 0.77


def test_without_a_run_it_says_so(draw):
    for path in draw.RESULTS.glob("*-jupyter.json"):
        path.unlink()
    with pytest.raises(SystemExit, match="no fitting run of jupyter"):
        draw.main()


def test_kept_runs_say_where_they_come_from():
    for path in (ROOT / "benchmarks/results").glob("*.json"):
        run = json.loads(path.read_text())
        assert path.name.startswith(run["date"]) and path.stem.endswith(run["benchmark"])
        assert run["commit"] and run["machine"]["processors"] > 0 and run["command"]


def test_alternative_texts_name_figures_of_the_plots(draw):
    """And the document shows every plot."""
    images = re.findall(r"!\[([^]]*)\]\(images/benchmarks/(\w+\.svg)\)", DOCUMENT.read_text())
    assert sorted(name for _, name in images) == sorted(draw.PLOTS)
    for text, name in images:
        shown = " ".join(draw.content((draw.IMAGES / name).read_text())[0])
        assert len(text) > 80, name
        for number in re.findall(r"\d[\d,.]*\d|\d", text):
            assert number in shown, f"{name}: {number}"
