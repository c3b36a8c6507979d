#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times branches, checkpoints and undo of live sessions, by the Python SDK.

For each size, a session fills so many MB of Python's heap; once also 1 GB of huge pages, as numpy
asks for its large arrays. Then, in each round, it is forked, the branch runs the cell `1`, and
ends; and a checkpoint is made, restored and dropped. Then cells run with an undo ring of 20 and
without, and 20 cells are undone. One small session is forked many times, all branches live at once,
and each runs a cell. With --sandbox, sessions are in sandboxes.
With --cycles N, N checkpoints are made, restored and dropped. The descriptors of the core and the
memory of this program's processes are shown before and after.

It needs the packages of .venv, and a built ipybox.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import result_files
from contenders import ROOT
from processes import memory_mb

sys.path.insert(0, str(ROOT / "python"))
PAGES_IN_MB = 256
# Objects of a page each, as a program with much data has.
FILL = "data = [bytearray(4000) for _ in range({n})]"
FILL_HUGE = f"""
import mmap
data = mmap.mmap(-1, {1000 * PAGES_IN_MB} * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
data.madvise(mmap.MADV_HUGEPAGE)
for i in range(0, len(data), 4096):
    data[i] = 1
"""
FILLS = {f"{size} MB": FILL.format(n=size * PAGES_IN_MB) for size in (10, 100, 1000)}
FILLS["1000 MB of huge pages"] = FILL_HUGE
UNDO = 20
# Cycles before the first count.
WARMUP = 20


async def time_size(options: dict[str, Any], fill: str, rounds: int) -> dict[str, float]:
    from ipybox import CodeExecutor

    forked, first, again = [], [], []
    async with CodeExecutor(**options) as executor:
        await executor.execute(fill)
        for _ in range(rounds):
            start = time.perf_counter()
            (branch,) = await executor.fork()
            forked.append(time.perf_counter() - start)
            await branch.execute("1")
            first.append(time.perf_counter() - start)
            start = time.perf_counter()
            await executor.execute("1")
            again.append(time.perf_counter() - start)
            await branch.stop()
    return {
        "fork_ms": statistics.median(forked) * 1000,
        "first_ms": statistics.median(first) * 1000,
        "best_ms": min(first) * 1000,
        "forerunner_ms": statistics.median(again) * 1000,
    }


async def time_checkpoints(options: dict[str, Any], fill: str, rounds: int) -> dict[str, float]:
    from ipybox import CodeExecutor

    made, restored, memory = [], [], []
    async with CodeExecutor(**options) as executor:
        await executor.execute(fill)
        for _ in range(rounds):
            start = time.perf_counter()
            checkpoint = await executor.checkpoint()
            made.append(time.perf_counter() - start)
            (listed,) = await executor.checkpoints()
            memory.append(listed.private_bytes / 1e6)
            start = time.perf_counter()
            await checkpoint.restore()
            restored.append(time.perf_counter() - start)
            await checkpoint.drop()
    return {
        "checkpoint_ms": statistics.median(made) * 1000,
        "restore_ms": statistics.median(restored) * 1000,
        "private_mb": statistics.median(memory),
    }


async def time_cells(options: dict[str, Any], undo: int, cells: int) -> tuple[float, float]:
    """The median of a cell in ms, and the time to undo `undo` cells."""
    from ipybox import CodeExecutor

    times = []
    async with CodeExecutor(**options, undo=undo) as executor:
        await executor.execute("x = 0")
        for _ in range(cells):
            start = time.perf_counter()
            await executor.execute("x += 1")
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if undo:
            await executor.undo(undo)
        undone = time.perf_counter() - start
        left = (await executor.execute("x")).text
    if left != str(cells - undo):
        raise SystemExit(f"undo of {undo} of {cells} cells left {left}")
    return statistics.median(times) * 1000, undone * 1000


