# SPDX-License-Identifier: Apache-2.0
"""Measures the generation of the package of 1,000 tools of real servers (tests/corpus).

usage: python benchmarks/apigen.py [--rounds N] [--tools N]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOL = ROOT / "build/tests/unit/apigen-tool"


def load(count: int) -> list[dict]:
    lists = sorted(
        path for path in (ROOT / "tests/corpus").glob("*.json") if path.name != "servers.json"
    )
    tools = [tool for path in lists for tool in json.loads(path.read_text())["tools"]]
    return (tools * (count // len(tools) + 1))[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description="API generation for many tools.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tools", type=int, default=1000)
    arguments = parser.parse_args()
    text = json.dumps(load(arguments.tools)).encode()
    times = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as root:
        for _ in range(arguments.rounds):
            start = time.perf_counter()
            subprocess.run([TOOL, "srv", root], input=text, stdout=subprocess.DEVNULL, check=True)
            times.append((time.perf_counter() - start) * 1000)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = sum(path.stat().st_size for path in Path(root).glob("srv/*.py"))
    print(f"{arguments.tools} tools, {len(text):,} bytes of JSON → {size:,} bytes of Python")
    own = (after.ru_utime - before.ru_utime) * 1000 / arguments.rounds
    kernel = (after.ru_stime - before.ru_stime) * 1000 / arguments.rounds
    print(
        f"median {statistics.median(times):.0f} ms, best {min(times):.0f} ms, a process each time"
        " (target: 200 ms)"
    )
    print(
        f"of it {own:.0f} ms CPU for the text, {kernel:.0f} ms for the file system, where the"
        " package replaces one"
    )


if __name__ == "__main__":
    main()
