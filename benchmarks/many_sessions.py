#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens many sessions in one program, uses each and closes them; prints times and memory.

Each session is used twice: when it is opened, and when all are open. With --sandbox each has its
own sandbox. If the program leaves processes or new mounts behind, that is an error.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contenders import ROOT
from processes import BenchmarkError, memory_mb, process_tree, wait_for_end

PROGRESS_EVERY = 50


class Program:
    """bench-sessions, and what it is asked."""

    def __init__(self, command: list[str], directory: str) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def ask(self, what: str) -> float:
        """The seconds it took."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{what}\n")
        line = self.process.stdout.readline()
        if not line:
            raise BenchmarkError(f"bench-sessions ended when it was asked for {what!r}")
        return float(line)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        wait_for_end(self.process)


def open_sessions(program: Program, count: int) -> list[float]:
    times = []
    for number in range(count):
        times.append(program.ask("new"))
        if sys.stderr.isatty() and number % PROGRESS_EVERY == 0:
            print(f"\r\033[K{number} of {count} sessions", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return times


def mounts() -> set[str]:
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def measure(command: list[str], count: int) -> None:
    mounted = mounts()
    with tempfile.TemporaryDirectory(prefix="ipybox-bench-") as directory:
        program = Program(command, directory)
        try:
            times = open_sessions(program, count)
            cells = program.ask("cells")
            tree = process_tree(program.process.pid)
            used_mb = memory_mb(program.process.pid)
        finally:
            start = time.perf_counter()
            program.close()
        closing = time.perf_counter() - start
    left = [pid for pid in tree if os.path.exists(f"/proc/{pid}")]
    if program.process.returncode != 0 or left or mounts() - mounted:
        raise BenchmarkError(
            f"exit status {program.process.returncode}; left: processes {left}, "
            f"mounts {mounts() - mounted}"
        )
    further = sorted(times[1:]) or times
    rows = [
        ("sessions", f"{count:,}", ""),
        ("first one to its first result", f"{times[0] * 1000:,.0f}", "ms"),
        ("a further one, median", f"{statistics.median(further) * 1000:,.1f}", "ms"),
        ("a further one, slowest", f"{further[-1] * 1000:,.1f}", "ms"),
        ("all opened and used", f"{sum(times):,.1f}", "s"),
        ("a cell in one of them, all open", f"{cells / count * 1000:,.2f}", "ms"),
        ("all closed", f"{closing:,.1f}", "s"),
        ("processes", f"{len(tree):,}", ""),
        ("memory (PSS) of all", f"{used_mb:,.0f}", "MB"),
        ("memory for each", f"{used_mb / count:,.2f}", "MB"),
    ]
    for title, number, unit in rows:
        print(f"{title:32} {number:>8} {unit}".rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "count", type=int, nargs="?", default=1000, help="how many sessions (default: 1000)"
    )
    parser.add_argument("--sandbox", action="store_true", help="each in a sandbox of its own")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build", help="the build folder (default: build)"
    )
    parser.add_argument("--python", type=Path, help="the Python for the kernels (default: .venv)")
    options = parser.parse_args()
    python = options.python or ROOT / ".venv/bin/python"
    command = [
        str(options.build.absolute() / "bench-sessions"),
        *(["--sandbox"] if options.sandbox else []),
    ]
    try:
        measure([*command, "--python", str(python.absolute())], options.count)
    except (BenchmarkError, OSError) as problem:
        print(f"many_sessions: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
