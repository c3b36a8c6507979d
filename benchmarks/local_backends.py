#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs short episodes in frameworks' own local backends, in our adapters, and in an ExecutorPool.

An episode opens a session, runs a few cells, one after the other, and ends. `inspect` runs each
cell as a command `python3 -c`, as its tools do: its own backend `local`, and `ipybox`. `smolagents`
runs cells with its own interpreter of Python in the process, and in `ipybox`. None of the own
backends is a sandbox. Each row runs in a process of its own, with the framework's own environment,
and is printed as JSON.

It needs `scripts/test-setup frameworks code-adapters`, and a built ipybox.

usage: benchmarks/local_backends.py [--episodes N] [--size N] [--cells N] [ROW…]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("IPYBOX_BIN", str(ROOT / "build/ipybox"))

VENV = ROOT / ".venv/bin/python"
FRAMEWORKS = ROOT / ".cache/test/frameworks/bin/python"
CODE_ADAPTERS = ROOT / ".cache/test/code-adapters/bin/python"

# Runs a cell, and returns what it printed.
Cell = Callable[[str], Awaitable[str]]
Session = Callable[[], AbstractAsyncContextManager[Cell]]


@asynccontextmanager
async def open_pool(size: int) -> AsyncIterator[Session]:
    from ipybox import ExecutorPool

    async with ExecutorPool(size, python=str(VENV), kernel_init_timeout=60) as pool:

        @asynccontextmanager
        async def session() -> AsyncIterator[Cell]:
            async with pool.session() as executor:

                async def cell(code: str) -> str:
                    return (await executor.execute(code)).text or ""

                yield cell

        yield session


@asynccontextmanager
async def open_inspect(kind: Any) -> AsyncIterator[Session]:
    @asynccontextmanager
    async def session() -> AsyncIterator[Cell]:
        environments = await kind.sample_init("episode", None, {})

        async def cell(code: str) -> str:
            command = [sys.executable, "-c", code]
            return (await environments["default"].exec(command)).stdout.strip()

        try:
            yield cell
        finally:
            await kind.sample_cleanup("episode", None, environments, False)

    yield session


def open_inspect_local(size: int) -> AbstractAsyncContextManager[Session]:
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

    return open_inspect(LocalSandboxEnvironment)


def open_inspect_ipybox(size: int) -> AbstractAsyncContextManager[Session]:
    from ipybox.integrations.inspect import IpyboxSandboxEnvironment

    return open_inspect(IpyboxSandboxEnvironment)


@asynccontextmanager
async def open_smolagents(make: Callable[[], Any]) -> AsyncIterator[Session]:
    """Its executors block, so each episode has a thread."""

    @asynccontextmanager
    async def session() -> AsyncIterator[Cell]:
        executor = await asyncio.to_thread(make)

        async def cell(code: str) -> str:
            return (await asyncio.to_thread(executor, code)).logs.strip()

        try:
            yield cell
        finally:
            await asyncio.to_thread(getattr(executor, "cleanup", lambda: None))

    yield session


def open_smolagents_local(size: int) -> AbstractAsyncContextManager[Session]:
    from smolagents.local_python_executor import LocalPythonExecutor

    def make() -> LocalPythonExecutor:
        executor = LocalPythonExecutor([])
        executor.send_tools({})
        return executor

    return open_smolagents(make)


def open_smolagents_ipybox(size: int) -> AbstractAsyncContextManager[Session]:
    from ipybox.integrations.smolagents import IpyboxExecutor

    return open_smolagents(lambda: IpyboxExecutor(python=str(CODE_ADAPTERS)))


ROWS: dict[str, tuple[Path, Callable[[int], AbstractAsyncContextManager[Session]]]] = {
    "pool": (VENV, open_pool),
    "inspect-local": (FRAMEWORKS, open_inspect_local),
    "inspect-ipybox": (FRAMEWORKS, open_inspect_ipybox),
    "smolagents-local": (CODE_ADAPTERS, open_smolagents_local),
    "smolagents-ipybox": (CODE_ADAPTERS, open_smolagents_ipybox),
}


async def run_episodes(session: Session, count: int, size: int, n_cells: int) -> list[float]:
    """Their times in seconds; `size` of them run at a time."""
    times: list[float] = []
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            begun = time.perf_counter()
            async with session() as cell:
                for i in range(n_cells):
                    printed = await cell(f"print({number} + {i})")
                    assert printed == str(number + i), printed
            times.append(time.perf_counter() - begun)

    await asyncio.gather(*(work() for _ in range(size)))
    return times


async def measure(row: str, options: argparse.Namespace) -> dict[str, float]:
    async with ROWS[row][1](options.size) as session:
        await run_episodes(session, options.size, options.size, options.cells)  # warms up
        begun = time.perf_counter()
        times = await run_episodes(session, options.episodes, options.size, options.cells)
        elapsed = time.perf_counter() - begun
    return {
        "episodes": options.episodes,
        "ms_per_episode": round(1000 * elapsed / options.episodes, 2),
        "ms_median": round(1000 * statistics.median(times), 2),
    }


def run_row(row: str, arguments: list[str]) -> dict[str, float]:
    """In a process of its own."""
    python = ROWS[row][0]
    if not python.exists():
        raise SystemExit(f"{python} is missing: run scripts/test-setup frameworks code-adapters")
    command = [str(python), "-W", "ignore", __file__, "--inside", row, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--size", type=int, default=4, help="episodes at the same time")
    parser.add_argument("--cells", type=int, default=5, help="cells of an episode")
    parser.add_argument("--inside", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(asyncio.run(measure(options.inside, options))))
        return
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    arguments = [f"--{name}={getattr(options, name)}" for name in ("episodes", "size", "cells")]
    report = {row: run_row(row, arguments) for row in options.rows or ROWS}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
