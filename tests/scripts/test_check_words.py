# SPDX-License-Identifier: Apache-2.0
"""The checks of words and columns find what they name, and accept the rest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def check(tree: Path, script: str, name: str, text: str) -> tuple[int, str]:
    """Runs a copy of the script in a repository of its own that holds one file."""
    (tree / "scripts").mkdir()
    shutil.copy(SCRIPTS / script, tree / "scripts")
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    subprocess.run(["git", "init", "-q", tree], check=True)
    done = subprocess.run(
        [sys.executable, tree / "scripts" / script, name], capture_output=True, text=True
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/* Whoever asks waits. */\n", 'src/a.c:1: "Whoever"'),
        ("/*\n * The client is\n * told the result. */\n", 'src/a.c:2: "is told"'),
        ("# The clock stands\n# still.\n", 'src/a.c:1: "stands still"'),
        ("A cell that goes on is killed.\n", 'src/a.c:1: "goes on"'),
    ],
)
def test_finds_a_phrase_also_over_two_lines(tmp_path, text, found):
    status, output = check(tmp_path, "check-words", "src/a.c", text)
    assert status == 1
    assert output.startswith(found)


def test_accepts_plain_words_and_data(tmp_path):
    text = "The client receives the result. The cell continues; a layer goes on top.\n"
    assert check(tmp_path, "check-words", "src/a.c", text) == (0, "words: fine\n")


def test_does_not_read_the_words_of_others(tmp_path):
    name = "tests/corpus/server.json"
    assert check(tmp_path, "check-words", name, '"Whoever"\n') == (0, "words: fine\n")


@pytest.mark.parametrize(
    ("line", "columns"), [("x" * 50 + " " + "y" * 50, 101), ("é" * 50 + " " + "美" * 30, 111)]
)
def test_finds_a_long_line(tmp_path, line, columns):
    status, output = check(tmp_path, "check-columns", "docs/a.md", f"short\n{line}\n")
    assert (status, output) == (1, f"docs/a.md:2: {columns} columns, at most 100\n")


@pytest.mark.parametrize(
    "line", ["x" * 49 + " " + "é" * 50, "/* https://example.org/" + "x" * 90 + " */"]
)
def test_accepts_a_full_line_and_a_url(tmp_path, line):
    assert check(tmp_path, "check-columns", "docs/a.md", line) == (0, "columns: fine\n")
