# SPDX-License-Identifier: Apache-2.0
"""The files in which benchmarks keep a run: its date, version, machine and figures.

Those in benchmarks/results are committed; scripts/draw-benchmarks draws them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the run to FILE")
    parser.add_argument(
        "--results", metavar="DIR", type=Path, help="also write it to a file in DIR, named by date"
    )


def describe(benchmark: str, figures: Any) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "machine": {
            "processors": len(os.sched_getaffinity(0)),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
            "system": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
        },
        "figures": figures,
    }


def commit() -> str | None:
    """The commit of the checkout; with a plus sign if files differ from it."""
    try:
        command = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None  # not a checkout, or there is no git
    return done.stdout.strip()


def write(options: argparse.Namespace, benchmark: str, figures: Any) -> None:
    """To the files that the options of `add_options` name, if any."""
    if not options.json and not options.results:
        return
    text = json.dumps(describe(benchmark, figures), indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    if options.results:
        options.results.mkdir(parents=True, exist_ok=True)
        path = options.results / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{benchmark}.json"
        path.write_text(text)
        print(f"written: {path}")
