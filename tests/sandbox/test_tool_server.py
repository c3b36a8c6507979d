# SPDX-License-Identifier: Apache-2.0
"""Attack suite E, MCP servers of a tool server: one in a sandbox does not change what decides about
its own calls.
"""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

import harness
import pytest
from box import Box, listening
from kernels import servers_settings


@pytest.mark.parametrize("sandboxed", [True, False])
def test_what_decides_about_calls(box: Box, sandboxed: bool) -> None:
    """Rules and log, which are where the server may write."""
    workspace = box.place.workspace
    rules = '{"rules": [], "default": "allow"}'
    (workspace / "rules.json").write_text(rules)
    params = harness.Servers().filesystem(workspace)
    if sandboxed:
        params["sandbox"] = servers_settings()

    def write(port: int, name: str) -> bool:
        call = {"server_name": "files", "server_params": params, "tool_name": "write_file",
                "tool_args": {"path": str(workspace / name), "content": "written"}}  # fmt: skip
        request = Request(
            f"http://127.0.0.1:{port}/run",
            json.dumps(call).encode(),
            {"Content-Type": "application/json"},
        )
        with urlopen(request, timeout=120) as answer:
            return "result" in json.load(answer)

    with listening(
        box, "tool-server", "--approve", "rules.json", "--audit-log", "audit.jsonl"
    ) as port:
        assert write(port, "plain")
        assert write(port, "rules.json") == (not sandboxed)
        assert write(port, "audit.jsonl") == (not sandboxed)
    assert ((workspace / "rules.json").read_text() == rules) == sandboxed
