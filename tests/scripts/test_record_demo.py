# SPDX-License-Identifier: Apache-2.0
"""The recording in README shows what the program prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/record-demo"


@pytest.fixture(scope="module")
def record(load_script):
    return load_script("record-demo")


def test_a_run_prints_what_the_recording_shows():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_recording_shows_a_sandbox_an_approval_and_a_plot(record):
    shown = "\n".join(record.shown_lines((ROOT / "docs/images/run.svg").read_text()))
    for text in (
        "$ ipybox run world_clock.py",
        "[y]es",
        "[image saved: ~/demo/images/….png]",
        "Read-only file system",
        "Could not resolve host",
    ):
        assert text in shown
    assert (ROOT / "docs/images/plot.png").read_bytes().startswith(b"\x89PNG")


def test_only_the_names_of_images_may_differ(record):
    """Tests the comparison: the text of a picture can be read back, and another text makes another
    picture.
    """

    def shown(*lines: str) -> list[str]:
        return record.shown_lines(
            record.draw(
                [
                    record.Line("echo '<a> &'", 1.0, is_command=True),
                    *[record.Line(line, 0.1) for line in lines],
                ]
            )
        )

    assert shown("  <b>x</b> &amp; y", "") == ["$ echo '<a> &'", "  <b>x</b> &amp; y", ""]
    assert shown("[image saved: ~/demo/images/a1.png]") == shown(
        "[image saved: ~/demo/images/b2.png]"
    )
    assert shown("15:30") != shown("15:31")


def test_a_command_that_fails_is_no_recording(record, tmp_path):
    with pytest.raises(SystemExit, match="ended with 3"):
        record.run("echo x; exit 3", "", tmp_path, {"PATH": "/usr/bin:/bin"})
    with pytest.raises(SystemExit, match="escape sequence"):
        record.run("printf '\\033[1m\\n'", "", tmp_path, {"PATH": "/usr/bin:/bin"})
