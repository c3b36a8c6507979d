# SPDX-License-Identifier: Apache-2.0
"""The server scenarios of the official suite that need no fixtures, against `ipybox serve`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import harness
import pytest
from serve_driver import Serve
from token_proxy import TokenProxy

SCENARIOS = [
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_server_scenario(suite, tmp_path, scenario):
    ipybox = os.environ.get("IPYBOX_BIN", str(harness.ROOT / "build/ipybox"))
    place = harness.Place.make(tmp_path / "p")
    before = harness.descendants()
    with Serve(str(Path(ipybox).resolve()), place) as server, TokenProxy(server) as port:
        command = [*suite, "server", "--url", f"http://localhost:{port}/mcp"]
        command += ["--scenario", scenario, "--spec-version", "2025-11-25"]
        done = subprocess.run(
            [*command, "-o", str(tmp_path / "results")],
            env=os.environ | {"HOME": str(tmp_path), "NO_PROXY": "localhost"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )
    assert done.returncode == 0, done.stdout
    assert not harness.processes_left(before)
