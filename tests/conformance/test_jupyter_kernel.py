# SPDX-License-Identifier: Apache-2.0
"""jupyter_kernel_test, Jupyter's tests of kernels, against `ipybox kernel`."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import harness
import pytest

TESTS = Path(__file__).parent / "jupyter_kernel/kernel_tests.py"
TIMEOUT_S = 240
N_TESTS = 12


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("jupyter_ports")
def test_all_pass(tmp_path: Path) -> None:
    binary = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
    environ = os.environ | {
        "HOME": str(tmp_path),
        "JUPYTER_DATA_DIR": str(tmp_path / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "KERNEL_NAME": "ipybox",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    install = [str(harness.existing(binary)), "kernelspec", "install"]
    install += ["--python", str(harness.ROOT / ".venv/bin/python")]
    subprocess.run(install, env=environ, check=True, capture_output=True)
    before = harness.descendants()
    python = str(harness.existing(harness.CACHE / "jupyter/bin/python"))
    done = subprocess.run(
        [python, "-m", "unittest", "-v", TESTS.stem],
        cwd=TESTS.parent,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout
    assert f"Ran {N_TESTS} tests" in done.stdout and "skipped" not in done.stdout, done.stdout
    assert not re.search(r"^FAIL|^ERROR", done.stdout, re.MULTILINE)
    assert not harness.processes_left(before)
