# SPDX-License-Identifier: Apache-2.0
"""What compare.py compares: ipybox 0.9.2, ipybox, and ipybox with its sandbox."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from processes import BenchmarkError, LineProgram, McpProcess

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SDK_PROGRAM = HERE / "sdk_program.py"
ORIGINAL_VENV = ROOT / ".cache" / "bench" / "original"
ORIGINAL_PINS = HERE / "requirements-original.txt"

# As the table heads their columns.
ORIGINAL = "0.9.2"
OURS = "ipybox"
SANDBOXED = "sandbox"


# One cell of the original without an MCP host, as `ipybox run -c` does it.
ORIGINAL_ONE_CELL = """
import asyncio
from ipybox import CodeExecutor

async def main():
    async with CodeExecutor(log_level="ERROR") as session:
        print((await session.execute("1")).text)

asyncio.run(main())
"""


@dataclass
class Contender:
    """One of the programs: how to start it."""

    name: str
    server: list[str]
    sessions: list[str]
    sdk: list[str]
    one_cell: list[str]
    environment: dict[str, str]
    log: Path | None = None

    def start(self, workspace: Path) -> McpProcess:
        return McpProcess(
            [*self.server, "--workspace", str(workspace)], workspace, self.environment, self.log
        )

    def start_program(self, command: list[str]) -> LineProgram:
        return LineProgram(self.name, command, self.environment, self.log)


def environment_with(python: Path) -> dict[str, str]:
    """Ours, with the programs of a Python's environment first on PATH."""
    environment = dict(os.environ)
    environment["PATH"] = f"{python.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    environment.pop("VIRTUAL_ENV", None)
    return environment


def our_contender(
    build: Path, python: Path | None, state: Path, log: Path | None, *, is_sandboxed: bool
) -> Contender:
    """Only kernels are sandboxed. The tool servers, measured too, run outside for both."""
    binary = build / "ipybox"
    if not os.access(binary, os.X_OK):
        raise BenchmarkError(f"{binary} is not there; build it first: make")
    server = [str(binary)]
    environment = dict(os.environ)
    if python:
        server += ["--python", str(python)]
        environment = environment_with(python)
    # What is registered here is not the user's.
    environment["XDG_STATE_HOME"] = str(state)
    # The SDK takes the program from here, and the kernels' Python is its own.
    environment["IPYBOX_BIN"] = str(binary)
    environment["PYTHONPATH"] = str(ROOT / "python")
    sessions = build / "bench-sessions"
    python_flags = server[1:]
    return Contender(
        SANDBOXED if is_sandboxed else OURS,
        [*server, "--sandbox", "--unsandboxed-servers"] if is_sandboxed else server,
        [str(sessions), *(["--sandbox"] if is_sandboxed else []), *python_flags]
        if os.access(sessions, os.X_OK)
        else [],
        [str(python or sys.executable), str(SDK_PROGRAM), *(["--sandbox"] if is_sandboxed else [])],
        [str(binary), "run", *([] if is_sandboxed else ["--no-sandbox"]), *python_flags, "-c", "1"],
        environment,
        log,
    )


def original_contender(python: Path, log: Path | None) -> Contender:
    command = shutil.which("ipybox", path=str(python.parent))
    if not command:
        raise BenchmarkError(f"there is no ipybox beside {python}")
    return Contender(
        ORIGINAL,
        [command],
        [],
        [str(python), str(SDK_PROGRAM)],
        [str(python), "-c", ORIGINAL_ONE_CELL],
        environment_with(python),
        log,
    )


def install_original() -> Path:
    """The original in an environment of its own, made once."""
    setup = [str(ROOT / "scripts" / "venv"), str(ORIGINAL_VENV), str(ORIGINAL_PINS)]
    subprocess.run(
        setup, check=True, stdout=sys.stderr, env=os.environ | {"PYTHON": sys.executable}
    )
    return ORIGINAL_VENV / "bin" / "python"
