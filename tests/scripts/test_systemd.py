# SPDX-License-Identifier: Apache-2.0
"""The units for systemd, as systemd itself reads them. No systemd needs to run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).resolve().parents[2] / "data/systemd"


@pytest.fixture
def units(tmp_path) -> Path:
    """As `make install` writes them. The program must exist."""
    program = tmp_path / "bin/ipybox"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    service = (UNITS / "ipybox@.service.in").read_text()
    (tmp_path / "ipybox@.service").write_text(service.replace("@BINDIR@", str(program.parent)))
    (tmp_path / "ipybox@.socket").write_text((UNITS / "ipybox@.socket").read_text())
    return tmp_path


def verify(units: Path, name: str) -> subprocess.CompletedProcess:
    # As for the instance of a user: the template itself cannot be verified.
    unit = units / name.replace("@", "@root")
    unit.write_text((units / name).read_text())
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", ["ipybox@.service", "ipybox@.socket"])
def test_units(units, name):
    done = verify(units, name)
    assert done.returncode == 0, done.stdout
    assert "ipybox@" not in done.stdout, done.stdout


@pytest.mark.parametrize("line", ["Delegate=no such", "NoSuchSetting=1", "ExecStart=/no/such"])
def test_faults_are_found(units, line):
    service = units / "ipybox@.service"
    text = re.sub(r"^Delegate=.*$", line, service.read_text(), flags=re.MULTILINE)
    service.write_text(text)
    assert "ipybox@" in verify(units, "ipybox@.service").stdout
