# SPDX-License-Identifier: Apache-2.0
"""The benchmark program measures every row of ours. Its figures are not judged here."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import harness

COMPARE = harness.ROOT / "benchmarks" / "compare.py"


def figures(report: Path, benchmark: str) -> Any:
    """What was measured. The file says of what, when and where."""
    run = json.loads(report.read_text())
    assert run["benchmark"] == benchmark
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", run["date"])
    assert re.fullmatch(r"[0-9a-f]{10,}\+?", run["commit"])
    assert run["machine"]["processors"] > 0 and run["machine"]["memory_gb"] > 0
    assert run["machine"]["system"].startswith("Linux ")
    return run["figures"]


def test_every_row_is_measured(ipybox: str, python: str, place: harness.Place) -> None:
    report = place.workspace / "report.json"
    build = str(Path(ipybox).parent)
    command = [
        sys.executable,
        str(COMPARE),
        "--quick",
        "--rounds",
        "1",
        "--build",
        build,
        "--python",
        python,
    ]
    done = harness.run([*command, "--json", str(report)], place, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "Without ipybox 0.9.2" in done.stdout
    rows = figures(report, "compare")["rows"]
    assert not [row["key"] for row in rows if row["ipybox"] is None]
    assert {row["key"]: row["ipybox"] for row in rows}["lost"] == 0
    for row in rows:
        assert row["title"] in done.stdout


def test_serving_is_measured(ipybox: str, python: str, place: harness.Place) -> None:
    report = place.workspace / "report.json"
    program = str(harness.ROOT / "benchmarks" / "serve.py")
    options = ["--quick", "--idle=50", "--build", str(Path(ipybox).parent), "--python", python]
    command = [sys.executable, program, *options, "--json", str(report)]
    done = harness.run(command, place, timeout=240)
    assert done.returncode == 0, done.stderr
    rows = figures(report, "serve")["rows"]
    names = ["slow", "abort", "malformed", "idle"]
    assert {f"beside {name}" for name in names} | {"first pool", "cell http"} <= set(rows)
    assert len(rows["ratios"]) == 2 + len(names)


def test_branches_are_measured(ipybox: str, python: str, place: harness.Place) -> None:
    report = place.workspace / "report.json"
    program = str(harness.ROOT / "benchmarks" / "branches.py")
    options = [
        "--quick",
        "--sandbox",
        "--cycles=10",
        "--build",
        str(Path(ipybox).parent),
        "--python",
        python,
    ]
    command = [sys.executable, program, *options, "--json", str(report)]
    done = harness.run(command, place, timeout=240)
    assert done.returncode == 0, done.stderr
    measured = figures(report, "branches-sandbox")
    assert list(measured) == ["10 MB", "undo", "5 branches", "10 cycles"]


def test_each_run_has_a_file(ipybox: str, place: harness.Place) -> None:
    """As in `make bench`, of which this is a part."""
    program = str(harness.ROOT / "benchmarks" / "run_all.py")
    results = place.workspace / "results"
    options = ["--quick", "--only=branches", "--build", str(Path(ipybox).parent)]
    command = [sys.executable, program, *options, "--results", str(results)]
    done = harness.run(command, place, timeout=240)
    assert done.returncode == 0, done.stderr
    (path,) = results.iterdir()
    assert path.name.endswith("-branches.json") and str(path) in done.stdout
    assert list(figures(path, "branches")) == ["10 MB", "undo", "5 branches"]
    done = harness.run([sys.executable, program, "--only=branches,speed"], place)
    assert done.returncode == 2 and "there is no speed" in done.stderr


def test_staged_workspaces_are_measured(ipybox: str, place: harness.Place) -> None:
    program = str(harness.ROOT / "benchmarks" / "staged.py")
    command = [sys.executable, program, "--files=20", "--rounds=1"]
    environ = {**place.environ, "IPYBOX_BIN": ipybox}
    done = harness.run(command, place, env=environ, timeout=240)
    assert done.returncode == 0, done.stderr
    assert {"commit, new", "commit, changed", "list, new", "discard, new"} <= set(
        json.loads(done.stdout)
    )


def test_a_missing_program_is_named(place: harness.Place) -> None:
    done = harness.run([sys.executable, str(COMPARE), "--build", str(place.workspace)], place)
    assert done.returncode == 1
    assert f"{place.workspace}/ipybox is not there" in done.stderr
