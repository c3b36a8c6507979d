#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks whose figures scripts/draw-benchmarks draws, one after the other.

Each writes a file in the directory for results. To draw a run, copy its files to
benchmarks/results, and commit them with the pictures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = {
    "compare": ["compare.py"],
    "serve": ["serve.py"],
    "branches": ["branches.py"],
    "branches-sandbox": ["branches.py", "--sandbox"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few samples")
    parser.add_argument(
        "--with-original", action="store_true", help="compare with ipybox 0.9.2, which is installed"
    )
    parser.add_argument(
        "--only", metavar="NAME,…", help=f"some of them (default: {','.join(BENCHMARKS)})"
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="default: build")
    parser.add_argument("--results", type=Path, help="default: bench in the build folder")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(BENCHMARKS)
    if unknown := [name for name in names if name not in BENCHMARKS]:
        parser.error(f"there is no {', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
    failed = []
    for name in names:
        program, *more = BENCHMARKS[name]
        command = [sys.executable, str(ROOT / "benchmarks" / program), *more]
        command += ["--build", str(options.build)]
        command += ["--results", str(options.results or options.build / "bench")]
        command += ["--quick"] if options.quick else []
        command += ["--with-original"] if options.with_original and name == "compare" else []
        print(f"\n== {name}", flush=True)
        if subprocess.run(command).returncode != 0:
            failed.append(name)
    if failed:
        print(f"run_all: not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
