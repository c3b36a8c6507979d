#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what judged names cost: ordinary work with files, in sandboxes of several builds.

Each round runs a workload in every variant, one after the other, and in the opposite order in the
next round. The table shows medians of the ratios within a round, so a machine that becomes slower
affects all variants. Each workload takes its own time inside; the start of the sandbox is not part
of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contenders import ROOT
from processes import BenchmarkError

N_CREATED = 10_000
N_COMMITTED = 3_000
N_CHECKED_OUT = 1_500
N_UNPACKED = 2_600
N_TRANSACTIONS = 5_000
N_MODULES = 400
N_IN_TREE = 30_000
FILES_IN_DIRECTORY = 100
BULK_BLOCKS = 200
BLOCK = b"x" * (1 << 20)
TIMEOUT_S = 300

GIT = {
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.com",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}


# --- the workloads, inside ------------------------------------------------------------------------


def call(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def git(*words: str) -> None:
    call("git", "-C", "work", *words)


def make_files(directory: str, count: int, text: str) -> None:
    for number in range(count):
        path = Path(directory, f"d{number // FILES_IN_DIRECTORY}", f"f{number}.txt")
        if number % FILES_IN_DIRECTORY == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text} {number}\n" * 20)


def create() -> None:
    os.mkdir("work")
    for number in range(N_CREATED):
        fd = os.open(f"work/{number}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, b"text")
        os.close(fd)
    for number in range(N_CREATED):
        os.unlink(f"work/{number}")


def prepare_commit() -> None:
    make_files("work", N_COMMITTED, "text")


def commit() -> None:
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "all")


def prepare_checkout() -> None:
    for branch in ("one", "two"):
        shutil.rmtree("work/files", ignore_errors=True)
        make_files("work/files", N_CHECKED_OUT, branch)
        if branch == "one":
            git("init", "-q")
        git("checkout", "-q", "-b", branch)
        git("add", ".")
        git("commit", "-q", "-m", branch)


def checkout() -> None:
    git("checkout", "-q", "one")
    git("checkout", "-q", "two")


def prepare_unpack() -> None:
    make_files("work", N_UNPACKED, "text")
    call("tar", "cf", "archive.tar", "work")
    shutil.rmtree("work")


def unpack() -> None:
    call("tar", "xf", "archive.tar")


def transact(journal: str) -> None:
    connection = sqlite3.connect("work.db", isolation_level=None)
    connection.execute(f"pragma journal_mode={journal}")
    # What the disk takes to synchronise is not what is measured.
    connection.execute("pragma synchronous=off")
    connection.execute("create table t (n integer)")
    for number in range(N_TRANSACTIONS):
        connection.execute("insert into t values (?)", (number,))
    connection.close()


def import_pandas() -> None:
    call(sys.executable, "-c", "import pandas")


def prepare_install() -> None:
    """A wheel without dependencies, of many small modules."""
    name, info = "bench_wheel", "bench_wheel-1.0.dist-info"
    files = {f"{name}/m{n}.py": f"def f(a):\n    return a + {n}\n" * 20 for n in range(N_MODULES)}
    files[f"{name}/__init__.py"] = ""
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: bench-wheel\nVersion: 1.0\n"
    files[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: b\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile("bench_wheel-1.0-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


def install() -> None:
    call(
        *(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-cache-dir"),
        *("--disable-pip-version-check", "-q", "--target", "work"),
        "bench_wheel-1.0-py3-none-any.whl",
    )


def walk() -> None:
    call("find", "../tree", "-type", "f", "-size", "+1000k")
    call("du", "-s", "../tree")


def search() -> None:
    # It does not read files if it writes to /dev/null and finds something.
    done = subprocess.run(["grep", "-r", "no such text", "../tree"], capture_output=True, text=True)
    if done.returncode != 1:
        raise BenchmarkError(f"grep ended with {done.returncode}: {done.stderr}")


def write_bulk() -> None:
    fd = os.open("work", os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(BULK_BLOCKS):
        os.write(fd, BLOCK)
    os.close(fd)


def nothing() -> None:
    pass


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    run: Callable[[], None]
    prepare: Callable[[], None] = nothing
    goal: float | None = None  # of the ratio, without read denials
    goal_reads: float | None = 3.0  # with them


WORKLOADS = [
    Workload("create", f"{N_CREATED:,} files created and deleted", create),
    Workload(
        "commit", f"git init, add, commit of {N_COMMITTED:,}", commit, prepare_commit, goal=2.0
    ),
    Workload(
        "checkout",
        f"git checkout of {N_CHECKED_OUT:,}, twice",
        checkout,
        prepare_checkout,
        goal=2.0,
    ),
    Workload("unpack", f"tar x of {N_UNPACKED:,}", unpack, prepare_unpack, goal=2.0),
    Workload(
        "sqlite",
        f"SQLite, {N_TRANSACTIONS:,} transactions",
        lambda: transact("delete"),
        goal=2.0,
    ),
    Workload("wal", "… with a write-ahead log", lambda: transact("wal"), goal=2.0),
    Workload("pandas", "import pandas", import_pandas),
    Workload("find", f"find and du of {N_IN_TREE:,}", walk, goal=2.0),
    Workload("grep", f"grep -r of {N_IN_TREE:,}", search),
    Workload("pip", f"pip install of {N_MODULES} modules", install, prepare_install, goal=2.0),
    Workload("bulk", "200 MB written", write_bulk, goal=1.1, goal_reads=None),
]


def run_inside(name: str) -> None:
    os.environ.update(GIT)
    workload = next(workload for workload in WORKLOADS if workload.name == name)
    workload.prepare()
    start = time.perf_counter()
    workload.run()
    print(time.perf_counter() - start)


# --- the sandboxes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    name: str
    title: str
    binary: Path
    denied: tuple[str, ...] = ()

    def settings(self) -> dict:
        return {
            "network": {"allowedDomains": [], "deniedDomains": []},
            "filesystem": {
                "denyRead": list(self.denied),
                "allowWrite": ["."],
                "denyWrite": [],
            },
        }


def measure_once(variant: Variant, workload: Workload, place: Path, python: Path) -> float:
    workspace = place / "workspace"
    with tempfile.TemporaryDirectory(prefix="work-", dir=workspace) as directory:
        settings = place / f"{variant.name}.json"
        settings.write_text(json.dumps(variant.settings()))
        command = [
            *(str(variant.binary), "sandbox", "--settings", str(settings)),
            *("--workspace", str(workspace), "--", str(python), __file__),
            *("--inside", workload.name),
        ]
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S
        )
        if done.returncode != 0:
            raise BenchmarkError(f"{workload.name} in {variant.name}: {done.stderr.strip()[-500:]}")
        return float(done.stdout)


def measure(
    variants: list[Variant], workloads: list[Workload], place: Path, python: Path, rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Seconds by workload and variant, a number for each round."""
    (place / "workspace").mkdir()
    make_files(str(place / "workspace/tree"), N_IN_TREE, "text")
    seconds: dict[str, dict[str, list[float]]] = {
        workload.name: {variant.name: [] for variant in variants} for workload in workloads
    }
    for number in range(rounds):
        for workload in workloads:
            for variant in variants if number % 2 == 0 else reversed(variants):
                if sys.stderr.isatty():
                    print(
                        f"\r\033[Kround {number + 1}: {workload.name}, {variant.name}",
                        end="",
                        file=sys.stderr,
                        flush=True,
                    )
                took = measure_once(variant, workload, place, python)
                seconds[workload.name][variant.name].append(took)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return seconds


# --- the table ------------------------------------------------------------------------------------


def ratio(times: dict[str, list[float]], name: str, base: str) -> float:
    return statistics.median(a / b for a, b in zip(times[name], times[base], strict=True))


def print_table(variants: list[Variant], workloads: list[Workload], seconds: dict) -> None:
    base = variants[0]
    header = ["", f"{base.title}, s", *(variant.title for variant in variants[1:]), "goals"]
    rows = []
    for workload in workloads:
        times = seconds[workload.name]
        goals = [f"≤ {goal:.1f}" for goal in (workload.goal, workload.goal_reads) if goal]
        rows.append(
            [
                workload.title,
                f"{statistics.median(times[base.name]):.2f}",
                *(f"{ratio(times, variant.name, base.name):.2f}" for variant in variants[1:]),
                " / ".join(goals),
            ]
        )
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        first, *others = cells
        aligned = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        return f"| {first:<{widths[0]}} | " + " | ".join(aligned) + " |"

    print(line(header))
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    print(f"| {' | '.join(rule)} |")
    for row in rows:
        print(line(row))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument(
        "--binary", type=Path, default=ROOT / "build/ipybox", help="ipybox (default: build/ipybox)"
    )
    parser.add_argument("--baseline", type=Path, help="an ipybox that does not judge names")
    parser.add_argument("--no-wake-up", type=Path, help="an ipybox that does not use SYNC_WAKE_UP")
    parser.add_argument(
        "--place", type=Path, action="append", help="where workspaces are made; not below /tmp"
    )
    parser.add_argument("--python", type=Path, default=ROOT / ".venv/bin/python", help="Python")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--only", help="these workloads, with commas")
    parser.add_argument("--json", type=Path, help="writes every sample to this file")
    options = parser.parse_args()
    if options.inside:
        run_inside(options.inside)
        return 0
    binary = options.binary.absolute()
    variants = [
        Variant("judged", "names judged", binary),
        Variant("reads", "reading denied, too", binary, (".env",)),
    ]
    if options.baseline:
        variants.insert(0, Variant("before", "before", options.baseline.absolute()))
    if options.no_wake_up:
        variants.append(
            Variant("no-wake-up", "without SYNC_WAKE_UP", options.no_wake_up.absolute())
        )
    names = options.only.split(",") if options.only else [w.name for w in WORKLOADS]
    workloads = [workload for workload in WORKLOADS if workload.name in names]
    result: dict = {"date": datetime.date.today().isoformat(), "places": {}}
    try:
        for parent in options.place or [ROOT / ".cache"]:
            load = os.getloadavg()
            with tempfile.TemporaryDirectory(prefix="bench-names-", dir=parent) as directory:
                os.chmod(directory, 0o755)
                seconds = measure(
                    variants, workloads, Path(directory), options.python, options.rounds
                )
            loads = f"{load[0]:.1f} at the start, {os.getloadavg()[0]:.1f} at the end"
            result["places"][str(parent)] = {"load": loads, "seconds": seconds}
            print(f"{parent}: {options.rounds} rounds, load {loads}")
            print_table(variants, workloads, seconds)
            if options.json:
                options.json.write_text(json.dumps(result, indent=1) + "\n")
    except (BenchmarkError, OSError, subprocess.SubprocessError) as problem:
        print(f"names: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
