#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures ipybox without and with its sandbox, and ipybox 0.9.2, in one interleaved run.

All are driven as MCP servers by raw JSON-RPC over stdio, and by one program that uses the Python
SDK. Each round measures a row for one of them and then at once for the others, so that a machine
that becomes slower or faster affects all. The results are medians and their ratios.
benchmarks/README.md says what each row means.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import result_files
from contenders import (
    ORIGINAL,
    OURS,
    ROOT,
    SANDBOXED,
    Contender,
    install_original,
    original_contender,
    our_contender,
)
from measures import (
    ALONE_MEASURES,
    FULL,
    QUICK,
    ROWS,
    SERVER_MEASURES,
    Plan,
    Row,
    Samples,
    start_cold,
)
from processes import BenchmarkError, McpProcess


class Run:
    """All rounds, for all contenders, and what went wrong."""

    def __init__(self, contenders: list[Contender], plan: Plan) -> None:
        self.contenders = contenders
        self.plan = plan
        self.samples = {contender.name: Samples() for contender in contenders}
        self.problems: list[str] = []

    def measure(self) -> None:
        for number in range(self.plan.rounds):
            # The last one of a round is the first one of the next.
            order = self.contenders if number % 2 == 0 else self.contenders[::-1]
            self._round(number, order)
        self._say_done()

    def _round(self, number: int, order: list[Contender]) -> None:
        with tempfile.TemporaryDirectory(prefix="ipybox-bench-") as directory:
            servers: dict[str, McpProcess] = {}
            try:
                self._say(number, "start")
                for contender in order:
                    server = self._try(contender, "start", start_cold, contender, Path(directory))
                    if server:
                        servers[contender.name] = server
                for title, measure in SERVER_MEASURES:
                    self._say(number, title)
                    for contender in order:
                        if server := servers.get(contender.name):
                            self._try(contender, title, measure, server)
            finally:
                for server in servers.values():
                    server.close()
        for title, measure_alone in ALONE_MEASURES:
            self._say(number, title)
            for contender in order:
                self._try(contender, title, measure_alone, contender)

    def _try(
        self, contender: Contender, title: str, measure: Callable[..., Any], *arguments: Any
    ) -> Any:
        """A row that fails is missing; the others are measured."""
        try:
            return measure(*arguments, self.samples[contender.name], self.plan)
        except (BenchmarkError, OSError, ValueError, subprocess.SubprocessError) as problem:
            self.problems.append(f"{contender.name}, {title}: {problem}")
            return None

    def _say(self, number: int, title: str) -> None:
        if sys.stderr.isatty():
            print(
                f"\r\033[Kround {number + 1} of {self.plan.rounds}: {title}",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def _say_done(self) -> None:
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


# The table


def number_text(value: float | None, row: Row) -> str:
    if value is None:
        return "–"
    if row.is_count:
        return f"{value:.0f}"
    return (
        f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )


def ratio_text(ours: float | None, original: float | None, row: Row) -> str:
    """How many times better ours is; below 1 it is worse."""
    if ours is None or original is None or row.is_count:
        return ""
    better, worse = (ours, original) if row.more_is_better else (original, ours)
    if better <= 0 or worse <= 0:
        return ""
    ratio = better / worse
    return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.1f} ×"


def is_reached(value: float | None, target: str, row: Row) -> bool:
    return value is not None and (
        value >= float(target) if row.more_is_better else value <= float(target)
    )


def target_text(values: dict[str, float | None], row: Row) -> str:
    """The target, and which of our columns missed it."""
    if not row.target:
        return ""
    targets = {OURS: row.target, SANDBOXED: row.sandboxed_target or row.target}
    sign = "=" if row.is_count else "≥" if row.more_is_better else "≤"
    numbers = " / ".join(dict.fromkeys(targets.values()))
    missed = [name for name, target in targets.items() if not is_reached(values[name], target, row)]
    return f"{sign} {numbers} {'✗ ' + ', '.join(missed) if missed else '✓'}"


