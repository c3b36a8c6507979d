# SPDX-License-Identifier: Apache-2.0
"""scripts/retry runs a failing command again, a limited number of times, and returns its status."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/retry"


@pytest.mark.parametrize(
    ("good", "status", "attempts"),
    [(1, 0, 1), (2, 0, 2), (3, 0, 3), (4, 7, 3)],
    ids=["first", "second", "third", "never"],
)
def test_attempts(tmp_path, good, status, attempts):
    """The command succeeds from its attempt `good` on."""
    command = f'echo "$1" >>log; [ "$(wc -l <log)" -ge {good} ] || exit 7'
    done = subprocess.run(
        [SCRIPT, "sh", "-c", command, "sh", "an argument"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "IPYBOX_RETRY_PAUSE": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status
    assert (tmp_path / "log").read_text() == "an argument\n" * attempts
    assert done.stderr == "failed with 7, again in 0 s: sh\n" * (min(good, 3) - 1)
