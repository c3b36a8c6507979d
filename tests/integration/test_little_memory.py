# SPDX-License-Identifier: Apache-2.0
"""ipybox under a limit on its address space that is raised step by step.

Under each limit it works, or ends with an error that says why. Nothing hangs or is left behind.
"""

from __future__ import annotations

from pathlib import Path

import harness
from docs_program import sanitizer_flags

# With much less GLib cannot create its thread, and ends the program.
LEAST_MIB = 32
ENOUGH_MIB = 512


def test_run(ipybox, place):
    if sanitizer_flags(Path(ipybox).parent):
        return  # the sanitizers' own address space has terabytes
    works = False
    limits = [*range(LEAST_MIB, 64, 4), *range(64, ENOUGH_MIB, 96), ENOUGH_MIB]
    for mib in limits:
        command = ["prlimit", f"--as={mib << 20}", ipybox, "run", "-c", "print(6 * 7)"]
        result = harness.run(command, place)
        works = result.returncode == 0
        if works:
            assert result.stdout == "42\n"
        else:
            # Before the cell runs, our error names the limit, whatever Python says; Python has many
            # messages for this. In the cell, Python's error is all that there is.
            expected = ("memory (address space) is limited", "thread", "MemoryError", "Traceback")
            assert result.returncode == 1, (mib, result)
            assert any(text in result.stderr for text in expected), (mib, result)
    assert works
