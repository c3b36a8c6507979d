#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times commands beside a kernel, by the Python SDK, and asyncio's subprocesses; prints JSON.

usage: benchmarks/commands.py [--rounds N] [--megabytes N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("IPYBOX_BIN", str(ROOT / "build/ipybox"))

from ipybox import CodeExecutor  # noqa: E402

MB = 1_000_000
# Less than what run_command keeps by default.
KEPT_MB = 10
AT_ONCE = 32
WARM_UP = 5


async def time_calls(call: Callable[[], Awaitable[object]], rounds: int) -> float:
    """The median of a call in milliseconds."""
    times = []
    for number in range(WARM_UP + rounds):
        begun = time.perf_counter()
        await call()
        if number >= WARM_UP:
            times.append(time.perf_counter() - begun)
    return 1000 * statistics.median(times)


async def time_commands(executor: CodeExecutor, rounds: int) -> dict[str, float]:
    async def collected() -> None:
        assert (await executor.run_command(["true"])).ok

    async def streamed() -> None:
        async with executor.start_command(["true"]) as command:
            async for _ in command:
                pass
        assert command.returncode == 0

    async def first_output() -> None:
        async with executor.start_command("echo x; exec sleep 1000") as command:
            assert (await command.__anext__()).data == b"x\n"
            times.append(time.perf_counter())

    async def at_once() -> None:
        await asyncio.gather(*(collected() for _ in range(AT_ONCE)))

    times: list[float] = []
    begun: list[float] = []
    for _ in range(rounds):
        begun.append(time.perf_counter())
        await first_output()
    first = statistics.median(end - start for start, end in zip(begun, times, strict=True))
    return {
        "collected_ms": await time_calls(collected, rounds),
        "streamed_ms": await time_calls(streamed, rounds),
        "first_output_ms": 1000 * first,
        "each_of_32_at_once_ms": await time_calls(at_once, max(rounds // 10, 3)) / AT_ONCE,
    }


async def time_bytes(executor: CodeExecutor, megabytes: int) -> dict[str, float]:
    size = megabytes * MB
    begun = time.perf_counter()
    for _ in range(max(megabytes // KEPT_MB, 1)):
        result = await executor.run_command(["head", "-c", str(KEPT_MB * MB), "/dev/zero"])
        assert len(result.stdout) == KEPT_MB * MB
    collected = max(megabytes // KEPT_MB, 1) * KEPT_MB / (time.perf_counter() - begun)
    begun = time.perf_counter()
    async with executor.start_command(["head", "-c", str(size), "/dev/zero"]) as command:
        assert sum([len(piece.data) async for piece in command]) == size
    streamed = megabytes / (time.perf_counter() - begun)
    begun = time.perf_counter()
    async with executor.start_command(["wc", "-c"], stdin=True) as command:
        await command.write_stdin(bytes(size))
        await command.close_stdin()
        assert int("".join([piece.text async for piece in command])) == size
    return {
        "collected_mb_s": collected,
        "streamed_mb_s": streamed,
        "input_mb_s": megabytes / (time.perf_counter() - begun),
    }


async def time_asyncio(rounds: int, megabytes: int) -> dict[str, float]:
    """The same outside, with what Python has."""

    async def run() -> None:
        process = await asyncio.create_subprocess_exec("true", stdout=PIPE, stderr=PIPE)
        await process.communicate()

    size = megabytes * MB
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        "head", "-c", str(size), "/dev/zero", stdout=PIPE
    )
    assert process.stdout is not None
    n = 0
    while piece := await process.stdout.read(65536):
        n += len(piece)
    await process.wait()
    assert n == size
    streamed = megabytes / (time.perf_counter() - begun)
    return {"collected_ms": await time_calls(run, rounds), "streamed_mb_s": streamed}


async def measure(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    report = {}
    workspace = ROOT / "build/commands"
    workspace.mkdir(parents=True, exist_ok=True)
    for name, sandbox in (("plain", False), ("sandboxed", True)):
        async with CodeExecutor(
            sandbox=sandbox,
            workspace=workspace,
            python=str(ROOT / ".venv/bin/python"),
            kernel_init_timeout=60,
        ) as executor:
            times = await time_commands(executor, options.rounds)
            report[name] = times | await time_bytes(executor, options.megabytes)
    report["asyncio"] = await time_asyncio(options.rounds, options.megabytes)
    return {
        name: {key: round(value, 2) for key, value in row.items()} for name, row in report.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--megabytes", type=int, default=200, help="of output and of input")
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
