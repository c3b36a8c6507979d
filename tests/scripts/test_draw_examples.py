# SPDX-License-Identifier: Apache-2.0
"""The pictures of examples show what the examples do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/draw-examples"


def test_runs_give_the_committed_pictures():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_picture_that_differs_is_noticed(load_script, tmp_path, monkeypatch, capsys):
    script = load_script("draw-examples")
    (tmp_path / "undo.svg").write_text("<svg/>")
    monkeypatch.setattr(script, "IMAGES", tmp_path)
    monkeypatch.setattr(script, "draw_search", lambda: "a tree")
    monkeypatch.setattr(script, "draw_undo", lambda: "cells")
    monkeypatch.setattr(sys, "argv", ["draw-examples", "--check"])
    monkeypatch.chdir(tmp_path)
    assert script.main() == 1
    assert capsys.readouterr().out.count("differs: run scripts/draw-examples") == 2
    assert (tmp_path / "undo.svg").read_text() == "<svg/>"
