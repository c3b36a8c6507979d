# SPDX-License-Identifier: Apache-2.0
"""Tests that others wrote for Jupyter's kernels, with `ipybox kernel` as the kernelspec python3.

They are those of nbclient, of ipykernel and of autogen's JupyterCodeExecutor, from their sdists,
which scripts/test-setup fetches. ipybox must pass each test that ipykernel passes, except those
that jupyter_suites/exceptions.txt lists with a reason. How many ipykernel passes is recorded in
jupyter_suites/ipykernel.json. With IPYBOX_TEST_IPYKERNEL=1 that is checked, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest
from suite_report import read_outcomes

HERE = Path(__file__).parent / "jupyter_suites"
PLACE = harness.CACHE / "jupyter-suites"
TIMEOUT_S = 290
KERNELS = ["ipybox"] + (["ipykernel"] if os.environ.get("IPYBOX_TEST_IPYKERNEL") else [])

# The folder of the sdist, the tests in it, and what pytest needs for them.
SUITES = {
    "nbclient": ("nbclient", ["test_client.py"], ["asyncio_mode=strict"]),
    "ipykernel": (
        "ipykernel",
        ["test_message_spec.py", "test_async.py", "test_kernel.py"],
        ["asyncio_mode=auto"],
    ),
    "autogen": (
        "autogen_ext",
        ["code_executors/test_jupyter_code_executor.py"],
        ["asyncio_mode=strict"],
    ),
}


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not in /tmp, since each sandbox has its own there."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="ipybox-suites-") as path:
        yield Path(path)


def install_kernelspec(directory: Path) -> None:
    """The kernel may write the directory for temporary files, and has the variable that nbclient's
    tests set for it."""
    binary = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
    config = directory / "sandbox.json"
    writable = [".", str(directory / "tmp")]
    rules = {"denyRead": [".env"], "allowWrite": writable, "denyWrite": [".env"]}
    network: dict[str, list[str]] = {"allowedDomains": [], "deniedDomains": []}
    config.write_text(json.dumps({"filesystem": rules, "network": network}))
    command = [str(harness.existing(binary)), "kernelspec", "install", "--name=python3"]
    command += ["--prefix", str(directory), "--python", str(PLACE / "bin/python")]
    command += ["--sandbox-config", str(config)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    path = Path(done.stdout.strip())
    spec = json.loads(path.read_text())
    name = "NBEXECUTE_TEST_PARALLEL_TMPDIR"
    spec["env"] = {f"KERNEL_ENV_{name}": f"${{{name}}}"}
    path.write_text(json.dumps(spec))


def run_suite(suite: str, kernel: str, directory: Path) -> dict[str, str]:
    """What came of each test: "passed", "failed" or "skipped"."""
    folder, files, options = SUITES[suite]
    shutil.copytree(harness.existing(PLACE / "sdists" / folder / "tests"), directory / "tests")
    (directory / "tmp").mkdir()
    report = directory / "report.xml"
    environ = os.environ | {
        "HOME": str(directory),
        "TMPDIR": str(directory / "tmp"),
        "XDG_STATE_HOME": str(directory / "state"),
        "JUPYTER_RUNTIME_DIR": str(directory / "runtime"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if kernel == "ipybox":
        install_kernelspec(directory)
        environ["JUPYTER_PATH"] = str(directory / "share/jupyter")
    python = str(harness.existing(PLACE / "bin/python"))
    find = "from jupyter_client.kernelspec import *; print(get_kernel_spec('python3').argv[1])"
    found = subprocess.run([python, "-c", find], env=environ, capture_output=True, text=True)
    assert found.stdout.strip() == {"ipybox": "kernel", "ipykernel": "-m"}[kernel], found.stderr
    command = [python, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(directory)]
    command += ["-p", "no:cacheprovider", "-p", "no:flaky", "-q", "--tb=short", "--timeout=60"]
    command += ["-o", "asyncio_default_fixture_loop_scope=function", f"--junitxml={report}"]
    command += [argument for option in options for argument in ("-o", option)]
    before = harness.descendants()
    done = subprocess.run(
        [*command, *[f"tests/{name}" for name in files]],
        cwd=directory,
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
    return read_outcomes(report)


def read_exceptions() -> dict[str, dict[str, str]]:
    """For each suite the tests that ipybox does not pass, and the reason."""
    reasons: dict[str, dict[str, str]] = {suite: {} for suite in SUITES}
    for line in (HERE / "exceptions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            # Names have "::", with no blank behind it.
            test, _, reason = line.partition(": ")
            suite, _, name = test.partition(" ")
            assert len(reason.split()) > 2, f"why? {line}"
            reasons[suite][name] = reason
    return reasons


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("jupyter_ports")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str, kernel: str, directory: Path) -> None:
    outcomes = run_suite(suite, kernel, directory)
    recorded = json.loads((HERE / "ipykernel.json").read_text())[suite]
    assert len(outcomes) == recorded["passed"] + recorded["skipped"]
    assert Counter(outcomes.values())["skipped"] == recorded["skipped"]
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    exceptions = set(read_exceptions()[suite]) if kernel == "ipybox" else set()
    varying = {name for name in exceptions if name.startswith("(")}
    failed -= {name.strip("()") for name in varying}
    # An exception that passes is an error, too: its line is to be removed.
    assert sorted(failed) == sorted(exceptions - varying)
