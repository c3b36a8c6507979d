# SPDX-License-Identifier: Apache-2.0
"""The suite, as scripts/test-setup installs it, and the client under test, next to $IPYBOX_BIN."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    harness.leave_out(items)


@pytest.fixture
def jupyter_ports() -> Iterator[None]:
    """Only one test at a time, in all processes, has kernels that listen on TCP.

    Jupyter's clients choose ports that are free, and kernels bind them later. Between the two,
    another client may choose the same port.
    """
    with open(harness.CACHE / "jupyter-ports.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def suite() -> list[str]:
    """The command of the official suite."""
    modules = harness.CACHE / "conformance/node_modules/@modelcontextprotocol/conformance"
    return [
        str(harness.existing(harness.CACHE / "conformance/bin/node")),
        str(harness.existing(modules / "dist/index.js")),
    ]


@pytest.fixture(scope="session")
def client() -> Path:
    """The program that is built from tests/conformance/client.c."""
    build = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve().parent
    return harness.existing(build / "tests/conformance/conformance-client")


@pytest.fixture
def run_scenario(suite, client, tmp_path):
    """run_scenario(name, revision) returns the suite's exit status and output."""

    def run(scenario: str, revision: str) -> tuple[int, str]:
        before = harness.descendants()
        environ = os.environ | {
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "HOME": str(tmp_path),
            "NO_PROXY": "localhost",
        }
        command = [
            *suite,
            "client",
            "--command",
            str(client),
            "--scenario",
            scenario,
            "--spec-version",
            revision,
        ]
        done = subprocess.run(
            [*command, "-o", str(tmp_path / "results")],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )
        said = "".join(path.read_text() for path in sorted(tmp_path.glob("results/*/stderr.txt")))
        assert not harness.processes_left(before)
        return done.returncode, f"{done.stdout}\n== the client's stderr\n{said}"

    return run
