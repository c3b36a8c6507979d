# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of adapters with the real frameworks; tests/README.md lists them.

The tests run in environments of the frameworks (code/inside, commands/inside), which
scripts/test-setup makes, apart from .venv.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest


def pytest_configure(config: pytest.Config) -> None:
    harness.prepare_process()


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not in /tmp, since each sandbox has its own there. Nothing of ipybox may be left in it, and
    no process."""
    before = harness.descendants()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ipybox-adapters-") as name:
        path = Path(name)
        (path / "tmp").mkdir()
        yield path
        assert not harness.processes_left(before)
        assert not list((path / "tmp").glob("ipybox-*"))
