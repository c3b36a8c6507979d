# SPDX-License-Identifier: Apache-2.0
"""Programs whose core is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import harness


def kill_core_at(delays: tuple[float, ...], code: str) -> None:
    """Runs a program for each delay, and kills its core so many seconds after it has begun.

    The program prints the pid of its core first. Afterwards no process may be left.
    """
    before = harness.descendants()
    for delay in delays:
        program = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(harness.ROOT / "python")},
            text=True,
        )
        assert program.stdout is not None
        core = int(program.stdout.readline())
        time.sleep(delay)  # not to synchronise: the moment is to differ
        os.kill(core, signal.SIGKILL)
        program.wait(60)
        program.stdout.close()
    left = harness.processes_left(before)
    assert not left, "\n".join(left)