def table(run: Run) -> list[list[str]]:
    with_original = ORIGINAL in run.samples
    head = ["", "unit", ORIGINAL, OURS, "best", SANDBOXED, "better", "target"]
    lines = [
        head if with_original else [title for title in head if title not in (ORIGINAL, "better")]
    ]
    for row in ROWS:
        values = {name: samples.result(row) for name, samples in run.samples.items()}
        title = row.title
        if row.is_count:
            title += f" in {run.plan.lost_cells_a_round * run.plan.rounds:,} cells"
        best = run.samples[OURS].best(row)
        line = [
            title,
            row.unit,
            number_text(values[OURS], row),
            "" if best is None else number_text(best, row),
        ]
        line.append(number_text(values[SANDBOXED], row))
        if with_original:
            line.insert(2, number_text(values[ORIGINAL], row))
            line.append(ratio_text(values[OURS], values[ORIGINAL], row))
        line.append(target_text(values, row))
        lines.append(line)
    return lines


def print_table(lines: list[list[str]], markdown: bool) -> None:
    left = {0, 1, len(lines[0]) - 1}
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [
            text.ljust(width) if column in left else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells).rstrip())
        if markdown and number == 0:
            rules = [
                "-" * (width + 1) + ("-" if column in left else ":")
                for column, width in enumerate(widths)
            ]
            print("|" + "|".join(rules) + "|")


def machine() -> str:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    release = platform.release().split("-")[0]
    return f"{cpus} CPUs, {platform.system()} {release}, Python {platform.python_version()}"


def as_figures(run: Run) -> dict[str, Any]:
    return {
        "plan": vars(run.plan),
        "problems": run.problems,
        "rows": [
            {
                "key": row.key,
                "title": row.title,
                "unit": row.unit,
                "target": row.target,
                **{name: samples.result(row) for name, samples in run.samples.items()},
                "best": {name: samples.best(row) for name, samples in run.samples.items()},
                "samples": {
                    name: samples.values.get(row.key, []) for name, samples in run.samples.items()
                },
            }
            for row in ROWS
        ],
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a short run: about a minute with the original"
    )
    parser.add_argument("--rounds", type=int, help="how many rounds")
    parser.add_argument(
        "--cells", type=int, help="how many cells, in all, to look for lost outputs"
    )
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build", help="the build folder (default: build)"
    )
    parser.add_argument(
        "--python",
        type=Path,
        help="the Python for our kernels (default: .venv, else what ipybox finds)",
    )
    parser.add_argument(
        "--original", metavar="PYTHON", type=Path, help="a Python that has ipybox 0.9.2"
    )
    parser.add_argument(
        "--with-original",
        action="store_true",
        help="install the original into .cache/bench if needed",
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    result_files.add_options(parser)
    parser.add_argument(
        "--log", metavar="FILE", type=Path, help="append what the programs write to stderr to FILE"
    )
    return parser.parse_args()


def find_contenders(options: argparse.Namespace, state: Path) -> list[Contender]:
    """ipybox 0.9.2 comes first. Paths are not resolved: a venv's Python is a link."""
    python = options.python
    if not python and (ROOT / ".venv/bin/python").exists():
        python = ROOT / ".venv/bin/python"
    contenders = [
        our_contender(
            options.build.absolute(),
            python.absolute() if python else None,
            state,
            options.log,
            is_sandboxed=is_sandboxed,
        )
        for is_sandboxed in (False, True)
    ]
    original = options.original
    if options.with_original and not original:
        original = install_original()
    if original:
        contenders.insert(0, original_contender(original.absolute(), options.log))
    else:
        print(
            "Without ipybox 0.9.2: --with-original installs it, --original PYTHON uses an"
            " installation."
        )
    return contenders


def main() -> int:
    options = parse_options()
    plan = QUICK if options.quick else FULL
    plan = replace(
        plan, rounds=options.rounds or plan.rounds, lost_cells=options.cells or plan.lost_cells
    )
    try:
        with tempfile.TemporaryDirectory(prefix="ipybox-bench-") as state:
            run = Run(find_contenders(options, Path(state)), plan)
            run.measure()
    except (BenchmarkError, subprocess.CalledProcessError) as problem:
        print(f"compare: {problem}", file=sys.stderr)
        return 1
    print(f"{machine()}; medians of {plan.rounds} rounds")
    print_table(table(run), options.markdown)
    for problem in run.problems:
        print(f"not measured: {problem}", file=sys.stderr)
    result_files.write(options, "compare", as_figures(run))
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
