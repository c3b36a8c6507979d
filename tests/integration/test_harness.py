# SPDX-License-Identifier: Apache-2.0
"""The checks for leftovers find them, and the third-party programs are installed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import harness
import pytest


def test_finds_a_process_that_left_its_parent(place):
    before = harness.descendants()
    script = (
        "import subprocess, sys\n"
        "p = subprocess.Popen(['sleep', '1000'], env={}, start_new_session=True, stdout=-3, "
        "stderr=-3)\n"
        "print(p.pid)"
    )
    harness.GRACE_SECONDS, grace = 0.1, harness.GRACE_SECONDS
    try:
        pid = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        left = harness.processes_left(before)
    finally:
        harness.GRACE_SECONDS = grace
    assert left == [f"{pid.strip()} sleep 1000"]
    assert harness.descendants() == before


def test_lets_a_process_end_in_its_own_time():
    before = harness.descendants()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        process.stdin.close()
        assert harness.processes_left(before) == []


def test_finds_files_and_sockets(tmp_path):
    place = harness.Place.make(tmp_path / "x")
    assert place.left_behind() == []
    (place.tmp / "file").touch()
    (place.workspace / "mine.txt").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.state / "s"))
        assert place.left_behind() == ["t/file", "state/s"]


MOUNT = "mount --make-rprivate / && mount -t tmpfs none $0 && echo ready && read line"


@pytest.mark.needs_root
def test_counts_own_mounts_only(tmp_path):
    """Of a namespace that others use, too, those below the test's directory; of others all."""
    tests, others = tmp_path / "tests", tmp_path / "others"
    (tests / "mount").mkdir(parents=True)
    others.mkdir()
    own = harness.own_mounts([os.getpid()], tests)
    assert own == 0
    with ExitStack() as stack:
        for point in (others, tests / "mount"):
            subprocess.run(["mount", "-t", "tmpfs", "none", point], check=True)
            stack.callback(subprocess.run, ["umount", point], check=True)
            assert harness.own_mounts([os.getpid()], tests) == (point != others)
        alone = stack.enter_context(
            subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", MOUNT, others],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        assert alone.stdout and alone.stdout.readline() == b"ready\n"
        lines = Path(f"/proc/{alone.pid}/mountinfo").read_text().count("\n")
        assert harness.own_mounts([alone.pid, alone.pid], tests) == lines
        assert harness.own_mounts([alone.pid, os.getpid()], tests) == lines + 1


def test_official_client_is_there(client_python):
    subprocess.run([client_python, "-c", "import mcp"], check=True)


class Item:
    def __init__(self, marker):
        self.get_closest_marker = {marker: marker}.get


@pytest.mark.parametrize(("uid", "left"), [(0, 2), (1000, 1)])
def test_only_an_ordinary_user_leaves_out_what_needs_root(monkeypatch, uid, left):
    monkeypatch.setattr(harness.os, "geteuid", lambda: uid)
    items = [Item("needs_root"), Item("other")]
    harness.leave_out(items)
    assert len(items) == left
    assert items[-1].get_closest_marker("other")
