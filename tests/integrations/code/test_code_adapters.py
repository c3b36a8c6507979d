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
from pathlib import Path

import harness
import pytest
from framework_runs import outcomes, pytest_command, read_exceptions, run_python

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


def run_here(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {
        "MPLCONFIGDIR": str(directory / "matplotlib"),
        "IPYBOX_TEST_SDISTS": str(harness.existing(PLACE / "sdists")),
        # For anything that would use the network.
        "HF_HUB_OFFLINE": "1",
    }
    return run_python(
        PLACE / "bin/python",
        directory,
        *args,
        import_path=[HERE / "inside"],
        environ=environ,
        timeout=TIMEOUT_S,
    )


def run_tests(directory: Path, files: list[str], *plugins: str) -> dict[str, str]:
    """What came of each test: "passed", "failed" or "skipped"."""
    options = ["--timeout=120", "-o", "asyncio_mode=strict"]
    options += ["-o", "asyncio_default_fixture_loop_scope=function"]
    options += [f"-p{plugin}" for plugin in plugins]
    return outcomes(directory, run_here(directory, *pytest_command(directory, *options, *files)))


@pytest.mark.parametrize("suite", SUITES)
def test_suite(suite: str, directory: Path) -> None:
    files, n_tests = SUITES[suite]
    if suite == "autogen":
        source = PLACE / "sdists/autogen_ext/tests/code_executors" / files[0]
        shutil.copy(harness.existing(source), directory)
        found = run_tests(directory, files, "suite_autogen")
    else:
        shutil.copy(HERE / "inside" / files[0], directory)
        found = run_tests(directory, files)
    assert len(found) == n_tests
    failed = [name for name, outcome in found.items() if outcome != "passed"]
    # An exception that passes is an error, too: its line is to be removed.
    assert sorted(failed) == sorted(read_exceptions(HERE / "exceptions.txt", SUITES)[suite])


@pytest.mark.parametrize("name", OURS)
def test_ours(name: str, directory: Path) -> None:
    shutil.copy(HERE / "inside" / name, directory)
    found = run_tests(directory, [name], "inside_plugin")
    assert found
    assert not [name for name, outcome in found.items() if outcome != "passed"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name: str, directory: Path) -> None:
    done = run_here(directory, "-W", "ignore", str(harness.ROOT / "examples" / name))
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
    done = run_here(directory, "-c", program)
    assert (done.returncode, module in done.stdout) == (0, True), done
