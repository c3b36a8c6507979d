# SPDX-License-Identifier: Apache-2.0
"""The checks for leftovers find them, and the third-party programs are installed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
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


def test_third_party_servers_are_there(servers, tmp_path, inspector, environ):
    """Each answers tools/list of MCP Inspector."""
    expected = {
        "convert_time": servers.time(),
        "git_log": servers.git(harness.ROOT),
        "read_query": servers.sqlite(tmp_path / "x.db"),
        "echo": servers.everything(),
        "read_text_file": servers.filesystem(tmp_path),
    }
    running = {
        tool: subprocess.Popen(
            [*inspector, params["command"], *params["args"], "--method", "tools/list"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environ,
        )
        for tool, params in expected.items()
    }
    for tool, process in running.items():
        answer = json.loads(process.communicate(timeout=240)[0])
        assert tool in [t["name"] for t in answer["tools"]]


def test_official_client_is_there(client_python):
    subprocess.run([client_python, "-c", "import mcp"], check=True)


class Item:
    def __init__(self, marker, name="test_x.py"):
        self.get_closest_marker = {marker: marker}.get
        self.path = Path(name)


@pytest.mark.parametrize(("uid", "left"), [(0, 2), (1000, 1)])
def test_only_an_ordinary_user_leaves_out_what_needs_root(monkeypatch, uid, left):
    monkeypatch.setattr(harness.os, "geteuid", lambda: uid)
    items = [Item("needs_root"), Item("other")]
    harness.leave_out(items)
    assert len(items) == left
    assert items[-1].get_closest_marker("other")


def test_files_that_are_left_out(monkeypatch):
    items = [Item(None, "test_a.py"), Item(None, "test_b.py"), Item(None, "test_c.py")]
    monkeypatch.setenv("IPYBOX_TEST_LEAVE_OUT", "scripts,test_a,test_c")
    harness.leave_out(items)
    assert [item.path.name for item in items] == ["test_b.py"]
