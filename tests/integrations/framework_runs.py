# SPDX-License-Identifier: Apache-2.0
"""Runs Python in an environment of frameworks, and tests of theirs with pytest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import harness
from suite_report import read_outcomes


def run_python(
    python: Path,
    directory: Path,
    *args: str,
    import_path: Iterable[Path],
    environ: Mapping[str, str],
    timeout: float,
) -> subprocess.CompletedProcess[str]:
    """With the package ipybox of this checkout, and the built program."""
    binary = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
    own = {
        "HOME": str(directory),
        "TMPDIR": str(directory / "tmp"),
        "XDG_STATE_HOME": str(directory / "state"),
        "IPYBOX_BIN": str(harness.existing(binary)),
        "PYTHONPATH": ":".join(map(str, [harness.ROOT / "python", *import_path])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [str(harness.existing(python)), *args],
        cwd=directory,
        env={**environ, **own},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=timeout,
    )


def pytest_command(directory: Path, *options: str) -> list[str]:
    """Arguments for `run_python`; `outcomes` reads what came of it."""
    report = f"--junitxml={directory / 'report.xml'}"
    command = ["-m", "pytest", "-c", "/dev/null", "--rootdir", str(directory), "-q", "--tb=short"]
    return [*command, "-p", "no:cacheprovider", "-W", "ignore", report, *options]


def outcomes(directory: Path, done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """By MODULE-OR-CLASS::TEST: "passed", "failed" or "skipped"."""
    print(done.stdout, done.stderr)  # of a test that fails
    assert done.returncode in (0, 1), done.stdout  # it ran, and tests passed or failed
    return read_outcomes(directory / "report.xml")


def read_exceptions(file: Path, suites: Iterable[str]) -> dict[str, list[str]]:
    """The tests of each suite that the adapters do not pass. Each has a reason."""
    reasons: dict[str, str] = {}
    for line in file.read_text().splitlines():
        if line.startswith("  "):
            reasons[list(reasons)[-1]] += line
        elif not line.startswith("#"):
            reasons[line] = ""
    found: dict[str, list[str]] = {suite: [] for suite in suites}
    for test, reason in reasons.items():
        assert len(reason.split()) > 5, f"why? {test}"
        suite, _, name = test.partition(" ")
        found[suite].append(name)
    return found
