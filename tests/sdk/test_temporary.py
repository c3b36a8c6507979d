# SPDX-License-Identifier: Apache-2.0
"""Temporary directories of the adapters (ipybox.integrations.temporary)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import harness

PROGRAM = """
import os, sys
from ipybox.integrations import temporary

class Owner:
    pass

owner, early = Owner(), Owner()
directory, _ = temporary.make_directory(owner, "ipybox-test-")
removed, remove = temporary.make_directory(early, "ipybox-test-")
remove()
assert not removed.exists()
pid = os.fork()
if pid == 0:
    sys.exit()  # runs what is registered for the end of a program
os.waitpid(pid, 0)
(directory / "locked").mkdir(mode=0)
print(directory.exists(), directory)
"""


def test_it_ends_with_the_program_that_made_it(tmp_path: Path) -> None:
    environ = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(harness.ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True
    )
    existed, _, path = done.stdout.strip().partition(" ")
    assert (existed, Path(path).parent) == ("True", tmp_path)
    assert list(tmp_path.iterdir()) == []
