# SPDX-License-Identifier: Apache-2.0
"""Attack suite H: real software works inside; in kernels, see test_kernel_walls.py."""

from __future__ import annotations

import harness
import pytest
from box import PROBES, Box, make_settings

WORK = [
    "numpy",
    "pandas",
    "matplotlib",
    "subprocess",
    "asyncio",
    "pty",
    "sqlite",
    "git",
    "threads",
    "sockets",
    "temporary_files",
    "multiprocessing fork",
    "multiprocessing spawn",
    "multiprocessing forkserver",
]


@pytest.mark.parametrize("work", WORK)
def test_work(box: Box, user: str, work: str) -> None:
    script = box.place.workspace / "software.py"
    script.write_text((PROBES / "software.py").read_text())
    done = box([*box.python(), "software.py", *work.split()], user=user, with_python=True)
    assert (done.stdout, done.returncode) == ("works\n", 0), done.stderr


def test_a_python_that_is_reached_through_a_hidden_link(box: Box) -> None:
    (box.place.home / "venvs").mkdir()
    (box.place.home / "venvs/current").symlink_to((harness.ROOT / ".venv").resolve())
    path = box.write_settings(make_settings(denyRead=["~"]))
    flags = ["--sandbox-config", path, "--python", str(box.place.home / "venvs/current/bin/python")]
    done = box(
        [
            box.program("root"),
            "run",
            *flags,
            "-c",
            "import wave, matplotlib.pyplot; print('works')",
        ],
        sandbox=False,
    )
    assert done.stdout == "works\n", done.stderr
