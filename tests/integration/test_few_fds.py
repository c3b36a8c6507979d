# SPDX-License-Identifier: Apache-2.0
"""ipybox under a limit on file descriptors that is raised step by step.

Under each limit it works, or ends with an error that names the limit. Nothing hangs, crashes or is
left behind, which the fixture `place` checks. The number of descriptors that are needed varies:
things that happen at the same time in one run happen one after the other in the next.
"""

from __future__ import annotations

import harness
import pytest
from mcp_driver import try_cell

# With fewer GLib has no descriptor for its main context, and ends the program.
LEAST = 6
# With these everything works; a sandbox takes a few.
ENOUGH = 48
# Each of the three tests tries every second limit.
STEP = 2


def limited(n: int, *command: str) -> list[str]:
    return ["prlimit", f"--nofile={n}:{n}", *command]


@pytest.mark.parametrize(
    ("options", "least"), [(["--no-sandbox"], LEAST), ([], LEAST + 1)], ids=["kernel", "sandbox"]
)
def test_run(ipybox, place, options, least):
    for n in range(least, ENOUGH + 2, STEP):
        result = harness.run(limited(n, ipybox, "run", *options, "-c", "print(6 * 7)"), place)
        works = result.returncode == 0
        if works:
            assert result.stdout == "42\n"
        else:
            assert result.returncode == 1 and f"this process may have {n}" in result.stderr, result
    assert works


def test_mcp_server(ipybox, place):
    for n in range(LEAST, ENOUGH + 1, STEP):
        text, errors, status = try_cell(limited(n, ipybox), place)
        works = text == "42"
        if works:
            assert status == 0
        else:
            is_named = f"this process may have {n}" in text + errors
            assert status in (0, 1) and is_named, (status, text, errors)
    assert works
