# SPDX-License-Identifier: Apache-2.0
"""With a limit on the address space that is too low: it works, or it ends with an error that tells of it. Nothing hangs or is left."""

from __future__ import annotations

import subprocess
from pathlib import Path

from docs_program import sanitizer_flags

# With much less GLib cannot make its thread, and ends the program, which no program that uses it can help.
LEAST_MIB = 32
ENOUGH_MIB = 512


def test_run(ipybox, place):
    if sanitizer_flags(Path(ipybox).parent):
        return  # the sanitizers' own address space has terabytes
    works = False
    limits = [*range(LEAST_MIB, 64, 4), *range(64, ENOUGH_MIB, 96), ENOUGH_MIB]
    for mib in limits:
        result = subprocess.run(
            ["prlimit", f"--as={mib << 20}", ipybox, "run", "-c", "print(6 * 7)"],
            cwd=place.workspace,
            env=place.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        works = result.returncode == 0
        if works:
            assert result.stdout == "42\n"
        else:
            # Before the cell the limit is named, whatever Python says (it has many words for this); in it, Python's error is all.
            expected = ("memory (address space) is limited", "thread", "MemoryError", "Traceback")
            assert result.returncode == 1 and any(text in result.stderr for text in expected), (
                mib,
                result,
            )
    assert works
