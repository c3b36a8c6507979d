# SPDX-License-Identifier: Apache-2.0
"""With a limit on file descriptors that is too low for what is to be done, step by step: it works, or it ends with an error that
names the limit. Nothing hangs, crashes or is left behind (which the fixture `place` checks). How many it takes is not always the
same: what happens at once in one run comes one after the other in the next."""

from __future__ import annotations

import subprocess

import pytest
from mcp_driver import McpServer

# With fewer than these GLib has none for its main context, and ends the program, which no program that uses it can help.
LEAST = 6
# With these everything works; a sandbox takes a few.
ENOUGH = 34


def limited(ipybox: str, n: int) -> list[str]:
    return ["prlimit", f"--nofile={n}:{n}", ipybox]


@pytest.mark.parametrize("options", [["--no-sandbox"], []], ids=["kernel", "sandbox"])
def test_run(ipybox, place, options):
    for n in range(LEAST, ENOUGH + 1):
        result = subprocess.run(
            [*limited(ipybox, n), "run", *options, "-c", "print(6 * 7)"],
            cwd=place.workspace,
            env=place.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        works = result.returncode == 0
        if works:
            assert result.stdout == "42\n"
        else:
            assert result.returncode == 1 and f"this process may have {n}" in result.stderr, result
    assert works


def test_mcp_server(ipybox, place):
    for n in range(LEAST, ENOUGH + 1, 2):
        program, *arguments = limited(ipybox, n)
        server = McpServer(program, place, *arguments, initialize=False, stderr=subprocess.PIPE)
        try:
            server.initialize()
            text = server.tool("execute_ipython_cell", {"code": "print(6 * 7)"})["content"][0][
                "text"
            ]
            assert server.process.stdin
            server.process.stdin.close()
        except (EOFError, BrokenPipeError):
            text = ""
        said = server.process.stderr.read().decode()
        status = server.close()
        works = text == "42"
        if works:
            assert status == 0
        else:
            assert status in (0, 1) and f"this process may have {n}" in text + said, (
                status,
                text,
                said,
            )
    assert works
