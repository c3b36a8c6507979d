#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs short episodes in an ExecutorPool: a session, a few cells, the end; prints times as JSON.

usage: benchmarks/pool.py [--episodes N] [--size N] [--cells N] [--no-sandbox]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("IPYBOX_BIN", str(ROOT / "build/ipybox"))

from ipybox import ExecutorPool  # noqa: E402

WARM_UP = 20


async def run_episode(pool: ExecutorPool, n_cells: int, times: dict[str, list[float]]) -> None:
    """One cell after the other; each must see what the one before it has left."""
    begun = time.perf_counter()
    async with pool.session() as executor:
        opened = time.perf_counter()
        for number in range(n_cells):
            code = "n = 0\nprint(n)" if number == 0 else "n += 1\nprint(n)"
            result = await executor.execute(code)
            assert result.text == str(number), result
        ended = time.perf_counter()
    closed = time.perf_counter()
    times["open"].append(opened - begun)
    times["cells"].append(ended - opened)
    times["close"].append(closed - ended)


async def run_episodes(pool: ExecutorPool, count: int, n_cells: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"open": [], "cells": [], "close": []}
    numbers = iter(range(count))

    async def work() -> None:
        for _ in numbers:
            await run_episode(pool, n_cells, times)

    await asyncio.gather(*(work() for _ in range(pool.size)))
    return times


async def measure(options: argparse.Namespace) -> dict[str, float]:
    python = str(ROOT / ".venv/bin/python")
    async with ExecutorPool(
        options.size,
        directory=ROOT / "build/pool",
        sandbox=not options.no_sandbox,
        python=python,
        kernel_init_timeout=60,
    ) as pool:
        await run_episodes(pool, WARM_UP, options.cells)
        begun = time.perf_counter()
        times = await run_episodes(pool, options.episodes, options.cells)
        elapsed = time.perf_counter() - begun
    report = {
        "episodes": options.episodes,
        "size": options.size,
        "elapsed_s": round(elapsed, 2),
        "ms_per_episode": round(1000 * elapsed / options.episodes, 2),
    }
    for name, values in times.items():
        report[f"{name}_ms_median"] = round(1000 * statistics.median(values), 2)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--size", type=int, default=4, help="sessions at the same time")
    parser.add_argument("--cells", type=int, default=5, help="cells of an episode")
    parser.add_argument("--no-sandbox", action="store_true")
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