async def time_undo(options: dict[str, Any], rounds: int) -> dict[str, float]:
    cells = UNDO + rounds
    plain, _ = await time_cells(options, 0, cells)
    ring, undone = await time_cells(options, UNDO, cells)
    return {"cell_ms": plain, "with_ring_ms": ring, "undo_ms": undone}


async def count_cycles(options: dict[str, Any], cycles: int) -> dict[str, float]:
    """What is left after many checkpoints and restores."""
    from ipybox import CodeExecutor
    from ipybox.core import acquire_core

    core = acquire_core()
    figures: dict[str, float] = {}
    async with CodeExecutor(**options) as executor:
        await executor.execute("x = 0")
        for i in range(cycles + WARMUP):
            if i == WARMUP:
                await asyncio.sleep(1)  # what ended is reaped
                figures["fds_before"] = len(os.listdir(f"/proc/{core.pid}/fd"))
                figures["mb_before"] = memory_mb(os.getpid())
            checkpoint = await executor.checkpoint()
            await executor.execute("x += 1")
            await checkpoint.restore()
            await checkpoint.drop()
        await asyncio.sleep(1)
        figures["fds_after"] = len(os.listdir(f"/proc/{core.pid}/fd"))
        figures["mb_after"] = memory_mb(os.getpid())
    core.release()
    return figures


async def time_many(options: dict[str, Any], count: int) -> dict[str, float]:
    from ipybox import CodeExecutor

    async with CodeExecutor(**options) as executor:
        await executor.execute("x = 42")
        alone = memory_mb(os.getpid())
        start = time.perf_counter()
        branches = await executor.fork(count)
        made = time.perf_counter() - start
        try:
            results = [(await branch.execute("x")).text for branch in branches]
            used = time.perf_counter() - start
            each_mb = (memory_mb(os.getpid()) - alone) / count
        finally:
            start = time.perf_counter()
            for branch in branches:
                await branch.stop()
            closed = time.perf_counter() - start
    if results != ["42"] * count:
        raise SystemExit(f"a branch gave another result: {set(results)}")
    return {"made_s": made, "used_s": used, "closed_s": closed, "each_mb": each_mb}


async def measure(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    executor_options: dict[str, Any] = {"log_level": "ERROR", "python": str(options.python)}
    if options.sandbox:
        executor_options["sandbox"] = True
        # They count together.
        executor_options["limits"] = {"processes": 2 * options.many + 512}
    rows = {}
    for title in options.fills:
        rows[title] = {
            **await time_size(executor_options, FILLS[title], options.rounds),
            **await time_checkpoints(executor_options, FILLS[title], options.rounds),
        }
    rows["undo"] = await time_undo(executor_options, options.rounds)
    rows[f"{options.many} branches"] = await time_many(executor_options, options.many)
    if options.cycles:
        rows[f"{options.cycles} cycles"] = await count_cycles(executor_options, options.cycles)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sandbox", action="store_true", help="sessions in sandboxes")
    parser.add_argument("--quick", action="store_true", help="few rounds, small sizes")
    parser.add_argument("--many", type=int, default=500, help="branches at once (default: 500)")
    parser.add_argument("--rounds", type=int, default=30, help="of each size (default: 30)")
    parser.add_argument("--cycles", type=int, default=0, help="checkpoints and restores to count")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="default: build")
    parser.add_argument("--python", type=Path, default=ROOT / ".venv/bin/python")
    result_files.add_options(parser)
    options = parser.parse_args()
    options.fills = list(FILLS)
    if options.quick:
        options.fills, options.rounds, options.many = list(FILLS)[:1], 2, 5
    os.environ["IPYBOX_BIN"] = str(options.build.absolute() / "ipybox")
    rows = asyncio.run(measure(options))
    for title, figures in rows.items():
        print(f"{title:22}", *(f"{name} {value:,.1f}" for name, value in figures.items()), sep="  ")
    result_files.write(options, "branches-sandbox" if options.sandbox else "branches", rows)


if __name__ == "__main__":
    main()
