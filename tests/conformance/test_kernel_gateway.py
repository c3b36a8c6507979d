# SPDX-License-Identifier: Apache-2.0
"""The HTTP and WebSocket tests of Jupyter's kernel gateway, against `ipybox gateway` and its own.

They are in its sdist, which scripts/test-setup fetches. Both servers run through one fixture
(kernel_gateway/fixture.py). ipybox must pass each test that the kernel gateway's own server passes
there, except those that kernel_gateway/exceptions.txt lists with a reason. With
IPYBOX_TEST_KERNEL_GATEWAY=1 its own server is tested, too: `make verify-long` sets it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as xml
from pathlib import Path

import harness
import pytest

HERE = Path(__file__).parent / "kernel_gateway"
PLACE = harness.CACHE / "kernel-gateway"
MODULE = "test_jupyter_websocket.py"
TIMEOUT_S = 280

# Neither server is asked anything: these use Python objects of the application.
IN_PROCESS = {
    "TestDefaults::test_config_bad_api_value": "the name of a Python module",
    "TestPrespawnKernels::test_prespawn_max_conflict": "test_gateway_options has it for ipybox",
    "TestBadSeedURI::test_seed_kernel_not_available": "the kernel manager's exception",
    "TestSessionApi::test_session_api": "methods of the class SessionManager",
}
# Needs a notebook on a server in the internet, so it would fail with both at times.
ONLINE = {"TestRemoteSeedURI::test_seed"}
N_OVER_HTTP = 28
# Its own server takes seconds to start, so two processes share the tests.
PARTS = {"TestDefaults": 19, "not TestDefaults": 9}
# It is slow: on a busy machine it does not answer in time.
TESTED_PARTS = list(PARTS) if os.environ.get("IPYBOX_TEST_KERNEL_GATEWAY") else []


def run_tests(server: str, ipybox: str, tmp_path: Path, *options: str) -> dict[str, bool]:
    """Which tests passed, by their names without parameters."""
    sdist = harness.existing(PLACE / "sdists/jupyter_kernel_gateway/tests" / MODULE).parent
    shutil.copytree(sdist, tmp_path / "tests")
    shutil.copy(HERE / "fixture.py", tmp_path / "tests/conftest.py")
    report = tmp_path / "report.xml"
    environ = os.environ | {
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONPATH": str(harness.ROOT / "tests/integration"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GATEWAY_SERVER": server,
        "GATEWAY_PYTHON": str(harness.ROOT / ".venv/bin/python"),
        "IPYBOX_BIN": ipybox,
    }
    command = [str(harness.existing(PLACE / "bin/python")), "-m", "pytest", "-c", "/dev/null"]
    command += ["--rootdir", str(tmp_path), "-p", "no:cacheprovider", "-q", "--tb=short"]
    command += ["--timeout=60", f"--junitxml={report}", f"tests/{MODULE}", *options]
    for name in sorted({*IN_PROCESS, *ONLINE}):
        command.append(f"--deselect=tests/{MODULE}::{name}")
    before = harness.descendants()
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    print(done.stdout)  # of a test that fails
    assert done.returncode in (0, 1), done.stdout  # it ran, and tests passed or failed
    assert not harness.processes_left(before)
    outcomes: dict[str, bool] = {}
    for case in xml.parse(report).iter("testcase"):
        name = f"{case.get('classname').rpartition('.')[2]}::{case.get('name').partition('[')[0]}"
        bad = any(case.find(tag) is not None for tag in ("failure", "error", "skipped"))
        outcomes[name] = outcomes.get(name, True) and not bad
    return outcomes


def read_exceptions() -> dict[str, str]:
    reasons = {}
    for line in (HERE / "exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            assert len(reason.split()) > 2, f"why? {line}"
            reasons[name] = reason
    return reasons


@pytest.fixture(scope="session")
def ipybox() -> str:
    binary = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
    return str(harness.existing(binary))


if TESTED_PARTS:  # without a part, pytest would report a skipped test

    @pytest.mark.timeout(900)
    @pytest.mark.usefixtures("jupyter_ports")
    @pytest.mark.parametrize("part", TESTED_PARTS)
    def test_its_own_server_passes_all(ipybox: str, tmp_path: Path, part: str) -> None:
        """Otherwise the fixture is wrong, and ipybox would have to pass less."""
        outcomes = run_tests("kernel gateway", ipybox, tmp_path, "-k", part)
        assert len(outcomes) == PARTS[part]
        assert [name for name, passed in outcomes.items() if not passed] == []


def test_ipybox_passes_all_but_the_exceptions(ipybox: str, tmp_path: Path) -> None:
    outcomes = run_tests("ipybox", ipybox, tmp_path)
    assert len(outcomes) == sum(PARTS.values()) == N_OVER_HTTP
    failed = {name for name, passed in outcomes.items() if not passed}
    # An exception that passes is an error, too: its line is to be removed.
    assert failed == set(read_exceptions())
