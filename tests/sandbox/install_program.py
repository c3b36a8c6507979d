# SPDX-License-Identifier: Apache-2.0
"""Installs the package `boxdemo` in one of the ways in which ipybox is used.

Prints the result, and what cells see, as JSON. The repository's python and tests/integration must
be in PYTHONPATH.

usage: install_program.py WAY IPYBOX PYTHON
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from types import SimpleNamespace

from mcp_driver import McpServer

INSTALL = "!python3 -m pip install -q boxdemo"
# Where a cell can find settings: its environment, the environment of processes, and files in its
# workspace.
LOOK = """
import glob, os, pathlib
seen = [str(dict(os.environ))]
paths = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
for path in [*paths, *glob.glob("**/*", recursive=True, include_hidden=True)]:
    try:
        seen.append(pathlib.Path(path).read_text(errors="replace"))
    except OSError:
        pass
try:
    import boxdemo
    print("answer", boxdemo.value)
except ImportError:
    print("not there")
print("secret" in "".join(seen))
"""


def mcp(ipybox: str, python: str, *flags: str) -> tuple[str, str]:
    place = SimpleNamespace(workspace=os.getcwd(), environ=dict(os.environ))
    flags += tuple(os.environ.get("IPYBOX_TEST_FLAGS", "").split())
    with McpServer(ipybox, place, "--python", python, *flags) as server:
        answer = server.tool("install_package", {"package_name": "boxdemo"})
        return answer["content"][0]["text"], server.tool("execute_ipython_cell", {"code": LOOK})[
            "content"
        ][0]["text"]


def run(ipybox: str, python: str, *flags: str) -> tuple[str, str]:
    done = subprocess.run(
        [
            ipybox,
            "run",
            "--python",
            python,
            "--approve",
            "allow",
            *flags,
            "-c",
            f"{INSTALL}\n{LOOK}",
        ],
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr, done.stdout


def sdk(ipybox: str, python: str, sandbox: bool) -> tuple[str, str]:
    from ipybox import CodeExecutor

    async def use() -> tuple[str, str]:
        async with CodeExecutor(
            sandbox=sandbox, python=python, approve_tool_calls=False
        ) as executor:
            installed = await executor.execute(INSTALL)
            return installed.text or "", (await executor.execute(LOOK)).text or ""

    return asyncio.run(use())


WAYS = {
    "mcp": lambda *where: mcp(*where),
    "mcp --sandbox": lambda *where: mcp(*where, "--sandbox"),
    "run": lambda *where: run(*where),
    "run --no-sandbox": lambda *where: run(*where, "--no-sandbox"),
    "sdk": lambda *where: sdk(*where, sandbox=False),
    "sdk sandbox": lambda *where: sdk(*where, sandbox=True),
}

if __name__ == "__main__":
    installed, seen = WAYS[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({"installed": installed, "seen": seen}))
