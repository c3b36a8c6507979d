# SPDX-License-Identifier: Apache-2.0
"""Generated APIs of the tools of real MCP servers: imported, linted, type-checked, and compared
with a validator.

IPYBOX_CORPUS_EXAMPLES=50 draws that many instances for each schema.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness
import pytest
from agreement import EXAMPLES, HERE, LISTS, judge_list, load, package_name
from apigen_package import tell, write
from collect import list_text, may_be_stored, servers_text, tools_text
from installed_package import check_types, install
from test_apigen_stubs import check_signatures

SERVERS: dict[str, Any] = json.loads((HERE / "servers.json").read_text())


def test_there_are_forty_servers_that_may_be_stored():
    assert len(LISTS) >= 40
    for path in LISTS:
        data = json.loads(path.read_text())
        server = SERVERS[path.stem]
        assert [data[key] for key in ("package", "version", "licence")] == [
            server[key] for key in ("package", "version", "licence")
        ]
        assert may_be_stored(data["licence"]) and data["tools"], path.name


def test_lists_are_stored_with_one_line_for_each_tool():
    """As collect.py writes them, so that a newer list changes only the lines of its tools."""
    for path in LISTS:
        text = path.read_text()
        assert text == list_text(json.loads(text)), path.name
    for path in (harness.ROOT / "tests/data/tools").glob("*.json"):
        text = path.read_text()
        assert text == tools_text(json.loads(text)) + "\n", path.name
    assert (HERE / "servers.json").read_text() == servers_text(SERVERS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_a_validator_agrees(tmp_path: Path, path: Path):
    """All instances that the server declares valid are accepted and sent unchanged."""
    report = judge_list(path, tmp_path, EXAMPLES)
    assert not report.wrong, "\n".join(report.wrong[:20])
    assert not report.not_drawn, "\n".join(report.not_drawn[:20])
    assert report.valid > 0


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("packages")
    for path in LISTS:
        write(root, load(path), server=package_name(path))
    return root


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_signatures_are_python(tmp_path: Path, path: Path):
    check_signatures(tell(tmp_path, load(path), "--signatures"))


def run_check(directory: Path, *command: str) -> None:
    stub = harness.ROOT / "python/ipybox/kernel_host/stub"
    environ = {"MYPYPATH": f"{stub}:.", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=directory, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]


def test_clean_under_ruff(packages: Path):
    """With the defaults of the newest ruff (tests/requirements.txt), also for the oldest Python."""
    run_check(packages, "ruff", "check", "--no-cache", "--isolated", ".")
    run_check(
        packages, "ruff", "check", "--no-cache", "--isolated", "--target-version", "py310", "."
    )


@pytest.mark.timeout(300)
def test_clean_under_mypy(packages: Path, tmp_path: Path):
    run_check(
        packages,
        "mypy",
        "--strict",
        "--python-version",
        "3.10",
        "--explicit-package-bases",
        "--cache-dir",
        str(tmp_path),
        ".",
    )


@pytest.mark.timeout(300)
def test_clean_under_mypy_beside_the_installed_package(packages: Path, tmp_path: Path):
    done = check_types(install(tmp_path), packages)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
