# SPDX-License-Identifier: Apache-2.0
"""The adapters with the real frameworks, which scripts/test-setup installs, apart from .venv.

Three kinds of tests run in that environment: those that the frameworks' own sdists have for
executors, except what exceptions.txt lists with a reason; ours, in `inside`; and the examples,
whose output must be that in the how-tos.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as xml
from collections.abc import Iterator
from pathlib import Path

import harness
import pytest

HERE = Path(__file__).parent
PLACE = harness.CACHE / "code-adapters"
TIMEOUT_S = 290

# The files that pytest runs, and how many tests must be in them.
SUITES = {
    "smolagents": (["suite_smolagents.py"], 10),
    "autogen": (["test_jupyter_code_executor.py"], 14),
}
OURS = ["smolagents_checks.py", "dspy_checks.py", "autogen_checks.py", "session_checks.py"]
EXAMPLES = {
    "smolagents_agent.py": "smolagents.md",
    "dspy_rlm.py": "dspy.md",
    "autogen_coder.py": "autogen.md",
}


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


def run_python(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    binary = Path(os.environ.get("IPYBOX_BIN", harness.ROOT / "build/ipybox")).resolve()
    environ = os.environ | {
        "HOME": str(directory),
        "TMPDIR": str(directory / "tmp"),
        "MPLCONFIGDIR": str(directory / "matplotlib"),
        "XDG_STATE_HOME": str(directory / "state"),
        "IPYBOX_BIN": str(harness.existing(binary)),
        "PYTHONPATH": f"{harness.ROOT / 'python'}:{HERE / 'inside'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "IPYBOX_TEST_SDISTS": str(harness.existing(PLACE / "sdists")),
        # For anything that would use the network.
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        [str(harness.existing(PLACE / "bin/python")), *args],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
    )


def run_tests(directory: Path, files: list[str], *plugins: str) -> dict[str, str]:
    """What came of each test: "passed", "failed" or "skipped"."""
    report = directory / "report.xml"
    command = ["-m", "pytest", "-c", "/dev/null", "--rootdir", str(directory), "-q", "--tb=short"]
    command += ["-p", "no:cacheprovider", "--timeout=120", f"--junitxml={report}"]
    command += ["-o", "asyncio_mode=strict", "-o", "asyncio_default_fixture_loop_scope=function"]
    command += ["-W", "ignore", *[f"-p{plugin}" for plugin in plugins]]
    done = run_python(directory, *command, *files)
    print(done.stdout, done.stderr)  # of a test that fails
    assert done.returncode in (0, 1), done.stdout  # it ran, and tests passed or failed
    outcomes: dict[str, str] = {}
    for case in xml.parse(report).iter("testcase"):
        module = case.get("classname", "").rpartition(".")[2]
        outcome = "skipped" if case.find("skipped") is not None else "passed"
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = "failed"
        outcomes[f"{module}::{case.get('name')}"] = outcome
    return outcomes


def read_exceptions(suite: str) -> list[str]:
    """The tests that the adapter does not pass."""
    reasons: dict[str, str] = {}
    for line in (HERE / "exceptions.txt").read_text().splitlines():
        if line.startswith("  "):
            reasons[list(reasons)[-1]] += line
        elif not line.startswith("#"):
            reasons[line] = ""
    for test, reason in reasons.items():
        assert len(reason.split()) > 5, f"why? {test}"
    return [test.partition(" ")[2] for test in reasons if test.startswith(f"{suite} ")]


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str, directory: Path) -> None:
    files, n_tests = SUITES[suite]
    if suite == "autogen":
        source = PLACE / "sdists/autogen_ext/tests/code_executors" / files[0]
        shutil.copy(harness.existing(source), directory)
        outcomes = run_tests(directory, files, "suite_autogen")
    else:
        shutil.copy(HERE / "inside" / files[0], directory)
        outcomes = run_tests(directory, files)
    assert len(outcomes) == n_tests
    failed = [name for name, outcome in outcomes.items() if outcome != "passed"]
    # An exception that passes is an error, too: its line is to be removed.
    assert sorted(failed) == sorted(read_exceptions(suite))


@pytest.mark.parametrize("name", OURS)
def test_ours(name: str, directory: Path) -> None:
    shutil.copy(HERE / "inside" / name, directory)
    outcomes = run_tests(directory, [name], "inside_plugin")
    assert outcomes
    assert not [name for name, outcome in outcomes.items() if outcome != "passed"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, directory: Path) -> None:
    done = run_python(directory, "-W", "ignore", str(harness.ROOT / "examples" / name))
    assert done.returncode == 0, done.stderr
    guide = (harness.ROOT / "docs/how-to" / EXAMPLES[name]).read_text()
    block = re.search(rf"```console\n\$ python {re.escape(name)}\n(.*?)```", guide, re.DOTALL)
    assert block, f"{EXAMPLES[name]} does not show what {name} prints"
    assert done.stdout == block[1]


@pytest.mark.parametrize("module", ["smolagents", "dspy", "autogen"])
def test_without_the_framework(module: str, directory: Path) -> None:
    """The package imports none of them, and the error says what is missing."""
    program = f"""
import sys
import ipybox.integrations, ipybox
assert not {{"smolagents", "dspy", "autogen_core"}} & set(sys.modules)
for name in ("smolagents", "dspy", "autogen_core"):
    sys.modules[name] = None
try:
    import ipybox.integrations.{module} as adapter
    for name in ("IpyboxExecutor", "IpyboxInterpreter"):
        if hasattr(adapter, name):
            getattr(adapter, name)()
except ImportError as error:
    print(error)
"""
    done = run_python(directory, "-c", program)
    assert (done.returncode, module in done.stdout) == (0, True), done
