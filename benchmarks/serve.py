#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures `ipybox serve`: beginning, cells beside stdio, and a client beside those that disturb.

Each round measures all that is compared one after the other, so that a machine that becomes slower
affects all. benchmarks/README.md says what each row means.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import result_files
from mcp_http import Access, HttpSession, ServeProcess, percentile
from processes import BenchmarkError, McpProcess, memory_mb

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CLIENT, DISTURBER = "c" * 32, "d" * 32
POOL = 4
# How many clients of each kind disturb.
KINDS = {"slow": 4, "abort": 1, "malformed": 1, "idle": 10_000}
# Between two cells of the client beside others; and for a pool to be filled again.
PAUSE_S, FILL_S = 0.005, 0.3
# Descriptors that are not those of idle connections.
OTHER_FDS = 600

Rows = dict[str, list[float]]


def timed(samples: list[float], start: float) -> None:
    samples.append((time.perf_counter() - start) * 1000)


class Bench:
    """The servers."""

    def __init__(self, build: Path, python: Path, directory: Path) -> None:
        self.rows: Rows = {}
        ipybox = str(build.absolute() / "ipybox")
        tokens = directory / "tokens"
        tokens.write_text(f"client {CLIENT}\ndisturber {DISTURBER}\n")
        tokens.chmod(0o600)
        self.servers = {
            name: self._serve(directory, name, [ipybox, "serve", f"--python={python}", *more])
            for name, more in {
                "none": [f"--token-file={tokens}"],
                "pool": [f"--token-file={tokens}", f"--pool={POOL}"],
                "beside": [f"--token-file={tokens}", "--max-connections=12000"],
            }.items()
        }
        workspace = directory / "stdio"
        workspace.mkdir()
        command = [ipybox, "--sandbox", f"--workspace={workspace}", f"--python={python}"]
        self.stdio = McpProcess(command, workspace, dict(os.environ), None)
        self.stdio.initialize()
        self.stdio.cell("1")

    def _serve(self, directory: Path, name: str, command: list[str]) -> ServeProcess:
        workspace = directory / name
        workspace.mkdir()
        return ServeProcess([*command, f"--workspace={workspace}"], directory, directory / "log")

    def close(self) -> None:
        self.stdio.close()
        for server in self.servers.values():
            server.close()

    def session(self, name: str) -> HttpSession:
        session = HttpSession(Access(self.servers[name].port, CLIENT))
        session.initialize()
        session.confirm()
        session.cell("1")
        return session

    def samples(self, row: str) -> list[float]:
        return self.rows.setdefault(row, [])

    def begin(self, rounds: int) -> None:
        """New sessions of warm servers."""
        for _ in range(rounds):
            time.sleep(FILL_S)
            for name in ("none", "pool"):
                session = HttpSession(Access(self.servers[name].port, CLIENT))
                start = time.perf_counter()
                session.initialize()
                timed(self.samples(f"initialize {name}"), start)
                session.confirm()
                check(session.cell("1"))
                timed(self.samples(f"first {name}"), start)
                start = time.perf_counter()
                check(session.cell("1"))
                timed(self.samples(f"second {name}"), start)
                session.close()

    def cells(self, count: int) -> None:
        """The same cell over HTTP and over stdio."""
        session = self.session("none")
        for _ in range(count):
            start = time.perf_counter()
            check(session.cell("1"))
            timed(self.samples("cell http"), start)
            start = time.perf_counter()
            check(self.stdio.cell("1"))
            timed(self.samples("cell stdio"), start)
        session.close()

    def beside(self, kind: str, count: int, seconds: float) -> None:
        """Cells of one client: alone, then beside the disturber."""
        session = self.session("beside")
        self._cells_for(session, f"alone before {kind}", seconds)
        server = self.servers["beside"]
        command = [sys.executable, str(HERE / "disturb.py"), kind]
        process = subprocess.Popen(
            [*command, str(server.port), DISTURBER, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout
        process.stdout.readline()
        try:
            self._cells_for(session, f"beside {kind}", seconds)
        finally:
            done, _ = process.communicate(input="")
        if process.returncode != 0 or int(done) == 0:
            raise BenchmarkError(f"disturb.py {kind}: status {process.returncode}, did {done!r}")
        session.close()

    def _cells_for(self, session: HttpSession, row: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            start = time.perf_counter()
            check(session.cell("1"))
            timed(self.samples(row), start)
            time.sleep(PAUSE_S)


def check(text: str) -> None:
    if text != "1":
        raise BenchmarkError(f"a cell `1` was answered with {text!r}")


def report(bench: Bench, memory: float) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    for row, values in bench.rows.items():
        figures[row] = {
            "p50": round(statistics.median(values), 3),
            "p99": round(percentile(values, 0.99), 3),
            "best": round(min(values), 3),
            "n": len(values),
        }
    print(f"{'':28} {'p50':>9} {'p99':>9} {'best':>9}  ms")
    for row, figure in figures.items():
        print(f"{row:28} {figure['p50']:9.2f} {figure['p99']:9.2f} {figure['best']:9.2f}")
    ratios = {
        "first, pool / none": ("first pool", "first none"),
        "cell, http / stdio": ("cell http", "cell stdio"),
        **{
            f"beside {kind} / alone": (f"beside {kind}", f"alone before {kind}")
            for kind in KINDS
            if f"beside {kind}" in figures
        },
    }
    figures["ratios"] = {
        title: round(figures[a]["p50"] / figures[b]["p50"], 3) for title, (a, b) in ratios.items()
    }
    for title, ratio in figures["ratios"].items():
        print(f"{title:28} {ratio:9.2f}")
    beyond = figures["cell http"]["p50"] - figures["cell stdio"]["p50"]
    print(f"{'cell, http - stdio':28} {beyond:9.2f}  ms")
    print(f"{f'memory of {POOL} ready kernels':28} {memory:9.1f}  MB")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few samples")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="default: build")
    parser.add_argument("--python", type=Path, default=ROOT / ".venv/bin/python")
    parser.add_argument("--idle", type=int, default=KINDS["idle"], help="idle connections")
    result_files.add_options(parser)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    idle = min(options.idle, hard - OTHER_FDS)
    if idle < options.idle:
        print(f"serve: {idle} idle connections, by the limit of open files", file=sys.stderr)
    try:
        # Not below /tmp, of which each sandbox has its own.
        with tempfile.TemporaryDirectory(prefix="ipybox-bench-", dir="/var/tmp") as name:
            os.environ["XDG_STATE_HOME"] = f"{name}/state"
            bench = Bench(options.build, options.python.absolute(), Path(name))
            try:
                # Before there are sessions: they live on without their client.
                bench.session("none").close()
                bench.session("pool").close()
                time.sleep(2 * POOL * FILL_S)
                memory = memory_mb(bench.servers["pool"].pid) - memory_mb(bench.servers["none"].pid)
                bench.begin(3 if options.quick else 40)
                bench.cells(20 if options.quick else 1000)
                for kind, count in KINDS.items():
                    number = idle if kind == "idle" else count
                    bench.beside(kind, number, 0.5 if options.quick else 10)
            finally:
                bench.close()
    except (BenchmarkError, OSError) as problem:
        print(f"serve: {problem}", file=sys.stderr)
        return 1
    figures = report(bench, memory)
    result_files.write(options, "serve", {"idle": idle, "rows": figures})
    return 0


if __name__ == "__main__":
    sys.exit(main())
