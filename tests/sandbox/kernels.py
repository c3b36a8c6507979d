# SPDX-License-Identifier: Apache-2.0
"""Runs ipybox with kernels, by several users; see test_kernels.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import harness
from box import IS_ROOT, Box, make_settings
from mcp_driver import McpServer


def servers_settings(*writable: object) -> dict:
    """A sandbox in which the servers of the tests are found: the clone may be below /tmp, and their
    Python in root's home.
    """
    readable = [
        os.path.realpath(harness.CACHE),
        str(Path(os.path.realpath(sys.executable)).parents[1]),
    ]
    return make_settings(allowRead=readable, allowWrite=[".", *map(str, writable)])


def make_environment(environment: Path) -> tuple[Path, Path]:
    """Makes a virtual environment with the packages of .venv: its site-packages come after those of
    .venv.
    """
    subprocess.run(
        [os.path.realpath(sys.executable), "-m", "venv", "--without-pip", str(environment)],
        check=True,
    )
    (packages,) = (environment / "lib").glob("python3*/site-packages")
    (real,) = (harness.ROOT / ".venv/lib").glob("python3*/site-packages")
    for path in real.iterdir():
        (packages / path.name).symlink_to(path)
    return packages, real


class Kernels:
    """For users other than root, Python is a virtual environment of the test, made of what `box`
    mounts for them.
    """

    def __init__(self, box: Box, user: str) -> None:
        self.box = box
        self.place = box.place
        self.user = user
        self.python = harness.ROOT / ".venv/bin/python3"
        self.environ = dict(box.place.environ)
        if user != "root" and IS_ROOT:
            self.python = self.make_environment()

    def make_environment(self) -> Path:
        base = self.box.base / "bin" / os.path.basename(os.path.realpath(self.python))
        (packages,) = (harness.ROOT / ".venv/lib").glob("python3*/site-packages")
        environment = self.place.root / "environment"
        python = environment / "bin/python3"
        library = environment / packages.relative_to(harness.ROOT / ".venv")
        for path in (python, library):
            path.parent.mkdir(parents=True)
        python.symlink_to(base)
        library.symlink_to(self.box.venv / packages.relative_to(harness.ROOT / ".venv"))
        (environment / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
        self.environ |= dict.fromkeys(
            ["LD_LIBRARY_PATH", "KERNEL_ENV_LD_LIBRARY_PATH"], f"{self.box.base}/lib"
        )
        return python

    def command(self, verb: str, *args: str) -> list[str]:
        """The command line of `ipybox VERB`; "mcp" or "run"."""
        become = self.box.become(self.user, with_python=self.user != "root")
        return [*become, self.box.program(self.user), verb, "--python", str(self.python), *args]

    def run(self, code: str, *flags: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return harness.run(
            self.command("run", *flags, "-c", code), self.place, env=self.environ, timeout=timeout
        )

    def value(self, code: str, *flags: str) -> object:
        """Runs @code, and returns the JSON that it prints."""
        done = self.run(code, *flags)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def serve(
        self,
        *flags: str,
        is_sandboxed: bool = True,
        stderr: bool = False,
        client: type[McpServer] = McpServer,
    ) -> McpServer:
        """`ipybox --sandbox`."""
        place = harness.Place(**{**vars(self.place), "environ": self.environ})
        program, *args = self.command("mcp", *(["--sandbox"] if is_sandboxed else []), *flags)
        return client(program, place, *args, stderr=subprocess.PIPE if stderr else None)

    def servers_flags(self, *writable: object) -> list[str]:
        path = self.box.write_settings(servers_settings(*writable))
        return ["--sandbox-config", path]
