# SPDX-License-Identifier: Apache-2.0
"""Real software works inside."""

from __future__ import annotations

import pytest
from box import PROBES, Box

WORK = [
    "numpy", "pandas", "matplotlib", "subprocess", "asyncio", "pty", "sqlite", "git", "threads", "sockets", "temporary_files",
    "multiprocessing fork", "multiprocessing spawn", "multiprocessing forkserver",
]  # fmt: skip


@pytest.mark.parametrize("work", WORK)
def test_work(box: Box, user: str, work: str) -> None:
    script = box.place.workspace / "software.py"
    script.write_text((PROBES / "software.py").read_text())
    done = box([*box.python(), "software.py", *work.split()], user=user, with_python=True)
    assert (done.stdout, done.returncode) == ("works\n", 0), done.stderr
