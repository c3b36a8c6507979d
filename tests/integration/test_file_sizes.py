# SPDX-License-Identifier: Apache-2.0
"""ipybox under a limit on the size of files (ulimit -f), as containers and batch systems set it.

A file that is too large is an error that names the file and the limit. No part of it is left, and
the sessions continue.
"""

from __future__ import annotations

import resource
import signal
import subprocess

import pytest
import scripted_server
from mcp_driver import McpServer
from rpc_driver import RpcCore

CLOCK = scripted_server.params("clock")

IMAGE = 20_000  # more than the limit of these tests
LIMIT = 10_000

# A picture with many bytes; the core decodes it and writes the file.
SHOW = f"""
import base64, os
png = b"\\x89PNG\\r\\n\\x1a\\n" + os.urandom({IMAGE})
display({{"image/png": base64.b64encode(png).decode()}}, raw=True)
"""


def limited(ipybox: str, size: int = LIMIT) -> list[str]:
    return ["prlimit", f"--fsize={size}", ipybox]


def assert_names_the_limit(text: str, size: int = LIMIT) -> None:
    assert (
        f"File too large (files of this process may have {size} bytes: raise the limit with "
        f"ulimit -f)"
    ) in text, text


def test_image_over_mcp(ipybox, place, workspace):
    program, *arguments = limited(ipybox)
    with McpServer(program, place, *arguments) as server:
        text = server.cell(SHOW)
        assert f"image not saved: {workspace}/images/" in text
        assert_names_the_limit(text)
        assert list((workspace / "images").iterdir()) == []
        assert server.cell("6 * 7") == "42"


def test_image_over_rpc(ipybox, place, workspace):
    with RpcCore(ipybox, place) as core:
        resource.prlimit(core.process.pid, resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
        session = core.open()
        core.execute(session, SHOW)
        assert list((workspace / "images").iterdir()) == []
        assert core.text(session, "6 * 7") == "42"


def test_output_file_of_run(ipybox, place, workspace):
    """Standard output is a file, and the cell prints more than the limit."""
    with open(workspace / "out", "wb") as out:
        done = subprocess.run(
            [*limited(ipybox), "run", "--no-sandbox", "-c", "print('x' * 20_000)"],
            cwd=workspace,
            env=place.environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert done.returncode == 1 and "File too large" in done.stderr, done
    assert (workspace / "out").stat().st_size == LIMIT


def test_audit_log(ipybox, place, workspace):
    """If the decision cannot be logged, the call is refused. The session continues."""
    (workspace / "audit.jsonl").write_text("x" * (LIMIT - 10) + "\n")
    program, *arguments = limited(ipybox)
    with McpServer(program, place, *arguments, "--audit-log", "audit.jsonl") as server:
        server.register("clock", CLOCK)
        text = server.failing_cell(
            "from mcptools.clock import get_current_time as t; t.run(t.Params(timezone='UTC'))",
            max_output_chars=20_000,
        )
        assert "cannot write to the audit log" in text
        assert_names_the_limit(text)
        assert server.cell("6 * 7") == "42"


@pytest.mark.parametrize("size", [1000, 100], ids=["package", "registry"])
def test_registration(ipybox, place, workspace, size):
    """The previous package and entry remain, and no part of the new ones is left."""
    with McpServer(ipybox, place) as server:
        server.register("clock", CLOCK)

    def files() -> dict[str, bytes]:
        folders = [workspace / "mcptools", place.state]
        return {
            str(p): p.read_bytes()
            for top in folders
            for p in top.rglob("*")
            if p.is_file() and p.suffix != ".pyc"
        }

    before = files()
    program, *arguments = limited(ipybox, size)
    with McpServer(program, place, *arguments) as server:
        params = {
            "server_name": "clock",
            "server_params": {**CLOCK, "env": {"A": "b"}},
        }
        result = server.tool("register_mcp_server", params)
        text = result["content"][0]["text"]
        assert result["isError"] and str(workspace) in text
        assert_names_the_limit(text, size)
        assert files() == before
        code = (
            "from mcptools.clock import get_current_time as t; 'UTC' in "
            "str(t.run(t.Params(timezone='UTC')))"
        )
        assert server.cell(code) == "True"


def test_cells_get_the_limit_as_an_error(ipybox, place):
    """As in any Python: OSError, not a death."""
    program, *arguments = limited(ipybox)
    with McpServer(program, place, *arguments) as server:
        text = server.failing_cell(
            f"open('big', 'wb').write(bytes({IMAGE}))\nopen('big', 'ab').write(b'x')"
        )
        assert "File too large" in text
        assert server.cell("6 * 7") == "42"


def test_installers_get_the_default_of_signals(run_ipybox, workspace):
    """`doctor --setup` runs pip, which may run anything.

    It does not inherit the signals that ipybox ignores. It may inherit those that were ignored when
    the tests were started, as by nohup.
    """
    python = workspace / "python"
    python.write_text("#!/bin/sh\ngrep SigIgn /proc/$$/status > signals\nexit 3\n")
    python.chmod(0o755)
    run_ipybox("doctor", "--setup", "--python", str(python))
    ignored = int((workspace / "signals").read_text().split()[1], 16)
    assert not any(ignored >> (number - 1) & 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))
