#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of a staged workspace: list, commit and discard of files, and cells; prints them as JSON.

usage: benchmarks/staged.py [--files N] [--rounds N] [--directory DIR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("IPYBOX_BIN", str(ROOT / "build/ipybox"))

from ipybox import CodeExecutor  # noqa: E402

CELLS = 30


class Times:
    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    async def of(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        begun = time.perf_counter()
        result = await work()
        self.values.setdefault(name, []).append(1000 * (time.perf_counter() - begun))
        return result

    def medians(self) -> dict[str, float]:
        return {name: round(statistics.median(each), 2) for name, each in self.values.items()}


def write(name: str, count: int, text: str) -> str:
    return f"""
import os
os.makedirs("{name}", exist_ok=True)
for i in range({count}):
    with open(f"{name}/{{i}}", "w") as file:
        file.write({text!r})
"""


async def run_round(executor: CodeExecutor, times: Times, number: int, count: int) -> None:
    name = f"round{number}"
    for what, text in (("new", "x" * 100), ("changed", "y" * 200)):
        await executor.execute(write(name, count, text))
        listed = await times.of(f"list, {what}", executor.changes)
        done = await times.of(f"commit, {what}", executor.commit)
        assert listed.total >= count and done.problems == 0, done
        assert (Path(name) / str(count - 1)).read_text() == text
    await executor.execute(write(f"{name}-not", count, "z"))
    undone = await times.of("discard, new", executor.discard)
    assert undone.problems == 0 and undone.total == count + 1, undone


async def run_cells(executor: CodeExecutor, times: Times, name: str) -> None:
    for _ in range(CELLS):
        await times.of(name, lambda: executor.execute("1"))


async def measure(options: argparse.Namespace, place: Path) -> dict[str, float]:
    times = Times()
    workspace = place / "workspace"
    workspace.mkdir()
    os.chdir(workspace)
    python = str(ROOT / ".venv/bin/python")
    async with CodeExecutor(sandbox=True, python=python) as executor:
        await run_cells(executor, times, "a cell, live")
    for number in range(options.rounds):
        async with CodeExecutor(
            sandbox=True, workspace_mode="staged", staging_dir=place / "layers", python=python
        ) as executor:
            await executor.execute("1")
            await run_cells(executor, times, "a cell, staged")
            await run_round(executor, times, number, options.files)
            await run_cells(executor, times, f"a cell, staged, {options.files} files")
    return times.medians()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--directory", help="where the workspace and the layers are")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        report = asyncio.run(measure(options, Path(place).resolve()))
        os.chdir("/")
    print(json.dumps({"unit": "ms, median", **report}, indent=2))


if __name__ == "__main__":
    main()
