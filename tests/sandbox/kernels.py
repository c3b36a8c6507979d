# SPDX-License-Identifier: Apache-2.0
"""Runs ipybox with kernels, by several users; see test_kernels.py."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import harness
from box import Box
from mcp_driver import McpServer


class Kernels:
    """For others than root Python is a virtual environment of the test's own, made of what `box` mounts for them."""

    def __init__(self, box: Box, user: str) -> None:
        self.box = box
        self.place = box.place
        self.user = user
        self.python = harness.ROOT / ".venv/bin/python3"
        self.environ = dict(box.place.environ)
        if user != "root":
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
        self.environ |= dict.fromkeys(["LD_LIBRARY_PATH", "KERNEL_ENV_LD_LIBRARY_PATH"], f"{self.box.base}/lib")
        return python

    def command(self, verb: str, *args: str) -> list[str]:
        """The command line of `ipybox VERB`; "mcp" or "run"."""
        become = self.box.become(self.user, with_python=self.user != "root")
        return [*become, self.box.program(self.user), verb, "--python", str(self.python), *args]

    def run(self, code: str, *flags: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return harness.run(self.command("run", *flags, "-c", code), self.place, env=self.environ, timeout=timeout)

    def value(self, code: str, *flags: str) -> object:
        """What @code prints, which is JSON."""
        done = self.run(code, *flags)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def serve(self, *flags: str) -> McpServer:
        """`ipybox --sandbox`."""
        place = harness.Place(**{**vars(self.place), "environ": self.environ})
        program, *args = self.command("mcp", "--sandbox", *flags)
        return McpServer(program, place, *args)
